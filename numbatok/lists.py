"""Ids as lists: what other libraries' interfaces return. Importing this module imports Numba."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.engine import Engine
from numbatok.ids import Ids
from numbatok.kernels import dtypes, lists
from numbatok.locks import building
from numbatok.memory import address_of
from numbatok.scratch import Scratch

MOST_INTEGERS = 1 << 20  # 40 MB at worst, where a vocabulary has so many ids
MOST_ENCODERS = 64

_integers: list[int] = []


def shared_integers(count: int) -> list[int]:
    """The ints that all lists hold: at least those below ``count``, or MOST_INTEGERS, each at its place."""
    with building:
        _integers.extend(range(len(_integers), min(count, MOST_INTEGERS)))
    return _integers


Policy = tuple[frozenset[str], frozenset[str]]


class ListEncoder:
    """The ids that an engine gives, as lists; ``errors`` is what it does about lone surrogates, see ``text``."""

    def __init__(self, engine: Engine, vocab_size: int, errors: str = "strict") -> None:
        self.engine = engine
        self._errors = errors
        self._integers = shared_integers(vocab_size)
        self._known = len(self._integers)
        self._encoders: dict[Policy, Callable[[Any], list[int]]] = {}

    def under(self, policy: Policy) -> Callable[[Any], list[int]]:
        """What encodes a text where the (allowed, refused) special tokens are these, no template around it."""
        found = self._encoders.get(policy)
        if found is None:
            found = self._make(self.engine.actions(policy))
            if len(self._encoders) >= MOST_ENCODERS:
                self._encoders.clear()
            self._encoders[policy] = found
        return found

    def _make(self, actions: npt.NDArray[np.uint8]) -> Callable[[Any], list[int]]:
        integers, known = id(self._integers), self._known

        def tell(scratch: Scratch) -> None:
            scratch.record[dtypes.WORK_LISTING], scratch.record[dtypes.WORK_LISTING + 1] = integers, known

        short = self.engine.short_way(lists.encode_to_list, actions, False, tell)

        def encode(source: Any) -> list[int]:
            """Ids of one ``str``; those of a short one never are an array. Raises DisallowedToken, TypeError."""
            ids: list[int] | None = short(source)
            return otherwise(source) if ids is None else ids

        def otherwise(source: Any) -> list[int]:
            """By way of an array: a long text, or one that the scratch has to be mended for."""
            if not isinstance(source, str):
                raise TypeError(f"text must be str, not {type(source).__name__}")
            return self.list_of(self.engine.encode(source, actions, self._errors, False, None))

        return encode

    def list_of(self, ids: Ids) -> list[int]:
        """Ids as a list."""
        return self.listed(ids, np.array([0, len(ids)], np.int64))[0]

    def lists_of(self, batch: TokenBatch) -> list[list[int]]:
        """Each document's ids as a list."""
        return self.listed(batch.ids, batch.offsets)

    def listed(self, ids: Ids, offsets: npt.NDArray[np.int64]) -> list[list[int]]:
        """The ids from each offset to the next as a list."""
        made: list[list[int]] = []
        listing = np.array([id(self._integers), self._known], np.int64)
        documents = address_of(ids), address_of(offsets), len(offsets) - 1
        if lists.list_documents(*documents, address_of(listing), id(made)) < 0:
            return TokenBatch(ids, offsets).tolist()
        return made
