"""Normalizing UTF-8 where it may change, and leaving the rest of it where it is.

Eight megabytes of Chinese hold some sixty characters that NFC may change: to look at these alone takes 1 ms, to
normalize the text whole 45.
"""

import ctypes
from collections.abc import Iterator

import numpy as np

from numbatok.kernels import normal
from numbatok.memory import address_of
from numbatok.normalizers.normalizer import Normalizer, Table

BYTES_PER_PART = 1 << 10  # of a text that has more parts than one in so many bytes, all is one part
LEAST_PARTS = 8


def _restless_parts(normalizer: Normalizer, table: Table, address: int, length: int) -> Iterator[tuple[int, int, str]]:
    """(begin, end, text) of the parts of the UTF-8 at an address that may change, each of which is normalized alone.

    ``table`` is the normalizer's, as :func:`numbatok.normalizers.restless` gives it; begin and end are in bytes.
    """
    if not normalizer.is_local:
        yield 0, length, ctypes.string_at(address, length).decode()
        return
    spans = np.empty((LEAST_PARTS + length // BYTES_PER_PART, 2), np.int64)
    arguments = address_of(table), bool(table[:128].any()), address_of(spans), len(spans)
    count = normal.list_restless(address, length, *arguments)
    for begin, end in [(0, length)] if count < 0 else spans[:count].tolist():
        yield begin, end, ctypes.string_at(address + begin, end - begin).decode()


def is_normal(normalizer: Normalizer, table: Table, address: int, length: int) -> bool:
    """Whether the UTF-8 at an address is surely normal already."""
    return all(normalizer.leaves(part) for _, _, part in _restless_parts(normalizer, table, address, length))


def normal_utf8(normalizer: Normalizer, table: Table, address: int, length: int) -> bytes | None:
    """What the UTF-8 at an address is normalized to; None where it is normal already."""
    pieces: list[bytes] = []
    done = 0
    for begin, end, part in _restless_parts(normalizer, table, address, length):
        made = normalizer.normalize(part)
        if made != part:
            pieces += [ctypes.string_at(address + done, begin - done), made.encode()]
            done = end
    return b"".join([*pieces, ctypes.string_at(address + done, length - done)]) if done else None
