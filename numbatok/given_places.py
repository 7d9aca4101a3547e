"""Places in texts that had to be repaired before they were encoded, as places in what was given."""

import codecs
import threading
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from numbatok.alignment import groups_of, span_of
from numbatok.columns import Column, Texts
from numbatok.kernels import text
from numbatok.memory import address_of
from numbatok.offset_tables import Places
from numbatok.text import OffsetUnit, as_bytes

if TYPE_CHECKING:
    from numbatok.engine import Encoded

#: Byte offsets of what was not UTF-8 in the text that is decoded by this thread.
_invalid = threading.local()


def _note_invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    _invalid.spans.append((error.start, error.end))
    return "\ufffd", error.end


codecs.register_error("numbatok.note_invalid", _note_invalid)


def refer_to_given(found: Places, encoded: "Encoded", texts: Texts, which: Literal["A", "B"], unit: OffsetUnit) -> None:
    """Let offsets in texts that had to be repaired refer to what was given."""
    count = len(texts)
    addresses, lengths, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int8)
    given: Any = texts
    if isinstance(texts, Column):  # well-formed UTF-8 needs nothing, so only what is not becomes an object
        given = [b""] * count
        for invalid in texts.invalid():
            given[invalid] = texts[invalid]
    text.locate_list(id(given), count, address_of(addresses), address_of(lengths), address_of(kinds), 0)
    moved: dict[int, tuple[Places, Places]] = {}
    for owner in np.flatnonzero(kinds).tolist():
        source = given[owner]
        if isinstance(source, str) == (unit == "byte"):  # which repairing leaves as they are
            continue
        moves = _moves_in_str(source) if isinstance(source, str) else _moves_in_bytes(as_bytes(source).tobytes())
        if moves is not None:
            moved[owner] = moves
    for group in groups_of(encoded) if moved else ():
        if group.which == which and group.owner in moved:
            begin, end, _, _ = span_of(encoded, group)
            after, shifts = moved[group.owner]
            number = np.searchsorted(after, found[begin:end], side="right")
            found[begin:end] += np.append(0, shifts)[number]


def _moves_in_str(string: str) -> tuple[Places, Places] | None:
    """(after, shifts) of a ``str`` with surrogate pairs, each made one character: from the character ``after[i]`` of
    the repaired text on, ``shifts[i]`` is to be added for the place in ``string``.
    """
    codes = np.frombuffer(string.encode("utf-32-le", "surrogatepass"), "<u4")
    high, low = codes >> 10 == 0xD800 >> 10, codes >> 10 == 0xDC00 >> 10
    pairs = np.flatnonzero(high[:-1] & low[1:])
    if not len(pairs):
        return None
    numbers = np.arange(len(pairs))
    return pairs - numbers + 1, numbers + 1


def _moves_in_bytes(data: bytes) -> tuple[Places, Places] | None:
    """The same for bytes that are not UTF-8, each part of which became U+FFFD, three bytes."""
    _invalid.spans = []
    data.decode("utf-8", "numbatok.note_invalid")
    spans = np.array(_invalid.spans, np.int64).reshape(-1, 2)
    if not len(spans):
        return None
    shifts = np.cumsum(spans[:, 1] - spans[:, 0] - len("\ufffd".encode()))
    return spans[:, 1] - shifts, shifts
