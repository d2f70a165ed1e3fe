from .auto_bins import (
    BINS as BINS,
    BRANCHING as BRANCHING,
    drawn_cuts as drawn_cuts,
    tree_groups as tree_groups,
)
from .columns import (
    INVALID as INVALID,
    NULL_LABEL as NULL_LABEL,
    Boolean as Boolean,
    Category as Category,
    Column as Column,
    Comparison as Comparison,
    LevelMask as LevelMask,
    nearest as nearest,
    shown as shown,
    writable as writable,
)
from .csv_files import (
    CSV as CSV,
    DELIMITERS as DELIMITERS,
    PARQUET as PARQUET,
    Group as Group,
    complaint as complaint,
    files_of as files_of,
    grouped as grouped,
    kind_of as kind_of,
    nothing_at as nothing_at,
    read_group as read_group,
)
from .dates import Date as Date
from .encodings import spoken as spoken
from .file_format import FileFormat as FileFormat, UnitDeclaration as UnitDeclaration
from .impossible import impossible_cells as impossible_cells
from .instance import connection as connection, settle as settle
from .integers import Integer as Integer
from .kinds import column_kind as column_kind, kind_named as kind_named, kind_names as kind_names
from .numbers import Number as Number
from .ordered import Numeric as Numeric, Ordered as Ordered
from .raw_values import (
    among_sql as among_sql,
    arrow_array as arrow_array,
    cleaned_sql as cleaned_sql,
    identifier as identifier,
    quoted as quoted,
    text_sql as text_sql,
    untyped_sql as untyped_sql,
)
from .row_streams import RowStream as RowStream
from .schema import (
    Schema as Schema,
    as_arrow as as_arrow,
    column_names as column_names,
    preview as preview,
    refuse_invalid as refuse_invalid,
)
from .spreadsheets import SHEETS as SHEETS
from .toml import written_value as written_value
