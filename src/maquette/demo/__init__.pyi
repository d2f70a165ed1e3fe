from .preview import Foreseen as Foreseen, foresee as foresee, stand_in as stand_in
from .requirements import Need as Need, Needs as Needs, needs as needs
from .speed import PARTS as PARTS, Figure as Figure, measure as measure
from .story import FILES as FILES, tell as tell
from .table import ROWS as ROWS, SCHEMA as SCHEMA, survey as survey
