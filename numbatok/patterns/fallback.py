r"""Split rules that no automaton can run: through the package ``regex``, over the frozen classes.

The pattern is rewritten so that nothing in it depends on the Unicode of ``regex``: each class, and each letter under
``(?i)``, becomes an explicit set of characters. Look-behind, back-references, atomic groups and all else are left to
``regex``, which backtracks: its time has no bound, so a caller has to ask for it.
"""

import functools
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import regex

from numbatok.errors import VocabularyError
from numbatok.loading.byte_level import spell
from numbatok.patterns import charsets, classes, syntax, unicode
from numbatok.patterns.charsets import CharSet
from numbatok.patterns.rules import Dialect, Split, SplitRule, unspelled_steps
from numbatok.patterns.scanner import GAP, MATCH, cuts_of

_END = r"(?!.|\n)"


@dataclass(frozen=True)
class RegexRule:
    """A split rule run by ``regex``."""

    steps: tuple[tuple[Split, "regex.Pattern[str]"], ...]

    def cut(self, text: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """(starts, dropped): where each piece begins, in bytes of UTF-8, and whether it is dropped."""
        pieces = [(0, len(text), False)] if text else []
        unspelled = unspelled_steps(tuple(split for split, _ in self.steps))
        for number, (split, pattern) in enumerate(self.steps):
            if number == unspelled:  # from here on a character is a byte
                edges = [0, *accumulate(len(character.encode()) for character in text)]
                pieces = [(edges[begin], edges[end], dropped) for begin, end, dropped in pieces]
                text = spell(text.encode())
            refined: list[tuple[int, int, bool]] = []
            for begin, end, dropped in pieces:
                if dropped:
                    refined.append((begin, end, True))
                else:
                    parts = _cut_once(split, pattern, text[begin:end])
                    refined += [(begin + a, begin + b, gone) for a, b, gone in parts]
            pieces = refined
        dropped_ones = np.array([dropped for _, _, dropped in pieces], np.bool_)
        if unspelled < len(self.steps):
            return np.array([begin for begin, _, _ in pieces], np.int64), dropped_ones
        begins = np.cumsum([0, *(len(text[begin:end].encode()) for begin, end, _ in pieces)], dtype=np.int64)
        return begins[:-1], dropped_ones


@functools.lru_cache(maxsize=64)
def compile_with_regex(rule: SplitRule) -> RegexRule:
    """A split rule for ``regex``; :class:`VocabularyError` for a pattern that it does not take either."""
    return RegexRule(tuple((split, _compile(split)) for split in rule))


def _compile(split: Split) -> "regex.Pattern[str]":
    written = rewrite(split.pattern, split.dialect)
    try:
        return regex.compile(written, regex.VERSION0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise VocabularyError(f"split pattern {syntax.shown(split.pattern)}: {error}") from error


def _matches(pattern: "regex.Pattern[str]", text: str) -> list[tuple[int, int]]:
    """Matches from left to right; as in the references none is empty where the one before ended."""
    found: list[tuple[int, int]] = []
    position = 0
    while position <= len(text):
        match = pattern.search(text, position)
        if match is None:
            break
        begin, end = match.span()
        position = max(end, begin + 1)
        if begin < end or not found or found[-1][1] != end:
            found.append((begin, end))
    return found


def _cut_once(split: Split, pattern: "regex.Pattern[str]", text: str) -> list[tuple[int, int, bool]]:
    """The pieces (begin, end, dropped) of one text by one step."""
    spans: list[tuple[int, int, int]] = []
    last = 0
    for begin, end in _matches(pattern, text):
        if begin > last:
            spans.append((last, begin, GAP))
        spans.append((begin, end, MATCH))
        last = end
    if last < len(text):
        spans.append((last, len(text), GAP))
    cuts, dropped = cuts_of(split)
    edges = [0]
    edges += [left[1] for left, right in pairwise(spans) if cuts[left[2]][right[2]]]
    kinds = {begin: kind for begin, end, kind in spans if begin < end}
    edges = sorted({edge for edge in edges if edge < len(text)})
    return [(a, b, dropped[kinds[a]]) for a, b in pairwise([*edges, len(text)])]


def rewrite(pattern: str, dialect: Dialect) -> str:
    """A pattern in the words of ``regex``, its classes explicit."""
    return _Rewriter(pattern, dialect).run()


def _explicit(chars: CharSet) -> str:
    """A set as a bracketed class of ``regex``."""
    edges = chars[chars < unicode.CODE_POINTS].tolist()
    if len(edges) % 2:
        edges.append(unicode.CODE_POINTS)
    if not edges:
        return r"(?!)"
    ranges = zip(edges[::2], edges[1::2], strict=True)
    return "[" + "".join(f"\\U{first:08X}-\\U{end - 1:08X}" for first, end in ranges) + "]"


class _Rewriter(syntax.Parser):
    """Copies a pattern, atom by atom, and rewrites what means something else to ``regex``."""

    def run(self) -> str:
        written: list[str] = []
        # Of each open group: flags outside of it, where in `written` it begins, groups to close with it.
        groups: list[tuple[bool, bool, int, int]] = []
        extra = 0  # groups opened for "(?i)" in Oniguruma, to be closed with this one
        atom = 0  # where in `written` the last atom begins
        while self.place < len(self.pattern):
            begin = self.place
            bounds = self._bounds()
            if bounds is not None:
                self._repeat(written, atom, begin, bounds)
                continue
            sign = self._next("an expression")
            if sign == "(":
                outside = self.fold, self.dot_all
                opening = self._opening(begin)
                if opening is None:  # flags to the end of the group
                    if self.dialect == "oniguruma":
                        written.append("(?:")
                        extra += 1
                    continue
                if opening:
                    groups.append((*outside, len(written), extra))
                    extra = 0
                    written.append(opening)
            elif sign == ")":
                if not groups:
                    self._fail("a ')' without its '('", begin)
                written.append(")" * (extra + 1))
                self.fold, self.dot_all, atom, extra = groups.pop()
            elif sign == "|":
                written.append("|")
            else:
                atom = len(written)
                written.append(self._one(sign, begin))
        return "".join(written) + ")" * extra

    def _repeat(self, written: list[str], atom: int, begin: int, bounds: tuple[int, int | None]) -> None:
        counted = self.pattern[begin] == "{"
        low, high = bounds
        sign = self.pattern[begin] if not counted else f"{{{low},{'' if high is None else high}}}"
        suffix = "?" if self._take("?") else "+" if self._take("+") else ""
        optional = suffix == "?" and low == high
        if counted and self.dialect == "oniguruma" and (suffix == "+" or optional):
            written[atom:] = ["(?:", *written[atom:], sign, ")", suffix]
        else:
            written.append(sign + suffix)

    def _opening(self, begin: int) -> str | None:
        """What opens a group; empty for a comment, None for flags that last to the end of the group around."""
        if not self._take("?"):
            return "("
        for sign in (":", ">", "=", "!", "<=", "<!"):
            if self._take(sign):
                return "(?" + sign
        if self._take("#"):
            self.place = self.pattern.find(")", self.place) + 1 or len(self.pattern)
            return ""
        if self._take("P<") or self._take("<"):
            name, _, _ = self.pattern[self.place :].partition(">")
            self.place += len(name) + 1
            return f"(?P<{name}>"
        return None if self._flags_end(begin) == ")" else "(?:"

    def _one(self, sign: str, begin: int) -> str:
        """An atom other than a group."""
        if sign == "[":
            return _explicit(self._class(begin))
        if sign == ".":
            return _explicit(charsets.EVERYTHING if self.dot_all else syntax.ANY_BUT_NEWLINE)
        if sign == "^":
            return r"(?:\A|(?<=\n))" if self.dialect == "oniguruma" else r"\A"
        if sign == "$":
            return rf"(?:(?=\n)|{_END})" if self.dialect == "oniguruma" else _END
        if sign != "\\":
            return _explicit(self._literal(ord(sign)).chars)
        if self._take("z"):
            return _END
        if self._take("Z"):
            return rf"(?=\n?{_END})"
        if self._take("A"):
            return r"\A"
        if self._peek("b") or self._peek("B"):
            word = _explicit(classes.word_characters(self.dialect))
            changes = rf"(?<={word})(?!{word})|(?<!{word})(?={word})"
            return f"(?:{changes})" if self._next("b") == "b" else f"(?!{changes})"
        if self._take("k<"):
            name, _, _ = self.pattern[self.place :].partition(">")
            self.place += len(name) + 1
            return f"(?P={name})"
        if self.place < len(self.pattern) and self.pattern[self.place] in "123456789":
            if self.fold:
                self._fail("a back-reference under (?i) is not supported", begin)
            return "(?:\\" + self._next("a digit") + ")"
        chars = self._escape(begin)
        if isinstance(chars, int):
            return _explicit(self._literal(chars).chars)
        return _explicit(classes.fold_case(chars) if self.fold and self.dialect == "rust" else chars)
