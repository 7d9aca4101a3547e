"""The compiled side of a tokenizer: its tables, its scratches, and the calls into the kernels.

Importing this module imports Numba; :class:`numbatok.Tokenizer` does so when it first encodes or decodes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AddedTokens
from numbatok.errors import DisallowedToken, UnknownId
from numbatok.kernels import (
    build,
    cache,
    decode,
    dtypes,
    encode,
    merge,
    spans,
    text,
    walk_bloom,
    walk_cl100k,
    walk_clip,
    walk_deepseek,
    walk_o200k,
    walk_parts,
    walk_r50k,
)
from numbatok.kernels.jit import kernels
from numbatok.memory import address_of
from numbatok.patterns.known import WALKS, character_classes
from numbatok.scratch import Scratch
from numbatok.text import as_bytes, raise_invalid, repair_surrogates
from numbatok.vocabulary import Vocabulary

Ids = npt.NDArray[np.uint32]

# Byte offsets into a scratch's record: the address, the length and the number of ids of a call's one document.
_TEXT = 8 * dtypes.WORK_TEXT
_LENGTH = _TEXT + 8
_COUNT = _TEXT + 16

# The kernels of a call, by what the tokenizer does; `numbatok warmup` compiles them all.
WALKERS = (walk_bloom, walk_cl100k, walk_clip, walk_deepseek, walk_o200k, walk_parts, walk_r50k)
MODULES = (build, cache, decode, encode, merge, spans, text, *WALKERS)

MOST_ID_TABLE = 1 << 24  # ids below this, or four times the tokens, are decoded through a table by id


def _slots_for(count: int) -> int:
    """A power of two that leaves at least half of a table of ``count`` entries empty."""
    return 1 << max(4, (2 * count).bit_length())


class Decoder:
    """Tables from ids to bytes: those of the tokens, then those of the added tokens."""

    def __init__(self, vocabulary: Vocabulary, added: AddedTokens) -> None:
        contents = [token.content.encode() for token in added]
        added_ids = np.array([token.id for token in added], np.uint32)
        ends = len(vocabulary.data) + np.cumsum([0, *map(len, contents)])
        self._starts = np.concatenate([vocabulary.starts, ends[1:]])
        slack = bytes(decode.WIDEST_COPY)
        self._data = np.concatenate([vocabulary.data, np.frombuffer(b"".join(contents) + slack, np.uint8)])
        ids = np.concatenate([vocabulary.ids, added_ids])
        numbers = np.arange(len(ids), dtype=np.int32)
        # An added token may have the id of an ordinary one with the same bytes: then only its row counts.
        own = np.append(~np.isin(vocabulary.ids, added_ids), np.ones(len(added), bool))
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
        for _ in range(2):  # count, then write
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
            if status < 0:
                raise UnknownId(-1 - status)
            if len(output) == 0:
                output = np.empty(status + decode.WIDEST_COPY, np.uint8)
        return output[:status], ends


class Engine:
    """Tables of one tokenizer, immutable once built, and a stack of scratches that callers take and put back."""

    def __init__(self, vocabulary: Vocabulary, added: AddedTokens, walker: str) -> None:
        self._vocabulary = vocabulary
        self._added = added
        self._arrays: list[npt.NDArray[np.generic]] = []
        self._view = np.zeros(dtypes.VIEW_FIELDS, np.int64)
        self._fill_vocabulary()
        self._fill_added()
        self._set_table(dtypes.VIEW_CLASSES, character_classes(walker))
        for place, value in WALKS[walker].parameters.items():
            self._view[place] = value
        self._view[dtypes.VIEW_DROPS] = WALKS[walker].drops
        self._view[dtypes.VIEW_WALKER] = kernels[WALKS[walker].kernel].address
        self._view[dtypes.VIEW_KEYER] = spans.key_pretokens.address
        self._view[dtypes.VIEW_LOOKER] = cache.look_up.address
        self._view[dtypes.VIEW_FURTHER] = cache.look_further.address
        self._view[dtypes.VIEW_MERGER] = merge.merge_pretoken.address
        self.everything_allowed = np.full(max(len(added), 1), dtypes.ADDED_AS_TOKEN, np.uint8)
        self._actions: dict[tuple[frozenset[str], frozenset[str]], npt.NDArray[np.uint8]] = {}
        self.decoder = Decoder(vocabulary, added)
        self._last_transcoded = (0, 0, 0)
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

    def _fill_added(self) -> None:
        """The trie of added tokens and the bytes that they begin with."""
        rows, at_node = self._added.trie()
        edges = np.full(_slots_for(len(rows)), dtypes.ALL_ONES, np.uint64)
        build.enter_edges(address_of(rows), len(rows), address_of(edges), len(edges))
        leads = self._added.first_bytes()
        first = np.zeros(256, np.uint8)
        first[leads] = 1
        self._set_table(dtypes.VIEW_ADDED_EDGES, edges)
        self._set_table(dtypes.VIEW_ADDED_AT_NODE, at_node)
        self._set_table(dtypes.VIEW_ADDED_IDS, np.array([token.id for token in self._added] or [0], np.uint32))
        self._set_table(dtypes.VIEW_ADDED_FIRST, first)
        self._view[dtypes.VIEW_ADDED_SHIFT] = 65 - len(edges).bit_length()
        self._view[dtypes.VIEW_ADDED_LEADS] = min(len(leads), dtypes.MANY_LEADS)
        for place in range(dtypes.MANY_LEADS - 1):
            self._view[dtypes.VIEW_ADDED_LEAD + place] = leads[min(place, len(leads) - 1)] if leads else 0

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
            return Scratch(self._view)

    def _put_back(self, scratch: Scratch) -> None:
        if len(self._idle) < self._most_idle:
            self._idle.append(scratch)

    # --- encoding ---

    def encode(self, source: Any, actions: npt.NDArray[np.uint8], errors: str) -> Ids:
        """Ids of one text, as a new array."""
        scratch = self._take()
        if scratch.actions is not actions:
            scratch.set_actions(actions)
        status = self._encode_text(id(source), scratch.address)
        ids = (
            scratch.small_output[:status].copy() if status >= 0 else self._encode_rest(scratch, source, errors, status)
        )
        self._put_back(scratch)
        return ids

    def _encode_rest(self, scratch: Scratch, source: Any, errors: str, status: int) -> Ids:
        """What the short way left undone, after its status: another kind of text, a long one, or a buffer to mend."""
        address = scratch.address
        arguments = (address, address + _TEXT, address + _LENGTH, address + _COUNT, 1)
        if status == text.NOT_SHORT:
            source, length = self._place(scratch, source, errors)  # keeps what the address points into
            if length > text.SHORT_TEXT:
                return self._encode_all(scratch, *arguments[1:], length)
            status = self._encode(*arguments)
        while status < 0:
            self._mend(scratch, status)
            status = self._encode(*arguments)
        ids: Ids = scratch.small_output[:status].copy()
        scratch.shrink()
        return ids

    def encode_batch(
        self, documents: list[Any], actions: npt.NDArray[np.uint8], errors: str
    ) -> tuple[Ids, npt.NDArray[np.int64]]:
        """(ids, offsets) of all documents: flat ids, and the places where each begins, with the end."""
        count = len(documents)
        offsets = np.zeros(count + 1, np.int64)
        addresses, lengths, kept = self._place_all(documents, errors)
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            scratch.restart()
            ids = self._encode_all(
                scratch, address_of(addresses), address_of(lengths), address_of(offsets) + 8, count, int(lengths.sum())
            )
        del kept
        return ids, offsets

    def count(self, source: Any, actions: npt.NDArray[np.uint8], errors: str) -> int:
        """Number of ids of one text."""
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            kept, length = self._place(scratch, source, errors)
            address = scratch.address
            self._count_all(scratch, address + _TEXT, address + _LENGTH, address + _COUNT, 1, length)
            del kept
            return int(scratch.record[dtypes.WORK_TEXT + 2])

    def count_batch(self, documents: list[Any], actions: npt.NDArray[np.uint8], errors: str) -> npt.NDArray[np.int64]:
        """Number of ids of each document."""
        count = len(documents)
        ends = np.zeros(count + 1, np.int64)
        addresses, lengths, kept = self._place_all(documents, errors)
        with self.scratch() as scratch:
            scratch.set_actions(actions)
            scratch.restart()
            places = address_of(addresses), address_of(lengths), address_of(ends) + 8
            self._count_all(scratch, *places, count, int(lengths.sum()))
        del kept
        return np.diff(ends)

    def _count_all(self, scratch: Scratch, addresses: int, lengths: int, ends: int, count: int, total: int) -> None:
        """Encode documents, keeping only how many ids there are."""
        scratch.expect(total)
        scratch.record[dtypes.WORK_COUNT_ONLY] = 1
        while (status := self._encode(scratch.address, addresses, lengths, ends, count)) < 0:
            self._mend(scratch, status, self._part_done(scratch, count, total))
        scratch.record[dtypes.WORK_COUNT_ONLY] = 0
        scratch.use_small_output()
        scratch.shrink()

    @staticmethod
    def _part_done(scratch: Scratch, count: int, total: int) -> float:
        """The part of a call's documents, or of its one document's bytes, that is behind."""
        if count == 1:
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
            fields = (dtypes.WORK_DOCUMENT, dtypes.WORK_POSITION, dtypes.WORK_NEEDED)
            raise DisallowedToken(*(int(record[field]) for field in fields))
        if status == dtypes.NEED_OUTPUT:
            scratch.set_table(dtypes.WORK_OUTPUT, np.empty(int(record[dtypes.WORK_NEEDED]), np.uint32))
        else:
            scratch.mend(status, part_done)

    def pretokenize(self, source: Any, errors: str) -> npt.NDArray[np.int64]:
        """Byte offsets where the split rule's pieces begin, and the end."""
        with self.scratch() as scratch:
            source, length = self._place(scratch, source, errors)
            address = int(scratch.record[dtypes.WORK_TEXT])
            boundaries = np.empty(length + 1, np.int64)
            arguments = (scratch.address, address, length, 0, address_of(boundaries), len(boundaries))
            while (status := encode.split_text(*arguments)) < 0:
                scratch.mend(status)
            scratch.shrink()
        boundaries.resize(status, refcheck=False)
        return boundaries

    def _place_all(
        self, documents: list[Any], errors: str
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[Any]]:
        """(addresses, lengths, what keeps them valid besides the list itself) of a batch's texts."""
        count = len(documents)
        addresses, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
        kinds = np.zeros(count, np.int8)
        text.locate_list(id(documents), count, address_of(addresses), address_of(lengths), address_of(kinds))
        kept = []
        for index in np.flatnonzero(kinds).tolist():
            where = f" at index {index} of the batch"
            data = self._prepare(documents[index], errors, where)
            kept.append(data)
            addresses[index], lengths[index] = address_of(data), len(data)
        return addresses, lengths, kept

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
        scratch.record[dtypes.WORK_TEXT + 1] = len(data)
        return data, len(data)

    def _transcode(self, scratch: Scratch, source: str) -> npt.NDArray[np.uint8] | None:
        """The UTF-8 of a long ``str`` in an array of its own, or None where CPython's is to be taken.

        CPython makes the UTF-8 of a non-ASCII ``str`` on demand and keeps it inside, at 0.1 to 0.5 GB/s and the text's
        size in memory for its lifetime. Most texts are encoded once, or counted and encoded: their first two times
        cost an array that is given back, and a half to a tenth of the time. One that comes at once a third time gets
        CPython's, which then is free.
        """
        text_id, length, times = self._last_transcoded
        times = times + 1 if (text_id, length) == (id(source), len(source)) else 1
        self._last_transcoded = (id(source), len(source), times)
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
