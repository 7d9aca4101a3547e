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
    MARKS_ALONE,
    MAY_CHANGE,
    NEWER,
    characters,
    code_points,
    text_of,
)
from numbatok.normalizers.normalizer import Normalizer, Sources, Table, places, table_of
from numbatok.patterns.unicode import CODE_POINTS

Kinds = npt.NDArray[np.int32]

#: Characters in a part of a text: their code points and flags stay in the second-level cache.
_PART = 1 << 14

#: Characters in a part of a text that is looked at if it is not ASCII.
_SMALL_PART = 1 << 9

#: From so many marks in a row on, they are put in order here: unicodedata inserts each into those before it, which
#: takes minutes for a million.
_MANY_MARKS = 32


@functools.cache
def _decomposed(form: Literal["NFD", "NFKD"], character: str) -> str:
    """The full decomposition of one character, of which there are few thousand."""
    return unicodedata.normalize(form, character)


#: A character of the normal text, its combining class, and how many more characters it makes than it takes: 1 where a
#: decomposition adds it, 0 where it takes one's place, -2 where it takes the place of three.
_Made = tuple[str, int, int]


def _decompose(form: Literal["NFD", "NFKD"], text: str) -> list[_Made]:
    """The characters of the decomposed text in canonical order."""
    made: list[_Made] = []
    pending: list[_Made] = []
    kinds = characters()
    for character in text:
        parts = character if kinds[ord(character)] & NEWER else _decomposed(form, character)
        for number, part in enumerate(parts):
            combining = int(kinds[ord(part)]) >> CLASS_SHIFT
            if combining == 0:
                made += sorted(pending, key=lambda mark: mark[1])
                pending = []
                made.append((part, 0, int(number > 0)))
            else:
                pending.append((part, combining, int(number > 0)))
    return made + sorted(pending, key=lambda mark: mark[1])


def _compose(decomposed: list[_Made]) -> list[_Made]:
    """The characters of the composed text: a mark joins the starter before it unless another mark blocks it."""
    done: list[_Made] = []
    starter = -1  # where in `done` the last starter is
    last = 0  # combining class of the last mark after it that did not join; 0 for none
    for character, combining, more in decomposed:
        if starter >= 0 and (last == 0 or last < combining):
            before, _, change = done[starter]
            joined = _joined(before, character)
            if joined is not None:
                done[starter] = joined, 0, change + more - 1
                continue
        if combining == 0:
            starter = len(done)
        done.append((character, combining, more))
        last = combining
    return done


@functools.lru_cache(1 << 14)
def _joined(first: str, second: str) -> str | None:
    """The one character that two are composed to, or None."""
    kinds = characters()
    if (kinds[ord(first)] | kinds[ord(second)]) & NEWER:
        return None
    joined = unicodedata.normalize("NFC", first + second)
    return joined if len(joined) == 1 else None


@functools.lru_cache(1 << 14)
def _offsets_in_run(form: Literal["NFC", "NFD", "NFKC", "NFKD"], run: str) -> Sources | None:
    """Of a run of text that is normalized alone, the character that each of the normal text stands for; None where
    these are its own, one for one.
    """
    made = _decompose("NFKD" if "K" in form else "NFD", run)
    if form.endswith("C"):
        made = _compose(made)
    more = np.array([change for _, _, change in made], np.int64)
    taken = np.where(more > 0, 0, 1 - more)
    found: Sources = np.cumsum(taken) - np.where(more > 0, 1, taken)
    found.flags.writeable = False
    return None if len(found) == len(run) and (found == places(len(run))).all() else found


@dataclass(frozen=True)
class _Form(Normalizer):
    """A normalization form; text is cut before characters that stay as they are, and each part normalized alone."""

    form: ClassVar[Literal["NFC", "NFD", "NFKC", "NFKD"]]
    is_local: ClassVar[bool] = True

    def normalize(self, text: str) -> str:
        """The text after the change."""
        if text.isascii():
            return text
        return "".join(self._normalize_part(part, kinds) for part, kinds in self._parts(text))

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`; a composed character stands for its starter, a decomposed one for what it was."""
        found = self._sources(text)
        return places(len(text)) if found is None else found

    def aligned(self, text: str) -> tuple[str, Sources | None]:
        """See :class:`Normalizer`."""
        return self.normalize(text), self._sources(text)

    def _sources(self, text: str) -> Sources | None:
        """The sources, or None where each character stands for itself."""
        if text.isascii():
            return None
        restless = np.zeros(len(text), np.bool_)
        for begin in range(0, len(text), _SMALL_PART):
            part = text[begin : begin + _SMALL_PART]
            if not part.isascii():
                restless[begin : begin + len(part)] = characters()[code_points(part)] & self._restless != 0
        if not restless.any():
            return None
        edges = np.flatnonzero(np.diff(restless, prepend=False, append=False)).tolist()
        parts: list[Sources] = []
        done = 0
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            begin = max(begin - 1, 0)  # with the character that is composed with what follows
            run = text[begin:end]
            # Those that may be long are not kept.
            made = (_offsets_in_run if len(run) <= _MANY_MARKS else _offsets_in_run.__wrapped__)(self.form, run)
            if made is not None:
                parts += [places(done, begin), begin + made]
                done = end
        return np.concatenate([*parts, places(done, len(text))]) if parts else None

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
