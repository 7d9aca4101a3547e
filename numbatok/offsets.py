"""Offsets: which part of its text each id stands for, with the meaning that ``tokenizers`` gives them.

They refer to the text as it was given, whatever was normalized, put before it or left out of it. An id covers whole
characters: of a character that several ids share, each has all. In bytes they are the places of the same characters in
the text's UTF-8, as the Rust library has them.
"""

import codecs
import ctypes
import functools
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.columns import Column, Texts
from numbatok.documents import Documents
from numbatok.ids import Ids
from numbatok.kernels import dtypes, offsets, text
from numbatok.memory import address_of
from numbatok.normalizers import Normalizer
from numbatok.normalizers.frozen import text_of
from numbatok.parts import Parts
from numbatok.patterns.unicode import white_space
from numbatok.scratch import Scratch
from numbatok.templates import Special, Text, Trim
from numbatok.text import OffsetUnit, as_bytes

if TYPE_CHECKING:
    from numbatok.engine import Encoded, Engine

Places = npt.NDArray[np.int64]


@functools.cache
def trimmed_blanks() -> str:
    """What trimming takes for white space in the string of a token."""
    return text_of(np.flatnonzero(white_space())) + chr(offsets.SPELLED_BLANK)


class _Group(NamedTuple):
    """The documents of one text: the first, the one after the last, and which text it is."""

    begin: int
    end: int
    owner: int
    which: Literal["A", "B"]


class Locator:
    """Finds the offsets of the ids of one tokenizer; immutable, for any number of threads."""

    def __init__(self, engine: "Engine", parts: Parts) -> None:
        self._engine = engine
        self._parts = parts
        plain = parts.vocabulary.is_plain
        self._adds_up = plain and not engine.drops
        self._flagged = any(token.flags for token in parts.added_tokens)
        symbols = engine.tokens.numbers.copy()
        symbols[engine.tokens.rows_of(parts.vocabulary.ids)] = np.arange(len(parts.vocabulary))
        self._kept = (*_tables(engine, parts), symbols)
        self._plan = np.zeros(offsets.PLAN_FIELDS, np.int64)  # what all calls have in common
        self._plan[offsets.PLAN_ADDS_UP] = self._adds_up
        self._plan[offsets.PLAN_PREFIX] = -1 if plain else len(parts.vocabulary.options.prefix)
        fields = offsets.PLAN_INFO, offsets.PLAN_LENGTHS_OF, offsets.PLAN_NUMBERS
        arrays: tuple[npt.NDArray[Any], ...] = self._kept
        for field, array in zip(fields, arrays, strict=True):
            self._plan[field], self._plan[field + 1] = address_of(array), array.size

    def encode_short(
        self, source: Any, actions: npt.NDArray[np.uint8], special: bool, unit: OffsetUnit
    ) -> tuple[Ids, Places] | None:
        """(ids, offsets) of a short ``str``; None where more is to be done than one call for each can do."""
        if (
            (self._parts.trims and not self._trim_at_once(special))
            or not self._adds_up
            or not self._engine.tokens.is_direct
        ):
            return None
        with self._engine.scratch() as scratch:
            count = self._engine.encode_short(scratch, source, actions, special)
            if count < 0:
                return None
            found = np.empty((count, 2), np.int64)
            plan = self._plan.copy()
            record = scratch.record
            first = scratch.address + 8 * (dtypes.WORK_LIST + int(record[dtypes.WORK_LIST_FIRST]))
            plan[offsets.PLAN_ADDRESSES] = first
            plan[offsets.PLAN_LENGTHS] = first + 8 * dtypes.LIST
            plan[offsets.PLAN_ENDS] = first + 16 * dtypes.LIST
            plan[offsets.PLAN_COUNT] = record[dtypes.WORK_LIST_COUNT]
            plan[offsets.PLAN_IDS] = record[dtypes.WORK_OUTPUT]
            plan[offsets.PLAN_IDS + 1] = count
            plan[offsets.PLAN_OFFSETS] = address_of(found)
            plan[offsets.PLAN_OFFSETS + 1] = found.size
            plan[offsets.PLAN_IN_BYTES] = unit == "byte"
            if self._parts.trims:
                noted = np.empty((count if self._flagged else 0, 3), np.int64)
                plan[offsets.PLAN_SPACES], plan[offsets.PLAN_SPACES + 1] = address_of(noted), noted.size
                plan[offsets.PLAN_TRIM] = self._trim_at_once(special)
            address = address_of(plan)
            while (status := offsets.locate_tokens(scratch.address, address)) < 0:
                self._mend(scratch, status)
            return scratch.small_output[:count].copy(), found

    def _trim_at_once(self, has_specials: bool) -> int:
        """What is trimmed of texts as they are, in the kernel's words; 0 where there is not one trim."""
        trims = self._parts.trims
        return _trim_code(trims[0], False) if len(trims) == 1 and not (trims[0].behind and has_specials) else 0

    def locate(
        self,
        encoded: "Encoded",
        texts: Texts,
        seconds: Texts | None,
        unit: OffsetUnit,
        actions: npt.NDArray[np.uint8],
        *,
        trimmed: bool = True,
        words: npt.NDArray[np.int32] | None = None,
    ) -> Places:
        """int64[ids, 2]: where each id of texts, or pairs, begins and ends in its text; (0, 0) for a template's.

        With ``trimmed=False`` blanks at the ends of tokens stay in. ``words``, one for each id, is filled with the
        number of the pretoken, or added token, of its text that each id is of.
        """
        documents = encoded.documents
        ids = np.ascontiguousarray(self._engine.tokens.rows_of(encoded.ids.astype(np.uint32, copy=False)))
        found = np.empty((len(ids), 2), np.int64)
        plan = self._plan.copy()
        kept: list[npt.NDArray[Any]] = []

        def set_table(field: int, array: npt.NDArray[Any]) -> None:
            kept.append(array)
            plan[field], plan[field + 1] = address_of(array), array.size

        for field, column in enumerate((documents.addresses, documents.lengths, encoded.ends)):
            plan[field] = address_of(column)
        plan[offsets.PLAN_COUNT] = len(encoded.ends)
        plan[offsets.PLAN_IN_BYTES] = unit == "byte"
        set_table(offsets.PLAN_IDS, ids)
        set_table(offsets.PLAN_OFFSETS, found)
        trims = self._parts.trims if trimmed else ()
        has_specials = any(isinstance(piece, Special) for piece in encoded.frame.pieces)
        noted = np.empty((len(ids) if trims and self._flagged else 0, 3), np.int64)
        set_table(offsets.PLAN_SPACES, noted)
        notes: list[tuple[int, int, int]] = []
        if documents.are_cut:
            mapping = _Mapping(self._parts, encoded, unit, kept)
            rows, notes = mapping.rows()
            set_table(offsets.PLAN_ROWS, rows)
        elif self._adds_up and trims:
            plan[offsets.PLAN_TRIM] = self._trim_at_once(has_specials)
        counts = np.zeros(len(encoded.ends) + 1, np.int64)
        if words is not None:
            set_table(offsets.PLAN_WORDS, words)
            plan[offsets.PLAN_WORD_COUNTS] = address_of(counts) + 8
        self._run(plan, actions, documents.are_cut)
        if words is not None and documents.are_cut:
            before = np.cumsum(counts)
            first = np.searchsorted(documents.owners, documents.owners)  # the document that each text begins with
            words += np.repeat(before[:-1] - before[first], np.diff(encoded.ends, prepend=0)).astype(np.int32)
        if documents.are_cut:
            mapping.widen(found, self._kept[1][ids, 0])
        later = trims and not plan[offsets.PLAN_TRIM]
        groups = list(_groups(encoded)) if later or not self._adds_up else []
        if not self._adds_up and len(found) and found.min() < 0:
            self._convert_rest(found, encoded, groups, unit)
        if later:
            if notes and self._flagged:
                used = int(plan[offsets.PLAN_SPACES_USED])
                every = np.concatenate([noted[:used], np.array(notes, np.int64).reshape(-1, 3)])
                every = every[np.argsort(every[:, 0], kind="stable")]
                set_table(offsets.PLAN_SPACES, every)
                plan[offsets.PLAN_SPACES_USED] = len(every)
            for which in "AB":
                spans = [self._span(encoded, group) for group in groups if group.which == which]
                fields = np.array(spans, np.int64).reshape(-1, 4)
                for trim in trims:
                    code = _trim_code(trim, has_specials and which in trim.behind)
                    offsets.trim_offsets(address_of(plan), address_of(fields), len(fields), code)
        for given in (texts,) if seconds is None else (texts, seconds):
            _refer_to_given(found, encoded, given, "A" if given is texts else "B", unit)
        return found

    def _run(self, plan: Places, actions: npt.NDArray[np.uint8], are_cut: bool) -> None:
        """Locate all ids, mending the scratch where more room is needed."""
        with self._engine.scratch() as scratch:
            scratch.set_actions(actions)
            if are_cut:
                scratch.record[dtypes.WORK_TRIES_OFF] = self._engine.tries_off
            while (status := offsets.locate_tokens(scratch.address, address_of(plan))) < 0:
                self._mend(scratch, status)
            scratch.record[dtypes.WORK_TRIES_OFF] = 0
            scratch.shrink()

    @staticmethod
    def _mend(scratch: Scratch, status: int) -> None:
        """Do what a status asks for."""
        if status == offsets.MISPLACED:
            raise RuntimeError("a text was changed by another thread while its offsets were found")
        scratch.mend(status)

    @staticmethod
    def _span(encoded: "Encoded", group: _Group) -> tuple[int, int, int, int]:
        """(first id, the one after the last, address, bytes) of a text."""
        addresses, lengths = encoded.documents.texts[group.which]
        begin = int(encoded.ends[group.begin - 1]) if group.begin else 0
        return begin, int(encoded.ends[group.end - 1]), int(addresses[group.owner]), int(lengths[group.owner])

    def _convert_rest(self, found: Places, encoded: "Encoded", groups: list[_Group], unit: OffsetUnit) -> None:
        """What ``tokenizers`` makes of offsets that reach past their pretoken: it takes them for the text's own."""
        for group in groups:
            begin, end, address, length = self._span(encoded, group)
            odd = begin + np.flatnonzero(found[begin:end, 0] < 0)
            if not len(odd):
                continue
            places = -1 - found[odd]
            data = np.frombuffer(ctypes.string_at(address, length), np.uint8)
            leads = data & 0xC0 != 0x80
            number = np.cumsum(leads) - 1  # the character of each byte
            edges = np.append(np.flatnonzero(leads), length)
            for row, (start, stop) in enumerate(places.tolist()):
                if start >= length:
                    continue
                first = int(number[start])
                last = int(number[stop - 1]) + 1 if stop - 1 < length else first + 2
                if stop < length:
                    last = int(number[stop])
                if unit == "byte":
                    first, last = int(edges[first]), int(edges[last]) if last < len(edges) else stop
                places[row] = first, last
            found[odd] = places


def _groups(encoded: "Encoded") -> Iterator[_Group]:
    """The documents of each text, in order."""
    pieces, owners = encoded.documents.pieces, encoded.documents.owners
    if not len(pieces):
        return
    edges = np.flatnonzero((np.diff(pieces) != 0) | (np.diff(owners) != 0)) + 1
    bounds = [0, *edges.tolist(), len(pieces)]
    for begin, end in pairwise(bounds):
        piece = encoded.frame.pieces[pieces[begin]]
        if isinstance(piece, Text):
            yield _Group(begin, end, int(owners[begin]), piece.which)


def _trim_code(trim: Trim, is_behind: bool) -> int:
    """A trim in the kernel's words; ``is_behind`` where an id is before each text's first."""
    if not trim.keeps_first:
        return offsets.TRIM_ALL
    return offsets.TRIM_ALL | offsets.TRIM_KEEPS_AT_START | (0 if is_behind else offsets.TRIM_KEEPS_FIRST)


class _Mapping:
    """How documents of texts that were cut and normalized lie in them."""

    def __init__(self, parts: Parts, encoded: "Encoded", unit: OffsetUnit, kept: list[npt.NDArray[Any]]) -> None:
        self._normalizer = parts.normalizer
        self._flags = {token.id: token.flags for token in parts.added_tokens}
        self._encoded = encoded
        self._documents: Documents = encoded.documents
        self._unit = unit
        self._kept = kept  # what rows point into
        self._rows = np.zeros((len(encoded.ends), offsets.ROW_FIELDS), np.int64)
        self._notes: list[tuple[int, int, int]] = []
        self._cut_inside: list[tuple[int, _Segment, int, int]] = []  # documents that cut a character, and where
        # Characters put before each segment, where all others are one for one and nothing else is cut.
        self._inserts = None
        if parts.normalizer is not None and not parts.prefix_space and parts.pattern_engine == "automaton":
            self._inserts = parts.normalizer.inserts()

    def rows(self) -> tuple[Places, list[tuple[int, int, int]]]:
        """(rows of all documents, white space at the ends of those that are added tokens, by place)."""
        for group in _groups(self._encoded):
            self._map_text(group)
        return self._rows, self._notes

    def _map_text(self, group: _Group) -> None:
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
        in_unit = in_bytes.copy()
        if self._unit == "char":
            offsets.count_leads(address, length, address_of(in_unit), len(in_unit))
        unit_of = dict(zip(in_bytes.tolist(), in_unit.tolist(), strict=True))
        current: tuple[int, int] | None = None
        for number, (begin, (stop, place, until), size) in enumerate(zip(begins, table, sizes, strict=True)):
            document = group.begin + number
            row = self._rows[document]
            if place < 0:
                row[:2] = unit_of[begin], unit_of[stop]
                self._note(document, ctypes.string_at(address + begin, stop - begin).decode())
                continue
            if current != (begin, stop):
                current = begin, stop
                segment = _Segment(self._normalizer, address + begin, stop - begin)
            if size < 0:
                self._note(document, segment.normal_bytes[place:until].decode())
            if size > 0 and not (segment.is_edge(place) and segment.is_edge(until)):
                self._cut_inside.append((document, segment, place, unit_of[begin]))
            if segment.sources is None:
                if size < 0:
                    row[:2] = unit_of[begin + place], unit_of[begin + until]
                else:
                    row[offsets.ROW_BASE] = unit_of[begin + place]
                    row[offsets.ROW_SHIFT] = size - (until - place)
                continue
            sources = segment.part(place, until)
            if size < 0:
                ends = np.array([sources[0], sources[-1] + 1])
                row[:2] = unit_of[begin] + (ends if self._unit == "char" else segment.edges[ends])
                continue
            if size > until - place:  # the U+0020 before it stands for the first character
                first = sources[:1] if len(sources) else segment.part(place, place + 1)
                sources = np.concatenate([first, sources])
            sources = np.ascontiguousarray(sources)
            self._kept += [sources, segment.edges] if self._unit == "byte" else [sources]
            row[offsets.ROW_BASE] = unit_of[begin]
            row[offsets.ROW_SOURCES], row[offsets.ROW_SOURCES + 1] = address_of(sources), len(sources)
            row[offsets.ROW_EDGES] = address_of(segment.edges) if self._unit == "byte" else 0

    def widen(self, found: Places, lengths: Places) -> None:
        """Let ids of documents that begin or end inside of a character have all of it; ``lengths`` are all ids' bytes.

        Such are the pieces of a step that sees bytes, where the package ``regex`` runs the rule.
        """
        for document, segment, place, base in self._cut_inside:
            first = int(self._encoded.ends[document - 1]) if document else 0
            span = slice(first, int(self._encoded.ends[document]))
            stops = place + np.cumsum(lengths[span])
            numbers = np.cumsum(segment.leads) - 1  # the character of each byte
            begins = numbers[np.maximum(stops - lengths[span], 0)]
            ends = numbers[np.minimum(stops, len(numbers)) - 1]
            if segment.sources is not None:
                begins, ends = segment.sources[begins], segment.sources[ends]
            spans = np.column_stack([begins, ends + 1])
            found[span] = base + (spans if self._unit == "char" else segment.edges[spans])

    def _map_one_for_one(self, group: _Group, address: int, length: int, inserts: int) -> None:
        """Map a text of whose segments each character stands for one, after ``inserts`` that stand for the first."""
        assert self._documents.segments is not None
        data = ctypes.string_at(address, length)
        edges = np.append(np.flatnonzero(np.frombuffer(data, np.uint8) & 0xC0 != 0x80), length)
        span = slice(group.begin, group.end)
        begins, stops = self._documents.begins[span], self._documents.segments[span, 0]
        is_token = self._documents.lengths[span] < 0
        rows = self._rows[span]
        first = np.searchsorted(edges, begins)
        if self._unit == "char":
            rows[:, offsets.ROW_BASE], rows[:, offsets.ROW_STOP] = first, np.searchsorted(edges, stops)
            rows[:, offsets.ROW_SHIFT] = np.where(is_token, 0, inserts)
        else:
            sources = np.maximum(np.arange(-inserts, length), 0)
            self._kept += [edges, sources]
            rows[:, offsets.ROW_BASE] = np.where(is_token, begins, 0)
            rows[:, offsets.ROW_STOP] = stops
            rows[:, offsets.ROW_SOURCES] = np.where(is_token, 0, address_of(sources))
            rows[:, offsets.ROW_SOURCES + 1] = len(sources)
            rows[:, offsets.ROW_EDGES] = address_of(edges) + 8 * first
        for number in np.flatnonzero(is_token).tolist() if any(self._flags.values()) else ():
            self._note(group.begin + number, data[begins[number] : stops[number]].decode())

    def _note(self, document: int, value: str) -> None:
        """Note the white space at the ends of an added token as it stands in the text, if it may vary."""
        place = int(self._encoded.ends[document]) - 1
        if self._flags.get(int(self._encoded.ids[place]), 0):
            self._notes.append((place, *_blanks_around(value)))


class _Segment:
    """A text between raw added tokens, and what normalizing makes of it."""

    def __init__(self, normalizer: Normalizer | None, address: int, length: int) -> None:
        self._data = ctypes.string_at(address, length)
        #: The character that each of the normal text stands for, or None where it is as it was.
        self.sources: Places | None = None
        self._normal = ""
        if normalizer is not None:
            self._normal, self.sources = normalizer.aligned(self._data.decode())

    @functools.cached_property
    def normal_bytes(self) -> bytes:
        """The UTF-8 of the normal text."""
        return self._data if self.sources is None else self._normal.encode()

    @functools.cached_property
    def edges(self) -> Places:
        """Where each character begins, in bytes, and the last one ends."""
        data = np.frombuffer(self._data, np.uint8)
        return np.append(np.flatnonzero(data & 0xC0 != 0x80), len(data))

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


def _blanks_around(value: str) -> tuple[int, int]:
    """Characters at the begin and at the end of a token's string that trimming takes for white space."""
    return len(value) - len(value.lstrip(trimmed_blanks())), len(value) - len(value.rstrip(trimmed_blanks()))


def _tables(engine: "Engine", parts: Parts) -> tuple[npt.NDArray[np.uint64], Places]:
    """(a word about each id, see ``INFO_...``; its bytes, and blanks at its ends), by row of the byte decoder."""
    decoder = engine.tokens
    data, starts = decoder.contents
    begins, ends = starts[:-1], starts[1:]
    lengths = ends - begins
    leads_before = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80)])
    leads = leads_before[ends] - leads_before[begins]
    filled = lengths > 0
    safe = np.where(filled, begins, 0)
    begins_inside = filled & (data[safe] & 0xC0 == 0x80)
    ends_inside = filled & (leads == 0)
    found = np.zeros(len(lengths), np.bool_)  # the last character's first byte
    for back in range(1, 4):
        place = np.where(lengths >= back, ends - back, 0)
        byte = data[place]
        is_lead = (lengths >= back) & (byte & 0xC0 != 0x80) & ~found
        found |= is_lead
        width = 1 + (byte >= 0xC0).astype(np.int64) + (byte >= 0xE0) + (byte >= 0xF0)
        ends_inside |= is_lead & (width > back)
    blanks = np.zeros((len(lengths), 2), np.int64)
    if parts.trims:
        by_byte = parts.vocabulary.options.unit == "byte"
        firsts = [character.encode()[0] for character in trimmed_blanks()]
        lasts = [character.encode()[-1] for character in trimmed_blanks()]
        candidates = filled & (np.isin(data[safe], firsts) | np.isin(data[np.maximum(ends - 1, 0)], lasts))
        raw = data.tobytes()
        for number in np.flatnonzero(candidates).tolist():
            token = raw[begins[number] : ends[number]]
            if by_byte and number < len(parts.vocabulary):  # spelled in the byte alphabet
                blanks[number] = len(token) - len(token.lstrip(b" ")), len(token) - len(token.rstrip(b" "))
            else:
                blanks[number] = _blanks_around(token.decode("utf-8", "replace"))
    words = _words(lengths, leads, blanks)
    words |= begins_inside.astype(np.uint64) * np.uint64(offsets.INFO_BEGINS_INSIDE)
    words |= ends_inside.astype(np.uint64) * np.uint64(offsets.INFO_ENDS_INSIDE)
    numbers = decoder.numbers
    known = numbers >= 0
    info = np.full(len(numbers), np.uint64(offsets.INFO_VARIES))
    info[known] = words[numbers[known]]
    lengths_of = np.zeros((len(numbers), 3), np.int64)
    lengths_of[known] = np.column_stack([lengths, blanks])[numbers[known]]
    _enter_added(engine, parts, info, lengths_of)
    return info, lengths_of


def _words(lengths: Places, leads: Places, blanks: Places) -> npt.NDArray[np.uint64]:
    """The words about tokens of so many bytes, characters that begin in them, and blanks at their ends."""
    fits = (lengths <= offsets.INFO_LENGTH) & (leads <= offsets.INFO_CHARACTERS)
    fits &= (blanks <= offsets.INFO_BLANKS).all(axis=1)
    words = (
        lengths
        | leads << offsets.INFO_CHARACTERS_SHIFT
        | blanks[:, 0] << offsets.INFO_BEFORE_SHIFT
        | blanks[:, 1] << offsets.INFO_BEHIND_SHIFT
    )
    return np.where(fits, words, offsets.INFO_VARIES).astype(np.uint64)


def _enter_added(engine: "Engine", parts: Parts, info: npt.NDArray[np.uint64], lengths_of: Places) -> None:
    """Enter what added tokens are in the text where they are looked for: normalized, or with white space around."""
    tokens = list(parts.added_tokens)
    rows = engine.tokens.rows_of(np.array([token.id for token in tokens], np.uint32))
    spelled: dict[int, set[bytes]] = {}
    for token, row in zip(tokens, rows.tolist(), strict=True):
        content = token.content
        if token.normalized and parts.normalizer is not None:
            content = parts.normalizer.normalize(content)
        data = content.encode()
        owners = spelled.setdefault(row, set())
        owners.add(data)
        symbol = np.flatnonzero(parts.vocabulary.ids == token.id)
        if len(symbol):
            begin, end = parts.vocabulary.starts[symbol[0] : symbol[0] + 2]
            owners.add(parts.vocabulary.data[begin:end].tobytes())
        blanks = _blanks_around(content) if parts.trims else (0, 0)
        lengths_of[row] = end - begin if len(symbol) else len(data), *blanks
        word = _words(np.array([len(data)]), np.array([len(content)]), np.array([blanks]))[0]
        around = content[: blanks[0]] + content[len(content) - blanks[1] :]
        if token.flags or len(owners) > 1 or not around.isascii():
            word = np.uint64(offsets.INFO_VARIES)
        info[row] = word


#: Byte offsets of what was not UTF-8 in the text that is decoded by this thread.
_invalid = threading.local()


def _note_invalid(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    _invalid.spans.append((error.start, error.end))
    return "\ufffd", error.end


codecs.register_error("numbatok.note_invalid", _note_invalid)


def _refer_to_given(
    found: Places, encoded: "Encoded", texts: Texts, which: Literal["A", "B"], unit: OffsetUnit
) -> None:
    """Let offsets in texts that had to be repaired refer to what was given."""
    count = len(texts)
    addresses, lengths, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int8)
    given: Any = texts
    if isinstance(texts, Column):  # well-formed UTF-8 needs nothing, so only what is not becomes an object
        given = [b""] * count
        for invalid in texts.invalid():
            given[invalid] = texts[invalid]
    text.locate_list(id(given), count, address_of(addresses), address_of(lengths), address_of(kinds))
    for owner in np.flatnonzero(kinds).tolist():
        moves = _moves_in_str(given[owner]) if isinstance(given[owner], str) else None
        if moves is None and not isinstance(given[owner], str):
            moves = _moves_in_bytes(as_bytes(given[owner]).tobytes())
        if moves is None or (unit == "byte") == isinstance(given[owner], str):
            continue
        for group in _groups(encoded):
            if group.owner == owner and group.which == which:
                begin, end, _, _ = Locator._span(encoded, group)
                after, shifts = moves
                number = np.searchsorted(after, found[begin:end], side="right")
                found[begin:end] += np.append(0, shifts)[number]


def _moves_in_str(string: str) -> tuple[Places, Places] | None:
    """(after, shifts) of a ``str`` with surrogate pairs, each made one character: from the character ``after[i]`` of
    the repaired text on, ``shifts[i]`` is to be added for the place in ``string``.
    """
    codes = np.frombuffer(string.encode("utf-32-le", "surrogatepass"), "<u4")
    high, low = codes >> 10 == 0xD800 >> 10, codes >> 10 == 0xDC00 >> 10
    pairs = np.flatnonzero(high[:-1] & low[1:])
    if not len(pairs):
        return None
    numbers = np.arange(len(pairs))
    return pairs - numbers + 1, numbers + 1


def _moves_in_bytes(data: bytes) -> tuple[Places, Places] | None:
    """The same for bytes that are not UTF-8, each part of which became U+FFFD, three bytes."""
    _invalid.spans = []
    data.decode("utf-8", "numbatok.note_invalid")
    spans = np.array(_invalid.spans, np.int64).reshape(-1, 2)
    if not len(spans):
        return None
    shifts = np.cumsum(spans[:, 1] - spans[:, 0] - len("\ufffd".encode()))
    return spans[:, 1] - shifts, shifts
