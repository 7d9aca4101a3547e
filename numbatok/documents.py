"""From texts to the documents of a kernel call: the normalized text between added tokens, and templates around it.

A kernel encodes *documents*: runs of UTF-8, and blocks of ids that go to the output as they are. One text is one
document unless it is normalized, when each segment between two raw added tokens is one, and the tokens' ids others; a
template adds its special tokens. So everything a text becomes is written once, in its place.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.memory import address_of
from numbatok.templates import Piece, Special, Template

if TYPE_CHECKING:
    from numbatok.alignment import Segment

#: Documents: address, length, and where in the text: the bytes of the segment between raw added tokens, and of the
#: normalized segment those that the document is, but for a U+0020 before it; -1 of a segment that is a raw added token.
Rows = list[tuple[int, int, int, int, int, int]]
_Numbers = npt.NDArray[np.int64]
Addresses = tuple[_Numbers, _Numbers]  # and lengths, one for each text


@dataclass
class Documents:
    """Documents of a call, in order.

    Attributes
    ----------
    addresses, lengths : int64, one for each document, as ``encode_documents`` takes them
    texts : (addresses, lengths) of the first and second texts, before normalizing, under ``"A"`` and ``"B"``
    places : (begins, owners, pieces), or None where each document is a text, and all of the template; int64, for each
        document the byte offset in its text, before normalizing, where it begins, the text, or pair, that it belongs
        to, which does not fall, and the template's piece that it belongs to
    segments : int64[documents, 3], where texts have been cut at their added tokens, and normalized: where the segment
        that a document is of ends in the text, and the bytes of the normalized segment that it is; else None
    aligned : the segments as they were normalized, by (owner, which text, first byte), where a call keeps them
    """

    addresses: _Numbers
    lengths: _Numbers
    texts: dict[str, Addresses]
    places: tuple[_Numbers, _Numbers, _Numbers] | None = None
    segments: _Numbers | None = None
    aligned: "dict[tuple[int, str, int], Segment] | None" = None

    @cached_property
    def _places(self) -> tuple[_Numbers, _Numbers, _Numbers]:
        if self.places is not None:
            return self.places
        zeros = np.zeros(len(self.addresses), np.int64)
        return zeros, np.arange(len(zeros), dtype=np.int64), zeros

    @property
    def begins(self) -> _Numbers:
        """The first of ``places``, whatever they are."""
        return self._places[0]

    @property
    def owners(self) -> _Numbers:
        """The second."""
        return self._places[1]

    @property
    def pieces(self) -> _Numbers:
        """The third."""
        return self._places[2]

    @property
    def are_cut(self) -> bool:
        """Whether the texts have been cut at their added tokens."""
        return self.segments is not None


@dataclass(frozen=True)
class Around:
    """What a call of one text encodes, of the documents before, the text and after: the first, and how many.

    ``before`` and ``after`` are (address, length).
    """

    first: int
    count: int
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)


class Spans(NamedTuple):
    """What the documents of a parallel call are cut into, in order, where some are.

    Attributes
    ----------
    addresses, lengths : int64, as ``encode_documents`` takes them
    tries_off : int64, what ``WORK_TRIES_OFF`` is while each is encoded
    documents : int64, the document that each is of
    starts : int64, the byte of it where each begins
    """

    addresses: _Numbers
    lengths: _Numbers
    tries_off: _Numbers
    documents: _Numbers
    starts: _Numbers


def whole_spans(documents: Documents, tries_off: int) -> Spans:
    """Each document whole."""
    zeros = np.zeros(len(documents.addresses), np.int64)
    numbers = np.arange(len(zeros), dtype=np.int64)
    return Spans(documents.addresses, documents.lengths, zeros + tries_off, numbers, zeros)


class Frame:
    """A template in a form for kernels: for each piece a block of ids, or the place of a text.

    ``is_even`` says whether all windows of a text have its piece's type id; see :class:`numbatok.templates.Template`.
    """

    def __init__(self, pieces: Iterable[Piece], is_even: bool = False) -> None:
        self.pieces, self.is_even = tuple(pieces), is_even
        self.types = np.array([piece.type_id for piece in self.pieces], np.uint32)
        self.blocks = [np.array(piece.ids, np.uint32) if isinstance(piece, Special) else None for piece in self.pieces]

    def row(self, number: int) -> tuple[int, int]:
        """The document of a block of ids."""
        block = self.blocks[number]
        assert block is not None
        return address_of(block), -len(block)

    def around(self) -> Around:
        """What is put around one text; its count is 0 for a template that is more than a block before and one after."""
        texts = [number for number, block in enumerate(self.blocks) if block is None]
        if len(texts) != 1 or texts[0] > 1 or len(self.pieces) > texts[0] + 2:
            return Around(0, 0)
        before = self.row(0) if texts[0] == 1 else (0, 0)
        after = self.row(texts[0] + 1) if len(self.pieces) == texts[0] + 2 else (0, 0)
        return Around(1 - texts[0], len(self.pieces), before, after)


def frame_of(template: Template, is_pair: bool, add_special_tokens: bool) -> Frame:
    """The frame of a text, or a pair; special tokens that stand together and have one type become one block."""
    joined: list[Piece] = []
    for piece in template.pair if is_pair else template.single:
        if isinstance(piece, Special):
            if not add_special_tokens or not piece.ids:
                continue
            before = joined[-1] if joined else None
            if isinstance(before, Special) and before.type_id == piece.type_id:
                joined[-1] = Special(before.token, before.ids + piece.ids, piece.type_id)
                continue
        joined.append(piece)
    return Frame(joined, template.is_even and add_special_tokens)


def arrange(frame: Frame, texts: dict[str, Addresses], count: int) -> Documents:
    """The documents of ``count`` texts, or pairs, of one document each.

    ``texts`` holds (addresses, lengths) of the first and the second texts under ``"A"`` and ``"B"``.
    """
    width = len(frame.pieces)
    if width == 1 and not isinstance(frame.pieces[0], Special):  # as arrays are, without a copy
        return Documents(*texts[frame.pieces[0].which], texts)
    addresses, lengths = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    for number, piece in enumerate(frame.pieces):
        if isinstance(piece, Special):
            addresses[:, number], lengths[:, number] = frame.row(number)
        else:
            addresses[:, number], lengths[:, number] = texts[piece.which]
    owners = np.repeat(np.arange(count, dtype=np.int64), width)
    pieces = np.tile(np.arange(width, dtype=np.int64), count)
    places = np.zeros(len(owners), np.int64), owners, pieces
    return Documents(addresses.ravel(), lengths.ravel(), texts, places)


def arrange_rows(
    frame: Frame,
    texts: dict[str, list[Rows]],
    count: int,
    located: dict[str, Addresses],
    aligned: "dict[tuple[int, str, int], Segment] | None" = None,
) -> Documents:
    """The documents of ``count`` texts, or pairs, each of any number of documents; ``located`` is where they are."""
    rows = []
    for text in range(count):
        for number, piece in enumerate(frame.pieces):
            added = [(*frame.row(number), 0, 0, -1, 0)] if isinstance(piece, Special) else texts[piece.which][text]
            rows += [(*row, text, number) for row in added]
    table = np.array(rows, np.int64).reshape(-1, 8)
    addresses, lengths, begins, owners, pieces = table[:, [0, 1, 2, 6, 7]].T.copy()
    return Documents(addresses, lengths, located, (begins, owners, pieces), table[:, 3:6].copy(), aligned)


def types_of(frame: Frame, documents: Documents, ends: _Numbers) -> npt.NDArray[np.uint32]:
    """uint32, one for each id: its type id."""
    types: npt.NDArray[np.uint32] = np.repeat(frame.types[documents.pieces], np.diff(ends, prepend=0))
    return types


def offsets_of(documents: Documents, ends: _Numbers, count: int) -> _Numbers:
    """int64[count + 1]: where each text's ids begin, and the end, from where each document's end."""
    offsets = np.zeros(count + 1, np.int64)
    if len(ends) == count and not documents.are_cut:  # one document a text
        offsets[1:] = ends
        return offsets
    last = np.cumsum(np.bincount(documents.owners, minlength=count))
    offsets[1:] = np.concatenate([[0], ends])[last]
    return offsets


def segments(
    find: Callable[[int, int], tuple[int, int, int, int] | None], length: int
) -> Iterable[tuple[int, int, int | None]]:
    """(start, stop, added token or None) of the parts of a text of ``length`` bytes, empty ones left out.

    ``find(floor, begin)`` gives (token, start, stop, next) of an added token; see ``next_added_token``.
    """
    done = begin = 0
    while (found := find(done, begin)) is not None:
        token, start, stop, begin = found
        if done < start:
            yield done, start, None
        yield start, stop, token
        done = stop
    if done < length:
        yield done, length, None
