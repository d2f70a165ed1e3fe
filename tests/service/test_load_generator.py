"""The benchmarks of the service understand what `maquette serve` says, and count what it replies."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rooms import house, settings

from maquette.cli.serving import _tell
from maquette.service.running import Running, http_config

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import serve


@pytest.mark.parametrize("secret", [False, True])
def test_the_token_is_found(secret: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--config` the first line names only the file of the token."""
    (tmp_path / "token").write_text("mqt_x")
    told = Running("http://127.0.0.1:1", None, "mqt_x", str(tmp_path / "token"), ("survey",))
    _tell(told, as_json=True, secret=secret)
    server: Any = SimpleNamespace(stdout=io.StringIO(capsys.readouterr().out))
    found = serve.first_line(server)
    assert (found["url"], found["token"]) == (told.url, "mqt_x")


def test_a_load_is_counted(tmp_path: Path) -> None:
    import uvicorn

    async def measured() -> dict[str, float]:
        config = http_config(made.service)
        config.port = 0
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        asked = [("/v1/tables/people/ask", {"where": text}) for text in ("smoker", "a", "smoker", "nothing")]
        found = await serve.load(url, made.tokens["ada"], iter(asked), 2, 60)
        server.should_exit = True
        await serving
        return found

    with house(settings(tmp_path)) as made:
        found = asyncio.run(measured())
    assert (found["requests"], found["failed"]) == (4, 1)
    assert found["rate"] > 0
