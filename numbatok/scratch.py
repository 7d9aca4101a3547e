"""What one caller works in: buffers, the cache table, and how they grow. One caller at a time holds a scratch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.caches import CacheBudget
from numbatok.documents import Around
from numbatok.ids import Ids
from numbatok.kernels import cache, dtypes, text
from numbatok.kernels.jit import Method
from numbatok.memory import address_of, in_huge_pages, in_lines

NARROW_ENTRIES = 1 << 11  # of a new scratch: 32 KiB
WIDE_ENTRIES = 1 << 11  # 64 KiB
MOST_NARROW_ENTRIES = 1 << 20  # 16 MiB
MOST_WIDE_ENTRIES = 1 << 22  # 128 MiB
MOST_LOAD = 0.7  # entries in use before the table is doubled, or wiped at its largest
ARENA_WORDS = 1 << 14  # 64 KiB
MOST_ARENA_WORDS = 1 << 24  # 64 MiB
MERGE_SYMBOLS = 1 << 10
MOST_MERGE_SYMBOLS = 1 << 18  # kept between calls; a longer pretoken's buffers are dropped after it
MOST_BITMAP_BLOCKS = 1 << 14
MOST_WAVE_IDS = 1 << 22  # 16 MiB; a larger buffer of a worker's ids is dropped after its call
PAUSE_BYTES = 1 << 25  # of a call between two looks at whether it is interrupted: half a second, if most is merged
LONGEST_PRETOKEN = (1 << 31) - 1  # positions in the merge lists are int32

_Part = tuple[int, int, int, int]
#: Scratches whose tables have been made larger: the old table, and its parts, which are to be moved.
Moves = dict["Scratch", tuple[npt.NDArray[np.generic], tuple[_Part, _Part]]]

CACHE_FULL = {dtypes.NEED_NARROW: "narrow", dtypes.NEED_WIDE: "wide", dtypes.NEED_ARENA: "arena"}
_MERGE_BUFFERS = (
    (dtypes.WORK_SYMBOLS, np.uint32, 1),
    (dtypes.WORK_RANKS, np.uint32, 1),
    (dtypes.WORK_NEXT, np.int32, 1),
    (dtypes.WORK_PREVIOUS, np.int32, 1),
    (dtypes.WORK_HEAP, np.uint64, 2),
)


def _growth(before: int, now: int, part_done: float) -> float:
    """How many times as much as ``now`` a part of the cache will hold when a call ends, by Heaps' law.

    ``part_done`` of the call's text is behind, and what it has added to the ``before`` tells of what it will add: one
    of many calls over the same kind of text adds little. Less what rounding it up to a power of two adds.
    """
    added = (now - before) * math.pow(max(part_done, 1e-3), -0.75)
    return (before + added) / max(now, 1) / math.sqrt(2)


def move_arguments(moves: Moves) -> list[tuple[int, ...]]:
    """The arguments of the calls of :func:`cache.move_entries` that are to be made, in any order."""
    return [(*part, int(scratch.table_is_clear)) for scratch, (_, parts) in moves.items() for part in parts]


def _nothing(_: object) -> None:
    """What a scratch runs before it is prepared."""


class Scratch:
    """Buffers for kernels behind one record of addresses; see :mod:`numbatok.kernels.dtypes` for the fields.

    Parameters
    ----------
    view : int64[VIEW_FIELDS], the tokenizer's tables, which the scratch keeps alive
    budget : what its cache may take, shared with others; None for as much as MOST_... say
    longest : bytes of a pretoken that its buffers hold from the beginning, up to MOST_MERGE_SYMBOLS
    """

    def __init__(
        self, view: npt.NDArray[np.int64], budget: CacheBudget | None = None, longest: int = MERGE_SYMBOLS
    ) -> None:
        self.record = np.zeros(dtypes.WORK_FIELDS, np.int64)
        self.address = address_of(self.record)
        self._arrays: dict[int, npt.NDArray[np.generic]] = {dtypes.WORK_VIEW: view}
        self.record[dtypes.WORK_VIEW] = address_of(view)
        self._set_bitmaps(dtypes.CHUNK_BLOCKS + 1)
        self.set_table(dtypes.WORK_MARKS, np.zeros(0, np.uint64))
        self.set_table(dtypes.WORK_POSITIONS, in_lines(dtypes.CHUNK_BYTES + dtypes.POSITION_SLACK, np.uint16))
        self.set_table(dtypes.WORK_KEYS, in_lines(2 * dtypes.LARGE_GROUP, np.uint64))
        self.set_table(dtypes.WORK_PLACES, in_lines(dtypes.LARGE_GROUP, np.int64))
        self.set_table(dtypes.WORK_TAIL, np.zeros(dtypes.TAIL_BYTES, np.uint8))
        self.set_table(dtypes.WORK_PIECE, np.zeros(16, np.uint8))
        self.set_table(dtypes.WORK_LANES, in_lines(dtypes.LANES_BYTES // 8, np.uint64))
        self.set_table(dtypes.WORK_ARENA, np.empty(ARENA_WORDS, np.uint32))
        self.small_output = np.empty(text.SHORT_TEXT + dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK, np.uint32)
        self._wave_output: npt.NDArray[np.generic] = self.small_output
        self.use_small_output()
        #: What :mod:`numbatok.offsets` keeps here for short texts: addresses of plans, and what these point to.
        self.plans: dict[tuple[bool, str], int] = {}
        self.kept_plans: list[npt.NDArray[np.int64]] = []
        self.record[dtypes.WORK_UNTIL] = dtypes.NO_UNTIL
        self.record[dtypes.WORK_LEFT] = PAUSE_BYTES
        self.record[dtypes.WORK_TASK] = -1
        self._never = np.zeros(1, np.int64)
        self._never_address = self.record[dtypes.WORK_STOP] = address_of(self._never)
        self.around: Around | None = None
        self.actions: npt.NDArray[np.uint8] | None = None
        self.owner = 0  # the thread that had it last for a text that was not short
        self.prepared_for: object = None  # what has called :meth:`prepare`, and finds all as it was
        self.run: Callable[[Any], Any] = _nothing
        self._methods: dict[Method, Callable[[Any], Any]] = {}
        self.budget = budget
        self._used_before = (0, 0, 0)  # of narrow and wide entries and the arena, when the call began
        self._make_table(NARROW_ENTRIES, WIDE_ENTRIES)
        self.wipe()
        if budget is not None:
            budget.add(self)
        self._set_merge_symbols(min(max(longest, MERGE_SYMBOLS), MOST_MERGE_SYMBOLS))

    def set_table(self, field: int, array: npt.NDArray[np.generic]) -> None:
        """Make ``array`` the table of ``field``; the scratch keeps it alive."""
        self._arrays[field] = array
        self.record[field] = address_of(array)
        self.record[field + 1] = len(array)

    @property
    def output(self) -> Ids:
        """Where ids go now."""
        return self._arrays[dtypes.WORK_OUTPUT]  # type: ignore[return-value]

    def use_small_output(self) -> None:
        """Let ids go to the scratch's own buffer, not to a call's."""
        self.set_table(dtypes.WORK_OUTPUT, self.small_output)

    def prepare(
        self,
        caller: object,
        method: Method,
        actions: npt.NDArray[np.uint8],
        around: Around,
        also: "Callable[[Scratch], None] | None" = None,
    ) -> None:
        """Make ready to :attr:`run` a method for a caller, time after time; ``also`` is to set what only it reads."""
        self.set_actions(actions)
        self.set_around(around)
        if also is not None:
            also(self)
        if method not in self._methods:
            self._methods[method] = method.bound_to(self.record)
        self.run = self._methods[method]
        self.prepared_for = caller

    def set_actions(self, actions: npt.NDArray[np.uint8]) -> None:
        """Say what is to be done at each added token: ADDED_AS_TEXT, ADDED_AS_TOKEN or ADDED_REFUSED."""
        self.actions, self.prepared_for = actions, None
        self.set_table(dtypes.WORK_ACTIONS, actions)

    def set_around(self, around: Around) -> None:
        """Say what is put before and after the text of a call of one."""
        self.around, self.prepared_for = around, None
        record, first = self.record, dtypes.WORK_LIST
        record[dtypes.WORK_LIST_FIRST], record[dtypes.WORK_LIST_COUNT] = around.first, around.count
        record[first], record[first + dtypes.LIST] = around.before
        record[first + 2], record[first + dtypes.LIST + 2] = around.after

    def restart(self) -> None:
        """Stand at the beginning of the first document, with nothing put out."""
        self.record[dtypes.WORK_DOCUMENT] = self.record[dtypes.WORK_OUTPUT_USED] = 0
        self.record[dtypes.WORK_POSITION] = dtypes.AT_BEGINNING

    def begin_wave(self, ids: int, count_only: bool) -> None:
        """Let the ids of a parallel call's tasks, about so many, go to a buffer that grows and is kept."""
        self.record[dtypes.WORK_OUTPUT_USED] = 0
        self.record[dtypes.WORK_COUNT_ONLY] = count_only
        self.record[dtypes.WORK_LEFT] = PAUSE_BYTES
        if not count_only:
            output = self._arrays[dtypes.WORK_OUTPUT]
            if output is not self.small_output:  # that of the wave before, which may have grown
                self._wave_output = output
            if len(self._wave_output) < ids:
                self._wave_output = np.empty(ids, np.uint32)
            self.set_table(dtypes.WORK_OUTPUT, self._wave_output)

    def bytes_passed(self) -> int:
        """How many bytes of text kernels have gone through since this was asked, or since a wave began."""
        passed = PAUSE_BYTES - int(self.record[dtypes.WORK_LEFT])
        self.record[dtypes.WORK_LEFT] = PAUSE_BYTES
        return passed

    def end_waves(self) -> None:
        """Be ready for a call of one caller again."""
        output = self._arrays[dtypes.WORK_OUTPUT]
        if output is not self.small_output:
            self._wave_output = output if len(output) <= MOST_WAVE_IDS else self.small_output
        self.use_small_output()
        self.record[dtypes.WORK_COUNT_ONLY] = self.record[dtypes.WORK_TRIES_OFF] = 0
        self.record[dtypes.WORK_UNTIL] = dtypes.NO_UNTIL
        self.record[dtypes.WORK_STOP] = self._never_address
        self.shrink()

    def _make_table(self, narrow: int, wide: int) -> None:
        """A cache table of so many entries, both powers of two, with anything in them unless ``table_is_clear``."""
        self._narrow, self._wide = narrow, wide
        words = self._wide_base() + wide * dtypes.WIDE_WORDS
        in_pages = in_huge_pages(words, np.uint64)  # under the table others cost a quarter of the speed
        table = in_lines(words, np.uint64) if in_pages is None else in_pages
        table[: dtypes.NARROW_BASE] = 0
        self.set_table(dtypes.WORK_TABLE, table)
        self.record[dtypes.WORK_NARROW_SHIFT] = 65 - narrow.bit_length()
        self.record[dtypes.WORK_NARROW_LIMIT] = int(MOST_LOAD * narrow)
        self.record[dtypes.WORK_WIDE_SHIFT] = 65 - wide.bit_length()
        self.record[dtypes.WORK_WIDE_LIMIT] = int(MOST_LOAD * wide)
        self.table_is_clear = in_pages is not None

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

    def tables(self) -> dict[int, npt.NDArray[np.generic]]:
        """The buffers by the fields of the record where they stand, but for the view."""
        return {field: array for field, array in self._arrays.items() if field != dtypes.WORK_VIEW}

    def fix_sizes(self, cache_bytes: int, longest: int) -> None:
        """Make a cache of about so many bytes, and buffers for a pretoken of ``longest`` bytes, neither to grow."""
        entry = 8 * (dtypes.NARROW_WORDS + 2 * dtypes.WIDE_WORDS)  # twice as many wide entries as narrow ones
        narrow = 1 << max(6, (cache_bytes * 3 // 4 // entry).bit_length() - 1)
        self._make_table(narrow, 2 * narrow)
        self.wipe()
        self.set_table(dtypes.WORK_ARENA, np.empty(max(cache_bytes // 4 // 4, 1 << 12), np.uint32))
        self._set_merge_symbols(longest)
        self._set_bitmaps(max(dtypes.CHUNK_BLOCKS, 4 * (longest // 64 + 1)) + 1)

    def expect(self, text_bytes: int, moves: Moves | None = None) -> None:
        """Make the table large enough ahead for most of a text, by Heaps' law as English has it.

        Distinct pretokens are about 3.45 n^0.62 of n bytes, at most. Room for a third of them is made among the narrow
        entries and among the wide ones each: with half of that for the narrow, which then were doubled on the way, a
        first pass over 3.5 to 8 MB took 2 to 4 % more, and later ones the same. ``moves`` is that of
        :meth:`_grow_table`.
        """
        self._used_before = self._used()
        distinct = 3.45 * text_bytes**0.62
        wanted = distinct / 3 / MOST_LOAD
        arena = len(self._arrays[dtypes.WORK_ARENA])
        self._grow(wanted / self._narrow, wanted / self._wide, wanted / arena, moves)

    @property
    def cache_bytes(self) -> int:
        """Memory that the cache takes."""
        return self._arrays[dtypes.WORK_TABLE].nbytes + self._arrays[dtypes.WORK_ARENA].nbytes

    def _used(self) -> tuple[int, int, int]:
        """(narrow entries, wide entries, words of the arena) in use."""
        narrow, wide, arena = self.record[[dtypes.WORK_NARROW_USED, dtypes.WORK_WIDE_USED, dtypes.WORK_ARENA_USED]]
        return int(narrow), int(wide), int(arena)

    @property
    def entries(self) -> int:
        """Pretokens in the cache."""
        return sum(self._used()[:2])

    @property
    def pieces(self) -> int:
        """Pretokens seen so far."""
        return int(self.record[dtypes.WORK_PIECES])

    @property
    def misses(self) -> int:
        """Those that were not in the cache."""
        return int(self.record[dtypes.WORK_MISSES])

    def _may_take(self, more: int) -> bool:
        """Whether the cache may take so many bytes more."""
        return self.budget is None or self.budget.grants(self, self.cache_bytes + more)

    def _grow(self, narrow: float = 1.0, wide: float = 1.0, arena: float = 1.0, moves: Moves | None = None) -> bool:
        """Make the parts of the cache at least so many times as large, by powers of two, as far as they may be.

        Returns whether every part that was to grow has. ``moves`` is that of :meth:`_grow_table`.
        """
        if max(narrow, wide, arena) <= 1:
            return True
        sizes = [self._narrow, self._wide, len(self._arrays[dtypes.WORK_ARENA])]
        before = list(sizes)
        most = (MOST_NARROW_ENTRIES, MOST_WIDE_ENTRIES, MOST_ARENA_WORDS)
        item = (8 * dtypes.NARROW_WORDS, 8 * dtypes.WIDE_WORDS, 4)
        for part, factor in enumerate((narrow, wide, arena)):
            doublings = math.ceil(math.log2(max(factor, 1.0)))
            while doublings > 0:
                size = min(sizes[part] << doublings, most[part])
                more = sum((new - old) * each for new, old, each in zip(sizes, before, item, strict=True))
                if size > sizes[part] and self._may_take(more + (size - sizes[part]) * item[part]):
                    sizes[part] = size
                    break
                doublings -= 1
        if sizes[:2] != before[:2]:
            self._grow_table(sizes[0], sizes[1], moves)
        if sizes[2] != before[2]:
            grown = np.empty(sizes[2], np.uint32)
            used = int(self.record[dtypes.WORK_ARENA_USED])
            grown[:used] = self._arrays[dtypes.WORK_ARENA][:used]
            self.set_table(dtypes.WORK_ARENA, grown)
        wanted = zip((narrow, wide, arena), sizes, before, strict=True)
        return all(new > old for factor, new, old in wanted if factor > 1)

    def _grow_table(self, narrow: int, wide: int, moves: Moves | None) -> None:
        """Make the table larger; its entries are moved at once, or by the caller, who finds them in ``moves``."""
        old, parts = self._arrays[dtypes.WORK_TABLE], self._parts()
        self._make_table(narrow, wide)
        if moves is None:
            for arguments in move_arguments({self: (old, parts)}):
                cache.move_entries(*arguments)
        else:
            moves.setdefault(self, (old, parts))  # in one that was made before, and is left already, is nothing yet

    def _parts(self) -> tuple[_Part, _Part]:
        """For each part of the table the arguments of :func:`cache.move_entries` but for the last."""
        table = int(self.record[dtypes.WORK_TABLE])
        return (
            (table + 8 * dtypes.NARROW_BASE, self._narrow, dtypes.NARROW_WORDS, self.address),
            (table + 8 * self._wide_base(), self._wide, dtypes.WIDE_WORDS, self.address),
        )

    def _growths(self, part_done: float) -> list[float]:
        """How many times as much as now each part of the cache will hold when a call ends."""
        pairs = zip(self._used_before, self._used(), strict=True)
        return [_growth(before, now, part_done) for before, now in pairs]

    def make_room(self, part_done: float, moves: Moves | None = None) -> None:
        """Make the parts of the cache larger that, by Heaps' law, will be full before a call ends.

        What would be full by a little is doubled, too, as all workers stand still. ``moves`` is that of
        :meth:`_grow_table`.
        """
        record, used = self.record, self._used()
        rooms = record[dtypes.WORK_NARROW_LIMIT], record[dtypes.WORK_WIDE_LIMIT], record[dtypes.WORK_ARENA + 1]
        loads = (now / int(room) for now, room in zip(used, rooms, strict=True))
        wanted = (load * rest for load, rest in zip(loads, self._growths(part_done), strict=True))
        narrow, wide, arena = (max(factor, 1.1) if factor * math.sqrt(2) > 1 else 1.0 for factor in wanted)
        self._grow(narrow, wide, arena, moves)

    def wipe(self) -> None:
        """Forget every cached pretoken."""
        self._arrays[dtypes.WORK_TABLE].fill(0)
        self.record[dtypes.WORK_NARROW_USED] = 0
        self.record[dtypes.WORK_WIDE_USED] = 0
        self.record[dtypes.WORK_ARENA_USED] = 0
        self._used_before = (0, 0, 0)

    def mend(self, status: int, part_done: float = 1.0, moves: Moves | None = None) -> None:
        """Do what a kernel's NEED_ status asks for, so that it can be called again.

        ``part_done`` is the part of a call's text that is behind: from it follows how much the rest will want, by
        Heaps' law again. Doubling step by step cost a fifth of a first pass over Chinese.
        ``moves`` is that of :meth:`_grow_table`.

        Raises ValueError where a piece of text is too long to be merged at all.
        """
        needed = int(self.record[dtypes.WORK_NEEDED])
        if status in CACHE_FULL:
            part = list(CACHE_FULL).index(status)
            if not self._grow(**{CACHE_FULL[status]: max(2.0, self._growths(part_done)[part])}, moves=moves):
                self.wipe()
                if status == dtypes.NEED_ARENA and needed > len(self._arrays[dtypes.WORK_ARENA]):
                    # Not even an empty arena holds this one, whatever the budget: it would be asked for for ever.
                    self.set_table(dtypes.WORK_ARENA, np.empty(needed, np.uint32))
        elif status == dtypes.NEED_OUTPUT:
            output = self._arrays[dtypes.WORK_OUTPUT]
            used = min(int(self.record[dtypes.WORK_OUTPUT_USED]), len(output))
            grown = np.empty(max(needed, 2 * len(output)), np.uint32)
            grown[:used] = output[:used]
            self.set_table(dtypes.WORK_OUTPUT, grown)
        elif status == dtypes.PAUSED:
            self.record[dtypes.WORK_LEFT] = PAUSE_BYTES
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
