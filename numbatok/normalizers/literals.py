r"""Regular expressions that :class:`Replace` takes: alternatives of characters and classes, searched in linear time.

An alternative is a row of items: a character, an escaped one, ``.``, ``\s``, ``\d``, ``\p{L}`` and the like over the
frozen classes, or a set of those in brackets. An item may be repeated a fixed number of times, ``{3}``, and the last
one of an alternative any number, ``+``, ``*``, ``?``, ``{2,}``, ``{2,5}``, as long as the alternative matches
something. Nothing of this ever goes back over the text, so no text takes more than linear time; and all of it means the
same to Oniguruma, in which ``tokenizers`` runs such patterns, as to Python. All else is refused.
"""

import functools
import re
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.patterns.unicode import CATEGORIES, CODE_POINTS, in_categories, white_space

Members = npt.NDArray[np.bool_]  # of a class: bool[0x110000]

_LARGEST_COUNT = 100
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_REPEAT = re.compile(r"[+*?]|\{(\d{0,4})(,?)(\d{0,4})\}", re.ASCII)


def _members_of(characters: str) -> Members:
    members = np.zeros(CODE_POINTS, np.bool_)
    members[[ord(character) for character in characters]] = True
    return members


def _class_text(members: Members) -> str:
    """A class of Python's ``re`` with these members."""
    edges = np.flatnonzero(np.diff(members, prepend=False, append=False)).tolist()
    ranges = zip(edges[::2], edges[1::2], strict=True)
    return "[" + "".join(f"\\U{first:08x}-\\U{end - 1:08x}" for first, end in ranges) + "]"


class _Parser:
    """One pattern, read from left to right into a pattern for Python's ``re``."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.place = 0
        self.firsts = np.zeros(CODE_POINTS, np.bool_)  # characters that a match can begin with
        self.members = np.zeros(CODE_POINTS, np.bool_)  # characters that a match can have
        self.run: Members | None = None  # of what a match is a whole run, if that is all
        self.translated = "|".join(self._alternatives())

    def _refuse(self, reason: str) -> NoReturn:
        raise VocabularyError(
            f"normalizer Replace: the regular expression {self.pattern!r} is not supported: {reason} "
            f"(at character {self.place})"
        )

    def _peek(self) -> str:
        return self.pattern[self.place : self.place + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            self._refuse("it ends too early")
        self.place += 1
        return character

    def _alternatives(self) -> list[str]:
        alternatives = [self._alternative()]
        while self._peek() == "|":
            self.place += 1
            alternatives.append(self._alternative())
        return alternatives

    def _alternative(self) -> str:
        parts: list[str] = []
        least = 0
        while self._peek() not in ("", "|"):
            members = self._item()
            if not members.any():
                self._refuse("a class has no members")
            if not parts:
                self.firsts |= members
            self.members |= members
            fewest, repeat = self._repeat()
            least += fewest
            parts.append(_class_text(members) + repeat)
            if repeat == "+" and len(parts) == 1 and self.place == len(self.pattern) and "|" not in self.pattern:
                self.run = members
        if least == 0:
            self._refuse("an alternative may match nothing")
        return "".join(parts)

    def _repeat(self) -> tuple[int, str]:
        """How often the item before is repeated: at least, and as ``re`` has it."""
        found = _REPEAT.match(self.pattern, self.place)
        if found is None:
            return 1, ""
        self.place = found.end()
        if self._peek() and self._peek() in "+*?{":
            self._refuse("a repeat of a repeat, or a lazy or possessive one")
        if found[1] is None:
            fewest, fixed = int(found[0] == "+"), False
        else:
            if not found[1] and not found[3]:
                self._refuse("a repeat without a number")
            fewest, most = int(found[1] or 0), int(found[3] or 0)
            fixed = not found[2]
            if max(fewest, most) > _LARGEST_COUNT:
                self._refuse(f"a repeat of more than {_LARGEST_COUNT}")
            if found[3] and most < max(fewest, 1):
                self._refuse("a repeat whose numbers are in the wrong order")
        if fixed and fewest == 0:
            self._refuse("a repeat of zero times")
        if not fixed and self._peek() not in ("", "|"):
            self._refuse("only the last item of an alternative may be repeated a variable number of times")
        return fewest, found[0]

    def _item(self) -> Members:
        character = self._take()
        if character == "[":
            return self._set()
        if character == "\\":
            return self._escape()
        if character == ".":
            return ~_members_of("\n")
        if character in "()^$*+?{}]":
            self._refuse(f"{character!r} at this place")
        return _members_of(character)

    def _escape(self) -> Members:
        """What stands after a backslash."""
        letter = self._take()
        if letter in _CONTROLS:
            return _members_of(_CONTROLS[letter])
        if letter in "sS":
            return white_space() ^ np.bool_(letter == "S")
        if letter in "dD":
            return in_categories("Nd") ^ np.bool_(letter == "D")
        if letter in "pP":
            found = re.compile(r"\{([A-Z][a-z]?)\}").match(self.pattern, self.place)
            if found is None or not any(name.startswith(found[1]) for name in CATEGORIES):
                self._refuse(f"\\{letter} of what is no general category")
            self.place = found.end()
            return in_categories(found[1]) ^ np.bool_(letter == "P")
        if letter.isascii() and not letter.isalnum() and letter.isprintable():
            return _members_of(letter)
        self._refuse(f"the escape \\{letter}")

    def _set(self) -> Members:
        """What stands after ``[``, up to and with ``]``."""
        members = np.zeros(CODE_POINTS, np.bool_)
        negated = self._peek() == "^"
        self.place += negated
        empty = True
        while self._peek() != "]" or empty:
            member = self._set_member()
            if self._peek() == "-" and self.pattern[self.place + 1 : self.place + 2] not in ("", "]"):
                self.place += 1
                last = self._set_member()
                if np.count_nonzero(member) != 1 or np.count_nonzero(last) != 1:
                    self._refuse("a range between classes")
                first_code, last_code = int(member.argmax()), int(last.argmax())
                if first_code > last_code:
                    self._refuse("a range whose ends are in the wrong order")
                member[first_code : last_code + 1] = True
            members |= member
            empty = False
        self.place += 1
        return members ^ negated

    def _set_member(self) -> Members:
        character = self._take()
        if character == "\\":
            return self._escape()
        if character in "[]" or (character == "&" and self._peek() == "&"):
            self._refuse(f"{character!r} in a set")
        return _members_of(character)


@functools.lru_cache(maxsize=32)
def _parsed(pattern: str) -> _Parser:
    return _Parser(pattern)


@functools.lru_cache(maxsize=32)
def compiled(pattern: str) -> "re.Pattern[str]":
    """The pattern over the frozen classes; VocabularyError names what is not supported."""
    return re.compile(_parsed(pattern).translated)


def run_of(pattern: str) -> Members | None:
    """bool[0x110000]: the characters whose runs are the pattern's matches, or None where these are something else."""
    return _parsed(pattern).run


def all_characters(pattern: str) -> Members:
    """bool[0x110000]: the characters that a match of the pattern can have anywhere."""
    return _parsed(pattern).members


def first_characters(pattern: str) -> Members:
    """bool[0x110000]: the characters that a match of the pattern can begin with."""
    return _parsed(pattern).firsts
