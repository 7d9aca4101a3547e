"""Texts and numbers of tokens: does it fit, how much of it does, and into which parts is it to be cut.

The count of a text is not the sum of its parts', and a longer text can have fewer tokens: ``hell`` has two, ``hello``
one. So nothing here is estimated: whatever is returned has been counted as it is.

What makes that fast is that counts are local. A scan of the split rule depends on what follows, so from any pretoken's
start on the tokens are those of the rest by itself; and a start that the text up to some place decides stays, however
the text goes on. Between such a start and the place in question a few hundred bytes are counted anew, in
:class:`_Bytes`. For a text that a normalizer changes, or a vocabulary with options, that does not hold: there each
candidate is counted whole (:class:`_Whole`), which is linear too, and slow.
"""

import copy
import ctypes
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import dtypes, merge
from numbatok.kernels.pieces import (
    PEEK,
    add_sizes,
    agreeing_cuts,
    count_characters,
    cut_by_budget,
    list_starts_between,
)
from numbatok.memory import address_of
from numbatok.rows import Side
from numbatok.templates import Text as TextPiece

if TYPE_CHECKING:
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.scratch import Scratch

At = Literal["piece", "line", "sentence", "paragraph"]
LEVELS = ("piece", "sentence", "line", "paragraph")  # each one's places are among those of the one before

NEAR = 64  # bytes from a place beyond which the pieces before and after it are taken to be settled
BATCH = 64  # candidates counted at once
SAMPLE = 4096  # tokens from whose bytes those of a large budget are guessed
LONG_PIECE = 4096  # bytes of a piece from which on its parts are merged, not all of it
BLOCK = 1 << 18  # bytes that are cut into chunks at once; more for large budgets
LOCAL_TOKENS = 24  # tokens merged anew in a long piece, at first

_Places = npt.NDArray[np.int64]


class Chunk(NamedTuple):
    """A part of a text.

    Attributes
    ----------
    start, end : the characters of the text that it is
    text : these
    n_tokens : how many ids ``encode(text)`` gives
    """

    start: int
    end: int
    text: str
    n_tokens: int


class Frame(NamedTuple):
    """What a template makes of a number of tokens: that many ``times``, and ``added`` more."""

    added: int
    times: int

    def room(self, max_tokens: int) -> int:
        """How many tokens a text may have."""
        return (max_tokens - self.added) // self.times if self.times else 1 << 62


def frame_of(engine: "Engine", special: bool) -> Frame:
    """The template of single texts."""
    frame = engine.frame(False, special)
    added = sum(len(block) for block in frame.blocks if block is not None)
    return Frame(added, sum(isinstance(piece, TextPiece) for piece in frame.pieces))


class Source(NamedTuple):
    """A text as a ``str`` without lone surrogates, and its UTF-8 in memory that ``kept`` holds."""

    text: str
    data: npt.NDArray[np.uint8]
    kept: Any


def source_of(engine: "Engine", text: Any, errors: str) -> Source:
    """A text, read in place where it can be."""
    kept: list[Any] = []
    if not isinstance(text, str):
        data = engine._prepare(text, errors)
        text = data.tobytes().decode()
    texts = [text]
    addresses, lengths = engine._place_all(texts, errors, kept)
    if kept:  # surrogates were repaired
        text = kept[0].tobytes().decode()
    size = int(lengths[0])
    memory = (ctypes.c_uint8 * size).from_address(int(addresses[0])) if size else b""
    return Source(text, np.frombuffer(memory, np.uint8), (texts, kept))


# --- fits ---


def fits(engine: "Engine", text: Any, room: int, actions: npt.NDArray[np.uint8], errors: str) -> bool:
    """Whether a text has at most ``room`` tokens; the rest is not looked at once there are more."""
    kept: list[Any] = []
    _, documents = engine._documents([text], None, actions, errors, None, kept)
    ends = np.empty(len(documents.addresses), np.int64)
    places = address_of(documents.addresses), address_of(documents.lengths), address_of(ends), len(ends)
    with engine.scratch() as scratch:
        scratch.set_actions(actions)
        scratch.restart()
        if documents.are_cut:
            scratch.record[dtypes.WORK_TRIES_OFF] = 2 if engine._cuts_text else 1
        total = int(np.maximum(documents.lengths, 0).sum())
        try:
            status = _run(engine, scratch, places, total, room)
        except DisallowedToken as found:
            raise engine._found_in(documents, engine.frame(False, False), found) from None
        _settle(scratch)
    del kept
    return 0 <= status <= room


def _run(engine: "Engine", scratch: "Scratch", places: tuple[int, int, int, int], total: int, room: int) -> int:
    """Encode documents until there are more than ``room`` ids; returns how many there are, or a negative number."""
    scratch.expect(min(total, 8 * room))
    record = scratch.record
    per_byte = int(engine._view[dtypes.VIEW_IDS_PER_BYTE])
    size = min(room, per_byte * total) + per_byte * dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK + 1
    output = np.empty(size, np.uint32)
    scratch.set_table(dtypes.WORK_OUTPUT, output)
    while (status := engine._encode(scratch.address, *places)) < 0:
        used = int(record[dtypes.WORK_OUTPUT_USED])
        if used > room:
            return -1
        if status == dtypes.NEED_OUTPUT:
            grown = np.empty(max(int(record[dtypes.WORK_NEEDED]), size), np.uint32)
            grown[:used] = output[:used]
            output, size = grown, len(grown)
            scratch.set_table(dtypes.WORK_OUTPUT, output)
        else:
            engine._mend(scratch, status, engine._part_done(scratch, places[3], total))
    return int(status)


def _settle(scratch: "Scratch") -> None:
    """Leave a scratch as a call finds it, whatever was broken off."""
    scratch.record[dtypes.WORK_TRIES_OFF] = 0
    scratch.restart()
    scratch.use_small_output()
    scratch.shrink()


# --- counting parts of a text ---


class _Bytes:
    """A text as UTF-8, of which any part between characters can be counted, and whose tokens are its bytes.

    ``longest`` is the most bytes that a token has.
    """

    def __init__(self, engine: "Engine", parts: "Parts", scratch: "Scratch", data: npt.NDArray[np.uint8]) -> None:
        self.engine, self.scratch = engine, scratch
        facts = facts_of(engine, parts)
        assert facts.sizes is not None
        self.sizes, self._is_added = facts.sizes, facts.is_added
        self.longest, self.longest_added = facts.longest, facts.longest_added
        self._set(data)

    def _set(self, data: npt.NDArray[np.uint8]) -> None:
        self.data, self.address, self.size = data, address_of(data), len(data)

    def part(self, begin: int, end: int) -> "_Bytes":
        """A part of the text as a text of its own."""
        part = copy.copy(self)
        part._set(self.data[begin:end])
        return part

    def _raise_at(self, found: DisallowedToken, begin: int) -> DisallowedToken:
        return DisallowedToken(0, begin + found.position, found.token)

    def encode(self, begin: int, end: int) -> Ids:
        """The ids of a part by itself."""
        place, length, last = np.array([self.address + begin]), np.array([end - begin]), np.empty(1, np.int64)
        self.scratch.restart()
        addresses = address_of(place), address_of(length), address_of(last)
        try:
            return self.engine._encode_all(self.scratch, *addresses, 1, end - begin)
        except DisallowedToken as found:
            raise self._raise_at(found, begin) from None

    def count(self, begins: _Places, ends: _Places) -> _Places:
        """How many ids each of several parts has by itself."""
        addresses, lengths = self.address + begins, ends - begins
        last = np.empty(len(begins), np.int64)
        self.scratch.restart()
        places = address_of(addresses), address_of(lengths), address_of(last)
        try:
            self.engine._count_all(self.scratch, *places, len(begins), int(lengths.max(initial=0)))
        except DisallowedToken as found:
            raise self._raise_at(found, int(begins[found.document])) from None
        return np.diff(last, prepend=0)

    def token_ends(self, begin: int, ids: Ids) -> _Places:
        """Where the tokens of a part that begins at ``begin`` end."""
        ends = np.empty(len(ids), np.int64)
        add_sizes(address_of(ids), len(ids), address_of(self.sizes), begin, address_of(ends))
        return ends

    def pieces(self, begin: int, end: int, added: _Places, *, final: bool) -> _Places:
        """Where the pieces of the part ``begin`` to ``end`` begin, ``added`` tokens among them.

        Unless it is ``final``, those alone that stay, however the text goes on after ``end``.
        """
        if len(added):
            added = added[(added[:, 0] >= begin) & (added[:, 1] <= end)]
        output = np.empty(end - begin, np.int64)
        arguments = self.address, begin, end, int(final), address_of(added), len(added)
        while True:
            places = address_of(output), len(output)
            status = list_starts_between(self.scratch.address, *arguments, *places)
            if status >= 0:
                break
            self.scratch.mend(status)
        starts = output[:status]
        if not final and self.longest_added:
            starts = starts[: np.searchsorted(starts, max(end - self.longest_added - PEEK, begin), side="right")]
        return starts

    def added_tokens(self, ids: Ids, ends: _Places) -> _Places:
        """int64[tokens, 2]: where those of the tokens that are added ones begin and end."""
        which = np.flatnonzero(self._is_added[ids]) if self.longest_added else np.empty(0, np.int64)
        return np.stack([ends[which] - self.sizes[ids[which]], ends[which]], axis=1)

    def characters(self, begin: int, end: int) -> _Places:
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
    """What is asked of a vocabulary: bytes of each id, which are added tokens, the most bytes of a token."""

    sizes: npt.NDArray[np.int32] | None
    is_added: npt.NDArray[np.bool_]
    longest: int
    longest_added: int


_facts: "weakref.WeakKeyDictionary[Engine, Facts]" = weakref.WeakKeyDictionary()


def facts_of(engine: "Engine", parts: "Parts") -> Facts:
    """The facts of an engine's vocabulary, found once."""
    if engine not in _facts:
        sizes = engine.decoder.sizes
        is_added = np.zeros(0 if sizes is None else len(sizes), np.bool_)
        if sizes is not None:
            is_added[list(parts.added_tokens.content_of)] = True
        added = max((len(content) for content in parts.added_tokens.id_of), default=0)
        longest = max(int(np.diff(parts.vocabulary.starts).max(initial=1)), added)
        _facts[engine] = Facts(sizes, is_added, longest, added)
    return _facts[engine]


def _is_local(engine: "Engine", parts: "Parts", data: npt.NDArray[np.uint8]) -> bool:
    """Whether counts of a text are local, and its tokens are its bytes: see the module."""
    view = engine._view
    if engine._regex_rule is not None or parts.prefix_space or not parts.vocabulary.is_plain:
        return False
    if parts.merged_added:  # ids do not tell where added tokens are
        return False
    if view[dtypes.VIEW_DROPS] or view[dtypes.VIEW_ADDED_ANY_FLAG] or engine.decoder.sizes is None:
        return False
    if parts.normalizer is None:
        return True
    return engine._restless is not None and not engine._changes(address_of(data), len(data))


# --- the longest prefix or suffix ---


def truncate(
    engine: "Engine", parts: "Parts", source: Source, room: int, side: Side, actions: npt.NDArray[np.uint8]
) -> str:
    """The longest prefix, or suffix where the ``left`` is cut off, of at most ``room`` tokens."""
    data = source.data
    if not _is_local(engine, parts, data):
        return _Whole(engine, parts, source.text, actions).truncate(room, side)
    with engine.scratch() as scratch:
        scratch.set_actions(actions)
        local = _Bytes(engine, parts, scratch, data)
        place = _Prefix(local).longest_within(room) if side == "right" else _Suffix(local).longest_within(room)
        _settle(scratch)
    if place == (len(data) if side == "right" else 0):
        return source.text
    return (data[:place] if side == "right" else data[place:]).tobytes().decode()


class _Search:
    """What both ends have in common: candidates around the place where the budget runs out, counted in batches.

    A candidate's count is that of the part before (for a suffix: after) the last token and one more. So once the counts
    of as many bytes as a token has, or as the piece there has, are all at the budget or above, those of all candidates
    beyond are above it. Between the bytes of a character nothing is counted; there a count is at most 3 less.
    """

    def __init__(self, text: _Bytes) -> None:
        self.text = text
        self._view: npt.NDArray[np.int64] | None = None

    def wide(self, pieces: _Places) -> int:
        """How many bytes of counts at or above the budget settle that no candidate is beyond, by the pieces there."""
        widest = int(np.diff(pieces).max(initial=0))
        return max(NEAR, self.text.longest if 2 * widest > NEAR else self.text.longest_added)

    @staticmethod
    def wider(width: int, tokens: int, wanted: int) -> int:
        """How many bytes will hold the ``wanted`` tokens and some more, where ``width`` bytes held ``tokens``."""
        return int(1.03 * width * (wanted + 4 * NEAR) / max(tokens, 1)) + NEAR

    def slack(self, begin: int, end: int) -> int:
        """How much less a count between the bytes of a character may be."""
        return 3 if (self.text.data[max(begin, 0) : end] >= 0x80).any() else 0

    def merged(self, begin: int, end: int) -> Ids:
        """The ids that merging alone makes of a part of a piece."""
        if self._view is None:
            record: npt.NDArray[np.int64] = self.text.engine._view.record.copy()
            record[dtypes.VIEW_WHOLE_LIMIT] = 0
            self._view = record
        scratch = self.text.scratch
        arguments = address_of(self._view), scratch.address, self.text.address + begin, end - begin
        while (status := merge.merge_pretoken(*arguments)) < 0:
            scratch.record[dtypes.WORK_NEEDED] = end - begin
            scratch.mend(status)
        return scratch._arrays[dtypes.WORK_SYMBOLS][:status].astype(np.uint32)


class _Prefix(_Search):
    def longest_within(self, room: int) -> int:
        """The end of the longest prefix of at most ``room`` tokens."""
        text = self.text
        if room == 0:
            return 0
        base, done = self._skip(room)
        need = room - done
        width = 4 * min(need, SAMPLE) + 1024
        while True:
            end = text.character_at(min(base + width, text.size))
            ids = text.encode(base, end)
            if len(ids) > need + NEAR or end == text.size:
                break
            width = self.wider(width, len(ids), need)
        if len(ids) <= need:
            return text.size
        ends = text.token_ends(base, ids)
        added = text.added_tokens(ids, ends)
        place = text.character_at(int(ends[need - 1]))
        # Places before this one are asked only if no later one will do.
        while place > base:
            pieces = text.pieces(base, place, added, final=False)
            near = int(np.searchsorted(pieces, place - NEAR, side="right"))
            anchor = int(pieces[near - 1]) if near else base
            before = done + int(np.searchsorted(ends, anchor, side="right"))
            best = self._best(room, anchor, before, place, added, ends, end)
            if best >= 0:
                return best
            place = text.character_at(max(place - 4 * NEAR, base))
        return base

    def _skip(self, room: int) -> tuple[int, int]:
        """(place, tokens before): a start to begin at, not far before the budget runs out."""
        text = self.text
        most = room - 256
        if most < 2 * dtypes.CHUNK_BYTES:
            return 0, 0
        place, length, last = np.array([text.address]), np.array([text.size]), np.empty(1, np.int64)
        scratch = text.scratch
        scratch.restart()
        scratch.expect(min(text.size, 8 * room))
        record = scratch.record
        output = np.empty(most, np.uint32)
        scratch.set_table(dtypes.WORK_OUTPUT, output)
        arguments = address_of(place), address_of(length), address_of(last), 1
        while (status := text.engine._encode(scratch.address, *arguments)) < 0 and status != dtypes.NEED_OUTPUT:
            text.engine._mend(scratch, status, text.engine._part_done(scratch, 1, text.size))
        if status >= 0:
            found = 0, 0  # it all fits: the caller sees it again
        else:
            found = int(record[dtypes.WORK_RESUME]), int(record[dtypes.WORK_OUTPUT_USED])
        scratch.restart()
        scratch.use_small_output()
        return found

    def _best(self, room: int, anchor: int, before: int, place: int, added: _Places, ends: _Places, end: int) -> int:
        """The last candidate from ``place`` on that has at most ``room`` tokens, or -1.

        ``anchor`` is a piece's start that stays, with ``before`` tokens before it; up to ``end`` the ids are known.
        """
        text = self.text
        if place - anchor > LONG_PIECE:
            return self._best_in_long(room, anchor, before, place, ends)
        ahead = text.character_at(min(place + 16 * NEAR, end))
        wide = self.wide(np.append(text.pieces(anchor, ahead, added, final=False), ahead))
        best = -1
        below = begin = place
        while begin <= text.size:
            candidates = text.characters(begin, min(begin + BATCH, text.size))
            counts = before + text.count(np.full(len(candidates), anchor), candidates)
            good = candidates[counts <= room]
            if len(good):
                best = int(good[-1])
            low = candidates[counts < room + self.slack(begin - 8, begin + BATCH + 8)]
            if len(low):
                below = int(low[-1])
            begin = int(candidates[-1]) + 1
            if begin - below > wide:
                break
            if begin - anchor > 2 * LONG_PIECE:
                return max(best, self._best_in_long(room, anchor, before, place, ends))
        return best

    def _best_in_long(self, room: int, anchor: int, before: int, place: int, ends: _Places) -> int:
        """:meth:`_best` inside of a long piece that begins at ``anchor``: its last tokens alone are merged anew.

        The tokens of a prefix are those of the whole piece up to a place where two of them stand side by side that
        merging leaves apart: whether it does shows in these two alone.
        """
        text = self.text
        settled = int(np.searchsorted(ends, anchor, side="right"))
        first = int(np.searchsorted(ends, place, side="right"))
        found = []
        below = place
        for candidate in text.characters(place, min(place + LONG_PIECE, text.size)).tolist():
            count = self._count_from(candidate, ends, settled, first)
            if count is None:
                break
            if before + count <= room:
                found.append(candidate)
            if before + count < room + self.slack(place, candidate):
                below = candidate
            if candidate - below >= text.longest:
                break
        for candidate in reversed(found[-BATCH:]):
            if before + int(text.count(np.array([anchor]), np.array([candidate]))[0]) <= room:
                return int(candidate)
        return -1

    def _count_from(self, candidate: int, ends: _Places, settled: int, first: int) -> int | None:
        """Tokens from the piece's start, token ``settled``, to a candidate after token ``first``; None if not found."""
        back = LOCAL_TOKENS
        while True:
            token = max(first - back, settled)
            begin = int(ends[token - 1]) if token else 0
            ids = self.merged(begin, candidate)
            if token == settled:
                return len(ids)
            edge = int(ends[token - 2]) if token > 1 else 0
            size = int(self.text.sizes[ids[0]]) if len(ids) else 0
            pair = self.merged(edge, begin + size)
            if len(pair) == 2 and int(self.text.sizes[pair[0]]) == begin - edge:
                return token - settled + len(ids)
            back *= 2


class _Suffix(_Search):
    def longest_within(self, room: int) -> int:
        """The begin of the longest suffix of at most ``room`` tokens."""
        text = self.text
        if room == 0:
            return text.size
        width = 4 * min(room, SAMPLE) + 1024
        while True:
            begin = text.character_at(max(text.size - width, 0))
            ids = text.encode(begin, text.size)
            if len(ids) > room + NEAR or begin == 0:
                break
            width = self.wider(width, len(ids), room)
        if len(ids) <= room:
            return 0
        ends = text.token_ends(begin, ids)
        place = text.character_at(int(ends[len(ids) - room - 1]))
        high = text.character_at(min(place + BATCH, text.size))
        while True:
            best = self._best(room, place, high, begin, ids, ends)
            if best >= 0:
                return best
            if high == text.size:
                return text.size
            place, high = high, text.character_at(min(high + 4 * NEAR, text.size))

    def _best(self, room: int, place: int, high: int, begin: int, ids: Ids, ends: _Places) -> int:
        """The first candidate, before or after ``place`` but not after ``high``, of at most ``room`` tokens, or -1."""
        text = self.text
        stop = text.character_at(min(high + 16 * NEAR, text.size))
        added = text.added_tokens(ids, ends)
        pieces = text.pieces(begin, stop, added, final=stop == text.size)
        around = int(np.searchsorted(pieces, place - 16 * NEAR))
        wide = self.wide(np.append(pieces[max(around - 1, 0) :], stop))
        meeting = self._meeting(pieces, added, high, stop)
        if meeting - place > LONG_PIECE:
            return self._best_in_long(room, place, len(ids), ends)
        after = len(ids) - int(np.searchsorted(ends, meeting, side="right"))
        best, below = -1, high
        end = high
        while True:
            candidates = text.characters(max(end - BATCH, 0), end)
            candidates = candidates[candidates <= end]
            counts = self._counts(candidates, added, meeting, after, stop)
            good = candidates[counts <= room]
            if len(good):
                best = int(good[0])
            low = candidates[counts < room + self.slack(end - BATCH - 8, end + 8)]
            if len(low):
                below = int(low[0])
            first = int(candidates[0])
            if first == 0 or below - first >= wide:
                return best
            end = text.character_at(first - 1)
            if meeting - end > 2 * LONG_PIECE:
                found = self._best_in_long(room, place, len(ids), ends)
                return found if found >= 0 and (best < 0 or found < best) else best

    @staticmethod
    def _is_meeting_of_added(added: npt.NDArray[np.int64], meeting: int) -> bool:
        return bool((added[:, 0] == meeting).any())

    def _meeting(self, pieces: _Places, added: npt.NDArray[np.int64], high: int, stop: int) -> int:
        """A place after all candidates where the suffixes can be expected to go on alike; or the text's end.

        It is where an added token begins, or else a piece.
        """
        data, size = self.text.data, self.text.size
        tokens = added[(added[:, 0] > high) & (added[:, 1] <= stop - NEAR), 0]
        if len(tokens):
            return int(tokens[0])
        chosen = pieces[(pieces >= high + NEAR) & (pieces <= stop - 2 * NEAR)]
        for start in chosen[:BATCH].tolist():
            if data[start] == ord(" ") and data[start - 1] < 0x80 and chr(data[start - 1]).isalpha():
                return int(start)
        return int(chosen[0]) if len(chosen) else size

    def _counts(
        self, candidates: _Places, added: npt.NDArray[np.int64], meeting: int, after: int, stop: int
    ) -> _Places:
        """How many tokens each suffix has, where ``after`` of them come from ``meeting`` on."""
        text = self.text
        agree = np.ones(len(candidates), np.uint8)
        if meeting < text.size and not self._is_meeting_of_added(added, meeting):
            # Behind an added token all goes on alike.
            begins = candidates
            earlier = added[added[:, 0] < meeting]
            if len(earlier):
                begins = np.where(candidates <= earlier[-1, 0], earlier[-1, 1], candidates)
            arguments = text.address, address_of(begins), len(begins), meeting, stop, address_of(agree)
            while (status := agreeing_cuts(text.scratch.address, *arguments)) < 0:
                text.scratch.mend(status)
        counts = after + text.count(candidates, np.full(len(candidates), meeting))
        for place in np.flatnonzero(agree == 0).tolist():
            counts[place] = text.count(candidates[place : place + 1], np.array([text.size]))[0]
        return counts

    def _best_in_long(self, room: int, place: int, total: int, ends: _Places) -> int:
        """:meth:`_best` inside of a long piece: its first tokens alone are merged anew; see :class:`_Prefix`."""
        text = self.text
        first = int(np.searchsorted(ends, place, side="right"))
        found = []
        below = place
        for candidate in text.characters(max(place - LONG_PIECE, 0), place)[::-1].tolist():
            count = self._count_to(candidate, ends, first, total)
            if count is None:
                break
            if count <= room:
                found.append(candidate)
            if count < room + self.slack(candidate, place):
                below = candidate
            if below - candidate >= text.longest:
                break
        for candidate in reversed(found[-BATCH:]):
            if int(text.count(np.array([candidate]), np.array([text.size]))[0]) <= room:
                return int(candidate)
        return -1

    def _count_to(self, candidate: int, ends: _Places, first: int, total: int) -> int | None:
        """Tokens from a candidate before token ``first`` on to the last of ``total``; None if it can't be told."""
        ahead = LOCAL_TOKENS
        while first + ahead + 1 < total:
            token = first + ahead
            edge = int(ends[token - 1])
            ids = self.merged(candidate, edge)
            size = int(self.text.sizes[ids[-1]]) if len(ids) else 0
            pair = self.merged(edge - size, int(ends[token]))
            if len(pair) == 2 and int(self.text.sizes[pair[0]]) == size:
                return len(ids) + total - token
            ahead *= 2
        return None


class _Whole:
    """A text of which each part is counted whole, through whatever the tokenizer does to it."""

    def __init__(self, engine: "Engine", parts: "Parts", text: str, actions: npt.NDArray[np.uint8]) -> None:
        self._engine, self._text, self._actions = engine, text, actions
        self._wide = max(NEAR, facts_of(engine, parts).longest)

    def count(self, begin: int, end: int) -> int:
        """How many tokens the characters ``begin`` to ``end`` have by themselves."""
        part = self._text[begin:end]
        try:
            return int(self._engine.count_batch([part], self._actions, "strict", None)[0])
        except DisallowedToken as found:
            raise DisallowedToken(0, len(self._text[:begin].encode()) + found.position, found.token) from None

    def truncate(self, room: int, side: Side) -> str:
        """The longest prefix or suffix of at most ``room`` tokens."""
        text = self._text
        whole = len(text)

        def fits(length: int) -> int:
            return self.count(0, length) if side == "right" else self.count(whole - length, whole)

        length = last_within(fits, room, 0, whole, 4 * room, self._wide)
        return text[:length] if side == "right" else text[whole - length :]


def last_within(count: Callable[[int], int], room: int, least: int, most: int, guess: int, wide: int) -> int:
    """The largest number from ``least`` to ``most`` whose count is at most ``room``, or ``least``.

    Counts rise by and large, not always: after a first place where they pass ``room``, ``wide`` more in a row must have
    a count of ``room`` or above.
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
        if number < room + 3:  # between the bytes of a character it may be 3 less
            below = place
        place += 1
    return best


# --- chunks ---


def chunk(
    engine: "Engine",
    parts: "Parts",
    source: Source,
    frame: Frame,
    max_tokens: int,
    overlap: int,
    at: At,
    actions: npt.NDArray[np.uint8],
) -> list[Chunk]:
    """What :meth:`numbatok.Tokenizer.chunk` does."""
    text, data = source.text, source.data
    if not text:
        return []
    room = frame.room(max_tokens)
    if frame.times == 0:
        return [Chunk(0, len(text), text, frame.added)]
    levels = LEVELS[: LEVELS.index(at) + 1]
    if _is_local(engine, parts, data):
        with engine.scratch() as scratch:
            scratch.set_actions(actions)
            spans, counts = _Chunks(_Bytes(engine, parts, scratch, data), room, overlap, levels).made()
            _settle(scratch)
    else:
        spans, counts = _whole_chunks(_Whole(engine, parts, text, actions), data, room, overlap, levels)
    places = spans if text.isascii() else _character_numbers(data, spans)
    return [
        Chunk(start, end, text[start:end], frame.added + frame.times * count)
        for (start, end), count in zip(places.tolist(), counts.tolist(), strict=True)
    ]


def _character_numbers(data: npt.NDArray[np.uint8], places: _Places) -> _Places:
    """How many characters are before each place."""
    edges, inverse = np.unique(places, return_inverse=True)
    numbers = np.empty(len(edges), np.int64)
    count_characters(address_of(data), address_of(edges), len(edges), address_of(numbers))
    result: _Places = numbers[inverse].reshape(places.shape)
    return result


def _among(characters: bytes) -> npt.NDArray[np.bool_]:
    """bool[256]: the bytes that are one of these characters."""
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table


_BLANKS, _STOPS, _CLOSING, _SPACES = map(_among, (b" \t\r\n", b".!?", b"\"')]", b" \t\n\v\f\r"))


def _places_of(level: str, data: npt.NDArray[np.uint8], begin: int, end: int, pieces: _Places) -> _Places:
    """Where a text may be cut at a level, between two places; ``pieces`` are those of the finest."""
    if level == "piece":
        return pieces
    span = data[begin:end]
    lines = np.flatnonzero(span == ord("\n")) + 1
    if level == "line":
        return begin + lines
    if level == "paragraph":
        # Two line ends, with white space at most between them; of several in a row the last. Most lines begin with
        # something else.
        empty = np.flatnonzero(_BLANKS[span[lines[:-1]]])
        nearly = [not span[lines[i] : lines[i + 1]].tobytes().strip(b" \t\r\n") for i in empty.tolist()]
        second = np.zeros(len(lines), np.bool_)
        second[1 + empty[nearly]] = True
        return begin + lines[second & ~np.append(second[1:], False)]
    # A full stop or the like, perhaps a quotation mark or a bracket after it, and white space.
    stops = np.flatnonzero(_STOPS[span])
    after = np.append(span, data[end : end + 2])
    after = np.append(after, np.full(2, ord(" "), np.uint8))
    closed = stops + 1 + _CLOSING[after[stops + 1]]
    found = [lines, closed[_SPACES[after[closed]]]]
    for sign in (b"\xe3\x80\x82", b"\xef\xbc\x81", b"\xef\xbc\x9f"):  # U+3002, U+FF01, U+FF1F
        last = np.flatnonzero(span[2:] == sign[2])
        found.append(3 + last[(span[last + 1] == sign[1]) & (span[last] == sign[0])])
    return begin + np.unique(np.concatenate(found))


def _too_large(data: npt.NDArray[np.uint8], begin: int, room: int, count: int) -> ValueError:
    character = bytes(data[begin : begin + 4]).decode("utf-8", "ignore")[:1]
    number = int(_character_numbers(data, np.array([begin]))[0])
    return ValueError(
        f"max_tokens leaves room for {room} tokens of text, and the character {character!r} at index {number} alone "
        f"has {count}"
    )


class _Block(NamedTuple):
    """A part of a text whose tokens are known: their ends, the pieces' starts, and the places of each level."""

    begin: int
    ends: _Places
    starts: _Places
    places: list[_Places]
    is_last: bool


class _Chunks:
    """The chunks of a text, block by block."""

    def __init__(self, text: _Bytes, room: int, overlap: int, levels: tuple[str, ...]) -> None:
        self._text, self._room, self._overlap, self._levels = text, room, overlap, levels
        self._spans: list[npt.NDArray[np.int64]] = []
        self._counts: list[_Places] = []
        self._done = 0  # up to where the text is covered ...
        self._begin = 0  # ... and where the next chunk begins

    def made(self) -> tuple[npt.NDArray[np.int64], _Places]:
        """(int64[chunks, 2], int64[chunks]): begin and end of each, in bytes, and how many tokens it has."""
        size = max(BLOCK, 64 * min(self._room, 1 << 40))
        while self._done < self._text.size:
            block = self._block(size)
            before = self._done
            if block is not None:
                self._cut(block)
            if self._done == before:
                size *= 4
        return np.concatenate(self._spans), np.concatenate(self._counts)

    def _block(self, size: int) -> _Block | None:
        """What comes from the next chunk's begin on; None where so little tells nothing."""
        text, begin = self._text, self._begin
        end = text.character_at(min(begin + size, text.size))
        is_last = end == text.size
        ids = text.encode(begin, end)
        ends = text.token_ends(begin, ids)
        starts = text.pieces(begin, end, text.added_tokens(ids, ends), final=is_last)
        usable = end if is_last else int(starts[-1]) if len(starts) else begin
        if usable <= begin:
            return None
        if not is_last:
            ends = ends[: np.searchsorted(ends, usable, side="right")]
        places = []
        for level in self._levels:
            found = _places_of(level, text.data, begin, usable, starts)
            found = found[(found > begin) & (found <= usable)]
            places.append(np.append(found, usable) if is_last and (not len(found) or found[-1] < usable) else found)
        return _Block(begin, ends, starts, places, is_last)

    def _greedy(self, block: _Block, level: int, room: int, capacity: int) -> npt.NDArray[np.int64]:
        """int64[chunks, 3]: begin, end and following begin of chunks from the next one's begin on."""
        places = block.places[level]
        output = np.empty((capacity, 3), np.int64)
        used = cut_by_budget(
            address_of(block.ends),
            len(block.ends),
            address_of(places),
            len(places),
            self._begin,
            self._done,
            room,
            self._overlap,
            int(block.is_last),
            address_of(output),
            capacity,
        )
        return output[:used]

    def _cut(self, block: _Block) -> None:
        """All chunks that can be told from a block."""
        coarsest = len(self._levels) - 1
        while self._done < self._text.size:
            chunks = self._greedy(block, coarsest, self._room, 1 << 10)
            counts = self._counted(block, chunks)
            wrong = np.flatnonzero(counts > self._room)
            good = int(wrong[0]) if len(wrong) else len(chunks)
            self._take(chunks[:good], counts[:good])
            if len(chunks) == 1 << 10 and good == len(chunks):
                continue
            if self._done < self._text.size and not self._cut_one(block):
                return

    def _cut_one(self, block: _Block) -> bool:
        """One chunk where the plain way does not lead on: with fewer tokens, at a finer level, or inside a piece.

        False where the block holds too little for that.
        """
        if not block.is_last and self._begin + 1 > int(block.ends[-1]):
            return False
        if not block.is_last:
            before = np.searchsorted(block.ends, self._begin, side="right")
            if before + self._room > len(block.ends):
                return False
        for begin in dict.fromkeys((self._begin, self._done)):  # without the overlap, if with it there is no room
            self._begin = begin
            for level in reversed(range(len(self._levels))):
                less = 0
                while less < self._room:
                    chunks = self._greedy(block, level, self._room - less, 1)
                    if not len(chunks):
                        break
                    counts = self._counted(block, chunks)
                    if counts[0] <= self._room:
                        self._take(chunks, counts)
                        return True
                    less = max(2 * less, int(counts[0]) - self._room)
        text = self._text
        begin = self._done
        end = min(begin + self._room * text.longest + 1, text.size)
        part = text.part(begin, text.character_at(end))
        size = _Prefix(part).longest_within(self._room)
        if size == 0:
            width = int(part.characters(1, part.size)[0])
            count = int(part.count(np.array([0]), np.array([width]))[0])
            raise _too_large(text.data, begin, self._room, count)
        counts = part.count(np.array([0]), np.array([size]))
        self._take(np.array([[begin, begin + size, begin + size]]), counts)
        return True

    def _take(self, chunks: npt.NDArray[np.int64], counts: _Places) -> None:
        if len(chunks):
            self._spans.append(chunks[:, :2])
            self._counts.append(counts)
            self._done, self._begin = int(chunks[-1, 1]), int(chunks[-1, 2])

    def _counted(self, block: _Block, chunks: npt.NDArray[np.int64]) -> _Places:
        """How many tokens each chunk has by itself.

        One that begins with a piece has the block's tokens up to a few pieces before its end; only its end is counted
        anew, by which it may differ. Others are counted whole.
        """
        begins, ends = chunks[:, 0].copy(), chunks[:, 1].copy()
        if not len(chunks):
            return begins
        starts = block.starts
        last = np.searchsorted(starts, ends - NEAR, side="right") - 3
        anchors = starts[np.maximum(last, 0)]
        at = np.minimum(np.searchsorted(starts, begins), len(starts) - 1)
        known = (last >= 0) & (anchors > begins) & (starts[at] == begins)
        anchors = np.where(known, anchors, begins)
        before = np.searchsorted(block.ends, anchors, side="right") - np.searchsorted(block.ends, begins, side="right")
        return np.where(known, before, 0) + self._text.count(anchors, ends)


def _whole_chunks(
    text: _Whole, data: npt.NDArray[np.uint8], room: int, overlap: int, levels: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], _Places]:
    """The chunks of a text of which each part has to be counted whole, as :meth:`_Chunks.made` gives them."""
    size = len(data)
    spaces = _SPACES[data]
    words = np.flatnonzero(spaces[1:] & ~spaces[:-1]) + 1
    bytes_of = np.append(np.flatnonzero((data & 0xC0) != 0x80), size)  # of each character
    places = []
    for level in levels:
        found = np.append(_places_of(level, data, 0, size, words), size)
        places.append(np.unique(np.searchsorted(bytes_of, found[found > 0])))
    spans, counts = [], []
    begin = done = 0
    guess = 4 * room
    whole = len(bytes_of) - 1
    while done < whole:
        end = count = 0
        for start in dict.fromkeys((begin, done)):
            for found in reversed(places):
                first = int(np.searchsorted(found, done, side="right"))
                aim = int(np.searchsorted(found, start + guess)) - first
                end = _last_place(text, found, first, start, room, max(aim, 1))
                if end > done:
                    break
            if end > done:
                begin = start
                break
        else:
            begin = done
            end = last_within(lambda place: text.count(done, place), room, done, whole, guess, text._wide)  # noqa: B023
            if end == done:
                raise _too_large(data, int(bytes_of[done]), room, text.count(done, done + 1))
        count = text.count(begin, end)
        spans.append((int(bytes_of[begin]), int(bytes_of[end])))
        counts.append(count)
        guess = end - begin
        following = end
        if overlap and end < whole:
            words_here = places[0]
            place = int(np.searchsorted(words_here, end)) - 1
            while place >= 0 and words_here[place] > begin and text.count(int(words_here[place]), end) <= overlap:
                following = int(words_here[place])
                place -= 1
        begin, done = following, end
    return np.array(spans, np.int64), np.array(counts, np.int64)


def _last_place(text: _Whole, places: _Places, first: int, begin: int, room: int, aim: int) -> int:
    """A late place, from number ``first`` on, up to which a chunk from ``begin`` has at most ``room`` tokens; or -1."""
    low, high, step = first - 1, first - 1, aim
    while high < len(places) - 1:
        high = min(low + step, len(places) - 1)
        if text.count(begin, int(places[high])) > room:
            break
        low, step = high, 2 * step
    else:
        high = len(places)
    while high - low > 1:
        middle = (low + high) // 2
        if text.count(begin, int(places[middle])) <= room:
            low = middle
        else:
            high = middle
    return int(places[low]) if low >= first else -1
