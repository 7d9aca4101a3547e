r"""Patterns to matchers: deterministic automata that find the end of a match as a backtracking engine does.

Two steps.

1. **Threads** (:class:`_Program`): a list of instructions; of the threads that run them, those first in the order have
   the better match (Pike's virtual machine).
2. **Matcher** (:func:`compile_matcher`): a state is the ordered list of threads *before* they follow their empty
   transitions. They do so when the next character's class, or the end, is known: so look-ahead at one character is
   decided there and then, and a thread that matches cuts all those behind it. Whether a match may end *before* the
   character is thus a mark on the transition. Marks that a later match always overrides are dropped, states that
   behave alike are merged: two spellings of one rule become the same automaton.

What cuts a text, match after match, is :mod:`numbatok.patterns.scanner`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.patterns import charsets, syntax
from numbatok.patterns.charsets import CharSet
from numbatok.patterns.rules import Dialect
from numbatok.patterns.syntax import Atomic, Chars, Choice, Look, Node, Repeat, Sequence

MOST_INSTRUCTIONS = 20_000
MOST_STATES = 1_024
MOST_WORK = 1_000_000  # steps of threads while states are made: about a second
MOST_CLASSES = 255
MOST_SETS = 1_000

DEAD = -1

_CHARS, _SPLIT, _LOOK, _MATCH = range(4)


class _Program:
    """Instructions: (kind, set, next) for _CHARS and _LOOK, (kind, first, second) for _SPLIT."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.kinds = [_MATCH]
        self.firsts = [0]
        self.seconds = [0]
        self.sets: list[CharSet] = []
        self._numbers: dict[bytes, int] = {}

    def fail(self, what: str) -> VocabularyError:
        return VocabularyError(f"split pattern {syntax.shown(self.pattern)}: {what}")

    def _add(self, kind: int, first: int, second: int) -> int:
        if len(self.kinds) >= MOST_INSTRUCTIONS:
            raise self.fail(f"its repeats are too large: more than {MOST_INSTRUCTIONS} steps when written out")
        self.kinds.append(kind)
        self.firsts.append(first)
        self.seconds.append(second)
        return len(self.kinds) - 1

    def _set(self, chars: CharSet) -> int:
        number = self._numbers.setdefault(charsets.key(chars), len(self.sets))
        if number == len(self.sets):
            if number >= MOST_SETS:
                raise self.fail(f"it tells too many kinds of characters apart, with more than {MOST_SETS} sets")
            self.sets.append(chars)
        return number

    def _look(self, chars: CharSet, at_end: bool, then: int) -> int:
        return self._add(_LOOK, 2 * self._set(chars) + at_end, then)

    def add(self, node: Node, then: int, last: bool) -> int:
        """Instructions for a node, before those at ``then``; ``last`` if nothing but the end of a match follows."""
        if isinstance(node, Chars):
            return self._add(_CHARS, self._set(node.chars), then)
        if isinstance(node, Look):
            return self._look(node.chars, node.at_end, then)
        if isinstance(node, Sequence):
            for item in reversed(node.items):
                then = self.add(item, then, last)
                last = False
            return then
        if isinstance(node, Choice):
            entries = [self.add(branch, then, last) for branch in node.branches]
            entry = entries[-1]
            for other in reversed(entries[:-1]):
                entry = self._add(_SPLIT, other, entry)
            return entry
        if isinstance(node, Atomic):
            if not last and not _has_one_way(node.body):
                raise self.fail("an atomic group with a choice in it, not at the end of the pattern, is not supported")
            return self.add(node.body, then, last)
        return self._repeat(node, then, last)

    def _repeat(self, node: Repeat, then: int, last: bool) -> int:
        body, least, most, kind = node.body, node.least, node.most, node.kind
        after = then  # where to go when no further round is begun
        if kind == "possessive":
            if isinstance(body, Chars):
                after = self._look(charsets.complement(body.chars), True, then)
            elif least != most and not last:
                raise self.fail("a possessive repeat of more than one character, not at its end, is not supported")
            elif not last and not _has_one_way(body):
                raise self.fail("a possessive repeat with a choice in it, not at the end, is not supported")
        if most is None or most > 1:
            last = False  # another round may follow, and be given back
            if kind == "possessive" and not isinstance(body, Chars) and not _has_one_way(body):
                raise self.fail("a possessive repeat with a choice in it is not supported")
        if most is None:
            if _may_be_empty(body):
                raise self.fail("a repeat without bound of what can match nothing is not supported")
            loop = self._add(_SPLIT, 0, 0)
            entry = self.add(body, loop, last)
            self._fill_split(loop, entry, after, kind)
            then = loop
        else:
            for _ in range(most - least):
                entry = self.add(body, then, last)
                if entry == then:  # the body is empty
                    break
                split = self._add(_SPLIT, 0, 0)
                self._fill_split(split, entry, after, kind)
                then = split
        for _ in range(least):
            entry = self.add(body, then, last)
            if entry == then:
                break
            then = entry
        return then

    def _fill_split(self, place: int, again: int, after: int, kind: str) -> None:
        self.firsts[place], self.seconds[place] = (after, again) if kind == "lazy" else (again, after)


def _may_be_empty(node: Node) -> bool:
    """Whether a node can match the empty text."""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Look):
        return True
    if isinstance(node, Sequence):
        return all(_may_be_empty(item) for item in node.items)
    if isinstance(node, Choice):
        return any(_may_be_empty(branch) for branch in node.branches)
    if isinstance(node, Atomic):
        return _may_be_empty(node.body)
    return node.least == 0 or _may_be_empty(node.body)


def _first_characters(node: Node) -> CharSet:
    """The characters that a match of a node that can't be empty may begin with, or more."""
    if isinstance(node, Chars):
        return node.chars
    if isinstance(node, Sequence):
        sets = []
        for item in node.items:
            sets.append(_first_characters(item))
            if not _may_be_empty(item):
                break
        return charsets.union(*sets) if sets else charsets.EMPTY
    if isinstance(node, Choice):
        return charsets.union(*(_first_characters(branch) for branch in node.branches))
    if isinstance(node, Look):
        return charsets.EMPTY
    return _first_characters(node.body)


def _has_one_way(node: Node) -> bool:
    """Whether a node matches in at most one way wherever it stands, so that there is no way back into it."""
    if isinstance(node, (Chars, Look)):
        return True
    if isinstance(node, Sequence):
        return all(_has_one_way(item) for item in node.items)
    if isinstance(node, Choice):
        if not all(_has_one_way(branch) and not _may_be_empty(branch) for branch in node.branches):
            return False
        taken = charsets.EMPTY
        for branch in node.branches:
            firsts = _first_characters(branch)
            if len(charsets.intersection(taken, firsts)):
                return False
            taken = charsets.union(taken, firsts)
        return True
    if isinstance(node, Atomic):
        return _has_one_way(node.body)
    if node.kind == "possessive" and isinstance(node.body, Chars):
        return True
    return node.least == node.most and _has_one_way(node.body)


@dataclass(frozen=True)
class Matcher:
    """A canonical automaton that finds the end of one match.

    Attributes
    ----------
    edges, kinds : the class of the code points from each edge on; classes are numbered by their first code points
    next : int64[states, classes + 1], the state after a character of each class, or DEAD; the last column is the end
    ends : bool, the same shape: a match may end before this character, and no later one is certain
    certain : bool[states]: whatever follows, a match will end
    """

    edges: CharSet
    kinds: npt.NDArray[np.int64]
    next: npt.NDArray[np.int64]
    ends: npt.NDArray[np.bool_]
    certain: npt.NDArray[np.bool_]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.next.shape[1]) - 1

    @property
    def leaves_gaps(self) -> bool:
        """Whether some text is no match and not between two: a character that need not begin a match."""
        begun = self.next[0, : self.classes]
        return bool((begun == DEAD).any() or not self.certain[begun].all())

    def canonical(self) -> bytes:
        """Equal for two matchers that find the same matches."""
        arrays = (self.edges, self.kinds, np.array(self.next.shape), self.next, self.ends)
        return b"".join(array.astype("<i8").tobytes() for array in arrays)


def compile_matcher(pattern: str, dialect: Dialect) -> Matcher:
    """The automaton of a pattern; :class:`VocabularyError` for one that is not supported or too large."""
    program = _Program(pattern)
    entry = program.add(syntax.parse(pattern, dialect), 0, True)
    edges, kinds, inside = charsets.partition(program.sets)
    classes = int(kinds.max()) + 1
    if classes > MOST_CLASSES:
        raise program.fail(f"it tells {classes} kinds of characters apart, more than {MOST_CLASSES}")
    following, ends = _determinise(program, entry, inside)
    following, ends, certain = _without_needless(following, ends)
    if ends[0].any():
        raise program.fail("it can match the empty text, which is not supported")
    return _canonical(edges, kinds, following, ends, certain)


def _determinise(
    program: _Program, entry: int, inside: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """(next, ends) of the states reached from a program's entry, which is state 0.

    Classes are handled together, as masks: bit i is class i, the last one the end.
    """
    classes = inside.shape[1]
    at_end = 1 << classes
    everything = 2 * at_end - 1
    weights = [1 << i for i in range(classes)]
    masks = [sum(weights[i] for i in np.flatnonzero(row).tolist()) for row in inside]
    kinds, firsts, seconds = program.kinds, program.firsts, program.seconds
    numbers: dict[tuple[int, ...], int] = {(entry,): 0}
    states: list[tuple[int, ...]] = [(entry,)]
    rows: list[list[int]] = []
    marks: list[list[bool]] = []
    work = 0
    for state in states:  # grows meanwhile
        seen: dict[int, int] = {}
        alive = everything
        matched = 0
        groups: dict[int, dict[int, None]] = {everything: {}}  # threads, in their order, by the classes that keep them
        stack = [(thread, everything) for thread in reversed(state)]
        while stack:
            work += 1
            place, mask = stack.pop()
            before = seen.get(place, 0)
            mask &= alive & ~before
            if not mask:
                continue
            seen[place] = before | mask
            kind = kinds[place]
            if kind == _SPLIT:
                stack.append((seconds[place], mask))
                stack.append((firsts[place], mask))
            elif kind == _LOOK:
                number, end_counts = divmod(firsts[place], 2)
                stack.append((seconds[place], mask & (masks[number] | (at_end if end_counts else 0))))
            elif kind == _MATCH:
                alive &= ~mask
                matched |= mask
            else:
                mask &= masks[firsts[place]]
                if mask:
                    target = seconds[place]
                    for group in list(groups):
                        common = group & mask
                        if common:
                            threads = groups[group]
                            work += 1
                            if target in threads:
                                continue
                            if common == group:
                                threads[target] = None
                            else:
                                work += len(threads) // 8
                                groups[group & ~common] = threads
                                groups[common] = {**threads, target: None}
                                del groups[group]
        if work > MOST_WORK or len(states) > MOST_STATES:
            raise program.fail(f"its automaton is too large: more than {MOST_STATES} states, or too long to make")
        row = [DEAD] * (classes + 1)
        for group, threads in groups.items():
            if threads:
                key = tuple(threads)
                number = numbers.setdefault(key, len(states))
                if number == len(states):
                    states.append(key)
                for i, weight in enumerate(weights):
                    if group & weight:
                        row[i] = number
        rows.append(row)
        marks.append([bool(matched & weight) for weight in (*weights, at_end)])
    return np.array(rows, np.int64), np.array(marks, np.bool_)


def _without_needless(
    following: npt.NDArray[np.int64], ends: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(next, ends, certain) without transitions that can't lead to a match and without marks always overridden."""
    useful = np.array([row.any() for row in ends], np.bool_)
    while True:
        more = useful | (useful[following] & (following >= 0)).any(axis=1)
        if (more == useful).all():
            break
        useful = more
    following = np.where((following >= 0) & useful[following], following, DEAD)
    # A state is certain where each next character, and the end, either ends a match or leads to a certain state.
    certain: npt.NDArray[np.bool_] = np.ones(len(following), np.bool_)
    while True:
        fewer = certain & (ends | (certain[following] & (following >= 0))).all(axis=1)
        if (fewer == certain).all():
            break
        certain = fewer
    ends = ends & ~((following >= 0) & certain[following])
    return following, ends, certain


def number_rows(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """A number for each row, from 0 on, equal for equal rows."""
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in np.ascontiguousarray(rows)], np.int64)


def merge_alike(labels: npt.NDArray[np.int64], following: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The coarsest numbering of states finer than ``labels`` in which equal ones go to equal ones (Moore, 1956)."""
    count = 0
    while True:
        targets = np.where(following >= 0, labels[following], DEAD)
        labels = number_rows(np.concatenate([labels[:, None], targets], axis=1))
        found = int(labels.max()) + 1
        if found == count:
            return labels
        count = found


def _canonical(
    edges: CharSet,
    kinds: npt.NDArray[np.int64],
    following: npt.NDArray[np.int64],
    ends: npt.NDArray[np.bool_],
    certain: npt.NDArray[np.bool_],
) -> Matcher:
    """The smallest automaton that matches alike, its states in the order in which the classes reach them."""
    labels = merge_alike(number_rows(ends), following)
    firsts = np.unique(labels, return_index=True)[1]
    following = np.where(following[firsts] >= 0, labels[following[firsts]], DEAD)
    ends, certain = ends[firsts], certain[firsts]
    # Classes: those with equal columns are one, numbered by their first code points.
    columns = number_rows(np.concatenate([following, ends], axis=0).T)[:-1]
    merged = columns[kinds]
    changes = np.diff(merged, prepend=-1) != 0
    edges, merged = edges[changes], merged[changes]
    order: dict[int, int] = {}
    kinds = np.array([order.setdefault(kind, len(order)) for kind in merged.tolist()], np.int64)
    kept = [int(np.flatnonzero(columns == column)[0]) for column in order] + [following.shape[1] - 1]
    following, ends = following[:, kept], ends[:, kept]
    # States, from the start on; those no longer reached go.
    places = {int(labels[0]): 0}
    for state in (found := [int(labels[0])]):
        for target in following[state].tolist():
            if target >= 0 and target not in places:
                places[target] = len(places)
                found.append(target)
    renumbered = np.full(len(following) + 1, DEAD, np.int64)
    renumbered[found] = np.arange(len(found))
    return Matcher(edges, kinds, renumbered[following[found]], ends[found], certain[found])
