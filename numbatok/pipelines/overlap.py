"""Work of several threads on items that come, and are finished, in order."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")
_P = TypeVar("_P")
_R = TypeVar("_R")

SPARE = 2  # items that are under way, besides one for each thread
_PATIENCE = 0.1  # seconds after which the calling thread looks whether it is interrupted
_LEAVE = 2.0  # seconds after which threads are left alone, one of which waits for a pipe, say


class _Failure:
    """What stands for an item that ends the work."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Crew(Generic[_T, _P, _R]):
    """Threads that each take an item, prepare it, work at it, and finish what is next.

    One thread does all of an item, so that what a step has written is in its core's cache for the next one, and no more
    threads run than were asked for: with others to read and to write, two that encode on two cores took a tenth more of
    the processor. Items are taken and prepared one at a time, and finished so, in order: by whoever comes with the next
    one, together with those that have waited for it.

    Parameters
    ----------
    items : what is to be done
    prepare, finish : called for one item after the other
    work : called by several threads at once
    threads : how many
    """

    def __init__(
        self,
        items: Iterator[_T],
        prepare: Callable[[_T], _P],
        work: Callable[[_P], _R],
        finish: Callable[[_R], None],
        threads: int,
    ) -> None:
        self._items, self._prepare, self._work, self._finish = items, prepare, work, finish
        self._taking = threading.Lock()
        self._changed = threading.Condition()  # who holds it may change what follows
        self._taken = self._finished = 0
        self._most = threads + SPARE
        self._made: dict[int, _R | _Failure] = {}  # what waits to be finished
        self._is_end = self._is_finishing = self._is_stopped = False
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"numbatok encoder {number}", daemon=True)
            for number in range(threads)
        ]

    def run(self) -> None:
        """Let the threads do it all. An error is raised when all before it is finished."""
        try:
            for thread in self._threads:
                thread.start()
            while not self._over.wait(_PATIENCE):
                pass
        finally:
            self._stop()
        if self._error is not None:
            raise self._error

    def _stop(self) -> None:
        """Let nothing more be finished, and the threads end."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            while self._is_finishing:
                self._changed.wait(_PATIENCE)
        deadline = time.monotonic() + _LEAVE
        for thread in self._threads:
            if thread.ident is not None:  # it has been started
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        while True:
            made: _R | _Failure
            with self._taking:
                if not self._has_room():
                    return
                number = self._taken
                try:
                    prepared = self._prepare(next(self._items))
                except StopIteration:
                    self._end(number)
                    return
                except BaseException as error:
                    self._end(number + 1)
                    self._hand_in(number, _Failure(error))
                    return
                self._taken = number + 1
            try:
                made = self._work(prepared)
            except BaseException as error:
                made = _Failure(error)
            del prepared  # its text goes while the next is waited for
            self._hand_in(number, made)
            del made

    def _has_room(self) -> bool:
        """Wait until one more item may be under way; whether it is wanted."""
        with self._changed:
            while self._taken - self._finished >= self._most and not self._is_stopped:
                self._changed.wait()
            return not (self._is_end or self._is_stopped)

    def _end(self, taken: int) -> None:
        """Take no more items than so many."""
        with self._changed:
            self._taken, self._is_end = taken, True
            if self._finished == taken:
                self._over.set()

    def _hand_in(self, number: int, made: "_R | _Failure") -> None:
        """Finish an item if it is the next one, and all that have waited for it; or leave it for who does."""
        with self._changed:
            self._made[number] = made
            self._is_end = self._is_end or isinstance(made, _Failure)
            if self._is_finishing or self._is_stopped:
                return
            self._is_finishing = True
        del made
        while (following := self._next_made()) is not None:
            try:
                if isinstance(following, _Failure):
                    raise following.error
                self._finish(following)
            except BaseException as error:
                self._error = error
            del following
            with self._changed:
                self._finished += 1
                self._changed.notify_all()
        if self._error is not None or (self._is_end and self._finished == self._taken):
            self._over.set()

    def _next_made(self) -> "_R | _Failure | None":
        """What is to be finished next; None where it is not made, or nothing is wanted any more."""
        with self._changed:
            if self._error is None and not self._is_stopped and self._finished in self._made:
                return self._made.pop(self._finished)
            self._is_finishing = False
            self._changed.notify_all()
            return None
