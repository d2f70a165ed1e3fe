"""Print the lowest declared version of every run-time dependency, as a constraints file for pip.

python .ci/floors.py > floors.txt
python -m pip install -c floors.txt '.[charts]'
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("charts", "graphs", "solver")  # what the library imports when it is asked for it
LOWEST = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")


def floors(project: Path) -> list[str]:
    """`name==version` for each dependency; one without a lowest version is an error."""
    declared = tomllib.loads(project.read_text())["project"]
    extras = [line for extra in EXTRAS for line in declared["optional-dependencies"][extra]]
    return [pinned(line) for line in (*declared["dependencies"], *extras)]


def pinned(requirement: str) -> str:
    """`name==version` for `name>=version`."""
    found = LOWEST.match(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} declares no lowest version; write name>=version in pyproject.toml")
    return f"{found['name']}=={found['version']}"


if __name__ == "__main__":
    print("\n".join(floors(Path(__file__).parent.parent / "pyproject.toml")))
