"""Pages: a folder of public files, kept in memory and compressed once.

The files are the same for everybody and hold no secret, so compressing tells nothing; answers are never compressed.
A browser keeps them and asks each time whether they changed, so an upgrade never mixes old modules with new ones.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response

from maquette.service.http.gate import Receive, Scope, Send

INDEX = "index.html"
# Named here: what a machine thinks a .js file is differs, and browsers run no module of another type.
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
SMALL = 600  # bytes, below which compressing gains nothing


class Page:
    """One file: its bytes, the same compressed, and a name for exactly this content."""

    def __init__(self, path: Path) -> None:
        self.plain = path.read_bytes()
        self.packed = None if len(self.plain) < SMALL else gzip.compress(self.plain, mtime=0)
        self.headers = {
            "Content-Type": KINDS.get(path.suffix, "application/octet-stream"),
            "ETag": f'"{hashlib.sha256(self.plain).hexdigest()[:32]}"',
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }


class Pages:
    """The files of a folder at their paths, the index at `/`; anything else is not found."""

    def __init__(self, folder: Path) -> None:
        files = (path for path in folder.rglob("*") if path.is_file())
        self._pages = {path.relative_to(folder).as_posix(): Page(path) for path in files}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing of it reaches the file system."""
        page = self._pages.get(scope["path"].lstrip("/") or INDEX)
        if page is None:
            raise HTTPException(404)
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        asked = Headers(scope=scope)
        if asked.get("if-none-match", "").removeprefix("W/") == page.headers["ETag"]:
            await Response(status_code=304, headers=page.headers)(scope, receive, send)
            return
        packed = page.packed if "gzip" in asked.get("accept-encoding", "") else None
        headers = page.headers | ({} if packed is None else {"Content-Encoding": "gzip"})
        await Response(packed or page.plain, headers=headers)(scope, receive, send)
