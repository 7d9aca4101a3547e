"""How many tokens the parts of a text have.

Counts are local. A scan of the split rule depends on what follows, so from any pretoken's start on the tokens are those
of the rest by itself; and a start that the text up to some place decides stays, however the text goes on. Between such
a start and the place in question a few hundred bytes are counted anew, in :class:`Bytes`. For a text that a normalizer
changes or that has a byte without a token, or a vocabulary with options, that does not hold: there each part is counted
whole (:class:`Whole`), which is linear too, and slow.
"""

import copy
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.calls import Call
from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import dtypes
from numbatok.kernels.pieces import add_sizes, count_characters, has_bytes, list_starts_between
from numbatok.kernels.starts import LOOK_AHEAD
from numbatok.memory import address_of
from numbatok.rows import Side
from numbatok.scratch import PAUSE_BYTES
from numbatok.streams import StreamEncoder
from numbatok.suffixes import Fed, Suffixes

if TYPE_CHECKING:
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.scratch import Scratch

NEAR = 64  # bytes from a place beyond which the pieces before and after it are taken to be settled

Places = npt.NDArray[np.int64]
EVERYTHING = 1 << 62
PARTS = 1 << 16, 1 << 12, 1 << 8  # characters that a stream is fed at once
NO_PLACES = np.empty((0, 2), np.int64)
_NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}


def settle(scratch: "Scratch") -> None:
    """Leave a scratch as a call finds it, whatever was broken off."""
    scratch.record[dtypes.WORK_TRIES_OFF] = 0
    scratch.restart()
    scratch.use_small_output()
    scratch.shrink()


def characters_before(address: int, places: Places) -> Places:
    """How many characters of the UTF-8 at an address begin before each place, in bytes; the places rise."""
    numbers = np.empty(len(places), np.int64)
    count_characters(address, address_of(places), len(places), address_of(numbers))
    return numbers


class Traced(NamedTuple):
    """How a part of a text was encoded by itself.

    Attributes
    ----------
    begin, end : where it begins, and up to where it was encoded: there a piece begins, or the part ends
    total, is_done : how many ids, and whether they are all
    ids : these; none where they were counted only
    starts : a bit for each byte, set where a piece begins; empty where ids were counted only
    points : int64[n, 2]: places where pieces begin, from ``begin`` on, and how many ids are before each
    settled : (place, ids before it) where a piece begins whatever follows the part, far from its end
    """

    begin: int
    end: int
    total: int
    is_done: bool
    ids: Ids
    starts: npt.NDArray[np.uint64]
    points: npt.NDArray[np.int64]
    settled: tuple[int, int]

    @property
    def points_in_text(self) -> npt.NDArray[np.int64]:
        """The points, their places from the text's begin on, in a new array."""
        points: npt.NDArray[np.int64] = np.add(self.points, (self.begin, 0))
        return points

    def before(self, count: int) -> tuple[int, int]:
        """The last of the points with at most so many ids before it: (place, ids before)."""
        place, known = self.points[max(int(np.searchsorted(self.points[:, 1], count, side="right")) - 1, 0)].tolist()
        return self.begin + place, known


class Bytes:
    """A text as UTF-8, of which any part between characters can be counted, and whose tokens are its bytes.

    ``longest`` is the most bytes that a token has.
    """

    def __init__(self, engine: "Engine", parts: "Parts", scratch: "Scratch", data: npt.NDArray[np.uint8]) -> None:
        self.engine, self.scratch = engine, scratch
        facts = facts_of(engine, parts)
        assert facts.sizes is not None
        self.sizes, self.is_added = facts.sizes, facts.is_added
        self.longest, self.longest_added = facts.longest, facts.longest_added
        self.is_plain = parts.vocabulary.is_plain
        self._places = np.empty(0, np.int64)
        self._points: npt.NDArray[np.int64] | None = None  # of the last trace ...
        self._starts: npt.NDArray[np.uint64] | None = None  # ... and how far these reach:
        self._reached = 0
        self._set(data)

    def _set(self, data: npt.NDArray[np.uint8]) -> None:
        self.data, self.address, self.size = data, address_of(data), len(data)

    def part(self, begin: int, end: int) -> "Bytes":
        """A part of the text as a text of its own."""
        part = copy.copy(self)
        part._points = part._starts = None
        part._set(self.data[begin:end])
        return part

    def _raise_at(self, found: DisallowedToken, begin: int) -> DisallowedToken:
        return DisallowedToken(0, begin + found.position, found.token)

    def encode(self, begin: int, end: int) -> Ids:
        """The ids of a part by itself."""
        place, length = np.array([[self.address + begin], [end - begin]], np.int64)
        last = np.empty(1, np.int64)
        self.scratch.restart()
        addresses = address_of(place), address_of(length), address_of(last)
        try:
            return self.engine.encode_all(self.scratch, *addresses, 1, end - begin)
        except DisallowedToken as found:
            raise self._raise_at(found, begin) from None

    def traced(
        self, begin: int, end: int, *, most_bytes: int = EVERYTHING, most_ids: int = EVERYTHING, counted: bool = False
    ) -> "Traced":
        """Encode a part by itself, or where it is ``counted`` only count its ids, and tell where they are.

        At the first chance after ``most_bytes``, or after more than ``most_ids`` ids, it ends. The next call overwrites
        the arrays.
        """
        scratch, length = self.scratch, end - begin
        record = scratch.record
        trace = np.zeros(dtypes.TRACE_FIELDS, np.int64)
        if self._points is None:
            self._points = np.zeros((self.size // dtypes.TRACE_STEP + 2, 2), np.int64)
        starts = self._starts
        if counted:
            starts = np.zeros(0, np.uint64)
        elif starts is None:
            self._starts = starts = np.zeros(self.size // 64 + 2, np.uint64)
        else:
            starts[: self._reached // 64 + 2] = 0
        if not counted:
            self._reached = length  # at most, should the call end with an exception
        tables = (dtypes.TRACE_STARTS, starts), (dtypes.TRACE_POINTS, self._points)
        for field, array in tables:
            trace[field], trace[field + 1] = address_of(array), array.size
        trace[dtypes.TRACE_USED], trace[dtypes.TRACE_LIMIT] = 1, most_ids
        part, last = np.array([[self.address + begin], [length]], np.int64), np.empty(1, np.int64)
        arguments = address_of(part), address_of(part) + 8, address_of(last), 1
        bytes_ahead = min(length, most_bytes, 8 * most_ids)
        scratch.expect(bytes_ahead)
        scratch.begin_wave(bytes_ahead // 2, count_only=counted)
        scratch.restart()
        record[dtypes.WORK_TRACE], record[dtypes.WORK_LEFT] = address_of(trace), min(most_bytes, PAUSE_BYTES)
        try:
            while (status := self.engine.encode_documents(scratch.address, *arguments)) < 0:
                reached = int(record[dtypes.WORK_POSITION])
                if status == dtypes.PAUSED and (
                    reached >= most_bytes or int(record[dtypes.WORK_OUTPUT_USED]) > most_ids
                ):
                    break
                self.mend(status, begin, self.engine.part_done(scratch, 1, bytes_ahead))
        finally:  # who catches a refused token may go on with the scratch
            record[dtypes.WORK_TRACE] = record[dtypes.WORK_COUNT_ONLY] = 0
        is_done = status >= 0
        reached = length if is_done else reached
        if not counted:
            self._reached = reached
        count = status if is_done else int(record[dtypes.WORK_OUTPUT_USED])
        ids = scratch.output[: 0 if counted else count]
        if scratch.output is scratch.small_output:  # where other calls' ids go
            ids = ids.copy()
        scratch.end_waves()
        points = self._points[: trace[dtypes.TRACE_USED]]
        settled = begin + int(trace[dtypes.TRACE_SETTLED]), int(trace[dtypes.TRACE_SETTLED_IDS])
        return Traced(begin, begin + reached, count, is_done, ids, starts, points, settled)

    def last_settled(self, ids: Ids, place: int, tokens: int, end: int) -> tuple[int, int]:
        """(place, tokens before) of the last piece found that begins there whatever follows ``end``.

        ``ids`` are those of a part that ends there; ``place`` and ``tokens`` are such a piece's, too.
        """
        rest = ids[tokens:]
        ends = self.token_ends(place, rest)
        starts = self.pieces(place, end, self.added_tokens(rest, ends), final=False)
        place = int(starts[-1]) if len(starts) else place
        return place, tokens + int(np.searchsorted(ends, place, side="right"))

    def count(self, begins: Places, ends: Places) -> Places:
        """How many ids each of several parts has by itself."""
        addresses, lengths = self.address + begins.astype(np.int64), (ends - begins).astype(np.int64)
        last = np.empty(len(begins), np.int64)
        self.scratch.restart()
        places = address_of(addresses), address_of(lengths), address_of(last)
        try:
            self.engine.count_all(self.scratch, *places, len(begins), int(lengths.max(initial=0)))
        except DisallowedToken as found:
            raise self._raise_at(found, int(begins[found.document])) from None
        last[1:] -= last[:-1].copy()
        return last

    def mend(self, status: int, begin: int, part_done: float) -> None:
        """Do what a status asks for, of a kernel that encodes the part from ``begin`` on; see :meth:`Engine.mend`."""
        try:
            self.engine.mend(self.scratch, status, part_done)
        except DisallowedToken as found:
            raise self._raise_at(found, begin) from None

    def token_ends(self, begin: int, ids: Ids) -> Places:
        """Where the tokens of a part that begins at ``begin`` end."""
        ends = np.empty(len(ids), np.int64)
        add_sizes(address_of(ids), len(ids), address_of(self.sizes), begin, address_of(ends))
        return ends

    def pieces(self, begin: int, end: int, added: Places, *, final: bool) -> Places:
        """Where the pieces of the part ``begin`` to ``end`` begin, ``added`` tokens among them.

        Unless it is ``final``, those alone that stay, however the text goes on after ``end``.
        """
        if len(added):
            added = added[(added[:, 0] >= begin) & (added[:, 1] <= end)]
        if len(self._places) < end - begin:  # kept: fresh memory takes longer than filling it
            self._places = np.empty(end - begin, np.int64)
        output = self._places
        arguments = self.address, begin, end, int(final), address_of(added), len(added)
        while True:
            places = address_of(output), len(output)
            status = list_starts_between(self.scratch.address, *arguments, *places)
            if status >= 0:
                break
            self.scratch.mend(status)
        starts = output[:status].copy()
        if not final and self.longest_added:
            starts = starts[: np.searchsorted(starts, max(end - self.longest_added - LOOK_AHEAD, begin), side="right")]
        return starts

    def added_tokens(self, ids: Ids, ends: Places) -> Places:
        """int64[tokens, 2]: where those of the tokens that are added ones begin and end."""
        which = np.flatnonzero(self.is_added[ids]) if self.longest_added else ()
        if not len(which):
            return NO_PLACES
        return np.stack([ends[which] - self.sizes[ids[which]], ends[which]], axis=1)

    def characters(self, begin: int, end: int) -> Places:
        """The places between characters, from ``begin`` to ``end``, both included where they are."""
        span = self.data[begin : min(end + 1, self.size)]
        places = begin + np.flatnonzero((span & 0xC0) != 0x80)
        return np.append(places, end) if end == self.size else places

    def character_at(self, place: int) -> int:
        """The last place between characters at or before a place."""
        while 0 < place < self.size and self.data[place] & 0xC0 == 0x80:
            place -= 1
        return min(place, self.size)


class Facts(NamedTuple):
    """What is asked of a vocabulary: bytes of each id, which are added tokens, the most bytes of a token.

    ``missing`` are the bytes that occur in UTF-8 and are no tokens, as ranges: the first of each, and how many; None
    where bytes are not merged as they are.
    """

    sizes: npt.NDArray[np.int32] | None
    is_added: npt.NDArray[np.bool_]
    longest: int
    longest_added: int
    missing: Places | None


_facts: "weakref.WeakKeyDictionary[Engine, Facts]" = weakref.WeakKeyDictionary()


def facts_of(engine: "Engine", parts: "Parts") -> Facts:
    """The facts of an engine's vocabulary, found once."""
    if engine not in _facts:
        sizes = engine.tokens.sizes
        is_added = np.zeros(0 if sizes is None else len(sizes), np.bool_)
        if sizes is not None:
            is_added[list(parts.added_tokens.content_of)] = True
        added = max((len(content) for content in parts.added_tokens.id_of), default=0)
        longest = max(int(np.diff(parts.vocabulary.starts).max(initial=1)), added)
        _facts[engine] = Facts(sizes, is_added, longest, added, _missing_ranges(parts.vocabulary.missing_bytes))
    return _facts[engine]


def _missing_ranges(missing: bytes | None) -> Places | None:
    """See :class:`Facts`."""
    if missing is None:
        return None
    numbers = np.array([byte for byte in missing if byte not in _NEVER_IN_UTF8], np.int64)
    runs = [run for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1) if len(run)]
    return np.array([(run[0], len(run)) for run in runs], np.int64).reshape(-1, 2)


def is_local(engine: "Engine", parts: "Parts", data: npt.NDArray[np.uint8] | None, *, in_steps: bool = False) -> bool:
    """Whether counts of a text are local, and its tokens are its bytes: see the module; of any text for None.

    Of a split rule of several steps they are not: a start may be the last step's alone, inside of a piece of the first.
    ``in_steps`` lets that pass, for callers who see to it.
    """
    view = engine.view_record
    if view[dtypes.VIEW_COARSE] and not in_steps:
        return False
    if engine.regex_rule is not None or parts.prefix_space:
        return False
    if view[dtypes.VIEW_OPTIONS] & dtypes.CUT_PUNCTUATION:  # pieces begin inside of characters
        return False
    if parts.merged_added:  # ids do not tell where added tokens are
        return False
    if engine.drops or view[dtypes.VIEW_ADDED_ANY_FLAG] or engine.tokens.sizes is None:
        return False
    missing = facts_of(engine, parts).missing
    if missing is None:
        return False
    if data is None:
        return parts.normalizer is None and not len(missing)
    if len(missing) and has_bytes(address_of(data), len(data), address_of(missing), len(missing)):
        return False  # such a byte has no token
    if parts.normalizer is None:
        return True
    return engine.restless_table is not None and not engine.changes(address_of(data), len(data))


class Whole:
    """A text of which each part is counted whole, through whatever the tokenizer does to it."""

    def __init__(self, engine: "Engine", parts: "Parts", text: str, actions: npt.NDArray[np.uint8]) -> None:
        self._engine, self._parts, self._text, self._actions = engine, parts, text, actions
        self.wide = max(NEAR, facts_of(engine, parts).longest)

    def count(self, begin: int, end: int) -> int:
        """How many tokens the characters ``begin`` to ``end`` have by themselves."""
        part = self._text[begin:end]
        if self._actions is self._engine.everything_allowed:
            made = self._engine.count_plain[1](part)  # of a short text; the other way takes 25 us
            if made is not None:
                return int(made)
        try:
            call = Call(self._actions, "strict", None, count_only=True)
            return int(self._engine.encode_batch([part], None, call).offsets[1])
        except DisallowedToken as found:
            raise DisallowedToken(0, len(self._text[:begin].encode()) + found.position, found.token) from None

    def truncate(self, room: int, side: Side) -> str:
        """The longest prefix or suffix of at most ``room`` tokens."""
        text = self._text
        whole = len(text)
        # A stream may find a refused token in what is cut off.
        refuses = bool((self._actions == dtypes.ADDED_REFUSED).any())
        if side == "left":
            return text[whole - self._length_of_suffix(room, refuses) :]
        if refuses:
            return text[: last_within(lambda n: self.count(0, n), room, 0, whole, 4 * room, self.wide)]
        fed, most = self._fed_within(room)

        def count(end: int) -> int:
            return fed.count_with(text[fed.place : end])

        return text[: last_within(count, room, fed.place, most, PARTS[-1], self.wide)]

    def _length_of_suffix(self, room: int, refuses: bool) -> int:
        """How many characters the longest suffix of at most ``room`` tokens has."""
        whole = len(self._text)
        least, guess = 0, 4 * room
        suffixes = None if refuses or whole < PARTS[0] else Suffixes(self._text, self._stream(), PARTS[0])

        def count(size: int) -> int:
            told = suffixes.count(whole - size) if suffixes is not None and suffixes.are_told else None
            return self.count(whole - size, whole) if told is None else told

        if suffixes is not None and suffixes.are_told:
            guess = self.wide
            least, step = whole - suffixes.near(room), guess
            while least > 0 and count(least) > room:
                least, step = max(least - step, 0), 2 * step
        return last_within(count, room, least, whole, guess, self.wide)

    def _stream(self) -> StreamEncoder:
        """A stream that is fed a part of the text from its beginning."""
        return StreamEncoder(self._engine, self._parts, self._actions, ([], []), "strict")

    def _fed_within(self, room: int) -> tuple[Fed, int]:
        """A stream that was fed a late prefix of at most ``room`` tokens, and a place after which no prefix fits.

        There more tokens than that are certain, whatever follows. It is looked for in smaller and smaller parts.
        """
        text = self._text
        fed = [Fed(0, 0, self._stream())]
        most = len(text)
        for size in PARTS:
            last = fed[-1]
            while last.place < most:
                following = last.extended(text[last.place : min(last.place + size, most)])
                if following.tokens > room:
                    most = following.place
                    break
                if following.tokens > fed[-1].tokens:
                    fed.append(following)
                last = following
        while fed[-1].count_with("") > room:
            fed.pop()
        return fed[-1], most


def last_within(count: Callable[[int], int], room: int, least: int, most: int, guess: int, wide: int) -> int:
    """The largest number from ``least`` to ``most`` whose count is at most ``room``, or ``least``.

    Counts rise by and large, not always: after a first place where they pass ``room``, ``wide`` more in a row must have
    a count of ``room + 3`` or above: between the bytes of a character, where nothing is counted, it may be 3 less.
    """
    low, high, step = least, least, max(guess, 1)
    while high < most:
        high = min(low + step, most)
        if count(high) > room:
            break
        low, step = high, 2 * step
    if low >= most:
        return most
    while high - low > 1:
        middle = (low + high) // 2
        if count(middle) <= room:
            low = middle
        else:
            high = middle
    best = below = low
    place = low + 1
    while place <= most and place - below <= wide:
        number = count(place)
        if number <= room:
            best = place
        if number < room + 3:
            below = place
        place += 1
    return best
