"""A text cut into chunks of at most so many tokens each, at the ends of pieces, sentences, lines or paragraphs."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.counting import Bytes, Places, Traced, Whole, characters_before, last_within
from numbatok.kernels import chunks
from numbatok.memory import address_of
from numbatok.truncation import Prefix

LEVELS = ("piece", "sentence", "line", "paragraph")  # each one's places are among those of the one before
LEAST_CHUNKS, MOST_CHUNKS = 4, 1 << 11  # that are tried at once
BLOCK = 1 << 20  # bytes that are cut into chunks at once; more for large budgets


def character_numbers(data: npt.NDArray[np.uint8], places: Places) -> Places:
    """How many characters are before each place."""
    edges, inverse = np.unique(places, return_inverse=True)
    result: Places = characters_before(address_of(data), edges)[inverse].reshape(places.shape)
    return result


_LEVEL_NUMBERS = {
    "piece": chunks.PIECES,
    "sentence": chunks.SENTENCES,
    "line": chunks.LINES,
    "paragraph": chunks.PARAGRAPHS,
}


def _places_of(level: str, data: npt.NDArray[np.uint8]) -> Places:
    """Where a text may be cut at a level above that of pieces."""
    output = np.empty(len(data), np.int64)
    used = chunks.list_cuts(address_of(data), len(data), _LEVEL_NUMBERS[level], address_of(output))
    return output[:used]


def _too_large(data: npt.NDArray[np.uint8], begin: int, room: int, count: int) -> ValueError:
    character = bytes(data[begin : begin + 4]).decode("utf-8", "ignore")[:1]
    number = int(character_numbers(data, np.array([begin], np.int64))[0])
    return ValueError(
        f"max_tokens leaves room for {room} tokens of text, and the character {character!r} at index {number} alone "
        f"has {count}"
    )


class _Block(NamedTuple):
    """A part of a text whose tokens and pieces are known: the record that kernels take, and what it points into."""

    record: npt.NDArray[np.int64]
    traced: Traced

    def tokens_before(self, place: int) -> int:
        """How many of them end at or before a place."""
        return int(chunks.tokens_before(address_of(self.record), place))


class Chunks:
    """The chunks of a text, block by block."""

    def __init__(self, text: Bytes, room: int, overlap: int, levels: tuple[str, ...]) -> None:
        self._text, self._room, self._overlap = text, room, overlap
        self._level = _LEVEL_NUMBERS[levels[-1]]
        self._spans: list[npt.NDArray[np.int64]] = []
        self._counts: list[Places] = []
        self._done = 0  # up to where the text is covered ...
        self._begin = 0  # ... and where the next chunk begins

    def made(self) -> tuple[npt.NDArray[np.int64], Places]:
        """(int64[chunks, 2], int64[chunks]): begin and end of each, in bytes, and how many tokens it has."""
        size = max(BLOCK, 128 * min(self._room, 1 << 40))
        while self._done < self._text.size:
            before = self._done
            self._cut(self._block(size))
            if self._done == before:
                size *= 4
        return np.concatenate(self._spans), np.concatenate(self._counts)

    def _block(self, size: int) -> _Block:
        """What comes from the next chunk's begin on."""
        text = self._text
        traced = text.traced(self._begin, text.size, most_bytes=size)
        record = np.zeros(chunks.BLOCK_FIELDS, np.int64)
        record[: chunks.BLOCK_IDS] = text.address, traced.begin, traced.end, traced.is_done
        tables = (
            (chunks.BLOCK_IDS, traced.ids),
            (chunks.BLOCK_POINTS, traced.points),
            (chunks.BLOCK_BITMAP, traced.starts),
        )
        for field, array in tables:
            record[field], record[field + 1] = address_of(array), array.size
        record[chunks.BLOCK_SIZES], record[chunks.BLOCK_ADDED] = address_of(text.sizes), address_of(text.is_added)
        record[chunks.BLOCK_LEVEL], record[chunks.BLOCK_LENGTH] = self._level, text.size
        return _Block(record, traced)

    def _greedy(self, block: _Block, room: int, most: int) -> npt.NDArray[np.int64]:
        """int64[chunks, CHUNK_FIELDS]: up to ``most`` from the next one's begin on, as the kernel tells them."""
        output = np.empty((most, chunks.CHUNK_FIELDS), np.int64)
        work, record = self._text.scratch.address, address_of(block.record)
        arguments = self._begin, self._done, room, self._overlap
        used = chunks.cut_by_budget(work, record, *arguments, address_of(output), most)
        return output[:used]

    def _cut(self, block: _Block) -> None:
        """All chunks that can be told from a block."""
        most = MOST_CHUNKS
        while self._done < self._text.size:
            made = self._greedy(block, self._room, most)
            counts = self._counted(made)
            wrong = np.flatnonzero(counts > self._room)
            good = int(wrong[0]) if len(wrong) else len(made)
            self._take(made[:good], counts[:good])
            full = good == most
            # As many are tried as were good before, and some more: chunks after a wrong one are in vain.
            most = min(2 * good + LEAST_CHUNKS, MOST_CHUNKS)
            if full:
                continue
            if self._done < self._text.size and not self._cut_one(block):
                return

    def _cut_one(self, block: _Block) -> bool:
        """One chunk where the plain way does not lead on: with fewer tokens, without the overlap, or inside a piece.

        False where the block holds too little for that.
        """
        traced = block.traced
        if not traced.is_done and block.tokens_before(self._begin) + self._room > traced.total:
            return False
        for begin in dict.fromkeys((self._begin, self._done)):
            self._begin = begin
            less = 0
            while less < self._room:
                made = self._greedy(block, self._room - less, 1)
                if not len(made):
                    break
                counts = self._counted(made)
                if counts[0] <= self._room:
                    self._take(made, counts)
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
        self._take(np.array([[begin, begin + size, begin + size]], np.int64), counts)
        return True

    def _take(self, made: npt.NDArray[np.int64], counts: Places) -> None:
        if len(made):
            self._spans.append(made[:, :2])
            self._counts.append(counts)
            self._done, self._begin = int(made[-1, 1]), int(made[-1, 2])

    def _counted(self, made: npt.NDArray[np.int64]) -> Places:
        """How many tokens each chunk has by itself: what is not settled of it, at its ends, is counted."""
        counts = made[:, chunks.CHUNK_TOKENS].copy()
        begins = made[:, [chunks.CHUNK_BEGIN, chunks.CHUNK_LAST]]
        sizes = made[:, [chunks.CHUNK_FIRST, chunks.CHUNK_END]] - begins
        which, side = np.nonzero(sizes)
        if len(which):
            begin = begins[which, side]
            np.add.at(counts, which, self._text.count(begin, begin + sizes[which, side]))
        return counts


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
        found = np.append(words if level == "piece" else _places_of(level, data), size)
        numbers = np.searchsorted(bytes_of, found[found > 0])
        places.append(numbers[np.diff(numbers, prepend=0) > 0])  # np.unique takes 40 ms a MB
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
    low, high = first - 1, len(places)
    middle = low + aim
    turn = 0
    while high - low > 1:
        middle = min(max(middle, low + 1), high - 1)
        place = int(places[middle])
        count = text.count(begin, place)
        if count <= room:
            low = middle
        else:
            high = middle
        turn += 1
        if turn % 3:  # where the budget runs out if all of the text is as what was counted
            wanted = place + (room - count) * (place - begin) // max(count, 1)
            middle = int(np.searchsorted(places, wanted, side="right")) - 1
        elif high < len(places):
            middle = (low + high) // 2
        else:
            middle = low + (2 * (low - first + 1) or aim)
    return int(places[low]) if low >= first else -1
