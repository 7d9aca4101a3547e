"""Ids as lists: what other libraries' interfaces return. Importing this module imports Numba."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.engine import Engine
from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import dtypes, lists
from numbatok.memory import address_of

MOST_INTEGERS = 1 << 20  # 40 MB at worst, where a vocabulary has so many ids

_growing = threading.Lock()
_integers: list[int] = []


def shared_integers(count: int) -> list[int]:
    """The ints that all lists hold: at least those below ``count``, or MOST_INTEGERS, each at its place."""
    with _growing:
        _integers.extend(range(len(_integers), min(count, MOST_INTEGERS)))
    return _integers


class ListEncoder:
    """The ids that an engine gives, as lists."""

    def __init__(self, engine: Engine, vocab_size: int) -> None:
        self.engine = engine
        self._integers = shared_integers(vocab_size)
        self._known = len(self._integers)
        self._encode = lists.encode_text_to_list.entry
        self._idle, self._bare = engine._idle, engine._around[False]

    def encode(self, source: Any, actions: npt.NDArray[np.uint8]) -> list[int]:
        """Ids of one text, no template around it. Those of a short ``str`` never are an array.

        28 bytes take 0.5 us so, 1.4 us by way of :meth:`Engine.encode`. Raises :class:`DisallowedToken`.
        """
        try:
            scratch = self._idle.pop()
        except IndexError:
            return self._encode_otherwise(source, actions)
        if scratch.actions is not actions:
            scratch.set_actions(actions)
        if scratch.around is not self._bare:
            scratch.set_around(self._bare)
        status = self._encode(id(source), scratch.address, scratch.listing_address)
        if status >= 0:
            ids = scratch.made.pop()
            self._idle.append(scratch)
            return ids
        scratch.listing[: lists.MADE] = id(self._integers), self._known  # it may be new, or have been an array's
        place, token = int(scratch.record[dtypes.WORK_POSITION]), int(scratch.record[dtypes.WORK_NEEDED])
        self._idle.append(scratch)
        if status == dtypes.DISALLOWED:
            raise DisallowedToken(0, place, token)
        return self._encode_otherwise(source, actions)

    def _encode_otherwise(self, source: Any, actions: npt.NDArray[np.uint8]) -> list[int]:
        """By way of an array: another kind of text, a long one, or one that the scratch has to be mended for."""
        return self.list_of(self.engine.encode(source, actions, "strict", False))

    def list_of(self, ids: Ids) -> list[int]:
        """Ids as a list."""
        return self._listed(ids, np.array([0, len(ids)]))[0]

    def lists_of(self, batch: TokenBatch) -> list[list[int]]:
        """Each document's ids as a list."""
        return self._listed(batch.ids, batch.offsets)

    def _listed(self, ids: Ids, offsets: npt.NDArray[np.int64]) -> list[list[int]]:
        made: list[list[int]] = []
        listing = np.array([id(self._integers), self._known, id(made)])
        count = len(offsets) - 1
        if lists.list_documents(address_of(ids), address_of(offsets), count, address_of(listing)) < 0:
            return TokenBatch(ids, offsets).tolist()
        return made
