from .config import (
    AnalystConfig as AnalystConfig,
    Limits as Limits,
    ServiceConfig as ServiceConfig,
    TableConfig as TableConfig,
    demonstration as demonstration,
    load_config as load_config,
)
from .engine import Service as Service
from .errors import (
    ConfigError as ConfigError,
    Forbidden as Forbidden,
    NotFound as NotFound,
    ServiceError as ServiceError,
    TooManyRequests as TooManyRequests,
    Unauthenticated as Unauthenticated,
    Unavailable as Unavailable,
    status_of as status_of,
)
from .principals import Principal as Principal, Role as Role
from .running import Running as Running, run as run
from .served import ServedTable as ServedTable
from .tokens import Scram as Scram, ScramKey as ScramKey
