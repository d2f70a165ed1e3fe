"""The fuzz targets under a coverage-guided engine, atheris, where it is installed (pip install atheris).

    python benchmarks/fuzz_guided.py sql -atheris_runs=100000 -max_len=400
    python benchmarks/fuzz_guided.py schema -max_total_time=600

The engine mutates bytes towards code not reached before; the properties are those of `fuzz.py`. It stops at the
first finding and writes the input to a file, as libFuzzer does.
"""

from __future__ import annotations

import random
import sys
import zlib
from pathlib import Path
from typing import Any

import atheris

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))

with atheris.instrument_imports(include=["maquette.query", "maquette.schema", "maquette.releases", "tomllib"]):
    from fuzz_runner import Broken
    from fuzz_targets import target_of

    import maquette.query.sql.parser
    import maquette.query.sql.statement
    import maquette.releases.storage
    import maquette.schema.importers
    import maquette.schema.toml  # noqa: F401

TARGETS = ("sql", "schema", "maq")


def given(name: str, data: bytes) -> Any:
    """Bytes as an input of a target."""
    text = data[1:].decode("utf-8", "surrogatepass" if data[:1] > b"\xf0" else "ignore")
    which = zlib.crc32(data[:1]) % 10 < 3
    match name:
        case "sql":
            return int(which), text
        case "schema":
            return "toml", text
    return data


def seeds(name: str, folder: Path) -> None:
    """A few inputs of our own to begin with."""
    folder.mkdir(exist_ok=True)
    target = target_of(name)
    for number in range(200):
        made = target.make(random.Random(number))
        content = made if isinstance(made, bytes) else b"a" + made[1].encode("utf-8", "surrogatepass")
        (folder / f"{number}").write_bytes(content)


def main() -> None:
    name = sys.argv.pop(1)
    if name not in TARGETS:
        sys.exit(f"there is no guided target {name!r}; expected one of {', '.join(TARGETS)}")
    target = target_of(name)

    def one(data: bytes) -> None:
        try:
            target.run(given(name, data))
        except UnicodeDecodeError:
            return
        except target.raises as error:
            str(error).encode()
            if len(str(error)) > 12_000:
                raise Broken("a long message") from error

    corpus = Path(f"{name}-corpus")
    seeds(name, corpus)
    atheris.Setup([*sys.argv, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
