"""The scratches of one tokenizer: callers take one each, and put it back for the next call."""

import os
import random
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from numbatok.caches import CacheBudget, CacheInfo
from numbatok.kernels import dtypes
from numbatok.scratch import Scratch


class Scratches:
    """A stack of idle scratches, of bounded depth, and what all scratches share.

    Parameters
    ----------
    view : int64[VIEW_FIELDS], the tokenizer's tables
    cache_budget : bytes that all caches together may take; None for what is set for all tokenizers

    Attributes
    ----------
    idle : those that nobody uses now, the one put back last at the end; of too many the others are dropped
    """

    def __init__(self, view: npt.NDArray[np.int64], cache_budget: int | None = None) -> None:
        self._view = view
        self._budget = CacheBudget(cache_budget)
        self._seeds = random.Random()
        self.idle: deque[Scratch] = deque(maxlen=2 * (os.cpu_count() or 1))

    def take(self) -> Scratch:
        """The scratch that was put back last, or a new one."""
        try:
            return self.idle.pop()
        except IndexError:
            scratch = Scratch(self._view, self._budget)
            scratch.record[dtypes.WORK_RANDOM] = self._seeds.getrandbits(63)
            return scratch

    def put_back(self, scratch: Scratch) -> None:
        """Let others have a scratch. After an exception it is not put back: it may be half changed."""
        self.idle.append(scratch)

    @contextmanager
    def one(self) -> Iterator[Scratch]:
        """A scratch for one caller, who gets the same again while it is idle."""
        scratch = self._own(self.take())
        yield scratch
        self.put_back(scratch)

    def _own(self, scratch: Scratch) -> Scratch:
        """The idle scratch that the calling thread had the last time, whose table is in its core's cache, if there is.

        Short texts, which touch little of a table, go without: looking costs a tenth of their time.
        """
        caller = threading.get_ident()
        if scratch.owner != caller:
            own = next((other for other in list(self.idle) if other.owner == caller), None)
            if own is not None:
                try:
                    self.idle.remove(own)
                except ValueError:  # another thread has just taken it
                    pass
                else:
                    self.put_back(scratch)
                    return own
            scratch.owner = caller
        return scratch

    def seed(self, number: int | None) -> None:
        """Begin dropout's random numbers anew: calls that follow one after the other give the same ids every time.

        With None they begin anywhere, as at first. Scratches in use by other threads go on as they were.
        """
        self._seeds.seed(number)
        self.idle.clear()

    def clear(self, cache_budget: int | None) -> None:
        """Forget the scratches that nobody uses now, and let all share another budget."""
        self._budget.own = cache_budget
        self.idle.clear()

    def cache_info(self) -> CacheInfo:
        """What is in the caches."""
        return self._budget.info()

    @property
    def cache_share(self) -> int:
        """Bytes that the cache of one thread may take."""
        return self._budget.share
