"""UTF-8 of long texts, made of a ``str``'s characters, or checked: by several threads where others leave them.

Both are serial work before all encoding otherwise: a tenth to a quarter of a long text's time with two threads.
"""

import numpy as np
import numpy.typing as npt

from numbatok.kernels import dtypes, utf8
from numbatok.memory import address_of, empty, touch
from numbatok.parallel import call_rows, threads_for
from numbatok.threads import parallel_region, threads_of

SAMPLE = 1 << 12  # characters that tell of what kind a text is
CHECKED = 16  # bytes are checked in the time that one is encoded
PARTS = 4  # for each thread, so that a slow one holds up the others little


def transcode(characters: int, count: int, width: int, threads: int | None) -> npt.NDArray[np.uint8] | None:
    """The UTF-8 of ``count`` characters of ``width`` bytes at an address; None where a lone surrogate is among them.

    ``threads`` is the caller's ``num_threads``.
    """
    # Characters that are ASCII, nearly all, take a tenth of the time: 0.02 ms for 400 KB, where threads cost 0.1.
    sample = min(count, SAMPLE)
    is_ascii = utf8.transcode_utf8(characters, sample, width, 0, 0) < sample + sample // 8
    with parallel_region(threads_for(count * width // (8 if is_ascii else 1), threads_of(threads))) as granted:
        if granted < 2:
            data = empty({1: 2, 2: 3, 4: 4}[width] * count, np.uint8)
            used = utf8.transcode_utf8(characters, count, width, address_of(data), len(data))
            return data[:used] if used >= 0 else None
        cuts = np.linspace(0, count, PARTS * granted + 1).astype(np.int64)
        rows = np.zeros((len(cuts) - 1, dtypes.CALL_FIELDS), np.int64)
        rows[:, 0] = characters + width * cuts[:-1]
        rows[:, 1] = np.diff(cuts)
        rows[:, 2] = width
        call_rows(utf8.transcode_utf8, rows, granted)
        sizes = rows[:, dtypes.CALL_RESULT].copy()
        data = empty(int(sizes.sum()), np.uint8)
        touch(data)
        rows[:, 3], rows[:, 4] = address_of(data) + np.cumsum(sizes) - sizes, sizes
        call_rows(utf8.transcode_utf8, rows, granted)
        return data if (rows[:, dtypes.CALL_RESULT] == sizes).all() else None


def transcode_texts(
    characters: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], widths: npt.NDArray[np.int8], threads: int | None
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(data, addresses, sizes): the UTF-8 of texts, and where in ``data`` it is; ``threads`` is the caller's.

    Of each there is given where its characters are, their number, and the bytes that each takes. The size is -1 where a
    lone surrogate is among them.
    """
    rows = np.empty((len(counts), dtypes.TEXT_FIELDS), np.int64)
    rows[:, dtypes.TEXT_CHARACTERS], rows[:, dtypes.TEXT_COUNT], rows[:, dtypes.TEXT_WIDTH] = characters, counts, widths
    ends = (counts * np.minimum(widths + 1, 4)).cumsum()  # two, three or four bytes a character at most
    data = empty(int(ends[-1]), np.uint8)
    with parallel_region(threads_for(int(ends[-1]), threads_of(threads))) as granted:
        parts = PARTS * granted if granted > 1 else 1
        cuts = np.searchsorted(ends, np.linspace(0, ends[-1], parts + 1)[1:-1], "right")
        cuts = np.concatenate(([0], cuts, [len(rows)]))
        calls = np.zeros((parts, dtypes.CALL_FIELDS), np.int64)
        calls[:, 0], calls[:, 1] = utf8.transcode_utf8.address, address_of(rows) + rows.strides[0] * cuts[:-1]
        calls[:, 2] = np.diff(cuts)
        places = address_of(data) + np.concatenate(([0], ends))[cuts]
        calls[:, 3], calls[:, 4] = places[:-1], places[1:]
        call_rows(utf8.transcode_texts, calls, granted)
    return data, rows[:, dtypes.TEXT_PLACE], rows[:, dtypes.TEXT_SIZE]


def first_invalid(data: npt.NDArray[np.uint8], threads: int | None) -> int:
    """Byte offset of the first sequence in ``data`` that is not UTF-8, or -1; ``threads`` as in :func:`transcode`."""
    if threads_for(len(data) // CHECKED, 2) < 2:
        return int(utf8.first_invalid_utf8(address_of(data), len(data)))
    with parallel_region(threads_for(len(data) // CHECKED, threads_of(threads))) as granted:
        if granted > 1:
            cuts = np.linspace(0, len(data), PARTS * granted + 1).astype(np.int64)
            # Cut at characters' first bytes; where there is none nearby, what is there is no UTF-8.
            near = data[np.minimum(cuts[1:-1, np.newaxis] + np.arange(4), len(data) - 1)] & 0xC0 != 0x80
            if near.any(axis=1).all():
                cuts[1:-1] += np.argmax(near, axis=1)
                rows = np.zeros((len(cuts) - 1, dtypes.CALL_FIELDS), np.int64)
                rows[:, 0], rows[:, 1] = address_of(data) + cuts[:-1], np.diff(cuts)
                call_rows(utf8.first_invalid_utf8, rows, granted)
                wrong = np.flatnonzero(rows[:, dtypes.CALL_RESULT] >= 0)
                return int(cuts[wrong[0]] + rows[wrong[0], dtypes.CALL_RESULT]) if len(wrong) else -1
    return int(utf8.first_invalid_utf8(address_of(data), len(data)))


def all_valid(addresses: int, lengths: int, count: int, total: int, threads: int | None) -> bool:
    """Whether texts of ``total`` bytes, as ``next_invalid_text`` takes them, are UTF-8; ``threads`` is the caller's."""
    with parallel_region(threads_for(total // CHECKED, threads_of(threads))) as granted:
        if granted < 2:
            return bool(utf8.next_invalid_text(addresses, lengths, count, 0) < 0)
        cuts = np.linspace(0, count, PARTS * granted + 1).astype(np.int64)
        rows = np.zeros((len(cuts) - 1, dtypes.CALL_FIELDS), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = addresses + 8 * cuts[:-1], lengths + 8 * cuts[:-1], np.diff(cuts)
        call_rows(utf8.next_invalid_text, rows, granted)
        return bool((rows[:, dtypes.CALL_RESULT] < 0).all())
