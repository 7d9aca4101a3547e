"""Normalizers that change characters one by one, or replace pieces of text; and sequences of normalizers."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from numbatok.errors import VocabularyError
from numbatok.normalizers import literals
from numbatok.normalizers.frozen import MARK, characters, code_points, text_of, to_lower
from numbatok.normalizers.normalizer import Normalizer, Sources, Table, places, restless, table_of
from numbatok.patterns.unicode import CODE_POINTS, white_space

#: Characters of a text that are looked up together, so that all stays in the second-level cache.
_PART = 1 << 14


def _by_parts(change: Callable[[str], str], text: str) -> str:
    """The changes of parts of a text, joined."""
    return "".join(change(text[begin : begin + _PART]) for begin in range(0, len(text), _PART))


@functools.cache
def all_white_space() -> str:
    r"""All characters that ``\s`` matches."""
    return text_of(np.flatnonzero(white_space()))


@functools.lru_cache(maxsize=32)
def _in_turns(pattern: str, is_regex: bool) -> "re.Pattern[str]":
    """What splits a text into gaps and matches, in turns."""
    return re.compile(f"({literals.compiled(pattern).pattern if is_regex else pattern})")


@dataclass(frozen=True)
class Lowercase(Normalizer):
    """Lower case, character by character: a final sigma is a sigma like others."""

    def normalize(self, text: str) -> str:
        """The text after the change."""
        if text.isascii():
            return text.lower()
        return _by_parts(self._lower, text.replace("\u0130", "i\u0307"))

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`."""
        return np.repeat(places(len(text)), 1 + (code_points(text) == 0x130))

    def aligned(self, text: str) -> tuple[str, Sources | None]:
        """See :class:`Normalizer`."""
        return self.normalize(text), self.sources(text) if "\u0130" in text else None

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return self.normalize(text) == text

    def make_restless(self) -> Table:
        """See :func:`restless`."""
        changing = to_lower() != 0
        changing[0x130] = True
        return table_of(changing)

    def _lower(self, part: str) -> str:
        if part.isascii():
            return part.lower()
        codes = code_points(part).astype(np.int32)
        return text_of(codes + to_lower()[codes])


@dataclass(frozen=True)
class StripAccents(Normalizer):
    """Without marks (general category M); what letter and accent are in one character stays, unless NFD came before."""

    def normalize(self, text: str) -> str:
        """The text after the change."""
        return text if text.isascii() else _by_parts(self._strip, text)

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`."""
        return np.flatnonzero(characters()[code_points(text)] & MARK == 0)

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return self.normalize(text) == text

    def make_restless(self) -> Table:
        """See :func:`restless`."""
        return table_of(characters() & MARK != 0)

    def _strip(self, part: str) -> str:
        if part.isascii():
            return part
        codes = code_points(part)
        marks = characters()[codes] & MARK != 0
        return text_of(codes[~marks]) if marks.any() else part


@dataclass(frozen=True)
class Strip(Normalizer):
    r"""Without white space (``\s``) at the left or right end, or at both."""

    left: bool = True
    right: bool = True

    def normalize(self, text: str) -> str:
        """The text after the change."""
        if self.left:
            text = text.lstrip(all_white_space())
        return text.rstrip(all_white_space()) if self.right else text

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`."""
        first = len(text) - len(text.lstrip(all_white_space())) if self.left else 0
        return places(first, first + len(self.normalize(text)))

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return len(self.normalize(text)) == len(text)

    def make_restless(self) -> None:
        """The ends of a text tell, not its characters."""


@dataclass(frozen=True)
class Prepend(Normalizer):
    """Something before a text, but nothing before an empty one."""

    prefix: str

    def normalize(self, text: str) -> str:
        """The text after the change."""
        return self.prefix + text if text else text

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`; the prefix stands for the first character."""
        if not text:
            return places(0)
        return np.maximum(places(-len(self.prefix), len(text)), 0)

    def inserts(self) -> int:
        """See :class:`Normalizer`."""
        return len(self.prefix)

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return not text or not self.prefix

    def make_restless(self) -> None:
        """Every text changes."""


@dataclass(frozen=True)
class Replace(Normalizer):
    r"""Other text for each match of a pattern, from left to right.

    Attributes
    ----------
    pattern : plain text; with ``is_regex`` a regular expression of the kind that :mod:`literals` describes
    content : what is put there, as it is: neither ``$1`` nor ``\1`` means anything
    is_regex : what ``pattern`` is

    Raises
    ------
    VocabularyError : for an empty pattern, and for regular expressions that are not of that kind
    """

    pattern: str
    content: str
    is_regex: bool = False

    def __post_init__(self) -> None:
        if not self.pattern:
            raise VocabularyError("normalizer Replace has an empty pattern, which matches between all characters")
        if self.is_regex:
            literals.compiled(self.pattern)

    def normalize(self, text: str) -> str:
        """The text after the change."""
        if not self.is_regex:
            return text.replace(self.pattern, self.content)
        runs = self._changed_runs(text)
        if runs is not None:
            return self._with_content(text, *runs)
        return self.content.join(self._search.split(text))

    def _changed_runs(self, text: str) -> tuple[Sources, Sources] | None:
        """(begins, ends) of the matches that become something else, where these are runs of a class; else None.

        Most white space is one blank, and stays: looking for the rest takes a quarter of the time of a split.
        """
        members = literals.run_of(self.pattern) if self.is_regex else None
        if members is None:
            return None
        codes = code_points(text)
        edges = np.flatnonzero(np.diff(members[codes], prepend=False, append=False))
        begins, ends = edges[::2], edges[1::2]
        if len(self.content) == 1:
            changed = (ends - begins > 1) | (codes[begins] != ord(self.content))
            begins, ends = begins[changed], ends[changed]
        return begins, ends

    def _with_content(self, text: str, begins: Sources, ends: Sources) -> str:
        """The text with what is to be put there in place of some parts."""
        if not len(begins):
            return text
        kept = zip([0, *ends.tolist()], [*begins.tolist(), len(text)], strict=True)
        return self.content.join([text[begin:end] for begin, end in kept])

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`; what replaces a match stands for its last character."""
        found = self.aligned(text)[1]
        return places(len(text)) if found is None else found

    def aligned(self, text: str) -> tuple[str, Sources | None]:
        """See :class:`Normalizer`."""
        if not self.is_regex and len(self.pattern) == 1:
            normal = text.replace(self.pattern, self.content)
            if len(self.content) == 1:
                return normal, None
            begins = np.flatnonzero(code_points(text) == ord(self.pattern))
            ends = begins + 1
        elif (runs := self._changed_runs(text)) is not None:
            begins, ends = runs
            normal = self._with_content(text, begins, ends)
        else:
            pattern = self.pattern if self.is_regex else re.escape(self.pattern)
            parts = _in_turns(pattern, self.is_regex).split(text)  # gaps and matches
            edges = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
            begins, ends = edges[:-1:2], edges[1::2]
            parts[1::2] = [self.content] * len(ends)
            normal = "".join(parts)
        if not len(begins):
            return normal, None
        # Of a match the last character stands in the normal text, as often as is put there.
        edges = np.zeros(len(text) + 1, np.int8)
        edges[begins] += 1
        edges[ends] -= 1
        stays = np.cumsum(edges[:-1], dtype=np.int8) == 0
        if len(self.content) == 1:
            stays[ends - 1] = True
            return normal, np.flatnonzero(stays)
        times = stays.astype(np.int64)
        times[ends - 1] = len(self.content)
        return normal, np.repeat(places(len(text)), times)

    def inserts(self) -> int | None:
        """See :class:`Normalizer`."""
        return 0 if not self.is_regex and len(self.pattern) == len(self.content) == 1 else None

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        if not self.is_regex:
            return self.pattern not in text or (len(self.pattern) == 1 and self.pattern == self.content)
        if len(self.content) != 1:  # offsets would change even where the text does not
            return self._search.search(text) is None
        return all(match.group() == self.content for match in self._search.finditer(text))

    def make_restless(self) -> Table:
        """See :func:`restless`."""
        if self.is_regex:
            return table_of(literals.first_characters(self.pattern))
        return table_of(np.arange(CODE_POINTS) == ord(self.pattern[0]))

    @property
    def _search(self) -> "re.Pattern[str]":
        return literals.compiled(self.pattern)


@dataclass(frozen=True)
class Sequence(Normalizer):
    """One normalizer after the other. Sequences within are taken apart."""

    normalizers: tuple[Normalizer, ...]

    def __post_init__(self) -> None:
        flat = [
            part
            for normalizer in self.normalizers
            for part in (normalizer.normalizers if isinstance(normalizer, Sequence) else [normalizer])
        ]
        object.__setattr__(self, "normalizers", tuple(flat))

    def normalize(self, text: str) -> str:
        """The text after the change."""
        for normalizer in self.normalizers:
            text = normalizer.normalize(text)
        return text

    def sources(self, text: str) -> Sources:
        """See :class:`Normalizer`."""
        normal, found = self.aligned(text)
        return places(len(normal)) if found is None else found

    def aligned(self, text: str) -> tuple[str, Sources | None]:
        """See :class:`Normalizer`."""
        found: Sources | None = None
        for normalizer in self.normalizers:
            text, sources = normalizer.aligned(text)
            if sources is not None:
                found = sources if found is None else found[sources]
        return text, found

    def inserts(self) -> int | None:
        """See :class:`Normalizer`."""
        counts = [normalizer.inserts() for normalizer in self.normalizers]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def leaves(self, text: str) -> bool:
        """Whether the text stays as it is."""
        return all(normalizer.leaves(text) for normalizer in self.normalizers)

    def make_restless(self) -> Table | None:
        """See :func:`restless`."""
        tables = [restless(normalizer) for normalizer in self.normalizers]
        known = [table for table in tables if table is not None]
        if len(known) < len(tables):
            return None
        return functools.reduce(np.maximum, known, table_of(np.zeros(0, np.bool_)))
