r"""The split rules that have a mask walker, by their regular expressions.

A rule is recognised by its pattern, never by a file's name. Spellings that match the same pretokens share a walker.
"""

import functools

import numpy as np
import numpy.typing as npt

from numbatok.patterns import unicode
from numbatok.patterns.rules import GPT2, Split, SplitRule

#: Patterns that split as GPT2 does: tiktoken's possessive spelling, and the one of GPT-2's first release.
_GPT2_SPELLINGS = (
    GPT2,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
)

#: Name of the walker's kernel for each known rule.
WALKERS: dict[SplitRule, str] = {(Split(pattern),): "walk_r50k" for pattern in _GPT2_SPELLINGS}


def canonical(rule: SplitRule) -> SplitRule:
    """The first spelling of a known rule, which stands for all that cut alike; another rule as it is."""
    walker = WALKERS.get(rule)
    return rule if walker is None else next(known for known, name in WALKERS.items() if name == walker)


@functools.cache
def character_classes(walker: str) -> npt.NDArray[np.uint8]:
    """The class table of a walker: uint8[2^21], one class a code point, OTHER past the last one."""
    from numbatok.kernels import dtypes

    table = np.zeros(dtypes.CLASS_TABLE_SIZE, np.uint8)
    points = table[: unicode.CODE_POINTS]
    if walker != "walk_r50k":
        raise KeyError(walker)
    points[unicode.in_categories("L")] = dtypes.LETTER
    points[unicode.in_categories("N")] = dtypes.NUMBER
    points[unicode.white_space()] = dtypes.SPACE
    return table
