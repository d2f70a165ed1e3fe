"""What tools ask about tables before they ask anything of them: PostgreSQL's catalogue, in one process."""

from maquette.service.pgwire.catalogue.evaluator import Catalogue as Catalogue, Translated as Translated
from maquette.service.pgwire.catalogue.naming import pg_name as pg_name
from maquette.service.pgwire.catalogue.relations import (
    DATABASE as DATABASE,
    PublicColumn as PublicColumn,
    Relation as Relation,
    system_relations as system_relations,
    type_named as type_named,
)
from maquette.service.pgwire.catalogue.translate import Facts as Facts
