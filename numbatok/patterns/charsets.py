"""Sets of code points, as the sorted places where membership changes: ``[65, 91]`` is A to Z, ``[]`` is empty.

A set may go on past U+10FFFF (``[0]`` is everything), which nothing asks about. Operations cost microseconds, where
masks over all code points would cost milliseconds.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

CharSet = npt.NDArray[np.int64]

EMPTY: CharSet = np.zeros(0, np.int64)
EVERYTHING: CharSet = np.zeros(1, np.int64)


def from_ranges(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The set of the code points in ranges (first, last), which may overlap and stand in any order."""
    changes: list[int] = []
    for first, last in sorted(ranges):
        if changes and first <= changes[-1]:
            changes[-1] = max(changes[-1], last + 1)
        else:
            changes += [first, last + 1]
    return np.array(changes, np.int64)


def contains(chars: CharSet, points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether each of ``points`` is in the set."""
    return (np.searchsorted(chars, points, side="right") & 1).astype(np.bool_)


def _where(edges: CharSet, inside: npt.NDArray[np.bool_]) -> CharSet:
    """The set that changes to ``inside[i]`` at ``edges[i]``."""
    return edges[np.diff(inside, prepend=False)]


def union(*sets: CharSet) -> CharSet:
    """What is in any of the sets."""
    if len(sets) == 1:
        return sets[0]
    edges = np.unique(np.concatenate([EMPTY, *sets]))
    inside = np.zeros(len(edges), np.bool_)
    for chars in sets:
        inside |= contains(chars, edges)
    return _where(edges, inside)


def intersection(left: CharSet, right: CharSet) -> CharSet:
    """What is in both sets."""
    edges = np.union1d(left, right)
    return _where(edges, contains(left, edges) & contains(right, edges))


def complement(chars: CharSet) -> CharSet:
    """What is not in the set."""
    return chars[1:] if len(chars) and chars[0] == 0 else np.concatenate([EVERYTHING, chars])


def key(chars: CharSet) -> bytes:
    """Equal for equal sets."""
    return chars.tobytes()


def partition(sets: Sequence[CharSet]) -> tuple[CharSet, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The coarsest partition of the code points of which every set is a union.

    Returns (places where the class changes, beginning with 0; the class from each on; membership of the classes in
    the sets, one row a set). Classes are numbered in the order of their first code points.
    """
    edges = np.unique(np.concatenate([EVERYTHING, *sets]))
    inside = np.array([contains(chars, edges) for chars in sets], np.bool_).reshape(len(sets), len(edges))
    columns = np.ascontiguousarray(np.packbits(inside, axis=0).T)
    numbers: dict[bytes, int] = {}
    kinds = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in columns], np.int64)
    firsts = np.unique(kinds, return_index=True)[1]
    changes = np.diff(kinds, prepend=-1) != 0
    return edges[changes], kinds[changes], inside[:, firsts]
