"""What a file of tests cannot do without, looked for and not imported: collecting stays quick."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(*libraries: str) -> None:
    """Skip the rest of the file if one of these is not installed."""
    for library in libraries:
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed", allow_module_level=True)
