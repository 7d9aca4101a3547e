"""Work of other threads, with little waiting in between: what is read ahead, made side by side, and written behind."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

_T = TypeVar("_T")
_P = TypeVar("_P")
_R = TypeVar("_R")

_PATIENCE = 0.1  # seconds after which a waiting thread looks whether it is still wanted
_LEAVE = 2.0  # seconds after which a reader is left alone that waits for a pipe, say


class _Ended(Exception):
    """Nobody wants what a thread does any more."""


class _Channel(Generic[_T]):
    """One item on its way from a thread to another, and what ended either."""

    def __init__(self) -> None:
        self._items: queue.Queue[_T | None] = queue.Queue(1)
        self._stopped = threading.Event()
        self.error: BaseException | None = None

    def stop(self) -> None:
        self._stopped.set()

    def put(self, item: _T | None) -> None:
        """Hand over an item, or None for the end; _Ended where nobody takes it."""
        while not self._stopped.is_set():
            try:
                return self._items.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
        raise _Ended

    def get(self) -> _T | None:
        while not self._stopped.is_set():
            try:
                return self._items.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
        raise _Ended


class Ahead(Generic[_T]):
    """What an iterator gives, made by another thread, one item ahead. A context manager, which ends the thread."""

    def __init__(self, items: Iterator[_T]) -> None:
        self._channel: _Channel[_T] = _Channel()
        self._source = items
        self._thread = threading.Thread(target=self._run, name="numbatok reader", daemon=True)

    def _run(self) -> None:
        channel = self._channel
        try:
            for item in self._source:
                channel.put(item)
                del item  # the block is not kept while the next is made
        except _Ended:
            return
        except BaseException as error:  # raised where the items are taken
            channel.error = error
        try:
            channel.put(None)
        except _Ended:
            pass

    def __enter__(self) -> Iterator[_T]:
        self._thread.start()
        return self._taken()

    def _taken(self) -> Iterator[_T]:
        while (item := self._channel.get()) is not None:
            yield item
        if self._channel.error is not None:
            raise self._channel.error

    def __exit__(self, *_: object) -> None:
        self._channel.stop()
        self._thread.join(_LEAVE)


def side_by_side(
    items: Iterator[_T], prepare: Callable[[_T], _P], work: Callable[[_P], _R], threads: int
) -> Iterator[_R]:
    """What ``work`` makes of each item, in the order of the items, by so many threads; one item more is under way.

    Before that the caller's thread prepares each, one after the other. An error comes when all before it are done.
    """
    waiting: deque[Future[_R]] = deque()
    crew = ThreadPoolExecutor(threads, "numbatok encoder")
    try:
        for item in items:
            try:
                waiting.append(crew.submit(work, prepare(item)))
            except Exception as error:
                waiting.append(Future())
                waiting[-1].set_exception(error)
                break
            del item  # its text goes while the next one is waited for
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        crew.shutdown(cancel_futures=True)


class Behind(Generic[_T]):
    """Lets another thread do something with each item that is put. A context manager, which waits for the last."""

    def __init__(self, work: Callable[[_T], None]) -> None:
        self._channel: _Channel[_T] = _Channel()
        self._work = work
        self._thread = threading.Thread(target=self._run, name="numbatok writer", daemon=True)

    def _run(self) -> None:
        channel = self._channel
        try:
            while (item := channel.get()) is not None:
                self._work(item)
                del item
        except _Ended:
            pass
        except BaseException as error:  # raised where the next item is put
            channel.error = error
            channel.stop()

    def put(self, item: _T) -> None:
        """Hand over an item; raises what ended the thread."""
        try:
            self._channel.put(item)
        except _Ended:
            if self._channel.error is not None:
                raise self._channel.error from None
            raise

    def __enter__(self) -> "Behind[_T]":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                self._channel.put(None)
            except _Ended:
                pass
        else:
            self._channel.stop()
        self._thread.join()
        if kind is None and self._channel.error is not None:
            raise self._channel.error
