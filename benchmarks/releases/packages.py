"""Files inside installed packages, read without importing the packages: some of them print, write or take long."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class MissingPackage(Exception):
    """A package of the extra `benchmarks` is not installed."""


def folder(package: str) -> Path:
    """Where a package is."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingPackage(f"the package {package} is not installed: pip install 'maquette[benchmarks]'")
    return Path(next(iter(found.submodule_search_locations)))


def frame(package: str, path: str) -> pd.DataFrame:
    """A CSV file of a package, possibly compressed."""
    import pandas as pd

    return pd.read_csv(folder(package) / path, low_memory=False)


def pydataset(path: str) -> pd.DataFrame:
    """A table of pydataset, which keeps its files in one archive and copies it to the home folder when imported."""
    import pandas as pd

    with tarfile.open(folder("pydataset") / "resources.tar.gz") as archive:
        member = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert member is not None, f"pydataset has no {path}"
        return pd.read_csv(member, index_col=0, low_memory=False)
