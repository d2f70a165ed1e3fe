from .columns import (
    INVALID as INVALID,
    NULL_LABEL as NULL_LABEL,
    Boolean as Boolean,
    Category as Category,
    Column as Column,
    Comparison as Comparison,
    LevelMask as LevelMask,
    identifier as identifier,
    nearest as nearest,
    quoted as quoted,
    shown as shown,
    text_sql as text_sql,
    writable as writable,
)
from .csv_files import (
    DELIMITERS as DELIMITERS,
    complaint as complaint,
    delimiter_of as delimiter_of,
    header_line as header_line,
    texts as texts,
)
from .dates import Date as Date
from .impossible import impossible_cells as impossible_cells
from .kinds import column_kind as column_kind, kind_named as kind_named, kind_names as kind_names
from .ordered import Integer as Integer, Number as Number, Ordered as Ordered
from .schema import (
    Schema as Schema,
    as_arrow as as_arrow,
    column_names as column_names,
    preview as preview,
    refuse_invalid as refuse_invalid,
)
