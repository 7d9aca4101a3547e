r"""Frozen Unicode: the classes of code points that the reference tokenizers split by, as they have them.

``\p{L}`` is 141,028 code points in tiktoken and ``tokenizers``, 158,172 in ``regex`` 2026.11: to give the references'
ids the classes must be theirs. The tables were made by asking them (``tests/probe_unicode.py``), and a test asks again.

There are two: the general category of every code point, and named sets of code points (scripts, ``\w``, case folding).
The second one is read when a pattern first asks for it.
"""

import functools
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CODE_POINTS = 0x110000
#: The two-letter general categories of Unicode; a category's number is its place here.
CATEGORIES = tuple("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split())
#: Added to the category number of white space (``\s``): U+0009 to U+000D, U+0085, and the categories Z.
WHITE_SPACE = 0x80

TABLE = Path(__file__).parent / "unicode_categories.bin"
SETS = Path(__file__).parent / "unicode_sets.bin"


@functools.cache
def category_runs() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(first code point, value) of each run of code points with one value in :func:`categories`."""
    packed = zlib.decompress(TABLE.read_bytes())
    count = len(packed) // 5
    return np.frombuffer(packed, "<u4", count).astype(np.int64), np.frombuffer(packed, np.uint8, count, 4 * count)


@functools.cache
def categories() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: category number of each code point, plus ``WHITE_SPACE`` where ``\\s`` matches; read-only."""
    firsts, values = category_runs()
    table = np.repeat(values, np.diff(firsts, append=CODE_POINTS))
    table.flags.writeable = False
    return table


def in_categories(prefix: str) -> npt.NDArray[np.bool_]:
    r"""bool[0x110000]: whether ``\p{prefix}`` matches, for a category (``"Lu"``) or a group of them (``"L"``)."""
    wanted = np.array([name.startswith(prefix) for name in CATEGORIES])
    matches: npt.NDArray[np.bool_] = wanted[categories() & ~np.uint8(WHITE_SPACE)]
    return matches


def white_space() -> npt.NDArray[np.bool_]:
    r"""bool[0x110000]: whether ``\s`` matches."""
    return categories() >= WHITE_SPACE


@functools.cache
def named_sets() -> dict[str, npt.NDArray[np.int64]]:
    """The frozen sets by name, each as the sorted code points where membership changes, beginning outside.

    Scripts have their names in lower case without underscores; the others are

    ``alphabetic``, ``lowercase``, ``uppercase``
        the properties of those names;
    ``word``, ``word oniguruma``, ``word in class oniguruma``
        ``\\w`` in tiktoken, and in ``tokenizers``, where it has ``²`` too but not U+200D, and ``[\\w]`` there;
    ``punct oniguruma``
        ``[[:punct:]]`` in ``tokenizers``;
    ``isnumeric``, ``ispunctuation``
        what the pre-tokenizers Digits and Punctuation of ``tokenizers`` take for such, which are not ``\\p{N}`` and
        ``\\p{P}``.
    """
    header, changes = _sets_file()
    counts: dict[str, int] = header["sets"]
    sets, place = {}, 0
    for name, count in counts.items():
        sets[name] = np.cumsum(changes[place : place + count], dtype=np.int64)
        sets[name].flags.writeable = False
        place += count
    return sets


def in_named_set(name: str) -> npt.NDArray[np.bool_]:
    """bool[0x110000]: the code points of one of the :func:`named_sets`."""
    changes = np.zeros(CODE_POINTS + 1, np.bool_)
    changes[named_sets()[name]] = True
    return np.logical_xor.accumulate(changes)[:-1]


@functools.cache
def case_variants() -> dict[int, tuple[int, ...]]:
    """The other code points that one matches without regard to case, for each that has any."""
    header, changes = _sets_file()
    count = 2 * header["pairs"]
    firsts, seconds = changes[-count : -count // 2], changes[-count // 2 :]
    variants: dict[int, tuple[int, ...]] = {}
    for first, second in zip(np.cumsum(firsts).tolist(), seconds.tolist(), strict=True):
        variants[first] = (*variants.get(first, ()), second)
    return variants


@functools.cache
def _sets_file() -> tuple[dict[str, Any], npt.NDArray[np.int64]]:
    packed = zlib.decompress(SETS.read_bytes())
    header, _, body = packed.partition(b"\n")
    planes = np.frombuffer(body, np.uint8).reshape(4, -1)  # the numbers' first bytes, then their second ones, ...
    return json.loads(header), np.ascontiguousarray(planes.T).view("<u4").ravel().astype(np.int64)
