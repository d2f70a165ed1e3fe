"""Print the lowest declared version of every run-time dependency, as a list of requirements.

python .ci/floors.py > floors.txt
python .ci/floors.py tools > tools.txt    # what the tests need beside them
uv pip install -r floors.txt -r tools.txt -e .
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

# What the library imports when it is asked for it, but for Spark, whose lowest release is 300 MB.
EXTRAS = ("charts", "client", "excel", "graphs", "postgres", "server", "solver", "telemetry")
# Of development, what the tests do without: documents, browsers; schemathesis needs rich 13.9.
OTHER = ("axe-", "cosmic-ray", "import-linter", "mkdocs", "playwright", "ruff", "schemathesis", "uv>")
# Extensions of DuckDB are packaged for some of its versions, among them the lowest.
EXTENSIONS = {"duckdb": ["duckdb-extension-delta"]}
LOWEST = re.compile(r"(?P<name>[\w.,\[\]-]+)>=(?P<version>[\w.]+)")


def declared_in(project: Path) -> dict[str, Any]:
    """The table `project` of a pyproject.toml."""
    found: dict[str, Any] = tomllib.loads(project.read_text())["project"]
    return found


def tools(project: Path) -> list[str]:
    """What development installs, without what the tests can do without."""
    return [line for line in declared_in(project)["optional-dependencies"]["dev"] if not line.startswith(OTHER)]


def floors(project: Path) -> list[str]:
    """`name==version` for each dependency; one without a lowest version is an error."""
    declared = declared_in(project)
    extras = [line for extra in EXTRAS for line in declared["optional-dependencies"][extra]]
    lowest = {pinned(line) for line in (*declared["dependencies"], *extras)}
    carried = {
        f"{extension}=={version}"
        for name, _, version in (line.partition("==") for line in lowest)
        for extension in EXTENSIONS.get(name, ())
    }
    return sorted(lowest | carried)


def pinned(requirement: str) -> str:
    """`name==version` for `name>=version`."""
    found = LOWEST.match(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} declares no lowest version; write name>=version in pyproject.toml")
    return f"{found['name']}=={found['version']}"


if __name__ == "__main__":
    listed = tools if sys.argv[1:] == ["tools"] else floors
    print("\n".join(listed(Path(__file__).parent.parent / "pyproject.toml")))
