"""Normalizers for text that comes in parts: what can no longer change is given out, the rest is kept back.

The parts joined are the normal text of all. A text is cut only where normalizing cannot join what stands there.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

import numpy as np

from numbatok.memory import address_of
from numbatok.normalizers import literals
from numbatok.normalizers.edits import Lowercase, Prepend, Replace, Sequence, Strip, StripAccents, all_white_space
from numbatok.normalizers.frozen import code_points
from numbatok.normalizers.normalizer import Normalizer, restless


class Stream(ABC):
    """A normalizer at work on one text.

    Attributes
    ----------
    kept : characters kept back
    """

    kept = 0

    @property
    def state(self) -> Hashable:
        """What makes it give other text than one that begins: equal in two of one normalizer that go on alike."""
        return None

    @abstractmethod
    def feed(self, text: str) -> str:
        """What of the normal text is certain now."""

    def finish(self) -> str:
        """The rest of it. The stream then begins a new text."""
        return ""


class _ByCharacter(Stream):
    """Each character is normalized by itself."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer

    def feed(self, text: str) -> str:
        return self._normalizer.normalize(text)


class _Prepending(Stream):
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._begun = False

    @property
    def state(self) -> Hashable:
        """See :class:`Stream`."""
        return self._begun

    def feed(self, text: str) -> str:
        if self._begun or not text:
            return text
        self._begun = True
        return self._prefix + text

    def finish(self) -> str:
        self._begun = False
        return ""


class _Keeping(Stream):
    """Keeps the end of the text back, from a place on that :meth:`_cut` tells."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer
        self._parts: list[str] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Keeping":
        other = copy.copy(self)  # with the same tables, which are a megabyte or two, and never change
        other._parts = list(self._parts)
        return other

    @property
    def state(self) -> Hashable:
        """See :class:`Stream`."""
        return "".join(self._parts)

    def feed(self, text: str) -> str:
        place = self._cut(text)
        if place < 0:
            self._keep(text)
            return ""
        made = self._made("".join([*self._parts, text[:place]]))
        self._parts, self.kept = [], 0
        self._keep(text[place:])
        return made

    def finish(self) -> str:
        made = self._made("".join(self._parts))
        self._parts, self.kept = [], 0
        return made

    def _keep(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self.kept += len(text)

    def _made(self, text: str) -> str:
        return self._normalizer.normalize(text)

    @abstractmethod
    def _cut(self, text: str) -> int:
        """Where in new text, which may be followed by anything, the text may be cut last; -1 for nowhere."""


class _Composing(_Keeping):
    """A normalization form: cut before a character that stays, and that nothing before is joined to."""

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__(normalizer)
        table = restless(normalizer)
        assert table is not None
        self._table = table

    def _cut(self, text: str) -> int:
        begin, size = len(text), 16
        while begin > 0:
            begin = max(len(text) - size, 0)
            calm = np.flatnonzero(self._table[code_points(text[begin:])] == 0)
            if len(calm):
                return begin + int(calm[-1])
            size *= 8
        return -1

    def _made(self, text: str) -> str:
        if text.isascii():
            return text
        from numbatok.kernels import normal

        data = np.frombuffer(text.encode(), np.uint8)
        if normal.first_restless(address_of(data), len(data), address_of(self._table), 0) < 0:
            return text
        return self._normalizer.normalize(text)


class _Matching(_Keeping):
    """A regular expression: cut after a character that no match has."""

    def __init__(self, normalizer: Replace) -> None:
        super().__init__(normalizer)
        self._members = literals.all_characters(normalizer.pattern)

    def _cut(self, text: str) -> int:
        others = np.flatnonzero(~self._members[code_points(text)])
        return int(others[-1]) + 1 if len(others) else -1


class Replacing(Stream):
    """Plain text is replaced: what may be the beginning of a match is kept back."""

    def __init__(self, pattern: str, content: str) -> None:
        self._pattern, self._content = pattern, content
        self._tail = ""

    @property
    def state(self) -> Hashable:
        """See :class:`Stream`."""
        return self._tail

    def feed(self, text: str) -> str:
        """See :class:`Stream`."""
        text = self._tail + text
        *done, rest = text.split(self._pattern)
        place = max(len(rest) - len(self._pattern) + 1, 0)
        while place < len(rest) and not self._pattern.startswith(rest[place:]):
            place += 1
        self._tail = rest[place:]
        self.kept = len(self._tail)
        return self._content.join([*done, rest[:place]])

    def finish(self) -> str:
        """See :class:`Stream`."""
        made, self._tail, self.kept = self._tail, "", 0
        return made


class _Stripping(Stream):
    def __init__(self, normalizer: Strip) -> None:
        self._left, self._right = normalizer.left, normalizer.right
        self._begun = False
        self._blanks: list[str] = []

    @property
    def state(self) -> Hashable:
        """See :class:`Stream`."""
        return self._begun, "".join(self._blanks)

    def feed(self, text: str) -> str:
        if self._left and not self._begun:
            text = text.lstrip(all_white_space())
        self._begun = self._begun or bool(text)
        if not self._right:
            return text
        made = text.rstrip(all_white_space())
        blanks = text[len(made) :]
        if made:
            made = "".join([*self._blanks, made])
            self._blanks, self.kept = [], 0
        self._blanks.append(blanks)
        self.kept += len(blanks)
        return made

    def finish(self) -> str:
        self._begun = False
        self._blanks, self.kept = [], 0
        return ""


class _Chain(Stream):
    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams

    @property
    def state(self) -> Hashable:
        """See :class:`Stream`."""
        return tuple(stream.state for stream in self._streams)

    def feed(self, text: str) -> str:
        for stream in self._streams:
            text = stream.feed(text)
        self.kept = sum(stream.kept for stream in self._streams)
        return text

    def finish(self) -> str:
        text = ""
        for stream in self._streams:
            text = stream.feed(text) + stream.finish()
        self.kept = 0
        return text


def stream_of(normalizer: Normalizer) -> Stream:
    """A stream that normalizes as a normalizer does."""
    if isinstance(normalizer, Sequence):
        return _Chain([stream_of(part) for part in normalizer.normalizers])
    if isinstance(normalizer, Lowercase | StripAccents):
        return _ByCharacter(normalizer)
    if isinstance(normalizer, Prepend):
        return _Prepending(normalizer.prefix)
    if isinstance(normalizer, Strip):
        return _Stripping(normalizer)
    if isinstance(normalizer, Replace):
        return _Matching(normalizer) if normalizer.is_regex else Replacing(normalizer.pattern, normalizer.content)
    return _Composing(normalizer)
