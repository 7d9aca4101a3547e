"""Texts and numbers of tokens: does it fit, how much of it does, and into which parts is it to be cut.

The count of a text is not the sum of its parts', and a longer text can have fewer tokens: ``hell`` has two, ``hello``
one. So nothing here is estimated: whatever is returned has been counted as it is. How parts are counted without
counting all anew is told in :mod:`numbatok.counting`.
"""

import itertools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.calls import Call
from numbatok.chunks import LEVELS, Chunks, whole_chunks
from numbatok.counting import Bytes, Whole, is_local, settle
from numbatok.errors import DisallowedToken
from numbatok.kernels import dtypes
from numbatok.kernels.slices import slice_text
from numbatok.memory import address_of, bytes_at, without_collection
from numbatok.placing import prepare
from numbatok.rows import MOST, Side
from numbatok.templates import Text as TextPiece
from numbatok.truncation import Prefix, Suffix

if TYPE_CHECKING:
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.scratch import Scratch

At = Literal["piece", "sentence", "line", "paragraph"]


class Chunk(NamedTuple):
    """A part of a text.

    Attributes
    ----------
    start, end : the characters of the text that it is
    text : these
    n_tokens : how many ids ``encode(text)`` gives

    >>> numbatok.get_encoding("gpt2").chunk("Hello world again", 2)[1]
    Chunk(start=11, end=17, text=' again', n_tokens=1)
    """

    start: int
    end: int
    text: str
    n_tokens: int


class Overhead(NamedTuple):
    """What a template makes of a number of tokens: that many ``times``, and ``added`` more."""

    added: int
    times: int

    def room(self, max_tokens: int) -> int:
        """How many tokens a text may have; below 0 where the template alone has more than ``max_tokens``."""
        if self.times == 0:  # whatever the text is
            return 1 << 62 if max_tokens >= self.added else -1
        return (max_tokens - self.added) // self.times


def overhead_of(engine: "Engine", special: bool) -> Overhead:
    """The template of single texts."""
    frame = engine.frame(False, special)
    added = sum(len(block) for block in frame.blocks if block is not None)
    return Overhead(added, sum(isinstance(piece, TextPiece) for piece in frame.pieces))


class Source(NamedTuple):
    """A text as a ``str`` without lone surrogates, and its UTF-8 in memory that ``kept`` holds."""

    text: str
    data: npt.NDArray[np.uint8]
    kept: Any


def source_of(engine: "Engine", text: Any, errors: str) -> Source:
    """A text, read in place where it can be."""
    kept: list[Any] = []
    if not isinstance(text, str):
        text = prepare(text, errors).tobytes().decode()
    texts = [text]
    addresses, lengths = engine.placer.place_all(texts, errors, kept)
    if kept and isinstance(kept[0], str):  # its surrogates were repaired
        text = kept[0]
    return Source(text, bytes_at(int(addresses[0]), int(lengths[0])), (texts, kept))


def fits(engine: "Engine", text: Any, room: int, actions: npt.NDArray[np.uint8], errors: str) -> bool:
    """Whether a text has at most ``room`` tokens; the rest is not looked at once there are more."""
    if room < 0:  # the template alone is too much
        return False
    kept: list[Any] = []
    _, documents = engine.documents_of([text], None, Call(actions, errors, None), kept)
    ends = np.empty(len(documents.addresses), np.int64)
    places = address_of(documents.addresses), address_of(documents.lengths), address_of(ends), len(ends)
    with engine.scratch() as scratch:
        scratch.set_actions(actions)
        scratch.restart()
        scratch.record[dtypes.WORK_TRIES_OFF] = engine.tries_off if documents.are_cut else 0
        total = int(np.maximum(documents.lengths, 0).sum())
        try:
            status = _run(engine, scratch, places, total, room)
        except DisallowedToken as found:
            raise engine.found_in(documents, engine.frame(False, False), found) from None
        settle(scratch)
    del kept
    return 0 <= status <= room


def _run(engine: "Engine", scratch: "Scratch", places: tuple[int, int, int, int], total: int, room: int) -> int:
    """Encode documents until there are more than ``room`` ids; returns how many there are, or a negative number."""
    scratch.expect(min(total, 8 * room))
    record = scratch.record
    per_byte = engine.ids_per_byte
    size = min(room, per_byte * total) + per_byte * dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK + 1
    output = np.empty(size, np.uint32)
    scratch.set_table(dtypes.WORK_OUTPUT, output)
    while (status := engine.encode_documents(scratch.address, *places)) < 0:
        used = int(record[dtypes.WORK_OUTPUT_USED])
        if used > room:
            return -1
        if status == dtypes.NEED_OUTPUT:
            grown = np.empty(max(int(record[dtypes.WORK_NEEDED]), size), np.uint32)
            grown[:used] = output[:used]
            output, size = grown, len(grown)
            scratch.set_table(dtypes.WORK_OUTPUT, output)
        else:
            engine.mend(scratch, status, engine.part_done(scratch, places[3], total))
    return int(status)


def truncate(
    engine: "Engine", parts: "Parts", source: Source, room: int, side: Side, actions: npt.NDArray[np.uint8]
) -> str:
    """The longest prefix, or suffix where the ``left`` is cut off, of at most ``room`` tokens."""
    data = source.data
    if not is_local(engine, parts, data):
        return Whole(engine, parts, source.text, actions).truncate(room, side)
    room = min(room, engine.ids_per_byte * len(data) + 1)
    with engine.scratch() as scratch:
        scratch.set_actions(actions)
        local = Bytes(engine, parts, scratch, data)
        place = Prefix(local).longest_within(room) if side == "right" else Suffix(local).longest_within(room)
        settle(scratch)
    span = (0, place) if side == "right" else (place, len(data))
    if span == (0, len(data)):
        return source.text
    texts, _ = _slices(source, np.array([span], np.int64))
    return texts[0]


def _slices(source: Source, spans: npt.NDArray[np.int64]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """(the parts of a text, where they begin and end in characters), from where they do in bytes."""
    texts: list[str] = []
    numbers = np.empty_like(spans)
    data = address_of(source.data), len(source.data)
    places = address_of(spans), len(spans), address_of(numbers)
    if slice_text(id(source.text), *data, *places, id(texts)) < 0:
        raise MemoryError("there is no room for the parts of the text")
    return texts, numbers


def chunk(
    engine: "Engine",
    parts: "Parts",
    source: Source,
    overhead: Overhead,
    max_tokens: int,
    overlap: int,
    at: At,
    actions: npt.NDArray[np.uint8],
) -> list[Chunk]:
    """What :meth:`numbatok.Tokenizer.chunk` does."""
    text, data = source.text, source.data
    if not text:
        return []
    # Else normalizing can make a text longer, and so many more tokens of it.
    local = is_local(engine, parts, data, in_steps=True)
    room = min(overhead.room(max_tokens), engine.ids_per_byte * len(data) + 1 if local else MOST)
    if overhead.times == 0:
        return [Chunk(0, len(text), text, overhead.added)]
    levels = LEVELS[: LEVELS.index(at) + 1]
    if local:
        with engine.scratch() as scratch:
            scratch.set_actions(actions)
            spans, counts = Chunks(Bytes(engine, parts, scratch, data), room, overlap, levels).made()
            settle(scratch)
    else:
        spans, counts = whole_chunks(Whole(engine, parts, text, actions), data, room, overlap, levels)
    counts = overhead.added + overhead.times * counts

    def work() -> list[Chunk]:
        texts, places = _slices(source, spans)
        rows = zip(*places.T.tolist(), texts, counts.tolist(), strict=True)
        return list(map(tuple.__new__, itertools.repeat(Chunk), rows))  # a quarter of the time of Chunk(...)

    return without_collection(work)
