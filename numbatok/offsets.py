"""Offsets: which part of its text each id stands for, with the meaning that ``tokenizers`` gives them.

They refer to the text as it was given, whatever was normalized, put before it or left out of it. An id covers whole
characters: of a character that several ids share, each has all. In bytes they are the places of the same characters in
the text's UTF-8, as the Rust library has them.
"""

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from numbatok.alignment import Group, Mapping, Segment, groups_of, inserts_of, span_of
from numbatok.columns import Texts
from numbatok.given_places import refer_to_given
from numbatok.ids import Ids
from numbatok.kernels import dtypes, offset_plan, offsets
from numbatok.memory import address_of
from numbatok.offset_tables import Places, tables_of
from numbatok.parts import Parts
from numbatok.scratch import Scratch
from numbatok.templates import Special, Trim
from numbatok.text import OffsetUnit

if TYPE_CHECKING:
    from numbatok.engine import Encoded, Engine


class Locator:
    """Finds the offsets of the ids of one tokenizer; immutable, for any number of threads."""

    def __init__(self, engine: "Engine", parts: Parts) -> None:
        self._engine = engine
        self._parts = parts
        plain = parts.vocabulary.is_plain
        self._adds_up = plain and not engine.drops
        #: Whether offsets of short texts are found by one call, by whether the template's special tokens are added.
        self._at_once = {
            special: self._adds_up and engine.tokens.is_direct and not (parts.trims and not self._trim_at_once(special))
            for special in (False, True)
        }
        self._short_ways: dict[tuple[bool, OffsetUnit], Callable[[Any], tuple[Ids, Places] | None]] = {}
        self._flagged = any(token.flags for token in parts.added_tokens)
        #: Whether offsets in normalized text need what its characters stand for.
        self.aligns = parts.normalizer is not None and inserts_of(parts) is None
        symbols = engine.tokens.numbers.copy()
        symbols[engine.tokens.rows_of(parts.vocabulary.ids)] = np.arange(len(parts.vocabulary))
        self._kept = (*tables_of(engine, parts), symbols)
        self._plan = np.zeros(offset_plan.PLAN_FIELDS, np.int64)  # what all calls have in common
        self._plan[offset_plan.PLAN_ADDS_UP] = self._adds_up
        self._plan[offset_plan.PLAN_LOCATOR] = offsets.locate_tokens.address
        by_bytes = plain or _adds_suffixes(parts)
        self._plan[offset_plan.PLAN_PREFIX] = -1 if by_bytes else len(parts.vocabulary.options.prefix)
        fields = offset_plan.PLAN_INFO, offset_plan.PLAN_LENGTHS_OF, offset_plan.PLAN_NUMBERS
        arrays: tuple[npt.NDArray[Any], ...] = self._kept
        for field, array in zip(fields, arrays, strict=True):
            self._plan[field], self._plan[field + 1] = address_of(array), array.size

    def short_way(self, special: bool, unit: OffsetUnit) -> Callable[[Any], tuple[Ids, Places] | None]:
        """What gives (ids, offsets) of a short ``str``; None where more is to be done than one call can do."""
        found = self._short_ways.get((special, unit))
        if found is None:
            found = self._short_ways[special, unit] = self._new_short_way(special, unit)
        return found

    def _new_short_way(self, special: bool, unit: OffsetUnit) -> Callable[[Any], tuple[Ids, Places] | None]:
        if not self._at_once[special]:
            return lambda _: None

        def tell(scratch: Scratch) -> None:
            plan = scratch.plans.get((special, unit))
            if plan is None:
                plan = scratch.plans[special, unit] = self._new_plan(scratch, special, unit)
            scratch.record[dtypes.WORK_PLAN] = plan

        engine = self._engine
        return engine.short_way(offsets.encode_and_locate, engine.everything_allowed, special, tell)

    def _new_plan(self, scratch: Scratch, special: bool, unit: OffsetUnit) -> int:
        """The address of a plan for the short texts of a scratch, which keeps it."""
        plan = self._plan.copy()
        places = np.empty((len(scratch.small_output), 2), np.int64)
        around = self._engine.frame(False, special).around()
        first = scratch.address + 8 * (dtypes.WORK_LIST + around.first)
        plan[offset_plan.PLAN_ADDRESSES] = first
        plan[offset_plan.PLAN_LENGTHS] = first + 8 * dtypes.LIST
        plan[offset_plan.PLAN_ENDS] = first + 16 * dtypes.LIST
        plan[offset_plan.PLAN_COUNT] = around.count
        plan[offset_plan.PLAN_IN_BYTES] = unit == "byte"
        if self._parts.trims:
            plan[offset_plan.PLAN_TRIM] = self._trim_at_once(special)
        noted = np.empty((len(places) if self._parts.trims and self._flagged else 0, 3), np.int64)
        fields = offset_plan.PLAN_IDS, offset_plan.PLAN_OFFSETS, offset_plan.PLAN_SPACES
        arrays: tuple[npt.NDArray[Any], ...] = (scratch.small_output, places, noted)
        for field, array in zip(fields, arrays, strict=True):
            plan[field], plan[field + 1] = address_of(array), array.size
        scratch.kept_plans += [plan, noted, places]
        return address_of(plan)

    def segment(self, address: int, length: int) -> Segment:
        """A part of a text, normalized, with what its characters stand for."""
        return Segment(self._parts.normalizer, address, length)

    def _trim_at_once(self, has_specials: bool) -> int:
        """What is trimmed of texts as they are, in the kernel's words; 0 where there is not one trim."""
        trims = self._parts.trims
        return _trim_code(trims[0], has_specials and bool(trims[0].behind)) if len(trims) == 1 else 0

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
        plan[offset_plan.PLAN_COUNT] = len(encoded.ends)
        plan[offset_plan.PLAN_IN_BYTES] = unit == "byte" and not documents.are_cut
        set_table(offset_plan.PLAN_IDS, ids)
        set_table(offset_plan.PLAN_OFFSETS, found)
        trims = self._parts.trims if trimmed else ()
        has_specials = any(isinstance(piece, Special) for piece in encoded.frame.pieces)
        noted = np.empty((len(ids) if trims and self._flagged else 0, 3), np.int64)
        set_table(offset_plan.PLAN_SPACES, noted)
        notes: list[tuple[int, int, int]] = []
        if documents.are_cut:
            mapping = Mapping(self._parts, encoded, kept)
            rows, notes = mapping.rows()
            set_table(offset_plan.PLAN_ROWS, rows)
        elif self._adds_up and trims:
            plan[offset_plan.PLAN_TRIM] = self._trim_at_once(has_specials)
        counts = np.zeros(len(encoded.ends) + 1, np.int64)
        if words is not None:
            set_table(offset_plan.PLAN_WORDS, words)
            plan[offset_plan.PLAN_WORD_COUNTS] = address_of(counts) + 8
        self._run(plan, actions, documents.are_cut)
        if words is not None and documents.are_cut:
            before = np.cumsum(counts)
            first = np.searchsorted(documents.owners, documents.owners)  # the document that each text begins with
            words += np.repeat(before[:-1] - before[first], np.diff(encoded.ends, prepend=0)).astype(np.int32)
        later = trims and not plan[offset_plan.PLAN_TRIM]
        groups = list(groups_of(encoded)) if later or not self._adds_up or documents.are_cut else []
        if documents.are_cut:
            mapping.widen(found, self._kept[1][ids, 0])
            plan[offset_plan.PLAN_IN_BYTES] = unit == "byte"
            if unit == "byte":
                fields = np.array([span_of(encoded, group) for group in groups], np.int64).reshape(-1, 4)
                offsets.turn_into_bytes(address_of(plan), address_of(fields), len(fields))
        if not self._adds_up and len(found) and found.min() < 0:
            self._convert_rest(found, encoded, groups, unit)
        if later:
            if notes and self._flagged:
                used = int(plan[offset_plan.PLAN_SPACES_USED])
                every = np.concatenate([noted[:used], np.array(notes, np.int64).reshape(-1, 3)])
                every = every[np.argsort(every[:, 0], kind="stable")]
                set_table(offset_plan.PLAN_SPACES, every)
                plan[offset_plan.PLAN_SPACES_USED] = len(every)
            for which in "AB":
                spans = [span_of(encoded, group) for group in groups if group.which == which]
                fields = np.array(spans, np.int64).reshape(-1, 4)
                for trim in trims:
                    code = _trim_code(trim, has_specials and which in trim.behind)
                    offsets.trim_offsets(address_of(plan), address_of(fields), len(fields), code)
        refer_to_given(found, encoded, texts, "A", unit)
        if seconds is not None:
            refer_to_given(found, encoded, seconds, "B", unit)
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
        if status == offset_plan.MISPLACED:
            raise RuntimeError("a text was changed by another thread while its offsets were found")
        scratch.mend(status)

    def _convert_rest(self, found: Places, encoded: "Encoded", groups: list[Group], unit: OffsetUnit) -> None:
        """What ``tokenizers`` makes of offsets that reach past their pretoken: it takes them for the text's own."""
        for group in groups:
            begin, end, address, length = span_of(encoded, group)
            odd = begin + np.flatnonzero(found[begin:end, 0] < 0)
            if not len(odd):
                continue
            places = -1 - found[odd]
            data = np.frombuffer(ctypes.string_at(address, length), np.uint8)
            leads = data & 0xC0 != 0x80
            number = np.cumsum(leads, dtype=np.int64) - 1  # the character of each byte
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


def _adds_suffixes(parts: Parts) -> bool:
    """Whether the ids of a pretoken are its bytes, all of them, with a suffix after the last, as CLIP's are."""
    vocabulary = parts.vocabulary
    options = vocabulary.options
    if options.unit != "byte" or options.prefix or not options.suffix.isascii() or vocabulary.whole_first:
        return False
    return all(len(vocabulary.units(suffix=suffix)[0]) == 256 for suffix in (b"", options.suffix))


def _trim_code(trim: Trim, is_behind: bool) -> int:
    """A trim in the kernel's words; ``is_behind`` where an id is before each text's first."""
    if not trim.keeps_first:
        return offset_plan.TRIM_ALL
    return offset_plan.TRIM_ALL | offset_plan.TRIM_KEEPS_AT_START | (0 if is_behind else offset_plan.TRIM_KEEPS_FIRST)
