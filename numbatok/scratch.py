"""What one caller works in: buffers, the cache table, and how they grow. One caller at a time holds a scratch."""

import math

import numpy as np
import numpy.typing as npt

from numbatok.documents import Around
from numbatok.kernels import cache, dtypes, text
from numbatok.memory import address_of, zeros

NARROW_ENTRIES = 1 << 11  # of a new scratch: 32 KiB
WIDE_ENTRIES = 1 << 11  # 64 KiB
MOST_NARROW_ENTRIES = 1 << 20  # 16 MiB
MOST_WIDE_ENTRIES = 1 << 22  # 128 MiB
MOST_LOAD = 0.7  # entries in use before the table is doubled, or wiped at its largest
ARENA_WORDS = 1 << 14
MOST_ARENA_WORDS = 1 << 24  # 64 MiB
MERGE_SYMBOLS = 1 << 10
MOST_MERGE_SYMBOLS = 1 << 18  # kept between calls; a longer pretoken's buffers are dropped after it
MOST_BITMAP_BLOCKS = 1 << 14
LONGEST_PRETOKEN = (1 << 31) - 1  # positions in the merge lists are int32

_MERGE_BUFFERS = (
    (dtypes.WORK_SYMBOLS, np.uint32, 1),
    (dtypes.WORK_RANKS, np.uint32, 1),
    (dtypes.WORK_NEXT, np.int32, 1),
    (dtypes.WORK_PREVIOUS, np.int32, 1),
    (dtypes.WORK_HEAP, np.uint64, 2),
)


def _next_size(size: int, factor: float, most: int) -> int:
    """A power of two: at least twice ``size``, the one next to ``factor`` times it, but not above ``most``."""
    doublings = max(1, round(math.log2(factor)))
    return min(size << doublings, most)


class Scratch:
    """Buffers for kernels behind one record of addresses; see :mod:`numbatok.kernels.dtypes` for the fields."""

    def __init__(self, view: npt.NDArray[np.int64]) -> None:
        self.record = np.zeros(dtypes.WORK_FIELDS, np.int64)
        self.address = address_of(self.record)
        self._arrays: dict[int, npt.NDArray[np.generic]] = {dtypes.WORK_VIEW: view}
        self.record[dtypes.WORK_VIEW] = address_of(view)
        self._set_bitmaps(dtypes.CHUNK_BLOCKS + 1)
        self.set_table(dtypes.WORK_MARKS, np.zeros(0, np.uint64))
        self.set_table(dtypes.WORK_POSITIONS, np.zeros(dtypes.CHUNK_BYTES + 16, np.uint16))
        self.set_table(dtypes.WORK_KEYS, np.zeros(2 * dtypes.GROUP, np.uint64))
        self.set_table(dtypes.WORK_PLACES, np.zeros(dtypes.GROUP, np.int64))
        self.set_table(dtypes.WORK_TAIL, np.zeros(dtypes.TAIL_BYTES, np.uint8))
        self.set_table(dtypes.WORK_PIECE, np.zeros(16, np.uint8))
        self.set_table(dtypes.WORK_ARENA, np.empty(ARENA_WORDS, np.uint32))
        self.small_output = np.empty(text.SHORT_TEXT + dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK, np.uint32)
        self.use_small_output()
        self.made: list[list[int]] = []  # where kernels.lists puts what it makes
        self.listing = np.array([0, 0, id(self.made)], np.int64)
        self.listing_address = address_of(self.listing)
        self.around: Around | None = None
        self.actions: npt.NDArray[np.uint8] | None = None
        self._make_table(NARROW_ENTRIES, WIDE_ENTRIES)
        self._set_merge_symbols(MERGE_SYMBOLS)

    def set_table(self, field: int, array: npt.NDArray[np.generic]) -> None:
        """Make ``array`` the table of ``field``; the scratch keeps it alive."""
        self._arrays[field] = array
        self.record[field] = address_of(array)
        self.record[field + 1] = len(array)

    def use_small_output(self) -> None:
        """Let ids go to the scratch's own buffer, not to a call's."""
        self.set_table(dtypes.WORK_OUTPUT, self.small_output)

    def set_actions(self, actions: npt.NDArray[np.uint8]) -> None:
        """Say what is to be done at each added token: ADDED_AS_TEXT, ADDED_AS_TOKEN or ADDED_REFUSED."""
        self.actions = actions
        self.set_table(dtypes.WORK_ACTIONS, actions)

    def set_around(self, around: Around) -> None:
        """Say what is put before and after the text of a call of one."""
        self.around = around
        record, first = self.record, dtypes.WORK_LIST
        record[dtypes.WORK_LIST_FIRST], record[dtypes.WORK_LIST_COUNT] = around.first, around.count
        record[first], record[first + dtypes.LIST] = around.before
        record[first + 2], record[first + dtypes.LIST + 2] = around.after

    def restart(self) -> None:
        """Stand at the beginning of the first document, with nothing put out."""
        self.record[dtypes.WORK_DOCUMENT] = self.record[dtypes.WORK_OUTPUT_USED] = 0
        self.record[dtypes.WORK_POSITION] = dtypes.AT_BEGINNING

    def _make_table(self, narrow: int, wide: int) -> None:
        """An empty cache table of so many entries, both powers of two."""
        self._narrow, self._wide = narrow, wide
        self.set_table(dtypes.WORK_TABLE, zeros(self._wide_base() + wide * dtypes.WIDE_WORDS, np.uint64))
        self.record[dtypes.WORK_NARROW_SHIFT] = 65 - narrow.bit_length()
        self.record[dtypes.WORK_NARROW_LIMIT] = int(MOST_LOAD * narrow)
        self.record[dtypes.WORK_WIDE_SHIFT] = 65 - wide.bit_length()
        self.record[dtypes.WORK_WIDE_LIMIT] = int(MOST_LOAD * wide)

    def _wide_base(self) -> int:
        return dtypes.NARROW_BASE + self._narrow * dtypes.NARROW_WORDS

    def _set_merge_symbols(self, count: int) -> None:
        for field, dtype, per_symbol in _MERGE_BUFFERS:
            self.set_table(field, np.empty(per_symbol * count, dtype))

    def _set_bitmaps(self, words: int) -> None:
        """Bitmaps of the starts of pretokens, and of those that are dropped; the second only where some may be."""
        self.set_table(dtypes.WORK_STARTS, np.zeros(words, np.uint64))
        drops = self._arrays[dtypes.WORK_VIEW][dtypes.VIEW_DROPS]
        self.set_table(dtypes.WORK_DROPPED, np.zeros(words if drops else 0, np.uint64))

    def expect(self, text_bytes: int) -> None:
        """Make the table large enough ahead for most of a text, by Heaps' law as English has it.

        Distinct pretokens are about 3.45 n^0.62 of n bytes, a third of them narrow. Room for half of them is made: a
        table that is larger than need be costs more, in cache misses, than doubling it once.
        """
        distinct = 3.45 * text_bytes**0.62
        narrow = min(MOST_NARROW_ENTRIES, max(self._narrow, 1 << int(distinct / 3 * 0.5 / MOST_LOAD).bit_length()))
        wide = min(MOST_WIDE_ENTRIES, max(self._wide, 1 << int(distinct / 3 * 1.0 / MOST_LOAD).bit_length()))
        if (narrow, wide) != (self._narrow, self._wide):
            self._grow_table(narrow, wide)

    def _grow_table(self, narrow: int, wide: int) -> None:
        old, old_wide_base = self._arrays[dtypes.WORK_TABLE], self._wide_base()
        self._make_table(narrow, wide)
        cache.move_entries(address_of(old), len(old), old_wide_base, self.address)

    def wipe(self) -> None:
        """Forget every cached pretoken."""
        self._arrays[dtypes.WORK_TABLE].fill(0)
        self.record[dtypes.WORK_NARROW_USED] = 0
        self.record[dtypes.WORK_WIDE_USED] = 0
        self.record[dtypes.WORK_ARENA_USED] = 0

    def mend(self, status: int, part_done: float = 1.0) -> None:
        """Do what a kernel's NEED_ status asks for, all but NEED_OUTPUT, so that it can be called again.

        ``part_done`` is the part of a call's text that is behind: from it follows how much the rest will want, by
        Heaps' law again. Doubling step by step cost a fifth of a first pass over Chinese.
        """
        needed = int(self.record[dtypes.WORK_NEEDED])
        rest = max(part_done, 1e-3) ** -0.75
        if status == dtypes.NEED_NARROW and self._narrow < MOST_NARROW_ENTRIES:
            self._grow_table(_next_size(self._narrow, rest, MOST_NARROW_ENTRIES), self._wide)
        elif status == dtypes.NEED_WIDE and self._wide < MOST_WIDE_ENTRIES:
            self._grow_table(self._narrow, _next_size(self._wide, rest, MOST_WIDE_ENTRIES))
        elif status in (dtypes.NEED_NARROW, dtypes.NEED_WIDE):
            self.wipe()
        elif status == dtypes.NEED_ARENA:
            arena = self._arrays[dtypes.WORK_ARENA]
            if len(arena) < MOST_ARENA_WORDS:
                grown = np.empty(_next_size(len(arena), rest, MOST_ARENA_WORDS), np.uint32)
                used = int(self.record[dtypes.WORK_ARENA_USED])
                grown[:used] = arena[:used]
                self.set_table(dtypes.WORK_ARENA, grown)
            else:
                self.wipe()
        elif status == dtypes.NEED_BITMAP:
            self._set_bitmaps(2 * needed)
        elif status == dtypes.NEED_MARKS:
            self.set_table(dtypes.WORK_MARKS, np.zeros(2 * needed, np.uint64))
        elif status == dtypes.NEED_MERGE:
            if needed > LONGEST_PRETOKEN:
                raise ValueError(
                    f"the split rule leaves one piece of {needed} bytes; at most {LONGEST_PRETOKEN} can be merged"
                )
            self._set_merge_symbols(needed)
        else:
            raise AssertionError(f"status {status} is not for the scratch")

    def shrink(self) -> None:
        """Drop the buffers of an unusually long pretoken."""
        if len(self._arrays[dtypes.WORK_SYMBOLS]) > MOST_MERGE_SYMBOLS:
            self._set_merge_symbols(MERGE_SYMBOLS)
        if len(self._arrays[dtypes.WORK_STARTS]) > MOST_BITMAP_BLOCKS:
            self._set_bitmaps(dtypes.CHUNK_BLOCKS + 1)
            self.set_table(dtypes.WORK_MARKS, np.zeros(0, np.uint64))
