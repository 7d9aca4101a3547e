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
from numbatok.patterns.scanner import MATCH, ROW_SHIFT, Scanner, compile_scanner, cuts_of
from numbatok.patterns.syntax import shown

BYTE_CLASSES = CLASS_TABLE_SIZE  # where in the classes those of the 256 bytes begin, for spelled steps

# Words of a program: how many steps, then these of each step.
HEADER_WORDS = 1
STEP_TABLE = 0  # where in the program its table begins
STEP_WIDTH = 1  # entries a row: joint classes, the end, what to do where an overrun fails
STEP_ROWS = 2
STEP_AFTER_MATCH = 3  # row, as all rows the place of its first entry in the table
STEP_AFTER_GAP = 4
STEP_FIRST_FAR = 5
STEP_DEPTH = 6
STEP_SKIPS = 7  # 1: in a gap, ASCII outside the two ranges that follow is more gap
STEP_RANGES = 8  # first byte and count of each; an unused one has a count of 0
STEP_SPELLED = 12  # 1: the step reads bytes
STEP_WORDS = 13


@dataclass(frozen=True)
class CompiledRule:
    """A split rule as tables.

    Attributes
    ----------
    classes : uint8[2^21 + 256], class of each code point, the same for all steps; then that of each byte's character of
        the byte alphabet
    program : uint32, header and tables
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
    of_points = np.repeat(joint, np.diff(edges, append=CLASS_TABLE_SIZE))
    classes = np.concatenate([of_points, of_points[_alphabet()]])
    of_text, of_bytes = classes[:128], classes[BYTE_CLASSES:]
    unspelled = unspelled_steps(rule)
    scanners = [
        compile_scanner(matcher, split, own) for matcher, split, own in zip(matchers, rule, columns, strict=True)
    ]
    place = HEADER_WORDS + STEP_WORDS * len(rule)
    header = [len(rule)]
    for number, scanner in enumerate(scanners):
        spelled = number >= unspelled
        rows, width = scanner.entries.shape
        header += [place, width, rows, scanner.after_match, scanner.after_gap, scanner.first_far, scanner.depth]
        header += [*_ranges_to_stop_at(scanner, of_bytes if spelled else of_text), spelled]
        place += scanner.entries.size
    program = np.concatenate([np.array(header, np.uint32), *(scanner.entries.ravel() for scanner in scanners)])
    classes.flags.writeable = False
    program.flags.writeable = False
    drops = any(
        split.behavior == "removed" and (matcher.leaves_gaps or not split.invert)
        for split, matcher in zip(rule, matchers, strict=True)
    )
    return CompiledRule(classes, program, drops, _digest(rule, matchers))


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


def _ranges_to_stop_at(scanner: Scanner, classes: npt.NDArray[np.uint8]) -> list[int]:
    """Header words: whether bytes in a gap can be skipped, and the at most two ranges of them that can't.

    ``classes`` are those of the bytes asked about: ASCII, or all in a spelled step.
    """
    stay = scanner.entries[scanner.after_gap // scanner.entries.shape[1]] == scanner.after_gap << ROW_SHIFT
    stops = np.append(~stay[classes], False)
    edges = np.flatnonzero(np.diff(stops, prepend=False)).reshape(-1, 2)
    if len(edges) > 2 or stops[:-1].all():
        return [0] * 5
    ranges = [(first, last - first) for first, last in edges.tolist()]
    return [1, *(word for pair in [*ranges, (0, 0), (0, 0)][:2] for word in pair)]


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
