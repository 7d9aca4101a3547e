r"""Frozen Unicode: the general category of every code point as the reference tokenizers have it.

``\p{L}`` is 141,028 code points in tiktoken and ``tokenizers``, 158,172 in ``regex`` 2026.11: to give the references'
ids the classes must be theirs. The table was made by asking them (``tests/probe_unicode.py``), and a test asks again.
"""

import functools
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

CODE_POINTS = 0x110000
#: The two-letter general categories of Unicode; a category's number is its place here.
CATEGORIES = tuple("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split())
#: Added to the category number of white space (``\s``): U+0009 to U+000D, U+0085, and the categories Z.
WHITE_SPACE = 0x80

TABLE = Path(__file__).parent / "unicode_categories.bin"


@functools.cache
def categories() -> npt.NDArray[np.uint8]:
    """uint8[0x110000]: category number of each code point, plus ``WHITE_SPACE`` where ``\\s`` matches; read-only."""
    packed = zlib.decompress(TABLE.read_bytes())
    count = len(packed) // 5
    firsts = np.frombuffer(packed, "<u4", count).astype(np.int64)
    table = np.repeat(np.frombuffer(packed, np.uint8, count, 4 * count), np.diff(firsts, append=CODE_POINTS))
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
