"""Matchers to scanners: the table of one or more steps of a split rule, run by :mod:`numbatok.kernels.walk_automaton`.

A scanner is a matcher (:mod:`numbatok.patterns.matcher`) run over and over. A transition that ends a match also begins
the next one, and says where pieces begin. Where a match runs on past its last possible end and then fails, the text
since then is to be read again. The scanner remembers the classes of up to ``depth`` such characters in its state, so
that it needs not: the transition says how many characters back pieces began.

A longer *overrun* is supposed to succeed. The kernel notes the transition with which it gets too long, the *fork*. If
it fails after all, the kernel takes back what it marked since then, and goes on after the character of the fork in the
state that would have been reached there without the overrun. Rows of such states are *far*.

Steps in sequence run side by side in one table: what one has decided about a character, whether a piece begins there
and is dropped, the next one reads along with the character. So a rule of six steps takes hardly longer than one of one:
English in the steps of DeepSeek's first models was walked at 31 MB/s one step after the other, and is at 620.

A *meeting* is a place from which a fresh walk goes on alike: a start of the first step, or one that leaves all steps in
the state in which a fresh walk would be.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.patterns.matcher import DEAD, MOST_STATES, Matcher, merge_alike, number_rows
from numbatok.patterns.rules import Split
from numbatok.patterns.syntax import shown

BACK_BITS = 10
FURTHEST_BACK = BACK_BITS - 1  # characters before the one read of which an entry can say that pieces begin there
DEPTHS = (FURTHEST_BACK, 3, 2, 1, 0)  # characters that a step remembers: the most with which there are few states
MOST_SCANNER_STATES = 1_024
MOST_ENTRIES = 1 << 20

# What is known of a character: a piece begins there or none does; it is dropped.
NO_START, START, DROPPED_START = range(3)
# Kinds of pieces, before `invert`. FIRST: nothing was before; SETTLED: whether a piece begins there was said already.
MATCH, GAP, FIRST, SETTLED = range(4)

# A table entry has two words, of which the second is the next row. Of the first, bits 0..9 are pieces that begin,
# 10..19 those of them that are dropped, 20..29 meetings; bit 9 of ten is the character read, bit 8 the one before, ...
FORK = 1 << 30  # an overrun is taken to succeed: note the character and the row reached
FAIL = 1 << 31  # it fails: read on after the fork, by the entry in the last column of the row that it reached

_MEETINGS = (1 << BACK_BITS) - 1 << 2 * BACK_BITS

_BETWEEN, _SURE, _OVER, _OPEN, _FAR, _DROPPING = range(6)
#: Kind of these, kind of the piece before, matcher state, characters remembered.
_State = tuple[int, int, int, tuple[int, ...]]
_DROPPING_STATE: _State = (_DROPPING, MATCH, 0, ())
#: What may be after reading a character: states, and what is known of the characters that were not yet decided. Each
#: but the last supposes that an overrun succeeds, and holds unless that fails.
_Futures = list[tuple[_State, tuple[int, ...]]]


@dataclass(frozen=True)
class Scanner:
    """The table of steps.

    Attributes
    ----------
    flags, following : uint32 and int64, (rows, columns): the first words of the entries, and the rows that follow. The
        last two columns are the end of the text, and, for rows that a fork reaches, the entry to go on with if it
        fails. What follows the end tells the kind of a row: far rows of which the last column alone differs are of one
        kind, if no far row of another follows them; each other row is of its own
    columns : int64[3, joint classes]: the column of a class where no piece, one, or a dropped one begins by the steps
        before
    first_far : row from which on an overrun is supposed to succeed
    """

    flags: npt.NDArray[np.uint32]
    following: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    first_far: int


def compile_scanner(
    matchers: Sequence[Matcher],
    splits: Sequence[Split],
    columns: npt.NDArray[np.int64],
    decided_before: Sequence[int],
    *,
    tells_meetings: bool = False,
) -> Scanner | None:
    """The table of steps over joint classes, whose classes for each matcher are the rows of ``columns``.

    ``decided_before`` is what the steps before may say of a character; entries name meetings if ``tells_meetings``.
    None for several steps that take too many states, or that overrun at the same time.
    """
    for depth in DEPTHS:
        steps = [_Step(matcher, split, depth) for matcher, split in zip(matchers, splits, strict=True)]
        builder = _Builder(steps, columns, decided_before, tells_meetings)
        if builder.run(MOST_SCANNER_STATES if depth or len(steps) > 1 else 4 * MOST_STATES):
            return builder.scanner()
    if len(splits) > 1:
        return None
    raise VocabularyError(f"split pattern {shown(splits[0].pattern)}: its automaton is too large")


class _Step:
    """One step, character by character, each state made from what it remembers.

    =============  =========================================================================================
    _BETWEEN       a piece of the kind has just ended, or the scan begins
    _SURE          in a match that will end
    _OVER          in a match that can end before the first of the remembered characters, or later, if at all
    _OPEN          in what may be a match; its characters are those remembered, and the piece before is of the kind
    _FAR           as _OVER or _OPEN, but the characters were more than are remembered, and it is supposed to end
    _DROPPING      in a piece that an earlier step drops
    =============  =========================================================================================
    """

    def __init__(self, matcher: Matcher, split: Split, depth: int) -> None:
        self.next: list[list[int]] = matcher.next.tolist()
        self.ends: list[list[bool]] = matcher.ends.tolist()
        self.certain: list[bool] = matcher.certain.tolist()
        self.end = matcher.classes
        self.depth = depth
        self.cuts, self.dropped = cuts_of(split)
        self.read = functools.cache(self._read)

    def _read(self, state: _State, column: int, decided: int) -> _Futures:
        """What may be after a character of which the steps before have decided this; nothing if an overrun fails."""
        if decided == NO_START:
            return [(state, (NO_START,))] if state[0] == _DROPPING else self.step(state, column)
        ended = self.step(state, self.end)
        if not ended:
            return []
        (_, known), *_ = ended
        if decided == DROPPED_START:
            return [(_DROPPING_STATE, (*known, DROPPED_START))]
        return _after(known, self.begin(FIRST, column))

    def begins(self, before: int, kind: int) -> int:
        """What is known of the first character of a piece of a kind, after one of the kind ``before``."""
        if before != FIRST and not self.cuts[before][kind]:
            return NO_START
        return DROPPED_START if self.dropped[kind] else START

    def first(self, before: int, kind: int) -> tuple[int, ...]:
        """The same, or nothing where it was said already."""
        return () if before == SETTLED else (self.begins(before, kind),)

    def over(self, state: int, read: tuple[int, ...]) -> _Futures:
        """In a match that can end before the characters ``read``."""
        if len(read) > self.depth:
            return [((_FAR, MATCH, state, ()), (NO_START,) * len(read)), *self.replay(MATCH, read)]
        return [((_OVER, MATCH, state, read), ())]

    def open(self, before: int, state: int, read: tuple[int, ...]) -> _Futures:
        """In what may be a match of the characters ``read``."""
        if len(read) > self.depth:
            known = (*self.first(before, MATCH), *(NO_START,) * (len(read) - 1))
            return [((_FAR, MATCH, state, ()), known), *self.no_match(before, read)]
        return [((_OPEN, before, state, read), ())]

    def no_match(self, before: int, read: tuple[int, ...]) -> _Futures:
        """The characters ``read`` begin no match."""
        return _after(self.first(before, GAP), self.replay(GAP, read[1:]))

    def replay(self, before: int, read: Sequence[int]) -> _Futures:
        """After reading characters from between pieces on."""
        futures: _Futures = [((_BETWEEN, before, 0, ()), ())]
        for column in read:
            found: _Futures = []
            for state, known in futures:
                found += _after(known, self.step(state, column))
                if found and found[-1][0][0] != _FAR:
                    break
            futures = found
        return futures

    def step(self, state: _State, column: int) -> _Futures:
        """After reading one character, or the end, inside a piece of the steps before."""
        kind, before, place, read = state
        if kind == _DROPPING:
            return [(state, ())]
        if kind == _BETWEEN:
            return self.begin(before, column)
        target = self.next[place][column]
        is_end = self.ends[place][column]
        if is_end or (target != DEAD and self.certain[target]):
            known: tuple[int, ...] = (NO_START,) * len(read)
            if kind == _OPEN:
                known = (*self.first(before, MATCH), *known[1:])
            if not is_end:
                return [((_SURE, MATCH, target, ()), (*known, NO_START))]
            return _after(known, self.begin(MATCH, column) if target == DEAD else self.over(target, (column,)))
        if kind == _FAR:
            return [] if target == DEAD else [((_FAR, MATCH, target, ()), (NO_START,))]
        if kind == _OVER:
            return self.replay(MATCH, (*read, column)) if target == DEAD else self.over(target, (*read, column))
        if target == DEAD:
            return self.no_match(before, (*read, column))
        return self.open(before, target, (*read, column))

    def begin(self, before: int, column: int) -> _Futures:
        """After reading the first character after a piece of a kind."""
        if column == self.end:
            return [((_BETWEEN, before, 0, ()), ())]
        target = self.next[0][column]
        if target == DEAD:
            return [((_BETWEEN, GAP, 0, ()), (self.begins(before, GAP),))]
        match = self.begins(before, MATCH)
        if self.certain[target]:
            return [((_SURE, MATCH, target, ()), (match,))]
        if match == self.begins(before, GAP):
            return _after((match,), self.open(SETTLED, target, (column,)))
        return self.open(before, target, (column,))


def _after(known: tuple[int, ...], futures: _Futures) -> _Futures:
    """The futures where so much is known before what they tell."""
    return [(state, known + more) for state, more in futures]


#: A state of the whole scanner: of each step its state and the joint classes of characters that it has not decided.
_Joint = tuple[tuple[_State, tuple[int, ...]], ...]
_Events = list[tuple[int, int]]  # joint class, what is decided


class _TooLargeError(Exception):
    """Steps in sequence need more than a table can say."""


class _Builder:
    """Makes the states of steps side by side."""

    def __init__(
        self, steps: list[_Step], columns: npt.NDArray[np.int64], decided_before: Sequence[int], tells_meetings: bool
    ) -> None:
        self.steps = steps
        # The joint classes that these steps tell apart.
        numbers = number_rows(columns.T)
        firsts = np.unique(numbers, return_index=True)[1]
        self.numbers = numbers
        self.own: list[list[int]] = [row[firsts].tolist() for row in columns]  # the class of each step
        self.end = len(firsts)
        self.decided_before = decided_before
        self.tells_meetings = tells_meetings
        self.places: dict[object, int] = {}
        self.states: list[tuple[_Joint, tuple[int, int] | None]] = []  # with the entry if the fork that led there fails
        self.rows: list[list[tuple[int, int]]] = []  # (flags, next state)

    def number(self, state: _Joint, failing: tuple[int, int] | None = None) -> int:
        """The number of a state, a new one if it has none."""
        number = self.places.setdefault((state, failing), len(self.states))
        if number == len(self.states):
            self.states.append((state, failing))
        return number

    def run(self, most: int) -> bool:
        """Make all states; False if there are more than ``most``, or if they can't be said in a table."""
        self.number(tuple(((_BETWEEN, FIRST, 0, ()), ()) for _ in self.steps))
        inputs = [(column, decided) for decided in self.decided_before for column in range(self.end)]
        try:
            for state, failing in self.states:  # grows meanwhile
                if len(self.states) > most:
                    return False
                row = [self.entry(self.after(state, column, decided)) for column, decided in inputs]
                at_end = self.after(state, self.end, NO_START)
                self.rows.append([*row, (at_end[0][1] if at_end else FAIL, 0), failing or (0, 0)])
        except _TooLargeError:
            return False
        return len(self.rows) * len(self.rows[0]) <= MOST_ENTRIES

    def entry(self, futures: list[tuple[_Joint, int]]) -> tuple[int, int]:
        """(flags, next state) of a transition to these futures."""
        if not futures:
            return FAIL, 0
        (state, flags), *others = futures
        if not others:
            return flags, self.number(state)
        return flags | FORK, self.number(state, self.entry(others))

    def after(self, state: _Joint, column: int, decided: int) -> list[tuple[_Joint, int]]:
        """(state, flags) of what may be after reading a character or the end; nothing if an overrun fails."""
        pending = sum(len(read) for _, read in state)
        if pending > FURTHEST_BACK:
            raise _TooLargeError
        futures: list[tuple[_Joint, _Events, int]] = [((), [(column, decided)], 0)]
        for number in range(len(self.steps)):
            found = []
            for joint, events, flags in futures:
                part, undecided = state[number]
                branches = self.feed(number, part, undecided, events)
                if not branches and len(futures) > 1:
                    raise _TooLargeError  # a fork, and the failure of one before
                for after, read, known in branches:
                    if number == 0 and self.tells_meetings:
                        flags = _flags(known, len(undecided)) << 2 * BACK_BITS & _MEETINGS
                    found.append(((*joint, (after, read)), known, flags))
            futures = found
        overruns = [sum(part[0] == _FAR for part, _ in joint) for joint, _, _ in futures]
        if max(overruns, default=0) > 1 or (len(overruns) > 1 and overruns[-1]):
            raise _TooLargeError  # two at a time, of which the kernel would have to note both forks
        return [(joint, flags | _flags(known, pending)) for joint, known, flags in futures]

    def feed(
        self, number: int, state: _State, read: tuple[int, ...], events: _Events
    ) -> list[tuple[_State, tuple[int, ...], _Events]]:
        """(state, undecided, decided) of what may be of a step after events."""
        step, own = self.steps[number], self.own[number]
        branches: list[tuple[_State, tuple[int, ...], _Events]] = [(state, read, [])]
        for column, decided in events:
            found: list[tuple[_State, tuple[int, ...], _Events]] = []
            for part, undecided, known in branches:
                if column == self.end:
                    futures = step.step(part, step.end)
                else:
                    futures = step.read(part, own[column], decided)
                for after, said in futures:
                    waiting = undecided if column == self.end else (*undecided, column)
                    found.append((after, waiting[len(said) :], [*known, *zip(waiting, said, strict=False)]))
                if found and found[-1][0][0] != _FAR:
                    break
            branches = found
        if events and events[-1][0] == self.end:
            return [(after, waiting, [*known, (self.end, NO_START)]) for after, waiting, known in branches]
        return branches

    def scanner(self) -> Scanner:
        """The table, with states that behave alike merged."""
        cells = np.array(self.rows, np.int64)
        flags, following = cells[:, :, 0], cells[:, :, 1]
        far = np.array([any(part[0] == _FAR for part, _ in state) for state, _ in self.states])
        labels = np.arange(len(self.states), dtype=np.int64)
        if len(labels) <= MOST_SCANNER_STATES:
            labels = merge_alike(number_rows(np.concatenate([flags, far[:, None]], axis=1)), following)
        firsts = np.unique(labels, return_index=True)[1]
        order = np.lexsort((firsts, far[firsts]))
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        rows = firsts[order]
        flags, following = flags[rows], places[labels[following[rows]]]
        if self.tells_meetings:
            # Besides those of the first step: where what begins and what follows is as in a fresh walk.
            begun = flags & (1 | 1 << BACK_BITS) << BACK_BITS - 1
            alike = (following == following[0]) & (begun == begun[0]) & (begun != 0) & ~far[rows[following]]
            flags = flags | np.where(alike & (flags & (FORK | FAIL) == 0), 1 << 3 * BACK_BITS - 1, 0)
        # Columns that are equal are one.
        kinds = number_rows(np.concatenate([flags, following])[:, :-2].T)
        kept = [*np.unique(kinds, return_index=True)[1].tolist(), -2, -1]
        columns = np.zeros((DROPPED_START + 1, len(self.numbers)), np.int64)
        for place, decided in enumerate(self.decided_before):
            columns[decided] = kinds[place * self.end : (place + 1) * self.end][self.numbers]
        # Rows of a kind differ in the last column alone.
        like = number_rows(np.concatenate([flags[:, :-1], following[:, :-1]], axis=1))
        far = far[rows]
        alone = (~far[following[:, :-2]] | (like[following[:, :-2]] == like[:, None])).all(axis=1)
        following[:, -2] = np.where(far & alone, like, len(rows) + np.arange(len(rows)))
        return Scanner(flags[:, kept].astype(np.uint32), following[:, kept], columns, int(len(rows) - far.sum()))


def _flags(known: _Events, pending: int) -> int:
    """The bits of what is known of the oldest of ``pending`` characters and the one read."""
    flags = 0
    for back, (_, decided) in zip(range(pending, -1, -1), known, strict=False):
        bit = 1 << BACK_BITS - 1 - back
        if decided != NO_START:
            flags |= bit
        if decided == DROPPED_START:
            flags |= bit << BACK_BITS
    return flags


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
