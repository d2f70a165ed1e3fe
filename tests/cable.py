"""Cable: the network between a program and its database, on loopback; it can be cut where it hurts."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"  # what PostgreSQL answers when a transaction is durable


class Cable:
    """Forwards connections to a port. `cut` ends all of them at the next commit: it is made, and its reply is lost."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._armed = threading.Event()
        self._ended = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float = 60.0) -> None:
        """Return when the reply to a commit was lost, and every connection with it."""
        self._ended.clear()
        self._armed.set()
        assert self._ended.wait(seconds), "nothing was committed"

    def close(self) -> None:
        """End it."""
        self._listening.close()
        self._end()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open += [near, far]
                threading.Thread(target=self._forward, args=(near, far), daemon=True).start()
                threading.Thread(target=self._forward, args=(far, near, True), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, replies: bool = False) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if replies and COMMITTED in data and self._armed.is_set():
                    self._armed.clear()
                    self._end()
                    self._ended.set()
                    return
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _end(self) -> None:
        ending, self._open = self._open, []
        for end in ending:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
