"""What every normalizer does, and the table that tells which characters it may change."""

import functools
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from numbatok.kernels.dtypes import CLASS_TABLE_SIZE, RESTLESS

Table = npt.NDArray[np.uint8]
Sources = npt.NDArray[np.int64]


def places(*bounds: int) -> Sources:
    """``range(*bounds)`` as int64, which it is not by itself on Windows with NumPy before version 2."""
    return np.arange(*bounds, dtype=np.int64)


class Normalizer(ABC):
    """A change of text. Normalizers are immutable, hashable, and equal when they do the same.

    Attributes
    ----------
    is_local : whether a text may be cut before any character that is 0 in :func:`restless`, and normalized part by part
    """

    is_local: ClassVar[bool] = False

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text after the change, in time linear in the text's length."""

    @abstractmethod
    def sources(self, text: str) -> Sources:
        """Which character of ``text`` each one of the normal text stands for: int64, indices of characters.

        They are those of ``tokenizers``: what is composed of several characters, or replaces them, stands for one.
        """

    def aligned(self, text: str) -> tuple[str, Sources | None]:
        """(normal text, sources), or None for these where each character stands for one, as many as there are."""
        return self.normalize(text), self.sources(text)

    def inserts(self) -> int | None:
        """How many characters are put before a text, all else one for one; None where the text tells."""
        return None

    @abstractmethod
    def leaves(self, text: str) -> bool:
        """Whether ``text`` is surely what it would be after the change; False may also mean that this is not known."""

    @abstractmethod
    def make_restless(self) -> Table | None:
        """A new table of the kind that :func:`restless` returns."""


@functools.lru_cache(maxsize=32)
def restless(normalizer: Normalizer) -> Table | None:
    """Which characters may be changed by the normalizer, or change others: uint8[2**21], read-only, a code point each.

    0 is a character that stays as it is among others of that kind. ``RESTLESS`` (255) is one that may change. All
    between is a canonical combining class: such a character stays if none before it, back to the last character of
    value 0, has a greater one. None where the characters do not tell, as for a normalizer that looks at the ends of a
    text.
    """
    table = normalizer.make_restless()
    if table is not None:
        table.flags.writeable = False
    return table


def table_of(changing: npt.NDArray[np.bool_]) -> Table:
    """A table with ``RESTLESS`` where ``changing`` (bool, by code point from 0 on) is True, 0 elsewhere."""
    table = np.zeros(CLASS_TABLE_SIZE, np.uint8)
    table[: len(changing)][changing] = RESTLESS
    return table
