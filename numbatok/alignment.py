"""How what normalizing made of a text lies in it: the rows of a plan, from the segments that texts were cut into."""

import ctypes
import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.counting import characters_before
from numbatok.documents import Documents
from numbatok.kernels import offset_plan
from numbatok.memory import address_of
from numbatok.normalizers import Normalizer
from numbatok.offset_tables import Places, blanks_around
from numbatok.parts import Parts
from numbatok.templates import Text

if TYPE_CHECKING:
    from numbatok.engine import Encoded


class Group(NamedTuple):
    """The documents of one text: the first, the one after the last, and which text it is."""

    begin: int
    end: int
    owner: int
    which: Literal["A", "B"]


def span_of(encoded: "Encoded", group: Group) -> tuple[int, int, int, int]:
    """(first id, the one after the last, address, bytes) of a text."""
    addresses, lengths = encoded.documents.texts[group.which]
    begin = int(encoded.ends[group.begin - 1]) if group.begin else 0
    return begin, int(encoded.ends[group.end - 1]), int(addresses[group.owner]), int(lengths[group.owner])


def groups_of(encoded: "Encoded") -> Iterator[Group]:
    """The documents of each text, in order."""
    pieces, owners = encoded.documents.pieces, encoded.documents.owners
    if not len(pieces):
        return
    edges = np.flatnonzero((np.diff(pieces) != 0) | (np.diff(owners) != 0)) + 1
    bounds = [0, *edges.tolist(), len(pieces)]
    for begin, end in pairwise(bounds):
        piece = encoded.frame.pieces[pieces[begin]]
        if isinstance(piece, Text):
            yield Group(begin, end, int(owners[begin]), piece.which)


def inserts_of(parts: Parts) -> int | None:
    """How many characters are put before each segment, where all others are one for one and nothing else is cut."""
    if parts.normalizer is None or parts.prefix_space or parts.pattern_engine != "automaton":
        return None
    return parts.normalizer.inserts()


class Mapping:
    """How documents of texts that were cut and normalized lie in them."""

    def __init__(self, parts: Parts, encoded: "Encoded", kept: list[npt.NDArray[Any]]) -> None:
        self._normalizer = parts.normalizer
        self._flags = {token.id: token.flags for token in parts.added_tokens}
        self._encoded = encoded
        self._documents: Documents = encoded.documents
        self._kept = kept  # what rows point into
        self._rows = np.zeros((len(encoded.ends), offset_plan.ROW_FIELDS), np.int64)
        self._notes: list[tuple[int, int, int]] = []
        self._cut_inside: list[tuple[int, Segment, int, int]] = []  # documents that cut a character, and where
        self._inserts = inserts_of(parts)

    def rows(self) -> tuple[Places, list[tuple[int, int, int]]]:
        """(rows of all documents, white space at the ends of those that are added tokens, by place)."""
        for group in groups_of(self._encoded):
            self._map_text(group)
        return self._rows, self._notes

    def _map_text(self, group: Group) -> None:
        addresses, lengths = self._documents.texts[group.which]
        address, length = int(addresses[group.owner]), int(lengths[group.owner])
        assert self._documents.segments is not None
        if self._inserts is not None:
            self._map_one_for_one(group, address, length, self._inserts)
            return
        table = self._documents.segments[group.begin : group.end].tolist()
        begins = self._documents.begins[group.begin : group.end].tolist()
        sizes = self._documents.lengths[group.begin : group.end].tolist()
        wanted = {0, length}
        for begin, (stop, place, until) in zip(begins, table, strict=True):
            wanted |= {begin, stop} if place < 0 else {begin, stop, begin + place, begin + until}
        in_bytes = np.array(sorted(place for place in wanted if place <= length), np.int64)
        number_of = dict(zip(in_bytes.tolist(), characters_before(address, in_bytes).tolist(), strict=True))
        current: tuple[int, int] | None = None
        for number, (begin, (stop, place, until), size) in enumerate(zip(begins, table, sizes, strict=True)):
            document = group.begin + number
            row = self._rows[document]
            if place < 0:
                row[:2] = number_of[begin], number_of[stop]
                self._note(document, ctypes.string_at(address + begin, stop - begin).decode())
                continue
            if current != (begin, stop):
                current = begin, stop
                segment = self._segment(group, begin, address + begin, stop - begin)
            if size < 0:
                self._note(document, segment.normal_bytes[place:until].decode())
            if size > 0 and not (segment.is_edge(place) and segment.is_edge(until)):
                self._cut_inside.append((document, segment, place, number_of[begin]))
            if segment.sources is None:
                if size < 0:
                    row[:2] = number_of[begin + place], number_of[begin + until]
                else:
                    row[offset_plan.ROW_BASE] = number_of[begin + place]
                    row[offset_plan.ROW_SHIFT] = size - (until - place)
                continue
            sources = segment.part(place, until)
            if size < 0:
                row[:2] = number_of[begin] + sources[0], number_of[begin] + sources[-1] + 1
                continue
            if size > until - place:  # the U+0020 before it stands for the first character
                first = sources[:1] if len(sources) else segment.part(place, place + 1)
                sources = np.concatenate([first, sources])
            sources = np.ascontiguousarray(sources, np.int64)
            self._kept.append(sources)
            row[offset_plan.ROW_BASE] = number_of[begin]
            row[offset_plan.ROW_SOURCES], row[offset_plan.ROW_SOURCES + 1] = address_of(sources), len(sources)

    def _segment(self, group: Group, begin: int, address: int, length: int) -> "Segment":
        """The segment that begins at a byte of a text, as encoding made it, or made now."""
        made = (self._documents.aligned or {}).get((group.owner, group.which, begin))
        return Segment(self._normalizer, address, length) if made is None else made

    def widen(self, found: Places, lengths: Places) -> None:
        """Let ids of documents that begin or end inside of a character have all of it; ``lengths`` are all ids' bytes.

        Such are the pieces of a step that sees bytes, where the package ``regex`` runs the rule.
        """
        for document, segment, place, base in self._cut_inside:
            first = int(self._encoded.ends[document - 1]) if document else 0
            span = slice(first, int(self._encoded.ends[document]))
            stops = place + np.cumsum(lengths[span])
            numbers = np.cumsum(segment.leads, dtype=np.int64) - 1  # the character of each byte
            begins = numbers[np.maximum(stops - lengths[span], 0)]
            ends = numbers[np.minimum(stops, len(numbers)) - 1]
            if segment.sources is not None:
                begins, ends = segment.sources[begins], segment.sources[ends]
            found[span] = base + np.column_stack([begins, ends + 1])

    def _map_one_for_one(self, group: Group, address: int, length: int, inserts: int) -> None:
        """Map a text of whose segments each character stands for one, after ``inserts`` that stand for the first."""
        assert self._documents.segments is not None
        span = slice(group.begin, group.end)
        begins = self._documents.begins[span]
        stops = np.ascontiguousarray(self._documents.segments[span, 0])
        is_token = self._documents.lengths[span] < 0
        rows = self._rows[span]
        rows[:, offset_plan.ROW_BASE] = characters_before(address, begins)
        rows[:, offset_plan.ROW_STOP] = characters_before(address, stops)
        rows[:, offset_plan.ROW_SHIFT] = np.where(is_token, 0, inserts)
        for number in np.flatnonzero(is_token).tolist() if any(self._flags.values()) else ():
            begin, stop = int(begins[number]), int(stops[number])
            self._note(group.begin + number, ctypes.string_at(address + begin, stop - begin).decode())

    def _note(self, document: int, value: str) -> None:
        """Note the white space at the ends of an added token as it stands in the text, if it may vary."""
        place = int(self._encoded.ends[document]) - 1
        if self._flags.get(int(self._encoded.ids[place]), 0):
            self._notes.append((place, *blanks_around(value)))


class Segment:
    """A text between raw added tokens, and what normalizing makes of it."""

    def __init__(self, normalizer: Normalizer | None, address: int, length: int) -> None:
        self._data = ctypes.string_at(address, length)
        #: The character that each of the normal text stands for, or None where it is as it was.
        self.sources: Places | None = None
        self._normal = ""
        if normalizer is not None:
            given = self._data.decode()
            self._normal, self.sources = normalizer.aligned(given)
            if self.sources is None and self._normal != given:
                self.sources = np.arange(len(given), dtype=np.int64)

    @functools.cached_property
    def normal_bytes(self) -> bytes:
        """The UTF-8 of the normal text."""
        return self._data if self.sources is None else self._normal.encode()

    def part(self, begin: int, end: int) -> Places:
        """The sources of the characters of the normal text's bytes from ``begin`` to ``end``."""
        assert self.sources is not None
        if begin == 0 and end >= len(self.normal_bytes):
            return self.sources
        first, last = (int(np.count_nonzero(self.leads[:place])) for place in (begin, end))
        return self.sources[first:last]

    def is_edge(self, place: int) -> bool:
        """Whether a byte of the normal text is no byte inside of a character."""
        return place == len(self.normal_bytes) or self.normal_bytes[place] & 0xC0 != 0x80

    @functools.cached_property
    def leads(self) -> npt.NDArray[np.bool_]:
        """Which bytes of the normal text begin a character."""
        leads: npt.NDArray[np.bool_] = np.frombuffer(self.normal_bytes, np.uint8) & 0xC0 != 0x80
        return leads
