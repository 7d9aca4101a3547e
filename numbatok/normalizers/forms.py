"""The four normalization forms of Unicode (Standard Annex 15), at the reference's version of Unicode."""

import functools
import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from numbatok.normalizers.frozen import (
    CLASS_SHIFT,
    CODE_POINTS,
    MARKS_ALONE,
    MAY_CHANGE,
    NEWER,
    characters,
    code_points,
    text_of,
)
from numbatok.normalizers.normalizer import Normalizer, Table, table_of

Kinds = npt.NDArray[np.int32]

#: Characters in a part of a text: their code points and flags stay in the second-level cache.
_PART = 1 << 14

#: From so many marks in a row on, they are put in order here: unicodedata inserts each into those before it, which
#: takes minutes for a million.
_MANY_MARKS = 32


@functools.cache
def _decomposed(form: Literal["NFD", "NFKD"], character: str) -> str:
    """The full decomposition of one character, of which there are few thousand."""
    return unicodedata.normalize(form, character)


@dataclass(frozen=True)
class _Form(Normalizer):
    """A normalization form; text is cut before characters that stay as they are, and each part normalized alone."""

    form: ClassVar[Literal["NFC", "NFD", "NFKC", "NFKD"]]

    def normalize(self, text: str) -> str:
        """The text after the change."""
        if text.isascii():
            return text
        return "".join(self._normalize_part(part, kinds) for part, kinds in self._parts(text))

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return text.isascii() or all(self._leaves_part(part, kinds) for part, kinds in self._parts(text))

    def make_restless(self) -> Table:
        """See :func:`restless`."""
        kinds = characters()
        table = table_of(kinds & MAY_CHANGE[self.form] != 0)
        table[:CODE_POINTS] |= (kinds >> CLASS_SHIFT).astype(np.uint8)  # RESTLESS has all bits set
        return table

    @property
    def _restless(self) -> int:
        """The bits of a character that may change or that has a combining class."""
        return MAY_CHANGE[self.form] | 0xFF << CLASS_SHIFT

    def _parts(self, text: str) -> Iterator[tuple[str, Kinds | None]]:
        """Parts of the text that can be normalized alone, and the flags of their characters, None for ASCII."""
        kinds = characters()
        begin = 0
        while begin < len(text):
            end = begin + _PART
            ahead = 1
            while end < len(text):
                calm = np.flatnonzero(kinds[code_points(text[end : end + ahead])] & self._restless == 0)
                if calm.size:
                    end += int(calm[0])
                    break
                end += ahead
                ahead = min(2 * ahead, _PART)
            part = text[begin:end]
            yield part, None if part.isascii() else kinds[code_points(part)]
            begin = end

    def _leaves_part(self, part: str, kinds: Kinds | None) -> bool:
        if kinds is None or self._is_calm(kinds):
            return True
        if (kinds & NEWER).any():
            return self._normalize_part(part, kinds) == part
        return unicodedata.is_normalized(self.form, part)

    def _normalize_part(self, part: str, kinds: Kinds | None) -> str:
        if kinds is None or self._is_calm(kinds):
            return part
        newer = kinds & NEWER != 0
        if not newer.any():
            return self._normalize_known(part, kinds)
        edges = [0, *(np.flatnonzero(np.diff(newer)) + 1).tolist(), len(part)]
        return "".join(
            part[begin:end] if newer[begin] else self._normalize_known(part[begin:end], kinds[begin:end])
            for begin, end in itertools.pairwise(edges)
        )

    def _is_calm(self, kinds: Kinds) -> bool:
        """Whether there is neither a character that may change nor one that has a combining class."""
        return not (kinds & self._restless).any()

    def _normalize_known(self, text: str, kinds: Kinds) -> str:
        """Normalize text without newer characters."""
        marks = (kinds & (MARKS_ALONE[self.form] | 0xFF << CLASS_SHIFT)) != 0
        if np.count_nonzero(marks) >= _MANY_MARKS:
            edges = np.flatnonzero(np.diff(marks, prepend=False, append=False)).tolist()
            runs = [
                (begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if end - begin >= _MANY_MARKS
            ]
            pieces = []
            done = 0
            for begin, end in runs:
                pieces += [text[done:begin], self._in_order(text[begin:end])]
                done = end
            text = "".join([*pieces, text[done:]])
        return unicodedata.normalize(self.form, text)

    def _in_order(self, marks: str) -> str:
        """Nothing but marks, decomposed and in canonical order."""
        form: Literal["NFD", "NFKD"] = "NFKD" if "K" in self.form else "NFD"
        codes = code_points("".join(_decomposed(form, mark) for mark in marks))
        return text_of(codes[np.argsort(characters()[codes] >> CLASS_SHIFT, kind="stable")])


@dataclass(frozen=True)
class NFC(_Form):
    """Canonical composition: letter and accent become one character, where there is one."""

    form = "NFC"


@dataclass(frozen=True)
class NFD(_Form):
    """Canonical decomposition: a letter with an accent becomes letter and accent."""

    form = "NFD"


@dataclass(frozen=True)
class NFKC(_Form):
    """Compatibility composition: as NFC, and ligatures, widths and the like are undone."""

    form = "NFKC"


@dataclass(frozen=True)
class NFKD(_Form):
    """Compatibility decomposition: as NFD, and ligatures, widths and the like are undone."""

    form = "NFKD"
