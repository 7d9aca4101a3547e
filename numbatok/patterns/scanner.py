"""Matchers to scanners: the table of one step of a split rule, which :mod:`numbatok.kernels.walk_automaton` runs.

A scanner is a matcher (:mod:`numbatok.patterns.matcher`) run over and over, in one table. A transition that ends a
match also begins the next one, and says where pieces begin. Where a match runs on past its last possible end and then
fails, the text since then must be read again. The scanner remembers the classes of up to ``depth`` such characters in
its state, so that it needs not: the transition says how many characters back pieces began. Longer *overruns* are read
again, from a position that the kernel keeps: the *anchor*.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.patterns.matcher import DEAD, MOST_STATES, Matcher, merge_alike, number_rows
from numbatok.patterns.rules import Split
from numbatok.patterns.syntax import shown

DEEPEST_MEMORY = 3  # characters; the emission masks of a table entry have one bit more
MOST_SCANNER_STATES = 1_024

# Kinds of pieces, before `invert`.
MATCH, GAP, SETTLED = range(3)  # SETTLED: whether a piece begins there was said already

# A table entry: bits 0..3 pieces that begin, 4..7 those of them that are dropped, 8..12 actions, 13..31 next row.
# Bit 3 of four is the character read, bit 2 the one before it, ...
DROPPED_SHIFT = 4
ANCHOR = 1 << 8  # remember the character `depth` characters back, and the state reached
BACK = 1 << 9  # a match ended at the anchor: read on from there
BACK_GAP = 1 << 10  # no match began at the anchor: it is one character of a gap, read on after it
MARK = 1 << 11  # a piece begins at the anchor as it was before this transition ...
MARK_DROPPED = 1 << 12  # ... and is dropped
ROW_SHIFT = 13
MOST_ENTRIES = 1 << (32 - ROW_SHIFT)

_BETWEEN, _SURE, _OVER, _OPEN, _FAR_OVER, _FAR_OPEN = range(6)
_State = tuple[int, int, int, tuple[int, ...]]  # kind of these, kind of the piece before, matcher state, characters


@dataclass(frozen=True)
class Scanner:
    """The table of one step.

    Attributes
    ----------
    entries : uint32[rows, classes + 2]; the last columns are the end of the text, and, for far states, what to do where
        it is known that the overrun fails
    after_match, after_gap : rows that stand between pieces
    first_far : row from which on the states are far: the last possible end of a match is more than ``depth`` behind
    depth : characters that a state remembers
    """

    entries: npt.NDArray[np.uint32]
    after_match: int
    after_gap: int
    first_far: int
    depth: int


def compile_scanner(matcher: Matcher, split: Split, columns: npt.NDArray[np.int64]) -> Scanner:
    """The table of one step, over joint classes of which ``columns`` gives the matcher's class."""
    for depth in range(DEEPEST_MEMORY, -1, -1):
        folder = _Folder(matcher, split, depth)
        if folder.run(MOST_SCANNER_STATES if depth else 4 * MOST_STATES):
            return folder.scanner(columns)
    raise VocabularyError(f"split pattern {shown(split.pattern)}: its automaton is too large")


class _Folder:
    """Makes a scanner's states, each from what it remembers.

    =============  =========================================================================================
    _BETWEEN       a piece of the kind has just ended, or the scan begins
    _SURE          in a match that will end
    _OVER          in a match that can end before the first of the remembered characters, or later, if at all
    _OPEN          in what may be a match; its characters are those remembered, and the piece before is of the kind
    _FAR_OVER      as _OVER and _OPEN, but the characters are more than are remembered
    _FAR_OPEN
    =============  =========================================================================================
    """

    def __init__(self, matcher: Matcher, split: Split, depth: int) -> None:
        self.next: list[list[int]] = matcher.next.tolist()
        self.ends: list[list[bool]] = matcher.ends.tolist()
        self.certain: list[bool] = matcher.certain.tolist()
        self.end = matcher.classes
        self.depth = depth
        self.cuts, self.dropped = cuts_of(split)
        self.numbers: dict[_State, int] = {}
        self.states: list[_State] = []
        self.rows: list[list[tuple[int, int]]] = []  # (flags, next state)

    def number(self, state: _State) -> int:
        """The number of a state, a new one if it has none."""
        number = self.numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def run(self, most: int) -> bool:
        """Make all states; False if there are more than ``most``."""
        self.number((_BETWEEN, MATCH, 0, ()))
        self.number((_BETWEEN, GAP, 0, ()))
        for state in self.states:  # grows meanwhile
            if len(self.states) > most:
                return False
            row = []
            for column in range(self.end + 1):
                target, flags = self.step(state, column)
                row.append((flags, self.number(target)))
            self.rows.append(row)
        return True

    def begins(self, before: int, kind: int, back: int) -> int:
        """Flags that say that a piece of a kind begins ``back`` characters back, after one of the kind ``before``."""
        if before == SETTLED or not self.cuts[before][kind]:
            return 0
        bit = 8 >> back
        return bit | bit << DROPPED_SHIFT if self.dropped[kind] else bit

    def marks(self, before: int, kind: int) -> int:
        """The same of the anchor."""
        if before == SETTLED or not self.cuts[before][kind]:
            return 0
        return MARK | MARK_DROPPED if self.dropped[kind] else MARK

    def over(self, state: int, read: tuple[int, ...]) -> tuple[_State, int]:
        """(state, flags) in a match that can end before the characters ``read``."""
        if len(read) > self.depth:
            return (_FAR_OVER, MATCH, state, ()), ANCHOR
        return (_OVER, MATCH, state, read), 0

    def open(self, before: int, state: int, read: tuple[int, ...]) -> tuple[_State, int]:
        """(state, flags) in what may be a match of the characters ``read``."""
        if len(read) > self.depth:
            return (_FAR_OPEN, before, state, ()), ANCHOR
        return (_OPEN, before, state, read), 0

    def replay(self, before: int, read: Sequence[int]) -> tuple[_State, int]:
        """(state, flags) after reading characters from between pieces on."""
        state: _State = (_BETWEEN, before, 0, ())
        flags = 0
        for back, column in zip(range(len(read) - 1, -1, -1), read, strict=True):
            state, found = self.step(state, column)
            begun = (found & 15) >> back | (found >> DROPPED_SHIFT & 15) >> back << DROPPED_SHIFT
            flags |= begun | (found & ~255)
        return state, flags

    def step(self, state: _State, column: int) -> tuple[_State, int]:
        """(next state, flags) of reading one character, or the end, whose next state means nothing."""
        kind, before, place, read = state
        if kind == _BETWEEN:
            return self.begin(before, column)
        target = self.next[place][column]
        if self.ends[place][column]:
            flags = 0
            if kind == _OPEN:
                flags = self.begins(before, MATCH, len(read))
            elif kind == _FAR_OPEN:
                flags = self.marks(before, MATCH)
            state, more = self.begin(MATCH, column) if target == DEAD else self.over(target, (column,))
            return state, flags | more
        if target == DEAD:
            if kind == _OVER:
                return self.replay(MATCH, (*read, column))
            if kind == _OPEN:
                state, flags = self.replay(GAP, (*read[1:], column))
                return state, flags | self.begins(before, GAP, len(read))
            if kind == _FAR_OVER:
                return (_BETWEEN, MATCH, 0, ()), self.failure(kind, before)
            return (_BETWEEN, GAP, 0, ()), self.failure(kind, before)
        if self.certain[target]:
            flags = 0
            if kind == _OPEN:
                flags = self.begins(before, MATCH, len(read))
            elif kind == _FAR_OPEN:
                flags = self.marks(before, MATCH)
            return (_SURE, MATCH, target, ()), flags
        if kind == _OVER:
            return self.over(target, (*read, column))
        if kind == _OPEN:
            return self.open(before, target, (*read, column))
        return (kind, before, target, ()), 0

    def begin(self, before: int, column: int) -> tuple[_State, int]:
        """(state, flags) of reading the first character after a piece of a kind."""
        if column == self.end:
            return (_BETWEEN, before, 0, ()), 0
        target = self.next[0][column]
        if target == DEAD:
            return (_BETWEEN, GAP, 0, ()), self.begins(before, GAP, 0)
        if self.certain[target]:
            return (_SURE, MATCH, target, ()), self.begins(before, MATCH, 0)
        flags = self.begins(before, MATCH, 0)
        if flags == self.begins(before, GAP, 0):
            before = SETTLED
        else:
            flags = 0
        state, more = self.open(before, target, (column,))
        return state, flags | more

    def scanner(self, columns: npt.NDArray[np.int64]) -> Scanner:
        """The table, with states that behave alike merged."""
        cells = np.array(self.rows, np.int64)
        flags, following = cells[:, :, 0], cells[:, :, 1]
        far = np.array([state[0] in (_FAR_OVER, _FAR_OPEN) for state in self.states])
        failing = np.array([self.failure(kind, before) for kind, before, _, _ in self.states])
        signature = np.concatenate([flags, failing[:, None], far[:, None]], axis=1)
        labels = np.arange(len(self.states), dtype=np.int64)
        if len(labels) <= MOST_SCANNER_STATES:
            labels = merge_alike(number_rows(signature), following)
        firsts = np.unique(labels, return_index=True)[1]
        order = np.argsort(far[firsts], kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        rows = firsts[order]
        width = len(columns) + 2
        picked = np.append(columns, self.end)
        table = np.zeros((len(rows), width), np.int64)
        table[:, :-1] = (flags[rows] | (places[labels[following[rows]]] * width) << ROW_SHIFT)[:, picked]
        table[:, -1] = failing[rows]
        if table.size > MOST_ENTRIES:
            raise VocabularyError(f"a split rule's automaton is too large: {table.size} entries")
        return Scanner(
            table.astype(np.uint32),
            int(places[labels[0]]) * width,
            int(places[labels[1]]) * width,
            int(len(rows) - far[rows].sum()) * width,
            self.depth,
        )

    def failure(self, kind: int, before: int) -> int:
        """What a far state's transition says where its overrun fails."""
        if kind == _FAR_OVER:
            return BACK
        return BACK_GAP | self.marks(before, GAP) if kind == _FAR_OPEN else 0


def cuts_of(split: Split) -> tuple[list[list[bool]], list[bool]]:
    """(whether a piece begins between two of the kinds, whether pieces of the kind are dropped), by MATCH and GAP.

    ``tokenizers`` says it of matches and gaps after their exchange by ``invert``; two gaps in sequence are one gap.
    """
    match, gap = (1, 0) if split.invert else (0, 1)
    cuts = np.ones((2, 2), np.bool_)  # by the kinds after the exchange
    if split.behavior == "merged_with_previous":
        cuts[GAP, MATCH] = False
    elif split.behavior == "merged_with_next":
        cuts[MATCH, GAP] = False
    elif split.behavior == "contiguous":
        cuts[MATCH, MATCH] = cuts[GAP, GAP] = False
    order = [match, gap]
    cuts = cuts[order][:, order]
    cuts[GAP, GAP] = False
    dropped = [split.behavior == "removed" and kind == MATCH for kind in order]
    return cuts.tolist(), dropped
