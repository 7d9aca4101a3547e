r"""Regular expressions to syntax trees, in the two dialects of the references.

tiktoken's patterns are read by the Rust crate fancy-regex (``"rust"``), those of a ``tokenizer.json`` by Oniguruma
(``"oniguruma"``). They differ in corners: ``\p{N}{1,3}+`` is possessive in the one and a repeat of groups of up to
three in the other; ``$`` is the end of the text or of a line; ``\w`` and ``(?i:ss)`` match other characters.

What this module does not know, or an automaton can't do exactly, is a :class:`VocabularyError` that names it, its
place and the pattern.
"""

import re
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from numbatok.errors import VocabularyError
from numbatok.patterns import charsets, unicode
from numbatok.patterns.charsets import CharSet
from numbatok.patterns.classes import (
    HEX,
    category,
    fold_case,
    long_folds,
    posix_class,
    property_set,
    white_space,
    word_characters,
)
from numbatok.patterns.rules import Dialect

DEEPEST = 60  # groups and classes inside one another
LONGEST_SHOWN = 200  # characters of a pattern in an error


@dataclass(frozen=True)
class Chars:
    """One character of a set; ``folded`` when it was written under ``(?i)``."""

    chars: CharSet
    folded: bool = False


@dataclass(frozen=True)
class Sequence:
    """One node after the other; none matches the empty text."""

    items: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    """The first branch with which all the rest matches too."""

    branches: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """``least`` to ``most`` times (None: without bound): as many as can be, as few, or as many with no way back."""

    body: "Node"
    least: int
    most: int | None
    kind: Literal["greedy", "lazy", "possessive"]


@dataclass(frozen=True)
class Atomic:
    """The first way in which the body matches, with no way back into it."""

    body: "Node"


@dataclass(frozen=True)
class Look:
    """The empty text before a character of a set, or, with ``at_end``, before the end of the text."""

    chars: CharSet
    at_end: bool


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Atomic | Look

_NEWLINE = charsets.from_ranges([(10, 10)])
ANY_BUT_NEWLINE = charsets.complement(_NEWLINE)
_COUNTED = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_CONTROL_ESCAPES = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27}
_REFUSED_ESCAPES = {
    "b": "a word boundary looks behind",
    "B": "a word boundary looks behind",
    "A": "the start of the text is not known where a long text is cut",
    "G": "the start of the match is not known where a long text is cut",
    "K": "a match that begins later than it was found",
    "Z": "an end before the last line feed looks two characters ahead",
    "R": "a line break of one or two characters; write (?>\\r\\n|[\\n-\\r\\u0085\\u2028\\u2029])",
    "X": "grapheme clusters",
}


def shown(pattern: str) -> str:
    """A pattern as an error shows it."""
    return repr(pattern if len(pattern) <= LONGEST_SHOWN else pattern[:LONGEST_SHOWN] + "…")


def parse(pattern: str, dialect: Dialect) -> Node:
    """The syntax tree of a pattern; :class:`VocabularyError` for what can't be read or is not supported."""
    return Parser(pattern, dialect).parse()


class Parser:
    """A recursive descent over one pattern; its depth is bounded by DEEPEST."""

    def __init__(self, pattern: str, dialect: Dialect) -> None:
        self.pattern = pattern
        self.dialect = dialect
        self.place = 0
        self.depth = 0
        self.fold = False
        self.dot_all = False

    def parse(self) -> Node:
        """The syntax tree of the whole pattern."""
        node = self._choice()
        if self.place < len(self.pattern):
            self._fail("a ')' without its '('")
        return node

    def _fail(self, what: str, place: int | None = None) -> NoReturn:
        at = self.place if place is None else place
        raise VocabularyError(f"split pattern {shown(self.pattern)}: {what}, at character {at}")

    def _peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.place)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self.place += len(text)
            return True
        return False

    def _next(self, wanted: str) -> str:
        if self.place >= len(self.pattern):
            self._fail(f"the pattern ends where {wanted} is wanted")
        self.place += 1
        return self.pattern[self.place - 1]

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self._fail(f"groups or classes are nested deeper than {DEEPEST}")

    # --- groups and repeats ---

    def _choice(self) -> Node:
        """Branches up to the end of the pattern or a ``)``, which is left there."""
        self._enter()
        flags = self.fold, self.dot_all
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        self.fold, self.dot_all = flags
        self.depth -= 1
        if len(branches) == 1:
            return branches[0]
        if all(isinstance(branch, Chars) for branch in branches):
            sets = [branch.chars for branch in branches if isinstance(branch, Chars)]
            return Chars(charsets.union(*sets), any(isinstance(b, Chars) and b.folded for b in branches))
        return Choice(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self.place < len(self.pattern) and self.pattern[self.place] not in "|)":
            begin = self.place
            item = self._atom()
            if item is None:
                continue
            item = self._repeats(item, begin)
            if self.dialect == "oniguruma":
                self._check_long_folds(items[-1] if items else None, item, begin)
            if isinstance(item, Sequence):
                items += item.items
            else:
                items.append(item)
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _check_long_folds(self, before: Node | None, item: Node, place: int) -> None:
        """Refuse what Oniguruma matches by folding one character to several, as ``(?i:ss)`` matches ß."""
        if not (isinstance(item, Chars) and item.folded):
            return
        characters, pairs = long_folds()
        if len(item.chars) % 2 == 0 and charsets.contains(item.chars, sorted(characters)).any():
            self._fail("a character under (?i) that Oniguruma folds to several is not supported", place)
        if isinstance(before, Chars) and before.folded:
            for pair in pairs:
                if charsets.contains(before.chars, ord(pair[0])) and charsets.contains(item.chars, ord(pair[1])):
                    self._fail(f"{pair!r} under (?i), which Oniguruma also finds in one character", place)

    def _repeats(self, body: Node, begin: int) -> Node:
        """The repeats that follow an atom."""
        repeated = False
        while True:
            place = self.place
            bounds = self._bounds()
            if bounds is None:
                return body
            if repeated:
                self._fail("a repeat of a repeat: put the inner one into a group", place)
            if isinstance(body, Look):
                self._fail("a repeat of what matches no character", begin)
            least, most = bounds
            counted = self.pattern[place] == "{"
            kind: Literal["greedy", "lazy", "possessive"] = "greedy"
            if self._peek("?") and counted and least == most and self.dialect == "oniguruma":
                self._take("?")
                body = Repeat(Repeat(body, least, most, "greedy"), 0, 1, "greedy")
            elif self._take("?"):
                body = Repeat(body, least, most, "lazy")
            elif self._peek("+") and counted and self.dialect == "oniguruma":
                self._take("+")
                body = Repeat(Repeat(body, least, most, "greedy"), 1, None, "greedy")
            else:
                if self._take("+"):
                    kind = "possessive"
                body = Repeat(body, least, most, kind)
            repeated = True

    def _bounds(self) -> tuple[int, int | None] | None:
        """The bounds of a repeat if one stands here; a ``{`` that begins none is a literal."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        found = _COUNTED.match(self.pattern, self.place)
        if found is None:
            return None
        least, comma, most = found.groups()
        if not (least or most):
            return None
        if max(len(least), len(most)) > 6:
            self._fail(f"a repeat of {found[0][:LONGEST_SHOWN]} is too large")
        low = int(least or "0")
        high = int(most) if most else None if comma else low
        if high is not None and high < low:
            self._fail(f"the repeat {found[0]} has its bounds in the wrong order")
        self.place = found.end()
        return low, high

    def _atom(self) -> Node | None:
        """The next node; None for what sets flags or is a comment."""
        begin = self.place
        sign = self._next("an expression")
        if sign == "(":
            return self._group(begin)
        if sign == "[":
            return Chars(self._class(begin), self.fold)
        if sign == ".":
            return Chars(charsets.EVERYTHING if self.dot_all else ANY_BUT_NEWLINE)
        if sign == "$":
            return Look(_NEWLINE if self.dialect == "oniguruma" else charsets.EMPTY, True)
        if sign == "^":
            self._fail("'^' looks behind, which is not supported", begin)
        if sign in "*+?":
            self._fail(f"'{sign}' repeats nothing", begin)
        if sign == "\\":
            if self._peek("z"):
                self.place += 1
                return Look(charsets.EMPTY, True)
            chars = self._escape(begin)
            if isinstance(chars, int):
                return self._literal(chars)
            return Chars(fold_case(chars) if self.fold and self.dialect == "rust" else chars)
        return self._literal(ord(sign))

    def _literal(self, point: int) -> Chars:
        chars = charsets.from_ranges([(point, point)])
        return Chars(fold_case(chars), True) if self.fold else Chars(chars)

    def _group(self, begin: int) -> Node | None:
        if not self._take("?"):
            if self._peek("*"):
                self._fail("a '(*' verb is not supported", begin)
            return self._close(self._choice(), begin)
        if self._take("#"):
            end = self.pattern.find(")", self.place)
            if end < 0:
                self._fail("a comment without its ')'", begin)
            self.place = end + 1
            return None
        if self._take(":"):
            return self._close(self._choice(), begin)
        if self._take(">"):
            return Atomic(self._close(self._choice(), begin))
        if self._peek("<=") or self._peek("<!"):
            self._fail("look-behind is not supported", begin)
        if self._take("="):
            return self._look(begin, False)
        if self._take("!"):
            return self._look(begin, True)
        if self._take("P<") or self._take("<"):
            end = self.pattern.find(">", self.place)
            if end < 0:
                self._fail("the name of a group without its '>'", begin)
            self.place = end + 1
            return self._close(self._choice(), begin)
        return self._flags(begin)

    def _close(self, node: Node, begin: int) -> Node:
        if not self._take(")"):
            self._fail("a '(' without its ')'", begin)
        return node

    def _flags(self, begin: int) -> Node | None:
        """``(?i)`` to the end of the group, or ``(?i:…)``."""
        before = self.fold, self.dot_all
        end = self._flags_end(begin)
        if end == ")" and self.dialect == "rust":
            return None
        node = self._choice()  # in Oniguruma, even a '|' after '(?i)' stays within its reach
        self.fold, self.dot_all = before
        return node if end == ")" else self._close(node, begin)

    def _flags_end(self, begin: int) -> str:
        """Set the flags that stand here; returns the ``:`` or ``)`` after them."""
        dot_all = "m" if self.dialect == "oniguruma" else "s"
        on = True
        while True:
            flag = self._next("a flag")
            if flag == "-" and on:
                on = False
            elif flag == "i":
                self.fold = on
            elif flag == dot_all:
                self.dot_all = on
            elif flag in ":)":
                return flag
            elif flag != "u" or not on or self.dialect == "oniguruma":
                self._fail(f"the group '(?{flag}' is not supported", begin)

    def _look(self, begin: int, negative: bool) -> Node:
        """Look-ahead at one character or the end."""
        node = self._close(self._choice(), begin)
        found = _one_ahead(node)
        if found is None:
            self._fail("look-ahead at anything but one character or the end is not supported", begin)
        chars, at_end = found
        return Look(charsets.complement(chars), not at_end) if negative else Look(chars, at_end)

    # --- characters ---

    def _escape(self, begin: int, in_class: bool = False) -> int | CharSet:
        """What follows a backslash: a code point or a set."""
        sign = self._next("what a backslash escapes")
        if sign in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[sign]
        if sign in "xuU":
            return self._code_point(sign, begin)
        if sign in "pP" and (self.dialect == "rust" or self._peek("{")):
            return self._property(sign, begin)
        if sign in "sSdDwWhH":
            chars = self._shorthand(sign.lower(), in_class)
            return chars if sign.islower() else charsets.complement(chars)
        if sign.isascii() and sign.isdigit():
            self._fail(f"'\\{sign}', a back-reference or an octal number, is not supported", begin)
        if sign in _REFUSED_ESCAPES:
            self._fail(f"'\\{sign}' is not supported: {_REFUSED_ESCAPES[sign]}", begin)
        if sign.isascii() and sign.isalnum() and sign not in "pP":
            self._fail(f"the escape '\\{sign}' is not known", begin)
        return ord(sign)

    def _shorthand(self, sign: str, in_class: bool) -> CharSet:
        if sign == "s":
            return white_space()
        if sign == "d":
            return category("Nd")
        return HEX if sign == "h" else word_characters(self.dialect, in_class)

    def _code_point(self, sign: str, begin: int) -> int:
        braces = self._take("{")
        if braces:
            end = self.pattern.find("}", self.place)
            digits = self.pattern[self.place : end] if end >= 0 else ""
            self.place = end + 1
        else:
            width = {"x": 2, "u": 4, "U": 8}[sign]
            digits = self.pattern[self.place : self.place + width]
            self.place += width
            if len(digits) < width:
                digits = ""
        if not 0 < len(digits) <= 8 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            self._fail(f"'\\{sign}' wants hexadecimal digits", begin)
        point = int(digits, 16)
        if point >= unicode.CODE_POINTS or 0xD800 <= point < 0xE000:
            self._fail(f"'\\{sign}' names U+{point:04X}, which is no character", begin)
        if sign == "x" and not braces and point >= 0x80 and self.dialect == "oniguruma":
            self._fail("'\\x' of a byte above 7F is not a character in Oniguruma: write \\x{…}", begin)
        return point

    def _property(self, sign: str, begin: int) -> CharSet:
        if self._take("{"):
            end = self.pattern.find("}", self.place)
            if end < 0:
                self._fail(f"'\\{sign}{{' without its '}}'", begin)
            name = self.pattern[self.place : end]
            self.place = end + 1
        else:
            name = self._next("the name of a category")
        negative = name.startswith("^")
        chars = property_set(name.removeprefix("^"), self.dialect)
        if chars is None:
            self._fail(f"the property {shown(name)} is not known", begin)
        return charsets.complement(chars) if negative != (sign == "P") else chars

    def _class(self, begin: int) -> CharSet:
        """A bracketed class, after its ``[``: unions, combined from left to right by ``&&`` and, in Rust, ``--``."""
        self._enter()
        negative = self._take("^")
        result: CharSet | None = None
        operator = ""
        first = True
        while True:
            part = self._class_items(begin, first)
            first = False
            if result is None:
                result = part
            elif operator == "&&":
                result = charsets.intersection(result, part)
            elif operator == "--":
                result = charsets.intersection(result, charsets.complement(part))
            else:
                both = charsets.intersection(result, part)
                result = charsets.intersection(charsets.union(result, part), charsets.complement(both))
            if self._take("]"):
                break
            operator = self.pattern[self.place : self.place + 2]
            self.place += 2
        self.depth -= 1
        return charsets.complement(result) if negative else result

    def _at_operator(self) -> bool:
        return self._peek("&&") or (self.dialect == "rust" and (self._peek("--") or self._peek("~~")))

    def _class_items(self, begin: int, first: bool) -> CharSet:
        """The union of items up to an operator or the ``]``, which are left there."""
        sets: list[CharSet] = []
        ranges: list[tuple[int, int]] = []
        while True:
            if self.place >= len(self.pattern):
                self._fail("a '[' without its ']'", begin)
            if self._peek("]") and not first:
                break
            if self._at_operator() and not first:
                break
            first = False
            place = self.place
            item = self._class_item(place)
            if self._peek("-") and not self._peek("-]") and not self._at_operator():
                self.place += 1
                last = self._class_item(self.place)
                if not isinstance(item, int) or not isinstance(last, int):
                    self._fail("a class is no end of a range", place)
                if last < item:
                    self._fail(f"the range {self.pattern[place : self.place]!r} goes backwards", place)
                ranges.append((item, last))
            elif isinstance(item, int):
                ranges.append((item, item))
            else:
                sets.append(item)
        chars = charsets.union(charsets.from_ranges(ranges), *sets)
        return fold_case(chars) if self.fold else chars

    def _class_item(self, begin: int) -> int | CharSet:
        """One character, or a set."""
        sign = self._next("a ']'")
        if sign == "\\":
            return self._escape(begin, in_class=True)
        if sign != "[":
            return ord(sign)
        if self._take(":"):
            end = self.pattern.find(":]", self.place)
            name = self.pattern[self.place : max(end, self.place)]
            chars = posix_class(name.removeprefix("^"), self.dialect)
            if chars is None:
                self._fail(f"the class [:{name[:20]}:] is not known", begin)
            self.place = end + 2
            return charsets.complement(chars) if name.startswith("^") else chars
        return self._class(begin)


def _one_ahead(node: Node) -> tuple[CharSet, bool] | None:
    """(characters, whether the end counts) of look-ahead that one character decides; None for another."""
    if isinstance(node, Chars):
        return node.chars, False
    if isinstance(node, Look):
        return node.chars, node.at_end
    if isinstance(node, Choice):
        found = [_one_ahead(branch) for branch in node.branches]
        if all(found):
            known = [one for one in found if one is not None]
            return charsets.union(*(chars for chars, _ in known)), any(at_end for _, at_end in known)
    return None
