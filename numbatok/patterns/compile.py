"""Split rules to the tables that :func:`numbatok.kernels.walk_automaton.walk_automaton` runs."""

import functools
import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.kernels.dtypes import CLASS_TABLE_SIZE
from numbatok.loading.byte_level import byte_of_character
from numbatok.patterns import charsets
from numbatok.patterns.matcher import MOST_CLASSES, Matcher, compile_matcher
from numbatok.patterns.rules import Dialect, SplitRule, unspelled_steps
from numbatok.patterns.scanner import (
    BACK_BITS,
    DROPPED_START,
    MATCH,
    NO_START,
    START,
    Scanner,
    compile_scanner,
    cuts_of,
)
from numbatok.patterns.syntax import shown

# Words of a program: these, then those of each group of steps that run side by side, then those of the first step
# alone if there are more.
PROGRAM_STEPS = 0  # how many steps the rule has
PROGRAM_GROUPS = 1  # how many groups
HEADER_WORDS = 2
GROUP_COLUMNS = 0  # where in the program the columns of single bytes begin; those of classes follow
GROUP_CELLS = 1  # where its entries begin
GROUP_WIDTH = 2  # words a row; rows are given by the place of their first word
GROUP_SIZE = 3  # words of all rows
GROUP_FIRST_FAR = 4
GROUP_SPELLED = 5  # 1: the steps read bytes
GROUP_REFINES = 6  # 1: they cut the pieces that are in the bitmap already
GROUP_SKIPS = 7  # a row in which bytes outside the ranges that follow change and say nothing; or NO_ROW
GROUP_RANGES = 8  # first byte and count of each
MOST_RANGES = 4
MOST_LETTERS = 20  # of the small ones of ASCII that are to be outside of the ranges, as the space is, so that it pays
GROUP_WORDS = GROUP_RANGES + 2 * MOST_RANGES
NO_ROW = 0xFFFFFFFF
COLUMNS = 256  # of bytes and of classes each, for NO_START, START and DROPPED_START


@dataclass(frozen=True)
class CompiledRule:
    """A split rule as tables.

    Attributes
    ----------
    classes : uint8[2^21], class of each code point, the same for all steps
    program : uint32, headers and tables
    drops : whether pieces can be dropped
    digest : equal for two rules that cut every text alike as their steps go, however they are spelt
    """

    classes: npt.NDArray[np.uint8]
    program: npt.NDArray[np.uint32]
    drops: bool
    digest: bytes


@functools.lru_cache(maxsize=64)
def compile_rule(rule: SplitRule) -> CompiledRule:
    """The tables of a split rule; :class:`VocabularyError` names the pattern that can't be compiled, and why.

    A rule of no steps leaves the text whole.
    """
    matchers = [_matcher(split.pattern, split.dialect) for split in rule]
    edges = np.unique(np.concatenate([charsets.EVERYTHING, *(matcher.edges for matcher in matchers)]))
    kinds = [matcher.kinds[np.searchsorted(matcher.edges, edges, side="right") - 1] for matcher in matchers]
    numbers: dict[tuple[int, ...], int] = {}
    joint = np.array([numbers.setdefault(kind, len(numbers)) for kind in zip(*kinds, strict=True)] or [0], np.uint8)
    columns = np.array(list(numbers) or [()], np.int64).T
    if len(numbers) > MOST_CLASSES:
        raise VocabularyError(
            f"a split rule of {len(rule)} patterns tells {len(numbers)} kinds of characters apart, more than "
            f"{MOST_CLASSES}; the first is {shown(rule[0].pattern)}"
        )
    classes = np.repeat(joint, np.diff(edges, append=CLASS_TABLE_SIZE))
    drops = [
        split.behavior == "removed" and (matcher.leaves_gaps or not split.invert)
        for split, matcher in zip(rule, matchers, strict=True)
    ]
    classes.flags.writeable = False
    program = _program(rule, matchers, columns, drops, classes)
    program.flags.writeable = False
    return CompiledRule(classes, program, any(drops), _digest(rule, matchers))


def _program(
    rule: SplitRule,
    matchers: list[Matcher],
    columns: npt.NDArray[np.int64],
    drops: list[bool],
    classes: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint32]:
    """The program of a rule: groups of as many steps as one table can hold."""
    unspelled = unspelled_steps(rule)
    groups: list[tuple[int, Scanner]] = []  # each with its first step
    first = 0
    while first < len(rule):
        decided = [NO_START, START, DROPPED_START][: 1 if first == 0 else 3 if any(drops[:first]) else 2]
        for end in range(unspelled if first < unspelled else len(rule), first, -1):
            scanner = compile_scanner(
                matchers[first:end],
                rule[first:end],
                columns[first:end],
                decided,
                tells_meetings=first == 0 and len(rule) > 1,
            )
            if scanner is not None:
                groups.append((first, scanner))
                first = end
                break
    header = [len(rule), len(groups)]
    if len(rule) > 1:
        alone = compile_scanner(matchers[:1], rule[:1], columns[:1], [NO_START])
        assert alone is not None
        groups.append((0, alone))
    parts: list[npt.NDArray[np.int64]] = []
    place = HEADER_WORDS + GROUP_WORDS * len(groups)
    for first, scanner in groups:
        spelled = first >= unspelled
        of_bytes = classes[_alphabet() if spelled else np.arange(COLUMNS)]
        width = scanner.flags.shape[1]
        cells = np.stack([scanner.flags, 2 * width * scanner.following], axis=2)
        of_classes = np.zeros((len(scanner.columns), COLUMNS), np.int64)
        of_classes[:, : columns.shape[1]] = 2 * scanner.columns
        header += [place, place + 2 * of_classes.size, 2 * width, cells.size, 2 * width * scanner.first_far]
        header += [spelled, first > 0, *_skips(scanner, of_bytes if spelled else of_bytes[:128], refines=first > 0)]
        parts += [of_classes[:, of_bytes].ravel(), of_classes.ravel(), cells.ravel()]
        place += 2 * of_classes.size + cells.size
    return np.concatenate([np.array(header, np.int64), *parts]).astype(np.uint32)


@functools.lru_cache(maxsize=64)
def _matcher(pattern: str, dialect: Dialect) -> Matcher:
    return compile_matcher(pattern, dialect)


@functools.cache
def _alphabet() -> npt.NDArray[np.int64]:
    """int64[256]: the code point that stands for each byte in the byte alphabet."""
    points = np.zeros(256, np.int64)
    for character, byte in byte_of_character().items():
        points[byte] = ord(character)
    return points


def _skips(scanner: Scanner, classes: npt.NDArray[np.uint8], *, refines: bool) -> list[int]:
    """Header words: a row in which most bytes, small letters and the space among them, change and say nothing; others.

    ``classes`` are those of the bytes asked about: ASCII, or all in a spelled step. To say that a piece begins which
    did so by the steps before is to say nothing.
    """
    rows = np.arange(len(scanner.flags))[:, None]
    columns = scanner.columns[NO_START][classes]
    stays = (scanner.following[:, columns] == rows) & (scanner.flags[:, columns] == 0)
    if refines:
        columns = scanner.columns[START][classes]
        stays &= (scanner.following[:, columns] == rows) & (scanner.flags[:, columns] == 1 << BACK_BITS - 1)
    stops = np.zeros((len(rows), len(classes) + 2), np.bool_)
    stops[:, 1:-1] = ~stays
    changes = np.diff(stops, axis=1)
    letters = stays[:, ord("a") : ord("z") + 1].sum(axis=1)
    fits = (letters >= MOST_LETTERS) & stays[:, ord(" ")] & (changes.sum(axis=1) <= 2 * MOST_RANGES)
    if not fits.any():
        return [NO_ROW] + [0] * (2 * MOST_RANGES)
    row = int(np.argmax(np.where(fits, stays.sum(axis=1), 0)))
    edges = np.flatnonzero(changes[row]).reshape(-1, 2)
    ranges = [word for begin, end in edges.tolist() for word in (begin, end - begin)]
    return [row * 2 * scanner.flags.shape[1], *ranges, *[0] * (2 * MOST_RANGES - len(ranges))]


def _digest(rule: SplitRule, matchers: list[Matcher]) -> bytes:
    digest = hashlib.sha256()
    unspelled = unspelled_steps(rule)
    for number, (split, matcher) in enumerate(zip(rule, matchers, strict=True)):
        if number == unspelled:
            digest.update(b"spelled")
        between, dropped = cuts_of(split)
        of_matches = between[MATCH][MATCH], dropped[MATCH]
        digest.update(repr((between, dropped) if matcher.leaves_gaps else of_matches).encode())
        digest.update(hashlib.sha256(matcher.canonical()).digest())
    return digest.digest()
