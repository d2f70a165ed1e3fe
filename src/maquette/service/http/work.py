"""Work off the event loop: the engine room's methods wait for ledgers, so they run in threads of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 32
_POOL = ThreadPoolExecutor(THREADS, "maquette-http")


async def in_thread(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Run `work` in a thread; the request may be abandoned meanwhile, the work is not."""
    call: Callable[[], Any] = partial(contextvars.copy_context().run, partial(work, *given, **named))
    result: T = await asyncio.get_running_loop().run_in_executor(_POOL, call)
    return result
