"""Lane: questions are answered in order by a few threads, and handed to the loop that waits for them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from maquette.service.lane import Lane

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


def test_it_returns_and_raises_what_the_work_does_in_the_context_of_the_request() -> None:
    lane = Lane(2, "lane")

    async def asked(who: str) -> str:
        WHO.set(who)
        return await lane.run(WHO.get)

    async def refused() -> None:
        def work() -> None:
            raise KeyError("no")

        with pytest.raises(KeyError):
            await lane.run(work)

    async def every() -> list[str]:
        await refused()
        return list(await asyncio.gather(*(asked(str(i)) for i in range(200))))

    for _ in range(2):  # the second time in another loop
        assert asyncio.run(every()) == [str(i) for i in range(200)]


def test_no_more_threads_than_it_has_work_at_once_and_the_first_comes_first() -> None:
    lane, running, most, order = Lane(3, "lane"), 0, 0, list[int]()
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal running, most
        with lock:
            order.append(number)
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    async def every() -> None:
        await asyncio.gather(*(lane.run(partial(work, i)) for i in range(30)))

    asyncio.run(every())
    assert most == 3
    assert order == sorted(order)


def test_an_abandoned_request_is_worked_on_and_hurts_nobody() -> None:
    lane, done = Lane(1, "lane"), list[str]()

    def slow() -> None:
        time.sleep(0.05)
        done.append("slow")

    async def every() -> str:
        given_up = asyncio.ensure_future(lane.run(slow))
        await asyncio.sleep(0.01)
        given_up.cancel()
        return await lane.run(lambda: "next")

    assert asyncio.run(every()) == "next"
    assert done == ["slow"]


def test_what_waits_and_is_abandoned_is_never_begun() -> None:
    """Its place in the line is free, so it would be charged for nobody, and lines of such work would have no end."""
    lane, begun, go = Lane(1, "lane"), list[int](), threading.Event()

    async def every() -> str:
        first = asyncio.ensure_future(lane.run(partial(go.wait, 10)))
        waiting = [asyncio.ensure_future(lane.run(partial(begun.append, i))) for i in range(50)]
        await asyncio.sleep(0.01)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        go.set()
        await first
        return await lane.run(lambda: "next")

    assert asyncio.run(every()) == "next"
    assert begun == []


@pytest.mark.parametrize("error", [StopIteration("end"), asyncio.CancelledError(), GeneratorExit()])
def test_whatever_is_raised_is_told_and_the_next_is_answered(error: BaseException) -> None:
    lane = Lane(1, "lane")

    def work() -> None:
        raise error

    async def every() -> list[object]:
        waiting = [asyncio.ensure_future(lane.run(one)) for one in (work, lambda: "next", work, lambda: "last")]
        await asyncio.sleep(0)
        time.sleep(0.05)  # all are handed over together
        return list(await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10))

    first, after, third, last = asyncio.run(every())
    assert isinstance(first, BaseException)
    assert isinstance(third, BaseException)
    assert (after, last) == ("next", "last")


def test_threads_that_do_not_start_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lane, start, refused = Lane(2, "lane"), threading.Thread.start, [True, False, True, True]

    def sometimes(thread: threading.Thread) -> None:
        if thread.name.startswith("lane") and refused and refused.pop(0):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", sometimes)
    done = list[str]()

    async def every() -> list[int]:
        with pytest.raises(RuntimeError):
            await lane.run(partial(done.append, "of nobody"))
        await lane.run(int)
        return list(await asyncio.gather(*(lane.run(partial(int, i)) for i in range(20))))

    assert asyncio.run(every()) == list(range(20))
    assert done == []


def test_what_comes_after_its_loop_was_closed_is_dropped() -> None:
    lane, went_on = Lane(1, "lane"), threading.Event()

    async def left() -> None:
        asyncio.ensure_future(lane.run(lambda: time.sleep(0.05)))  # noqa: RUF006 -- given up with the loop
        await asyncio.sleep(0.01)

    asyncio.run(left())
    asyncio.run(lane.run(went_on.set))
    assert went_on.is_set()


def test_several_answers_wake_the_loop_once() -> None:
    lane, calls = Lane(1, "lane"), list[object]()

    async def every() -> None:
        loop = asyncio.get_running_loop()
        original = loop.call_soon_threadsafe

        def counted(callback: Callable[..., object], *given: object) -> asyncio.Handle:
            calls.append(callback)
            return original(callback, *given)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]
        waiting = [asyncio.ensure_future(lane.run(int)) for _ in range(50)]
        await asyncio.sleep(0)
        time.sleep(0.05)  # the loop is busy
        await asyncio.gather(*waiting)

    asyncio.run(every())
    assert len(calls) < 10


def test_its_threads_end_with_it() -> None:
    lane = Lane(4, "short-lived")
    asyncio.run(lane.run(int))
    del lane
    gc.collect()
    until = time.monotonic() + 5
    while any(each.name.startswith("short-lived") for each in threading.enumerate()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(each.name.startswith("short-lived") for each in threading.enumerate())
