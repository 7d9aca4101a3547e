"""The compiled side of a tokenizer: its view, its scratches, and the calls into the kernels.

Importing this module imports Numba; :class:`numbatok.Tokenizer` does so when it first encodes or decodes.
"""

import ctypes
import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.byte_decoder import ByteDecoder
from numbatok.calls import AnyIds, Call, Check
from numbatok.columns import Texts
from numbatok.documents import (
    Documents,
    Frame,
    Rows,
    Spans,
    arrange,
    arrange_rows,
    frame_of,
    offsets_of,
    segments,
    whole_spans,
)
from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import added, dtypes, encode, merge, normal, tasks, text
from numbatok.kernels.jit import Method, all_kernels
from numbatok.memory import address_of
from numbatok.normalizers import restless
from numbatok.normalizers.parts import is_normal, normal_utf8
from numbatok.parallel import ParallelCall, longest_whole, move, threads_for
from numbatok.parts import Parts
from numbatok.placing import Placer
from numbatok.scratch import Moves, Scratch
from numbatok.scratches import Scratches
from numbatok.templates import Special, Text
from numbatok.threads import parallel_region, threads_of
from numbatok.view import view_of

if TYPE_CHECKING:
    from numbatok.alignment import Segment
    from numbatok.offsets import Locator
    from numbatok.patterns.fallback import RegexRule

LEAST_DENSITY = 0.5  # ids a byte of text for which there is room at least
FEW_TEXTS = 32  # of a batch that is encoded text by text
MOST_ROWS = 1 << 12  # of the parts between added tokens that a kernel call finds in a long text


def common_kernels() -> set[str]:
    """The names of the kernels that every tokenizer may call; :class:`Engine` chooses among the others."""
    mergers = {merge.merge_pretoken.name, merge.merge_pretoken_by_options.name}
    return {kernel.name for kernel in all_kernels() if not kernel.name.startswith("walk_")} - mergers


class Encoded(NamedTuple):
    """The ids of texts, and how they came about: from that follows where each text's begin, and type ids."""

    ids: AnyIds
    offsets: npt.NDArray[np.int64]
    frame: Frame
    documents: Documents
    ends: npt.NDArray[np.int64]
    kept: list[Any]  # what the documents point into, besides the texts


_NO_IDS = np.empty(0, np.uint32)

_Done = tuple[AnyIds, npt.NDArray[np.int64]]


def _is_long(source: Any) -> bool:
    """Whether a text is certainly too long for the short way of encoding."""
    if isinstance(source, str):
        return len(source) > (text.SHORT_TEXT if source.isascii() else text.LONG_TEXT)
    if isinstance(source, np.ndarray):
        return source.nbytes > text.SHORT_TEXT
    return isinstance(source, bytes | bytearray) and len(source) > text.SHORT_TEXT


class Engine:
    """The view of one tokenizer, immutable once built, and the scratches of its callers."""

    def __init__(self, parts: Parts, regex_rule: "RegexRule | None" = None, cache_budget: int | None = None) -> None:
        self._parts = parts
        self._regex_rule = regex_rule
        self._cuts_text = parts.prefix_space or regex_rule is not None  # here, between all added tokens
        self._view = view = view_of(parts, regex_rule)
        self.drops = bool(view[dtypes.VIEW_DROPS])  # whether the split rule removes pieces of the text
        self.tries_off = 2 if self._cuts_text else 1  # what is not looked for again in documents that are cut
        self.everything_allowed = np.full(max(len(parts.added_tokens), 1), dtypes.ADDED_AS_TOKEN, np.uint8)
        self._actions: dict[tuple[frozenset[str], frozenset[str]], npt.NDArray[np.uint8]] = {}
        added = [(token.id, token.content.encode(), token.special) for token in parts.added_tokens]
        #: The bytes that tokens are of a text, and those that they are decoded to: an added token can be spelled in the
        #: alphabet that stands for bytes.
        self.tokens = self.decoder = ByteDecoder(parts.vocabulary, added, parts.unreachable)
        if parts.decoded_added != added:
            self.decoder = ByteDecoder(parts.vocabulary, parts.decoded_added, parts.unreachable)
        self.restless_table = None if self._cuts_text or parts.normalizer is None else restless(parts.normalizer)
        if self.restless_table is not None:
            ascii_changes = self.restless_table[:128].any()
            view[dtypes.VIEW_CHANGES] = dtypes.ANY_TEXT if ascii_changes else dtypes.ANY_NON_ASCII
        elif self._cuts_text or parts.normalizer is not None:
            view[dtypes.VIEW_CHANGES] = dtypes.ANY_TEXT
        self._density = LEAST_DENSITY
        self._frames: dict[tuple[bool, bool | None], Frame] = {
            (pair, special): frame_of(parts.template, pair, special)
            for pair in (False, True)
            for special in (False, True)
        }
        self._frames[False, None] = Frame([Text("A")])
        #: Whether special tokens are added, to what then is put around one text.
        self.around = {special: self._frames[False, special].around() for special in (False, True)}
        self.number = random.getrandbits(62)  # by which arrays for other people's kernels know their tokenizer
        self.scratches = Scratches(view.record, cache_budget)
        self.scratch = self.scratches.one
        self.placer = Placer(self.scratches)
        self._encode_text = text.encode_text.compiled()
        #: For a ``str`` in which all special tokens are allowed, with those of the template and without: its ids, and
        #: how many they are, or None where :meth:`encode` and :meth:`encode_batch` have to look.
        self.encode_plain, self.count_plain = (
            tuple(self.short_way(method, self.everything_allowed, special) for special in (True, False))
            for method in (text.encode_to_array, text.count_ids)
        )
        self.encode_documents = encode.encode_documents.compiled()

    def actions(self, policy: tuple[frozenset[str], frozenset[str]]) -> npt.NDArray[np.uint8]:
        """What to do at each added token where the (allowed, refused) special tokens are these."""
        found = self._actions.get(policy)
        if found is None:
            allowed, refused = policy
            found = self.everything_allowed.copy()
            for index, token in enumerate(self._parts.added_tokens):
                if token.special and token.content in refused:
                    found[index] = dtypes.ADDED_REFUSED
                elif token.special and token.content not in allowed:
                    found[index] = dtypes.ADDED_AS_TEXT
            if len(self._actions) >= 64:
                self._actions.clear()
            self._actions[policy] = found
        return found

    # --- encoding ---

    def short_way(
        self,
        method: Method,
        actions: npt.NDArray[np.uint8],
        special: bool,
        also: Callable[[Scratch], None] | None = None,
    ) -> Callable[[Any], Any]:
        """A function that gives what the method makes of a short ``str``, or None where that cannot be done at once.

        ``also`` is called with each scratch that is to run the method, now and then.

        A closure finds its variables in half the time that attributes of an object take, and the method is one call
        that returns an object: 16 bytes are encoded in 0.5 us so, in 1.1 us by a kernel that leaves ids in the scratch.
        """
        scratches, around, caller = self.scratches, self.around[special], object()
        take, put_back = scratches.idle.pop, scratches.idle.append

        def run(source: Any) -> Any:
            try:
                scratch = take()
            except IndexError:
                scratch = scratches.take()
            if scratch.prepared_for is not caller:
                scratch.prepare(caller, method, actions, around, also)
            made = scratch.run(source)
            put_back(scratch)
            return made

        return run

    def stream_ends(self, special: bool) -> tuple[list[int], list[int]] | None:
        """The template's ids before and after one text; None where it is more than that."""
        around = self.around[special]
        if around.count == 0:
            return None
        blocks = self._frames[False, special].blocks
        before = blocks[0] if around.first == 0 else None
        after = blocks[-1] if blocks[-1] is not None else None
        return [] if before is None else before.tolist(), [] if after is None else after.tolist()

    @property
    def view_record(self) -> npt.NDArray[np.int64]:
        """int64[VIEW_FIELDS]: the tables that kernels read, alive as long as this."""
        return self._view.record

    @property
    def changes_text(self) -> bool:
        """Whether some text is encoded otherwise than as it is."""
        return bool(self._view[dtypes.VIEW_CHANGES] != dtypes.NO_TEXT)

    @property
    def regex_rule(self) -> "RegexRule | None":
        """What runs the split rule where the kernels cannot."""
        return self._regex_rule

    @property
    def ids_per_byte(self) -> int:
        """How many ids a byte can become, at most."""
        return self._view[dtypes.VIEW_IDS_PER_BYTE]

    def encode(
        self, source: Any, actions: npt.NDArray[np.uint8], errors: str, special: bool, threads: int | None
    ) -> Ids:
        """Ids of one text, as a new array; ``special`` says whether its template's special tokens are put around it."""
        scratch = self.scratches.take()
        if scratch.actions is not actions:
            scratch.set_actions(actions)
        around = self.around[special]
        if scratch.around is not around:
            scratch.set_around(around)
        status = self._encode_text(id(source), scratch.address)
        if status >= 0:
            ids: Ids = scratch.small_output[:status].copy()
        else:
            try:
                rest = self._encode_rest(scratch, source, errors, status)
            except DisallowedToken:  # the only exception that leaves a scratch as good as it was
                self.scratches.put_back(scratch)
                raise
            if rest is None:
                self.scratches.put_back(scratch)
                whole = self.encode_batch([source], None, Call(actions, errors, special, threads)).ids
                return whole.astype(np.uint32, copy=False)
            ids = rest
        self.scratches.put_back(scratch)
        return ids

    def _encode_rest(self, scratch: Scratch, source: Any, errors: str, status: int) -> Ids | None:
        """What the short way left undone, after its status: a buffer to mend, or another kind of text.

        None where more than a short text with a block of ids before and after it is to be encoded.
        """
        first = scratch.address + 8 * (dtypes.WORK_LIST + int(scratch.record[dtypes.WORK_LIST_FIRST]))
        count = int(scratch.record[dtypes.WORK_LIST_COUNT])
        arguments = (first, first + 8 * dtypes.LIST, first + 16 * dtypes.LIST, count)
        if status == text.NOT_SHORT:
            if count == 0 or _is_long(source):
                return None
            source, length = self.placer.place(scratch, source, errors)  # keeps what the address points into
            if length > text.SHORT_TEXT or self.changes(int(scratch.record[dtypes.WORK_TEXT]), length):
                return None
            status = self.encode_documents(scratch.address, *arguments)
        while status < 0:
            if status == dtypes.NEED_OUTPUT:  # more ids than bytes, by byte tokens
                return None
            self.mend(scratch, status)
            status = self.encode_documents(scratch.address, *arguments)
        ids: Ids = scratch.small_output[:status].copy()
        scratch.shrink()
        return ids

    def frame(self, pair: bool, special: bool) -> Frame:
        """What is put around a text, or a pair, with the template's special tokens or without."""
        return self._frames[pair, special]

    def encode_batch(self, texts: Texts, seconds: Texts | None, call: Call) -> Encoded:
        """Ids of all texts, or pairs where ``seconds`` are given, flat."""
        kept: list[Any] = []
        frame, documents = self.documents_of(texts, seconds, call, kept)
        total = tasks.text_bytes(address_of(documents.lengths), len(documents.lengths))
        done = self._encode_in_parallel(frame, documents, total, call)
        ids, ends = done or self._encode_alone(frame, documents, total, call)
        return Encoded(ids, offsets_of(documents, ends, len(texts)), frame, documents, ends, kept)

    def encode_few(self, texts: Texts, call: Call) -> tuple[AnyIds, npt.NDArray[np.int64]] | None:
        """(ids, offsets) of a few short texts, one after the other; None where that is not all there is to do.

        By :meth:`encode_batch` one text takes 25 us, and each more 0.3 for a short one; so 5 us, and each more 0.5.
        """
        if len(texts) > FEW_TEXTS or not isinstance(texts, list) or call.special is None:
            return None
        if call.actions is not self.everything_allowed or self._frames[False, call.special].types.any():
            return None
        ids, offsets = [_NO_IDS], np.zeros(len(texts) + 1, np.int64)
        encode, count = self.encode_plain[not call.special], self.count_plain[not call.special]
        for number, source in enumerate(texts):
            made = count(source) if call.count_only else encode(source)
            if made is None:
                return None
            if not call.count_only:
                ids.append(made)
                made = len(made)
            offsets[number + 1] = offsets[number] + made
        return call.place(np.concatenate(ids)), offsets

    @functools.cached_property
    def locator(self) -> "Locator":
        """What finds the offsets of ids."""
        from numbatok.offsets import Locator

        return Locator(self, self._parts)

    def _encode_alone(self, frame: Frame, documents: Documents, total: int, call: Call) -> _Done:
        """(ids, where each document's end), by the calling thread."""
        ends = np.empty(len(documents.addresses), np.int64)
        places = address_of(documents.addresses), address_of(documents.lengths), address_of(ends), len(ends)
        with self.scratch() as scratch:
            scratch.set_actions(call.actions)
            scratch.restart()
            scratch.expect(call.expected)
            scratch.record[dtypes.WORK_TRIES_OFF] = self.tries_off if documents.are_cut else 0
            try:
                if call.count_only:
                    ids: AnyIds = self.count_all(scratch, *places, total, call.check)
                elif call.id_type is np.uint32 and call.out is None:
                    ids = self.encode_all(scratch, *places, total, call.check)
                else:
                    ids = self._encode_groups(scratch, *places, total, call)
            except DisallowedToken as found:
                raise self.found_in(documents, frame, found) from None
            scratch.record[dtypes.WORK_TRIES_OFF] = 0
        return ids, ends

    def _encode_in_parallel(self, frame: Frame, documents: Documents, total: int, call: Call) -> _Done | None:
        """(ids, where each document's end), by several workers; None where the calling thread is to do it alone."""
        threads = threads_for(total, threads_of(call.threads))
        if threads < 2 or self._view[dtypes.VIEW_DROPOUT]:
            return None
        with parallel_region(threads) as threads:
            if threads < 2:
                return None
            scratches = [self.scratches.take() for _ in range(threads)]
            moves: Moves = {}
            for scratch in scratches:
                scratch.set_actions(call.actions)
                scratch.expect(2 * total // threads, moves)  # half of a text has two thirds of its distinct pretokens
            move(moves, threads)
            spans, parallel, refused = self._begin(scratches, documents, total, call.check)
            try:
                ids, count = parallel.encode(call.id_type, call.out, count_only=call.count_only)
                if refused is not None:
                    raise refused
            except DisallowedToken as found:
                if spans is not None:
                    found.position += int(spans.starts[found.document])
                    found.document = int(spans.documents[found.document])
                raise self.found_in(documents, frame, found) from None
            for scratch in reversed(scratches):  # so that each becomes the same worker's in the next call
                scratch.end_waves()
                self.scratches.put_back(scratch)
        call.check_room(count)
        ends = parallel.ends
        if spans is not None:
            ends = ends[np.cumsum(np.bincount(spans.documents)) - 1]
        return ids if call.out is None else ids[:count], ends

    def _begin(
        self, scratches: list[Scratch], documents: Documents, total: int, check: Check
    ) -> tuple[Spans | None, ParallelCall, DisallowedToken | None]:
        """A parallel call over documents of ``total`` bytes, of which the workers share those that are long.

        What added tokens with flags stand for depends on what is before them: then long documents are cut at all of
        theirs first, and the spans are the first result. A disallowed token in one of them is the third, and only
        documents up to it are left.
        """
        longest = longest_whole(total, len(scratches))
        tries_off = self.tries_off if documents.are_cut else 0
        if self._view[dtypes.VIEW_ADDED_ANY_FLAG]:
            long = np.flatnonzero(documents.lengths > longest)
            if len(long):
                spans, refused = self._cut_at_added(scratches[0], whole_spans(documents, tries_off), long)
                return spans, ParallelCall(scratches, *spans[:3], longest, total, check), refused
        each = np.array([tries_off], np.int64)
        call = ParallelCall(scratches, documents.addresses, documents.lengths, each, longest, total, check)
        return None, call, None

    def _cut_at_added(
        self, scratch: Scratch, spans: Spans, numbers: npt.NDArray[np.int64]
    ) -> tuple[Spans, DisallowedToken | None]:
        """Spans, the numbered ones cut at their added tokens, and a disallowed token, whose span is the last then."""
        columns = np.array(spans).T
        ids = self._view[dtypes.VIEW_ADDED_IDS]
        pieces, done = [], 0
        refused = None
        for number in numbers.tolist():
            row = columns[number]
            address, length, tries_off, _, _ = row.tolist()
            scratch.record[dtypes.WORK_TRIES_OFF] = tries_off
            scratch.record[dtypes.WORK_POSITION] = count = 0
            pieces.append(columns[done:number])
            while count >= 0 and scratch.record[dtypes.WORK_POSITION] < length:
                found = np.empty((MOST_ROWS, 3), np.int64)
                count = encode.cut_at_added(scratch.address, address, length, address_of(found), MOST_ROWS)
                start, stop, token = found[: max(count, 0)].T
                cut = np.tile(row, (len(start), 1))
                cut[:, 0] = np.where(token < 0, address + start, ids + 4 * token)
                cut[:, 1] = np.where(token < 0, stop - start, -1)
                cut[:, 2] = 2
                cut[:, 4] = start
                pieces.append(cut)
            done = number + 1
            if count < 0:
                place = scratch.record[[dtypes.WORK_POSITION, dtypes.WORK_NEEDED]].tolist()
                refused = DisallowedToken(sum(map(len, pieces)), *place)
                row[1] = 0
                pieces.append(row[np.newaxis])
                done = len(columns)
                break
        scratch.record[dtypes.WORK_TRIES_OFF] = 0
        return Spans(*np.concatenate([*pieces, columns[done:]]).T.copy()), refused

    def count_all(
        self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int, check: Check = None
    ) -> Ids:
        """Encode documents, keeping only how many ids there are: none are returned."""
        scratch.expect(total)
        scratch.record[dtypes.WORK_COUNT_ONLY] = 1
        try:
            while (status := self.encode_documents(scratch.address, addresses, lengths, ends, count)) < 0:
                self.mend(scratch, status, self.part_done(scratch, count, total))
                if check:
                    check()
        finally:  # who catches a refused token may go on with the scratch
            scratch.record[dtypes.WORK_COUNT_ONLY] = 0
        scratch.use_small_output()
        scratch.shrink()
        return np.empty(0, np.uint32)

    # --- documents ---

    def documents_of(self, texts: Texts, seconds: Texts | None, call: Call, kept: list[Any]) -> tuple[Frame, Documents]:
        """(template, documents) of texts or pairs; what they point into, besides the texts, goes to ``kept``."""
        frame = self._frames[seconds is not None, call.special]
        if call.end is not None:
            frame = Frame([*frame.pieces, Special("", (call.end,))], frame.is_even)
        located = {"A": self.placer.place_all(texts, call.errors, kept, call.threads)}
        if seconds is not None:
            located["B"] = self.placer.place_all(seconds, call.errors, kept, call.threads)
        if not any(self._any_changes(*places) for places in located.values()):
            return frame, arrange(frame, located, len(texts))
        with self.scratch() as scratch:
            scratch.set_actions(call.actions)
            aligned: dict[tuple[int, str, int], Segment] | None = {} if call.aligned and self.locator.aligns else None
            rows = {
                which: [
                    self._rows(scratch, int(address), int(length), number, which == "B", kept, aligned)
                    for number, (address, length) in enumerate(zip(*places, strict=True))
                ]
                for which, places in located.items()
            }
        return frame, arrange_rows(frame, rows, len(texts), located, aligned)

    def changes(self, address: int, length: int) -> bool:
        """Whether the UTF-8 at an address is encoded otherwise than as it is."""
        return self._any_changes(np.array([address], np.int64), np.array([length], np.int64))

    def _any_changes(self, addresses: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> bool:
        """Whether any of these texts is."""
        kind = self._view[dtypes.VIEW_CHANGES]
        if kind == dtypes.NO_TEXT:
            return False
        normalizer, table = self._parts.normalizer, self.restless_table
        if normalizer is None or table is None:
            return True
        arguments = address_of(addresses), address_of(lengths), len(addresses)
        number = -1
        while True:
            number = normal.next_restless(*arguments, number + 1, address_of(table), kind == dtypes.ANY_TEXT)
            if number < 0:
                return False
            if not is_normal(normalizer, table, int(addresses[number]), int(lengths[number])):
                return True

    def _rows(
        self,
        scratch: Scratch,
        address: int,
        length: int,
        owner: int,
        second: bool,
        kept: list[Any],
        aligned: "dict[tuple[int, str, int], Segment] | None",
    ) -> Rows:
        """The documents of one text: ids of its raw added tokens, and the normalized text between them."""
        rows: Rows = []
        normalizer = self._parts.normalizer
        for start, stop, token in self.segments_by(scratch, dtypes.VIEW_RAW_TRIE, address, length):
            if token is not None:
                rows.append((*self.token_row(scratch, token, start, owner, second), start, stop, -1, 0))
                continue
            if normalizer is None:
                data = np.frombuffer(ctypes.string_at(address + start, stop - start), np.uint8)
            elif aligned is not None:
                made = self.locator.segment(address + start, stop - start)
                aligned[owner, "B" if second else "A", start] = made
                data = np.frombuffer(made.normal_bytes, np.uint8)
            elif self.restless_table is not None:
                changed = normal_utf8(normalizer, self.restless_table, address + start, stop - start)
                if changed is None:  # it is encoded in place
                    rows.append((address + start, stop - start, start, stop, 0, stop - start))
                    continue
                data = np.frombuffer(changed, np.uint8)
            else:
                segment = ctypes.string_at(address + start, stop - start).decode()
                data = np.frombuffer(normalizer.normalize(segment).encode(), np.uint8)
            if self._cuts_text:
                for address_, size, begin, end in self._cut(scratch, data, start, owner, second, kept):
                    rows.append((address_, size, start, stop, begin, end))
            else:
                kept.append(data)
                rows.append((address_of(data), len(data), start, stop, 0, len(data)))
        return rows

    def _cut(
        self, scratch: Scratch, data: npt.NDArray[np.uint8], start: int, owner: int, second: bool, kept: list[Any]
    ) -> Iterator[tuple[int, int, int, int]]:
        """The documents of a normalized segment, and which of its bytes they are: texts between added tokens, with a
        space before, or pieces of them.
        """
        for begin, end, token in self.segments_by(scratch, dtypes.VIEW_NORMALIZED_TRIE, address_of(data), len(data)):
            if token is not None:
                yield (*self.token_row(scratch, token, start, owner, second), begin, end)
                continue
            part = data[begin:end]
            if self._parts.prefix_space and part[0] != ord(" "):
                part = np.concatenate([np.frombuffer(b" ", np.uint8), part])
            kept.append(part)
            if self._regex_rule is None:
                yield address_of(part), len(part), begin, end
                continue
            starts, dropped = self._regex_rule.cut(part.tobytes().decode())
            for first, last, gone in zip(starts, [*starts[1:], len(part)], dropped, strict=True):
                if not gone:
                    edge = end - len(part)
                    yield (
                        address_of(part) + int(first),
                        int(last - first),
                        max(edge + int(first), begin),
                        max(edge + int(last), begin),
                    )

    def token_row(self, scratch: Scratch, token: int, start: int, owner: int, second: bool) -> tuple[int, int]:
        """The document of an added token that stands at byte ``start``, unless the caller refuses it."""
        assert scratch.actions is not None
        if scratch.actions[token] == dtypes.ADDED_REFUSED:
            raise DisallowedToken(owner, start, token, second)
        return self._view[dtypes.VIEW_ADDED_IDS] + 4 * token, -1

    @staticmethod
    def segments_by(scratch: Scratch, trie: int, address: int, length: int) -> Iterable[tuple[int, int, int | None]]:
        """(start, stop, added token or None) of the parts of a text, by one of the tries."""
        match = np.zeros(4, np.int64)

        def find(floor: int, begin: int) -> tuple[int, int, int, int] | None:
            token = added.search_text(scratch.address, trie, address_of(match), address, length, floor, begin)
            return None if token < 0 else (token, int(match[1]), int(match[2]), int(match[3]))

        return segments(find, length)

    @staticmethod
    def found_in(documents: Documents, frame: Frame, found: DisallowedToken) -> DisallowedToken:
        """Where a disallowed token was found, by text instead of by document."""
        number = found.document
        piece = frame.pieces[documents.pieces[number]]
        position = int(documents.begins[number]) + found.position
        return DisallowedToken(int(documents.owners[number]), position, found.token, piece == Text("B", piece.type_id))

    @staticmethod
    def part_done(scratch: Scratch, count: int, total: int) -> float:
        """The part of a call's documents, or of its one document's bytes, that is behind."""
        if count <= dtypes.LIST:
            return float(scratch.record[dtypes.WORK_POSITION] / max(total, 1))
        return float(scratch.record[dtypes.WORK_DOCUMENT] / count)

    def encode_all(
        self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int, check: Check = None
    ) -> Ids:
        """Encode documents into a fresh array, which grows by what the part done so far predicts."""
        scratch.expect(total)
        record = scratch.record
        slack = dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK
        output = np.empty(int(total * self._density) + slack, np.uint32)
        scratch.set_table(dtypes.WORK_OUTPUT, output)
        while (status := self.encode_documents(scratch.address, addresses, lengths, ends, count)) < 0:
            if check:
                check()
            used = int(record[dtypes.WORK_OUTPUT_USED])
            done = self.part_done(scratch, count, total)
            if status != dtypes.NEED_OUTPUT:
                self.mend(scratch, status, done)
                continue
            needed = int(record[dtypes.WORK_NEEDED])
            wanted = max(needed, len(output) + len(output) // 8, int(1.1 * used / max(done, 0.01)))
            grown = np.empty(min(wanted, max(total, needed)) + slack, np.uint32)
            grown[:used] = output[:used]
            output = grown
            scratch.set_table(dtypes.WORK_OUTPUT, output)
        if total > dtypes.CHUNK_BYTES:
            # The next text is expected to be alike: growing for each took a tenth of a later pass over JSON and Korean.
            self._density = max(LEAST_DENSITY, 1.1 * status / total)
        scratch.use_small_output()
        scratch.shrink()
        output.resize(status, refcheck=False)  # gives the rest back; nobody else has seen the array
        return output

    def _encode_groups(
        self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int, call: Call
    ) -> AnyIds:
        """Encode documents by groups into the caller's array, or a new one, by way of the scratch's own buffer."""
        scratch.expect(total)
        scratch.begin_wave(dtypes.GROUP_TEXT, count_only=False)
        ids = np.empty(total // 2, call.id_type) if call.out is None else call.out
        groups = np.zeros(dtypes.GROUPS_FIELDS, np.int64)
        groups[: dtypes.GROUPS_DONE] = address_of(ids), len(ids), ids.itemsize
        places = addresses, lengths, ends, count, address_of(groups)
        while (status := encode.encode_groups(scratch.address, *places)) < 0:
            if call.check:
                call.check()
            if status != dtypes.NEED_ROOM:
                self.mend(scratch, status, self.part_done(scratch, count, total))
            elif call.out is not None:  # the rest is counted, to be told
                groups[dtypes.GROUPS_ITEM_BYTES] = 0
            else:
                done = int(groups[dtypes.GROUPS_DONE])
                grown = np.empty(len(ids) + len(ids) // 2 + int(scratch.record[dtypes.WORK_OUTPUT_USED]), call.id_type)
                grown[:done] = ids[:done]
                ids = grown
                groups[:2] = address_of(ids), len(ids)
        scratch.end_waves()
        if call.out is None:
            ids.resize(status, refcheck=False)  # gives the rest back; nobody else has seen the array
            return ids
        call.check_room(status)
        return ids[:status]

    @staticmethod
    def mend(scratch: Scratch, status: int, part_done: float = 1.0) -> None:
        """Prepare for another call after a status that is not an end, ``part_done`` of the text behind."""
        if status == dtypes.DISALLOWED:
            document, position = int(scratch.record[dtypes.WORK_DOCUMENT]), int(scratch.record[dtypes.WORK_POSITION])
            raise DisallowedToken(document, position, int(scratch.record[dtypes.WORK_NEEDED]))
        scratch.mend(status, part_done)

    def pretokenize(self, source: Any, errors: str, threads: int | None) -> npt.NDArray[np.int64]:
        """Byte offsets where the split rule's pieces begin, and the end."""
        with self.scratch() as scratch:
            source, length = self.placer.place(scratch, source, errors, threads)
            address = int(scratch.record[dtypes.WORK_TEXT])
            if self._regex_rule is not None:
                starts, _ = self._regex_rule.cut(ctypes.string_at(address, length).decode())
                return np.append(starts, length)
            boundaries = self._split_in_parallel(address, length, threads)
            if boundaries is not None:
                return boundaries
            boundaries = np.empty(length + 1, np.int64)
            used = position = 0
            while True:
                room = address_of(boundaries) + 8 * used
                status = encode.split_text(scratch.address, address, length, position, length, room)
                if status >= 0:
                    break
                used += int(scratch.record[dtypes.WORK_OUTPUT_USED])
                position = int(scratch.record[dtypes.WORK_POSITION])
                scratch.mend(status)
            scratch.shrink()
        used += status
        boundaries[used] = length
        boundaries.resize(used + 1, refcheck=False)
        return boundaries

    def _split_in_parallel(self, address: int, length: int, threads: int | None) -> npt.NDArray[np.int64] | None:
        """What :meth:`pretokenize` returns, by several workers; None where the calling thread is to do it alone."""
        with parallel_region(threads_for(length, threads_of(threads))) as granted:
            if granted < 2:
                return None
            scratches = [self.scratches.take() for _ in range(granted)]
            place = np.array([address], np.int64), np.array([length], np.int64), np.array([2], np.int64)
            boundaries = ParallelCall(scratches, *place, longest_whole(length, granted), length).split()
            for scratch in reversed(scratches):
                scratch.end_waves()
                self.scratches.put_back(scratch)
            return boundaries
