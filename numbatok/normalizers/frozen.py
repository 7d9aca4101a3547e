"""Frozen Unicode: how the reference normalizes each character, and arrays of the characters of a text.

``tokenizers`` normalizes by the tables of Unicode 9, makes lower case by those of Unicode 17, and Python has others in
each version: 13 in Python 3.10, 15.1 in 3.13. What Unicode says of a character's normalization never changes once the
character is assigned, so ``unicodedata`` gives the reference's result on all text without the characters flagged
``NEWER``: those that the reference takes for unassigned, and so leaves alone, and that a newer Unicode does not.
The tables were made by asking the reference (``tests/probe_normalization.py``), and a test asks again.
"""

import functools
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from numbatok.patterns.unicode import CODE_POINTS

# Flags of a character; its canonical combining class stands above them.
MARK = 1  # what StripAccents removes: general category M
NEWER = 2  # unassigned for the reference, not inert in Unicode 18 or not yet assigned there
MAY_CHANGE = {"NFC": 4, "NFD": 8, "NFKC": 16, "NFKD": 32}  # changed by the form, or joined to a character before it
MARKS_ALONE = {"NFC": 64, "NFD": 64, "NFKC": 128, "NFKD": 128}  # no combining class, but decomposes to marks
CLASS_SHIFT = 8

TABLE = Path(__file__).parent / "normalization.bin"


def pack(tables: list[npt.NDArray[np.int32]]) -> bytes:
    """Tables over all code points as the bytes of :data:`TABLE`."""
    runs = []
    for table in tables:
        firsts = np.flatnonzero(np.diff(table, prepend=table[0] + 1)).astype("<i4")
        runs.append(np.concatenate([[len(firsts)], np.diff(firsts, prepend=0), table[firsts]]).astype("<i4"))
    return zlib.compress(np.concatenate(runs).astype("<i4").tobytes(), 9)


@functools.cache
def _tables() -> tuple[npt.NDArray[np.int32], ...]:
    """What :func:`pack` packed, read-only: flags and classes; what to add for lower case."""
    words = np.frombuffer(zlib.decompress(TABLE.read_bytes()), "<i4")
    tables = []
    while len(words):
        count = int(words[0])
        firsts = np.cumsum(words[1 : 1 + count], dtype=np.int64)
        table = np.repeat(words[1 + count : 1 + 2 * count], np.diff(firsts, append=CODE_POINTS)).astype(np.int32)
        table.flags.writeable = False
        tables.append(table)
        words = words[1 + 2 * count :]
    return tuple(tables)


def characters() -> npt.NDArray[np.int32]:
    """int32[0x110000]: flags of each code point, and its canonical combining class above ``CLASS_SHIFT``."""
    return _tables()[0]


def to_lower() -> npt.NDArray[np.int32]:
    """int32[0x110000]: what to add to a code point for its lower case; 0 for U+0130, which becomes two characters."""
    return _tables()[1]


def code_points(text: str) -> npt.NDArray[np.uint32]:
    """The code points of a text; lone surrogates are kept."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def text_of(codes: npt.NDArray[np.integer]) -> str:
    """The text of code points: undoes :func:`code_points`."""
    return codes.astype("<u4", copy=False).tobytes().decode("utf-32-le", "surrogatepass")
