"""The compiled side of a tokenizer: its tables, its scratches, and the calls into the kernels.

Importing this module imports Numba; :class:`numbatok.Tokenizer` does so when it first encodes or decodes.
"""

import ctypes
import functools
import importlib
import math
import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AddedTokens, Trie
from numbatok.documents import Documents, Frame, Places, Rows, arrange, arrange_rows, frame_of, offsets_of, segments
from numbatok.errors import DisallowedToken, UnknownId
from numbatok.kernels import added as added_kernels
from numbatok.kernels import build, cache, cuts, decode, dtypes, encode, merge, normal, spans, text
from numbatok.kernels.jit import all_kernels
from numbatok.loading import byte_level
from numbatok.memory import address_of
from numbatok.normalizers import restless
from numbatok.parts import Parts
from numbatok.patterns import unicode
from numbatok.patterns.known import WALKS, character_classes, walk_of
from numbatok.scratch import Scratch
from numbatok.templates import Text
from numbatok.text import as_bytes, raise_invalid, repair_surrogates
from numbatok.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numbatok.patterns.fallback import RegexRule

Ids = npt.NDArray[np.uint32]

# Byte offsets into a scratch's record: the address and the length of a call's one text.
_TEXT = 8 * dtypes.WORK_TEXT
_LENGTH = _TEXT + 8 * dtypes.LIST

MOST_ID_TABLE = 1 << 24  # ids below this, or four times the tokens, are decoded through a table by id


def common_kernels() -> set[str]:
    """The names of the kernels that every tokenizer may call; :class:`Engine` chooses among the others."""
    mergers = {merge.merge_pretoken.name, merge.merge_pretoken_by_options.name}
    return {kernel.name for kernel in all_kernels() if not kernel.name.startswith("walk_")} - mergers


def _slots_for(count: int) -> int:
    """A power of two that leaves at least a quarter of a table of ``count`` entries empty.

    A half cost more, in cache misses, than it saved in steps: a first pass with Llama 3's 280,147 merges a quarter.
    """
    return 1 << max(4, (4 * count // 3).bit_length())


@functools.cache
def _space_and_word() -> npt.NDArray[np.uint8]:
    """uint8[CLASS_TABLE_SIZE]: IS_SPACE and IS_WORD of each code point, for the flags of added tokens."""
    table = np.zeros(dtypes.CLASS_TABLE_SIZE, np.uint8)
    points = table[: unicode.CODE_POINTS]
    points[unicode.white_space()] = dtypes.IS_SPACE
    edges = unicode.named_sets()["word"]
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        points[first:end] |= dtypes.IS_WORD
    return table


def _walker(name: str) -> int:
    """The address of a walker, the kernel by which its module is named; other walkers are not imported."""
    module = importlib.import_module(f"numbatok.kernels.{name}")
    address: int = getattr(module, name).address
    return address


class Decoder:
    """Tables from ids to bytes: those of the tokens, then those that only decoding knows, then the added tokens."""

    def __init__(
        self, vocabulary: Vocabulary, added: AddedTokens, unreachable: Iterable[tuple[int, bytes]] = ()
    ) -> None:
        others = [*unreachable, *((token.id, token.content.encode()) for token in added)]
        contents = [content for _, content in others]
        added_ids = np.array([number for number, _ in others], np.uint32)
        ends = len(vocabulary.data) + np.cumsum([0, *map(len, contents)])
        self._starts = np.concatenate([vocabulary.starts, ends[1:]])
        slack = bytes(decode.WIDEST_COPY)
        self._data = np.concatenate([vocabulary.data, np.frombuffer(b"".join(contents) + slack, np.uint8)])
        ids = np.concatenate([vocabulary.ids, added_ids])
        numbers = np.arange(len(ids), dtype=np.int32)
        # An added token may have the id of an ordinary one with the same bytes: then only its row counts.
        own = np.append(~np.isin(vocabulary.ids, added_ids), np.ones(len(others), bool))
        ids, numbers = ids[own], numbers[own]
        special = np.isin(ids, [token.id for token in added if token.special])
        skipped = np.where(special, np.int32(decode.LEFT_OUT), numbers)
        # By id where that wastes no memory; else by place among the sorted ids.
        limit = int(ids.max()) + 1
        self._sorted = None
        if limit > max(MOST_ID_TABLE, 4 * len(ids)):
            order = np.argsort(ids)
            self._sorted, limit = ids[order], len(ids) + 1
            ids = np.argsort(order).astype(np.uint32)
        self._tables = []
        for values in (numbers, skipped):
            table = np.full(limit, decode.UNKNOWN, np.int32)
            table[ids] = values
            self._tables.append(table)

    def decode(
        self, ids: Ids, offsets: npt.NDArray[np.int64], skip_special_tokens: bool
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(bytes, ends) of documents of ids: their bytes one after the other, and where each document's end.

        Raises :class:`UnknownId` with the place of the first id that is not in the vocabulary.
        """
        table = self._tables[skip_special_tokens]
        if self._sorted is not None:
            places = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
            ids = np.where(self._sorted[places] == ids, places, len(table) - 1).astype(np.uint32)
        ends = np.zeros(len(offsets) - 1, np.int64)
        output = np.empty(0, np.uint8)
        size = self._write(ids, offsets, table, output, ends)
        output = np.empty(size + decode.WIDEST_COPY, np.uint8)
        size = self._write(ids, offsets, table, output, ends)
        if size == decode.NO_ROOM:  # another thread has changed the ids meanwhile: go by what they are now
            return self.decode(ids.copy(), offsets, skip_special_tokens)
        return output[:size], ends

    def _write(
        self,
        ids: Ids,
        offsets: npt.NDArray[np.int64],
        table: npt.NDArray[np.int32],
        output: npt.NDArray[np.uint8],
        ends: npt.NDArray[np.int64],
    ) -> int:
        """How many bytes the ids have, written to ``output`` unless that is empty; NO_ROOM where it is too small."""
        status = decode.decode_documents(
            address_of(ids),
            address_of(offsets),
            len(ends),
            address_of(table),
            len(table),
            address_of(self._starts),
            len(self._starts) - 1,
            address_of(self._data),
            len(self._data),
            address_of(output),
            len(output),
            address_of(ends),
        )
        if status < 0 and status != decode.NO_ROOM:
            raise UnknownId(-1 - status)
        return int(status)


class Kept(list[Any]):
    """What the documents of a call point into, besides the caller's texts."""

    normalized = False  # whether the texts were cut at their added tokens and normalized


class Encoded(NamedTuple):
    """The ids of texts, where each text's begin, and how they came about, from which type ids follow."""

    ids: Ids
    offsets: npt.NDArray[np.int64]
    frame: Frame
    documents: Documents
    ends: npt.NDArray[np.int64]


class Engine:
    """Tables of one tokenizer, immutable once built, and a stack of scratches that callers take and put back."""

    def __init__(self, parts: Parts, regex_rule: "RegexRule | None" = None) -> None:
        self._parts = parts
        self._regex_rule = regex_rule
        self._cuts_text = parts.prefix_space or regex_rule is not None  # here, between all added tokens
        self._vocabulary = vocabulary = parts.vocabulary
        self._added = added = parts.added_tokens
        self._arrays: list[npt.NDArray[np.generic]] = []
        self._view = np.zeros(dtypes.VIEW_FIELDS, np.int64)
        self._fill_vocabulary()
        self._fill_options()
        self._fill_added()
        self._fill_rule()
        self._view[dtypes.VIEW_KEYER] = spans.key_pretokens.address
        self._view[dtypes.VIEW_LOOKER] = cache.look_up.address
        self._view[dtypes.VIEW_FURTHER] = cache.look_further.address
        self._view[dtypes.VIEW_FINDER] = added_kernels.next_added_token.address
        self._view[dtypes.VIEW_MERGER] = (
            merge.merge_pretoken if vocabulary.is_plain else merge.merge_pretoken_by_options
        ).address
        self._fill_cuts()
        self.everything_allowed = np.full(max(len(added), 1), dtypes.ADDED_AS_TOKEN, np.uint8)
        self._actions: dict[tuple[frozenset[str], frozenset[str]], npt.NDArray[np.uint8]] = {}
        self.decoder = Decoder(vocabulary, added, parts.unreachable)
        self._restless = None if self._cuts_text or parts.normalizer is None else restless(parts.normalizer)
        if self._restless is not None:
            ascii_changes = self._restless[:128].any()
            self._view[dtypes.VIEW_CHANGES] = dtypes.ANY_TEXT if ascii_changes else dtypes.ANY_NON_ASCII
        elif self._cuts_text or parts.normalizer is not None:
            self._view[dtypes.VIEW_CHANGES] = dtypes.ANY_TEXT
        self._frames = {
            (pair, special): frame_of(parts.template.pair if pair else parts.template.single, special)
            for pair in (False, True)
            for special in (False, True)
        }
        self._around = {special: self._frames[False, special].around() for special in (False, True)}
        self._last_transcoded = (0, 0, ""), 0
        self._seeds = random.Random()
        self._idle: list[Scratch] = []
        self._most_idle = 2 * (os.cpu_count() or 1)
        self._view[dtypes.VIEW_ENCODER] = encode.encode_documents.address
        self._encode_text = text.encode_text.compiled()
        self._encode = encode.encode_documents.compiled()

    # --- tables ---

    def _set_table(self, field: int, array: npt.NDArray[np.generic]) -> None:
        self._arrays.append(array)
        self._view[field] = address_of(array)
        self._view[field + 1] = len(array)

    def _fill_vocabulary(self) -> None:
        """Token slots, pair slots and what is read from them."""
        vocabulary, count = self._vocabulary, len(self._vocabulary)
        lengths = np.diff(vocabulary.starts)
        slots = np.zeros(_slots_for(count), np.uint32)
        token_filter = np.zeros(8 * len(slots) // 64, np.uint64)
        self._set_table(dtypes.VIEW_TOKENS, np.concatenate([vocabulary.data, np.zeros(16, np.uint8)]))
        self._set_table(dtypes.VIEW_TOKEN_STARTS, vocabulary.starts)
        self._set_table(dtypes.VIEW_TOKEN_SLOTS, slots)
        self._set_table(dtypes.VIEW_TOKEN_KEYS, np.zeros(2 * count, np.uint64))
        self._set_table(dtypes.VIEW_TOKEN_FILTER, token_filter)
        self._view[dtypes.VIEW_TOKEN_SHIFT] = 65 - len(slots).bit_length()
        self._view[dtypes.VIEW_TOKEN_FILTER_SHIFT] = 65 - (64 * len(token_filter)).bit_length()
        self._view[dtypes.VIEW_WHOLE_LIMIT] = int(lengths.max()) if vocabulary.whole_first else 0
        view = address_of(self._view)
        build.index_tokens(view)
        if vocabulary.merges is None:
            capacity = max(len(vocabulary.data) - count, 1)
            rows = np.empty((capacity, 3), np.uint32)
            rows = rows[: build.split_tokens(view, address_of(rows), capacity)]
            merged = np.arange(count, dtype=np.uint32)
        else:
            rows = vocabulary.merges.copy()
            merged = rows[:, 2].copy()
            rows[:, 2] = np.arange(len(rows))
        single = np.flatnonzero(lengths == 1)
        byte_symbols = np.zeros(256, np.uint32)
        byte_symbols[vocabulary.data[vocabulary.starts[single]]] = single
        byte_pairs = np.empty(1 << 16, np.uint32)
        pairs = np.full(_slots_for(len(rows)), dtypes.ALL_ONES, np.uint64)
        filter_bits = 4 * len(pairs)
        pair_filter = np.zeros(filter_bits // 64, np.uint64)
        build.enter_pairs(
            address_of(rows),
            len(rows),
            address_of(pairs),
            len(pairs),
            address_of(pair_filter),
            filter_bits,
            address_of(byte_symbols),
            address_of(byte_pairs),
        )
        self._set_table(dtypes.VIEW_IDS, vocabulary.ids)
        self._set_table(dtypes.VIEW_BYTE_SYMBOLS, byte_symbols)
        self._set_table(dtypes.VIEW_BYTE_PAIRS, byte_pairs)
        self._set_table(dtypes.VIEW_PAIRS, pairs)
        self._set_table(dtypes.VIEW_PAIR_FILTER, pair_filter)
        self._set_table(dtypes.VIEW_MERGED, merged)
        self._view[dtypes.VIEW_PAIR_SHIFT] = 65 - len(pairs).bit_length()
        self._view[dtypes.VIEW_PAIR_FILTER_SHIFT] = 65 - filter_bits.bit_length()

    def _fill_options(self) -> None:
        """What a vocabulary's options change, besides the choice of the merger."""
        vocabulary, view = self._vocabulary, self._view
        options = vocabulary.options
        dropout = math.ceil(float(np.float32(options.dropout)) * (1 << 24))
        view[dtypes.VIEW_DROPOUT] = dropout
        view[dtypes.VIEW_LONGEST_CACHED] = 0 if dropout else dtypes.LONGEST_CACHED
        view[dtypes.VIEW_IDS_PER_BYTE] = 1
        if vocabulary.is_plain:
            return
        if dropout:
            view[dtypes.VIEW_WHOLE_LIMIT] = 0
        # A merge that makes its own left part can leave an entry of the heap that looks fresh but is not, and which
        # the reference follows: the scan knows no such thing.
        as_by_scan = vocabulary.merges is None or not np.any(vocabulary.merges[:, 2] == vocabulary.merges[:, 0])
        view[dtypes.VIEW_SCAN_LIMIT] = dtypes.SHORT_MERGE if as_by_scan and not dropout else 0
        unknown = None if options.unk is None else vocabulary.symbol_of(options.unk)
        view[dtypes.VIEW_UNKNOWN] = 0 if unknown is None else unknown + 1
        view[dtypes.VIEW_FUSE_UNKNOWN] = options.fuse_unk

        parts = [
            [vocabulary.units(prefix, suffix) for prefix in dict.fromkeys((b"", options.prefix))]
            for suffix in dict.fromkeys((b"", options.suffix))
        ]
        limit = 1 + max((int(points.max()) for row in parts for points, _ in row if len(points)), default=0)
        units = np.zeros((len(parts), len(parts[0]), limit), np.uint32)
        for last, row in enumerate(parts):
            for later, (points, symbols) in enumerate(row):
                units[last, later, points] = symbols + 1
        self._set_table(dtypes.VIEW_UNITS, units.reshape(-1))
        view[dtypes.VIEW_UNIT_LIMIT] = limit
        view[dtypes.VIEW_UNIT_LATER] = limit if options.prefix else 0
        view[dtypes.VIEW_UNIT_LAST] = limit * len(parts[0]) if options.suffix else 0

        by_byte = options.unit == "byte"
        alphabet = [ord(character) for character in byte_level.spell(bytes(range(256)))] if by_byte else []
        prefix, suffix = options.prefix, options.suffix
        if by_byte:
            prefix, suffix = byte_level.spell(prefix).encode(), byte_level.spell(suffix).encode()
        fallback: list[int] = []
        if options.byte_fallback:
            byte_tokens = vocabulary.byte_tokens()
            fallback = [byte_tokens.get(byte, -1) + 1 for byte in range(256)]
            view[dtypes.VIEW_IDS_PER_BYTE] = 1 + by_byte + len(prefix) + len(suffix)
        self._set_table(dtypes.VIEW_ALPHABET, np.array(alphabet, np.uint16))
        self._set_table(dtypes.VIEW_FALLBACK, np.array(fallback, np.uint32))
        self._set_table(dtypes.VIEW_PREFIX, np.frombuffer(prefix, np.uint8))
        self._set_table(dtypes.VIEW_SUFFIX, np.frombuffer(suffix, np.uint8))

    def _fill_cuts(self) -> None:
        """Which pairs of characters a token spans, where all others may be cut."""
        view = self._view
        if not self._vocabulary.is_plain or view[dtypes.VIEW_DROPS]:
            return
        address = address_of(view)
        edges = np.zeros(dtypes.EDGE_WORDS, np.uint64)
        # Sixteen bits a pair: of twenty pairs that no token spans one is not cut.
        bits = 1 << max(12, (16 * cuts.mark_spanned(address)).bit_length())
        self._set_table(dtypes.VIEW_SPANNED, np.zeros(bits // 64, np.uint64))
        self._set_table(dtypes.VIEW_SPANNED_EDGES, edges)
        view[dtypes.VIEW_SPANNED_SHIFT] = 65 - bits.bit_length()
        cuts.mark_spanned(address)
        if self._vocabulary.whole_first:
            whole_limit, view[dtypes.VIEW_WHOLE_LIMIT] = int(view[dtypes.VIEW_WHOLE_LIMIT]), 0
            scratch = Scratch(view)
            view[dtypes.VIEW_UNMERGED] = cuts.mark_unmerged(address, scratch.address) > 0
            view[dtypes.VIEW_WHOLE_LIMIT] = whole_limit
        view[dtypes.VIEW_CUTTER] = cuts.cut_unspanned.address

    def _fill_rule(self) -> None:
        """The walker of the split rule, and the tables that it runs on."""
        rule = self._parts.rule if self._regex_rule is None else ()
        view = self._view
        name = walk_of(rule)
        if name is None:
            from numbatok.patterns.compile import compile_rule

            compiled = compile_rule(rule)
            view[dtypes.VIEW_WALKER] = _walker("walk_automaton")
            view[dtypes.VIEW_DROPS] = compiled.drops
            self._set_table(dtypes.VIEW_CLASSES, compiled.classes)
            self._set_table(dtypes.VIEW_PROGRAM, compiled.program)
            return
        view[dtypes.VIEW_WALKER] = _walker(WALKS[name].kernel)
        view[dtypes.VIEW_DROPS] = WALKS[name].drops
        self._set_table(dtypes.VIEW_CLASSES, character_classes(name))
        for field, value in WALKS[name].parameters.items():
            view[field] = value

    def _fill_added(self) -> None:
        """The two tries of added tokens, their ids and their flags."""
        tokens, normalizer = self._added, self._parts.normalizer
        contents: list[dict[bytes, int]] = [{}, {}]  # raw and normalized, to the token's index
        # Of two that normalize to the same string the special one counts, then the one with the lower id.
        for index, token in sorted(enumerate(tokens), key=lambda numbered: not numbered[1].special):
            content = normalizer.normalize(token.content) if normalizer and token.normalized else token.content
            if content:
                contents[token.normalized].setdefault(content.encode(), index)
        for first, wanted in zip((dtypes.VIEW_RAW_TRIE, dtypes.VIEW_NORMALIZED_TRIE), contents, strict=True):
            self._fill_trie(first, Trie(wanted))
        flags = np.array([token.flags for token in tokens] or [0], np.uint8)
        any_flag = bool(flags.any())
        self._set_table(dtypes.VIEW_ADDED_IDS, np.array([token.id for token in tokens] or [0], np.uint32))
        self._set_table(dtypes.VIEW_ADDED_FLAGS, flags)
        self._set_table(dtypes.VIEW_CHARACTERS, _space_and_word() if any_flag else np.zeros(0, np.uint8))
        self._view[dtypes.VIEW_ADDED_ANY_FLAG] = any_flag

    def _fill_trie(self, first: int, trie: Trie) -> None:
        """A trie's fields, from field ``first`` of the view on."""
        edges = np.full(_slots_for(len(trie.edges)), dtypes.ALL_ONES, np.uint64)
        build.enter_edges(address_of(trie.edges), len(trie.edges), address_of(edges), len(edges))
        leads = trie.leads()
        begins = np.zeros(256, np.uint8)
        begins[[lead & 0xFF for lead in leads]] = 1
        self._set_table(first + dtypes.TRIE_FIRST, begins)
        self._set_table(first + dtypes.TRIE_EDGES, edges)
        self._set_table(first + dtypes.TRIE_AT_NODE, trie.token_at_node)
        self._view[first + dtypes.TRIE_SHIFT] = 65 - len(edges).bit_length()
        self._view[first + dtypes.TRIE_LEADS] = min(len(leads), dtypes.MANY_LEADS + 1)
        for place, lead in enumerate(leads[: dtypes.MANY_LEADS]):
            self._view[first + dtypes.TRIE_LEAD + place] = lead

    def actions(self, policy: tuple[frozenset[str], frozenset[str]]) -> npt.NDArray[np.uint8]:
        """What to do at each added token where the (allowed, refused) special tokens are these."""
        found = self._actions.get(policy)
        if found is None:
            allowed, refused = policy
            found = self.everything_allowed.copy()
            for index, token in enumerate(self._added):
                if token.special and token.content in refused:
                    found[index] = dtypes.ADDED_REFUSED
                elif token.special and token.content not in allowed:
                    found[index] = dtypes.ADDED_AS_TEXT
            if len(self._actions) >= 64:
                self._actions.clear()
            self._actions[policy] = found
        return found

    # --- scratches ---

    def seed(self, number: int | None) -> None:
        """Begin dropout's random numbers anew: calls that follow one after the other give the same ids every time.

        With None they begin anywhere, as in a new engine. Scratches in use by other threads go on as they were.
        """
        self._seeds.seed(number)
        self._idle.clear()

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """A scratch for one caller. After an exception it is dropped: an interrupted one may be half changed."""
        scratch = self._take()
        yield scratch
        self._put_back(scratch)

    def _take(self) -> Scratch:
        try:
            return self._idle.pop()
        except IndexError:
            scratch = Scratch(self._view)
            scratch.record[dtypes.WORK_RANDOM] = self._seeds.getrandbits(63)
            return scratch

    def _put_back(self, scratch: Scratch) -> None:
        if len(self._idle) < self._most_idle:
            self._idle.append(scratch)

    # --- encoding ---

    def encode(self, source: Any, actions: npt.NDArray[np.uint8], errors: str, special: bool) -> Ids:
        """Ids of one text, as a new array; ``special`` says whether its template's special tokens are put around it."""
        scratch = self._take()
        if scratch.actions is not actions:
            scratch.set_actions(actions)
        around = self._around[special]
        if scratch.around is not around:
            scratch.set_around(around)
        status = self._encode_text(id(source), scratch.address)
        if status >= 0:
            ids: Ids = scratch.small_output[:status].copy()
        else:
            rest = self._encode_rest(scratch, source, errors, status)
            if rest is None:
                self._put_back(scratch)
                return self.encode_batch([source], None, actions, errors, special).ids
            ids = rest
        self._put_back(scratch)
        return ids

    def _encode_rest(self, scratch: Scratch, source: Any, errors: str, status: int) -> Ids | None:
        """What the short way left undone, after its status: another kind of text, a long one, or a buffer to mend.

        None where more than a text with a block of ids before and after it is to be encoded.
        """
        first = scratch.address + 8 * (dtypes.WORK_LIST + int(scratch.record[dtypes.WORK_LIST_FIRST]))
        count = int(scratch.record[dtypes.WORK_LIST_COUNT])
        arguments = (first, first + 8 * dtypes.LIST, first + 16 * dtypes.LIST, count)
        if status == text.NOT_SHORT:
            if count == 0:
                return None
            source, length = self._place(scratch, source, errors)  # keeps what the address points into
            if self._changes(int(scratch.record[dtypes.WORK_TEXT]), length):
                return None
            if length > text.SHORT_TEXT:
                return self._encode_all(scratch, *arguments, length)
            status = self._encode(scratch.address, *arguments)
        while status < 0:
            if status == dtypes.NEED_OUTPUT:  # more ids than bytes, by byte tokens: begin anew
                length = int(scratch.record[dtypes.WORK_TEXT + dtypes.LIST])
                scratch.restart()
                return self._encode_all(scratch, *arguments, length)
            self._mend(scratch, status)
            status = self._encode(scratch.address, *arguments)
        ids: Ids = scratch.small_output[:status].copy()
        scratch.shrink()
        return ids

    def encode_batch(
        self,
        texts: list[Any],
        seconds: list[Any] | None,
        actions: npt.NDArray[np.uint8],
        errors: str,
        special: bool,
    ) -> "Encoded":
        """Ids of all texts, or pairs where ``seconds`` are given, flat."""
        frame, documents, kept = self._documents(texts, seconds, actions, errors, special)
        count = len(documents.addresses)
        ends = np.empty(count, np.int64)
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            self._switch_tries(scratch, kept)
            scratch.restart()
            places = address_of(documents.addresses), address_of(documents.lengths), address_of(ends)
            total = int(np.maximum(documents.lengths, 0).sum())
            try:
                ids = self._encode_all(scratch, *places, count, total)
            except DisallowedToken as found:
                raise self._found_in(documents, frame, found) from None
            scratch.record[dtypes.WORK_TRIES_OFF] = 0
        del kept
        return Encoded(ids, offsets_of(documents, ends, len(texts)), frame, documents, ends)

    def count(self, source: Any, actions: npt.NDArray[np.uint8], errors: str, special: bool) -> int:
        """Number of ids of one text."""
        return int(self.count_batch([source], actions, errors, special)[0])

    def count_batch(
        self, texts: list[Any], actions: npt.NDArray[np.uint8], errors: str, special: bool
    ) -> npt.NDArray[np.int64]:
        """Number of ids of each text."""
        frame, documents, kept = self._documents(texts, None, actions, errors, special)
        count = len(documents.addresses)
        ends = np.empty(count, np.int64)
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            self._switch_tries(scratch, kept)
            scratch.restart()
            places = address_of(documents.addresses), address_of(documents.lengths), address_of(ends)
            try:
                self._count_all(scratch, *places, count, int(np.maximum(documents.lengths, 0).sum()))
            except DisallowedToken as found:
                raise self._found_in(documents, frame, found) from None
            scratch.record[dtypes.WORK_TRIES_OFF] = 0
        del kept
        return np.diff(offsets_of(documents, ends, len(texts)))

    def _count_all(self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int) -> None:
        """Encode documents, keeping only how many ids there are."""
        scratch.expect(total)
        scratch.record[dtypes.WORK_COUNT_ONLY] = 1
        while (status := self._encode(scratch.address, addresses, lengths, ends, count)) < 0:
            self._mend(scratch, status, self._part_done(scratch, count, total))
        scratch.record[dtypes.WORK_COUNT_ONLY] = 0
        scratch.use_small_output()
        scratch.shrink()

    # --- documents ---

    def _documents(
        self, texts: list[Any], seconds: list[Any] | None, actions: npt.NDArray[np.uint8], errors: str, special: bool
    ) -> tuple[Frame, Documents, "Kept"]:
        """(template, documents, what they point into) of texts or pairs."""
        frame = self._frames[seconds is not None, special]
        kept = Kept()
        located = {"A": self._place_all(texts, errors, kept)}
        if seconds is not None:
            located["B"] = self._place_all(seconds, errors, kept)
        if not any(self._any_changes(*places) for places in located.values()):
            return frame, arrange(frame, located, len(texts)), kept
        kept.normalized = True
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            rows = {
                which: [
                    self._rows(scratch, int(address), int(length), number, which == "B", kept)
                    for number, (address, length) in enumerate(zip(*places, strict=True))
                ]
                for which, places in located.items()
            }
        return frame, arrange_rows(frame, rows, len(texts)), kept

    def _changes(self, address: int, length: int) -> bool:
        """Whether the UTF-8 at an address is encoded otherwise than as it is."""
        return self._any_changes(np.array([address]), np.array([length]))

    def _any_changes(self, addresses: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> bool:
        """Whether any of these texts is."""
        kind = self._view[dtypes.VIEW_CHANGES]
        if kind == dtypes.NO_TEXT:
            return False
        normalizer, table = self._parts.normalizer, self._restless
        if normalizer is None or table is None:
            return True
        arguments = address_of(addresses), address_of(lengths), len(addresses)
        number = -1
        while True:
            number = normal.next_restless(*arguments, number + 1, address_of(table), kind == dtypes.ANY_TEXT)
            if number < 0:
                return False
            if not normalizer.leaves(ctypes.string_at(int(addresses[number]), int(lengths[number])).decode()):
                return True

    def _rows(self, scratch: Scratch, address: int, length: int, owner: int, second: bool, kept: "Kept") -> Rows:
        """The documents of one text: ids of its raw added tokens, and the normalized text between them."""
        rows: Rows = []
        normalizer = self._parts.normalizer
        for start, stop, token in self._segments(scratch, dtypes.VIEW_RAW_TRIE, address, length):
            if token is not None:
                rows.append((*self._token_row(scratch, token, start, owner, second), start))
                continue
            if normalizer is None:
                data = np.frombuffer(ctypes.string_at(address + start, stop - start), np.uint8)
            else:
                segment = ctypes.string_at(address + start, stop - start).decode()
                data = np.frombuffer(normalizer.normalize(segment).encode(), np.uint8)
            if self._cuts_text:
                rows += [(*row, start) for row in self._cut(scratch, data, start, owner, second, kept)]
            else:
                kept.append(data)
                rows.append((address_of(data), len(data), start))
        return rows

    def _cut(
        self, scratch: Scratch, data: npt.NDArray[np.uint8], start: int, owner: int, second: bool, kept: "Kept"
    ) -> Iterator[tuple[int, int]]:
        """The documents of a normalized segment: texts between added tokens, with a space before, or pieces of them."""
        for begin, end, token in self._segments(scratch, dtypes.VIEW_NORMALIZED_TRIE, address_of(data), len(data)):
            if token is not None:
                yield self._token_row(scratch, token, start, owner, second)
                continue
            part = data[begin:end]
            if self._parts.prefix_space and part[0] != ord(" "):
                part = np.concatenate([np.frombuffer(b" ", np.uint8), part])
            kept.append(part)
            if self._regex_rule is None:
                yield address_of(part), len(part)
                continue
            starts, dropped = self._regex_rule.cut(part.tobytes().decode())
            for first, last, gone in zip(starts, [*starts[1:], len(part)], dropped, strict=True):
                if not gone:
                    yield address_of(part) + int(first), int(last - first)

    def _token_row(self, scratch: Scratch, token: int, start: int, owner: int, second: bool) -> tuple[int, int]:
        """The document of an added token that stands at byte ``start``, unless the caller refuses it."""
        assert scratch.actions is not None
        if scratch.actions[token] == dtypes.ADDED_REFUSED:
            raise DisallowedToken(owner, start, token, second)
        return int(self._view[dtypes.VIEW_ADDED_IDS]) + 4 * token, -1

    @staticmethod
    def _segments(scratch: Scratch, trie: int, address: int, length: int) -> Iterable[tuple[int, int, int | None]]:
        """(start, stop, added token or None) of the parts of a text, by one of the tries."""
        match = np.zeros(4, np.int64)

        def find(floor: int, begin: int) -> tuple[int, int, int, int] | None:
            token = added_kernels.search_text(scratch.address, trie, address_of(match), address, length, floor, begin)
            return None if token < 0 else (token, int(match[1]), int(match[2]), int(match[3]))

        return segments(find, length)

    def _switch_tries(self, scratch: Scratch, kept: "Kept") -> None:
        """Turn off the search for added tokens that the documents have already been cut at."""
        scratch.record[dtypes.WORK_TRIES_OFF] = (2 if self._cuts_text else 1) if kept.normalized else 0

    @staticmethod
    def _found_in(documents: Documents, frame: Frame, found: DisallowedToken) -> DisallowedToken:
        """Where a disallowed token was found, by text instead of by document."""
        number = found.document
        piece = frame.pieces[documents.pieces[number]]
        position = int(documents.begins[number]) + found.position
        return DisallowedToken(int(documents.owners[number]), position, found.token, piece == Text("B", piece.type_id))

    @staticmethod
    def _part_done(scratch: Scratch, count: int, total: int) -> float:
        """The part of a call's documents, or of its one document's bytes, that is behind."""
        if count <= dtypes.LIST:
            return float(scratch.record[dtypes.WORK_POSITION] / max(total, 1))
        return float(scratch.record[dtypes.WORK_DOCUMENT] / count)

    def _encode_all(self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int) -> Ids:
        """Encode documents into a fresh array, which grows by what the part done so far predicts."""
        scratch.expect(total)
        record = scratch.record
        output = np.empty(total // 2 + dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK, np.uint32)
        scratch.set_table(dtypes.WORK_OUTPUT, output)
        while (status := self._encode(scratch.address, addresses, lengths, ends, count)) < 0:
            used = int(record[dtypes.WORK_OUTPUT_USED])
            if status != dtypes.NEED_OUTPUT:
                self._mend(scratch, status, self._part_done(scratch, count, total))
                continue
            wanted = max(int(record[dtypes.WORK_NEEDED]), len(output) + len(output) // 2)
            grown = np.empty(
                min(wanted, max(total, int(record[dtypes.WORK_NEEDED])) + dtypes.CHUNK_BYTES + dtypes.OUTPUT_SLACK),
                np.uint32,
            )
            grown[:used] = output[:used]
            output = grown
            scratch.set_table(dtypes.WORK_OUTPUT, output)
        scratch.use_small_output()
        scratch.shrink()
        output.resize(status, refcheck=False)  # gives the rest back; nobody else has seen the array
        return output

    def _mend(self, scratch: Scratch, status: int, part_done: float = 1.0) -> None:
        """Prepare for another call after a status that is not an end, ``part_done`` of the text behind."""
        record = scratch.record
        if status == dtypes.DISALLOWED:
            document, position = int(record[dtypes.WORK_DOCUMENT]), int(record[dtypes.WORK_POSITION])
            raise DisallowedToken(document, position, int(record[dtypes.WORK_NEEDED]))
        if status == dtypes.NEED_OUTPUT:
            scratch.set_table(dtypes.WORK_OUTPUT, np.empty(int(record[dtypes.WORK_NEEDED]), np.uint32))
        else:
            scratch.mend(status, part_done)

    def pretokenize(self, source: Any, errors: str) -> npt.NDArray[np.int64]:
        """Byte offsets where the split rule's pieces begin, and the end."""
        with self.scratch() as scratch:
            source, length = self._place(scratch, source, errors)
            address = int(scratch.record[dtypes.WORK_TEXT])
            if self._regex_rule is not None:
                starts, _ = self._regex_rule.cut(ctypes.string_at(address, length).decode())
                return np.append(starts, length)
            boundaries = np.empty(length + 1, np.int64)
            arguments = (scratch.address, address, length, 0, address_of(boundaries), len(boundaries))
            while (status := encode.split_text(*arguments)) < 0:
                scratch.mend(status)
            scratch.shrink()
        boundaries.resize(status, refcheck=False)
        return boundaries

    def _place_all(self, texts: list[Any], errors: str, kept: "Kept") -> Places:
        """Where the UTF-8 of texts is; what keeps it valid, besides the list itself, goes to ``kept``."""
        count = len(texts)
        addresses, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
        kinds = np.zeros(count, np.int8)
        text.locate_list(id(texts), count, address_of(addresses), address_of(lengths), address_of(kinds))
        for index in np.flatnonzero(kinds).tolist():
            where = f" at index {index} of the batch" if count > 1 else ""
            data = self._prepare(texts[index], errors, where)
            kept.append(data)
            addresses[index], lengths[index] = address_of(data), len(data)
        return addresses, lengths

    def _place(self, scratch: Scratch, source: Any, errors: str) -> tuple[Any, int]:
        """Point the scratch at the UTF-8 of a text; return what keeps it valid, and its bytes."""
        data = None
        if isinstance(source, str) and len(source) >= text.LONG_TEXT and not source.isascii():
            data = self._transcode(scratch, source)
        if data is None:
            length = text.locate_text(id(source), scratch.address)
            if length >= 0:
                return source, length
            data = self._prepare(source, errors)
        scratch.restart()
        scratch.record[dtypes.WORK_TEXT] = address_of(data)
        scratch.record[dtypes.WORK_TEXT + dtypes.LIST] = len(data)
        return data, len(data)

    def _transcode(self, scratch: Scratch, source: str) -> npt.NDArray[np.uint8] | None:
        """The UTF-8 of a long ``str`` in an array of its own, or None where CPython's is to be taken.

        CPython makes the UTF-8 of a non-ASCII ``str`` on demand and keeps it inside, at 0.1 to 0.5 GB/s and the text's
        size in memory for its lifetime. Most texts are encoded once, or counted and encoded: their first two times
        cost an array that is given back, and a half to a tenth of the time. One that comes at once a third time gets
        CPython's, which then is free.
        """
        # No reference is kept, so another text may come to lie at the same place: characters from all over tell it.
        mark = id(source), len(source), source[:: len(source) // 64]
        last, times = self._last_transcoded
        times = times + 1 if mark == last else 1
        self._last_transcoded = mark, times
        if times > 2:
            return None
        width = text.locate_characters(id(source), scratch.address)
        data = np.empty({1: 2, 2: 3, 4: 4}[width] * len(source) + 16, np.uint8)
        characters = int(scratch.record[dtypes.WORK_TEXT])
        used = text.transcode_utf8(characters, len(source), width, address_of(data), len(data))
        return data[:used] if used >= 0 else None

    @staticmethod
    def _prepare(source: Any, errors: str, where: str = "") -> npt.NDArray[np.uint8]:
        """The UTF-8 of a text that is not a well-formed ``str``: repaired, checked, or refused."""
        if isinstance(source, str):
            return np.frombuffer(repair_surrogates(source).encode(), np.uint8)
        data = as_bytes(source, where)
        if text.first_invalid_utf8(address_of(data), len(data)) < 0:
            return data
        if errors == "strict":
            raise_invalid(data, where)
        return np.frombuffer(data.tobytes().decode("utf-8", "replace").encode(), np.uint8)
