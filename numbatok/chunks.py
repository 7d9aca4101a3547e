"""A text cut into chunks of at most so many tokens each, at the ends of pieces, sentences, lines or paragraphs."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.counting import NEAR, Bytes, Places, Whole, last_within
from numbatok.kernels.pieces import (
    LINES,
    MOST_CHUNKS,
    PARAGRAPHS,
    SENTENCES,
    count_characters,
    cut_by_budget,
    list_cuts,
)
from numbatok.memory import address_of
from numbatok.truncation import Prefix

LEVELS = ("piece", "sentence", "line", "paragraph")  # each one's places are among those of the one before
BLOCK = 1 << 18  # bytes that are cut into chunks at once; more for large budgets


def character_numbers(data: npt.NDArray[np.uint8], places: Places) -> Places:
    """How many characters are before each place."""
    edges, inverse = np.unique(places, return_inverse=True)
    numbers = np.empty(len(edges), np.int64)
    count_characters(address_of(data), address_of(edges), len(edges), address_of(numbers))
    result: Places = numbers[inverse].reshape(places.shape)
    return result


_LEVEL_NUMBERS = {"sentence": SENTENCES, "line": LINES, "paragraph": PARAGRAPHS}


def _places_of(level: str, data: npt.NDArray[np.uint8], begin: int, end: int, pieces: Places) -> Places:
    """Where a text may be cut at a level, between two places; ``pieces`` are those of the finest."""
    if level == "piece":
        return pieces
    output = np.empty(end - begin, np.int64)
    used = list_cuts(address_of(data), len(data), begin, end, _LEVEL_NUMBERS[level], address_of(output))
    return output[:used]


def _too_large(data: npt.NDArray[np.uint8], begin: int, room: int, count: int) -> ValueError:
    character = bytes(data[begin : begin + 4]).decode("utf-8", "ignore")[:1]
    number = int(character_numbers(data, np.array([begin]))[0])
    return ValueError(
        f"max_tokens leaves room for {room} tokens of text, and the character {character!r} at index {number} alone "
        f"has {count}"
    )


class _Block(NamedTuple):
    """A part of a text whose tokens are known: their ends, the pieces' starts, and the places of all levels."""

    ends: Places
    starts: Places
    places: list[Places]
    addresses: Places  # of the places of each level, the coarsest first ...
    lengths: Places  # ... and how many there are
    is_last: bool


class Chunks:
    """The chunks of a text, block by block."""

    def __init__(self, text: Bytes, room: int, overlap: int, levels: tuple[str, ...]) -> None:
        self._text, self._room, self._overlap, self._levels = text, room, overlap, levels
        self._spans: list[npt.NDArray[np.int64]] = []
        self._counts: list[Places] = []
        self._done = 0  # up to where the text is covered ...
        self._begin = 0  # ... and where the next chunk begins

    def made(self) -> tuple[npt.NDArray[np.int64], Places]:
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
        places = [_places_of(level, text.data, begin, usable, starts) for level in reversed(self._levels)]
        addresses, lengths = np.array([address_of(each) for each in places]), np.array([len(each) for each in places])
        return _Block(ends, starts, places, addresses, lengths, is_last)

    def _greedy(self, block: _Block, room: int) -> npt.NDArray[np.int64]:
        """int64[chunks, 3]: begin, end and following begin of chunks from the next one's begin on."""
        output = np.empty((MOST_CHUNKS, 3), np.int64)
        used = cut_by_budget(
            address_of(block.ends),
            len(block.ends),
            address_of(block.addresses),
            address_of(block.lengths),
            len(block.places),
            self._begin,
            self._done,
            room,
            self._overlap,
            int(block.is_last),
            address_of(output),
        )
        return output[:used]

    def _cut(self, block: _Block) -> None:
        """All chunks that can be told from a block."""
        while self._done < self._text.size:
            chunks = self._greedy(block, self._room)
            counts = self._counted(block, chunks)
            wrong = np.flatnonzero(counts > self._room)
            good = int(wrong[0]) if len(wrong) else len(chunks)
            self._take(chunks[:good], counts[:good])
            if good == MOST_CHUNKS:
                continue
            if self._done < self._text.size and not self._cut_one(block):
                return

    def _cut_one(self, block: _Block) -> bool:
        """One chunk where the plain way does not lead on: with fewer tokens, without the overlap, or inside a piece.

        False where the block holds too little for that.
        """
        if not block.is_last:
            before = int(np.searchsorted(block.ends, self._begin, side="right"))
            if before + self._room > len(block.ends):
                return False
        for begin in dict.fromkeys((self._begin, self._done)):
            self._begin = begin
            less = 0
            while less < self._room:
                chunks = self._greedy(block, self._room - less)[:1]
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
        size = Prefix(part).longest_within(self._room)
        if size == 0:
            width = int(part.characters(1, part.size)[0])
            count = int(part.count(np.array([0]), np.array([width]))[0])
            raise _too_large(text.data, begin, self._room, count)
        counts = part.count(np.array([0]), np.array([size]))
        self._take(np.array([[begin, begin + size, begin + size]]), counts)
        return True

    def _take(self, chunks: npt.NDArray[np.int64], counts: Places) -> None:
        if len(chunks):
            self._spans.append(chunks[:, :2])
            self._counts.append(counts)
            self._done, self._begin = int(chunks[-1, 1]), int(chunks[-1, 2])

    def _counted(self, block: _Block, chunks: npt.NDArray[np.int64]) -> Places:
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


def whole_chunks(
    text: Whole, data: npt.NDArray[np.uint8], room: int, overlap: int, levels: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], Places]:
    """The chunks of a text of which each part has to be counted whole, as :meth:`Chunks.made` gives them."""
    size = len(data)
    spaces = (data == ord(" ")) | ((data >= ord("\t")) & (data <= ord("\r")))
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
            end = last_within(lambda place: text.count(done, place), room, done, whole, guess, text.wide)  # noqa: B023
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


def _last_place(text: Whole, places: Places, first: int, begin: int, room: int, aim: int) -> int:
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
