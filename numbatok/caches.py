"""How much memory the caches of pretokens may take, and what is in them."""

import threading
import weakref
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

from numbatok.threads import usable_cores

if TYPE_CHECKING:
    from numbatok.scratch import Scratch

DEFAULT_BYTES = 256 << 20
BYTES_A_CORE = 32 << 20  # where cores are so many that the default would leave each with less

_chosen: int | None = None  # by set_cache_budget


class CacheInfo(NamedTuple):
    """What :meth:`numbatok.Tokenizer.cache_info` tells of a tokenizer's caches, since they were last cleared.

    Attributes
    ----------
    entries : pretokens that are cached, by all workers together
    bytes : memory that the caches take
    budget : bytes that they may take
    hits, misses : pretokens that were found, and that had to be merged

    >>> numbatok.get_encoding("gpt2").cache_info().hits
    0
    """

    entries: int
    bytes: int
    budget: int
    hits: int
    misses: int


def check_budget(size: object) -> int:
    """``size`` as a budget in bytes; TypeError or ValueError unless it is one."""
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise TypeError(f"a cache budget must be an int of bytes, not {type(size).__name__}")
    if size < 0:
        raise ValueError(f"a cache budget must be at least 0 bytes, not {size}")
    return int(size)


def set_cache_budget(size: int | None) -> None:
    """Let the caches of each tokenizer that has no budget of its own take at most ``size`` bytes; None for the default.

    The default is 256 MiB, or 32 MiB a core where that is more. Memory is taken as texts need it, and kept for later
    calls; a cache that would grow past the budget is emptied and begins anew, so results stay the same and only time is
    lost. Some 200 KiB a worker are always taken. Caches that are larger already shrink with ``clear_cache``.

    >>> numbatok.set_cache_budget(64 << 20)
    >>> numbatok.get_cache_budget() >> 20
    64
    """
    global _chosen
    _chosen = None if size is None else check_budget(size)


def get_cache_budget() -> int:
    """Bytes that the caches of a tokenizer may take that has no budget of its own: see :func:`set_cache_budget`.

    >>> budget = numbatok.get_cache_budget()
    """
    return max(DEFAULT_BYTES, BYTES_A_CORE * usable_cores()) if _chosen is None else _chosen


class CacheBudget:
    """The caches of one tokenizer's scratches, and what they may take together."""

    def __init__(self, own: int | None = None) -> None:
        self.own = own
        self._lock = threading.Lock()
        self._scratches: weakref.WeakSet[Scratch] = weakref.WeakSet()

    @property
    def size(self) -> int:
        """Bytes that all may take together."""
        return get_cache_budget() if self.own is None else self.own

    @property
    def share(self) -> int:
        """Bytes that one of them may take."""
        return self.size // usable_cores()

    def add(self, scratch: "Scratch") -> None:
        """Let a new scratch be one of those that share the budget."""
        with self._lock:
            self._scratches.add(scratch)

    def grants(self, scratch: "Scratch", size: int) -> bool:
        """Whether a scratch's cache may take ``size`` bytes: a core's share of the budget, if the others leave it."""
        with self._lock:
            others = sum(other.cache_bytes for other in self._scratches if other is not scratch)
        return size <= min(self.size - others, self.share)

    def info(self) -> CacheInfo:
        """What is in all caches together."""
        with self._lock:
            scratches = list(self._scratches)
        pieces = sum(scratch.pieces for scratch in scratches)
        misses = sum(scratch.misses for scratch in scratches)
        entries = sum(scratch.entries for scratch in scratches)
        return CacheInfo(entries, sum(scratch.cache_bytes for scratch in scratches), self.size, pieces - misses, misses)
