"""The lock around what is built once a process, and what forks and Ctrl-C do about it.

A thread may be forked away while another builds a tokenizer's tables or compiles: the child would inherit locks that
nobody in it will ever release. So a fork waits until nothing is being built, for seconds at most.
"""

# Imported first, so that its fork hook is registered before ours: the last one registered goes first before a fork. A
# thread that compiles takes logging's lock too; were that held by the thread that forks, both would wait for ever.
import logging  # noqa: F401
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class _Lock(Protocol):
    def acquire(self) -> object: ...
    def release(self) -> object: ...


#: Held while an engine is built and while a kernel is compiled or loaded; one thread may take it again.
building = threading.RLock()

#: Locks that a fork takes, in the order in which building takes them.
taken_by_fork: list[_Lock] = [building]

_held: list[_Lock] = []


def _before_fork() -> None:
    for lock in tuple(taken_by_fork):
        lock.acquire()
        _held.append(lock)


def _after_fork() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let Ctrl-C wait meanwhile: for imports of a second or so that could not be tried again once they are broken off.

    Python handles signals in the main thread alone, so nothing is to be done in others; nor where Ctrl-C is handled
    outside of Python.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held: list[int] = []

    def hold(number: int, _frame: Any) -> None:
        held.append(number)

    try:
        signal.signal(signal.SIGINT, hold)
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            signal.raise_signal(signal.SIGINT)
