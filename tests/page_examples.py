"""The examples of CONTRIBUTING.md as objects: the suites run over them as over the library's own."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def example(name: str) -> Any:
    """The class of this name, from the snippet that defines it."""
    (snippet,) = (text for text in SNIPPET.findall(PAGE.read_text(encoding="utf-8")) if f"class {name}" in text)
    names: dict[str, Any] = {"__name__": f"example_of_{name}"}
    definitions = snippet.split("# How it is used:")[0]
    exec(compile(definitions, str(PAGE), "exec", dont_inherit=True), names)
    return names[name]
