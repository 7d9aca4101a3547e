"""From ids to bytes, by a table."""

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from numbatok.errors import UnknownId
from numbatok.ids import Ids, Offsets
from numbatok.kernels import decode, dtypes, lists
from numbatok.memory import address_of, touch
from numbatok.parallel import call_rows, threads_for
from numbatok.threads import parallel_region, threads_of
from numbatok.vocabulary import Vocabulary

DecodeList = Callable[[object], bytes | None]
MOST_ID_TABLE = 1 << 24  # ids below this, or four times the tokens, are decoded through a table by id


class ByteDecoder:
    """Tables from ids to bytes: those of the tokens, then those that only decoding knows, then the added tokens.

    ``added`` are (id, bytes, whether skipping special tokens skips it).
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        added: Sequence[tuple[int, bytes, bool]],
        unreachable: Iterable[tuple[int, bytes]] = (),
    ) -> None:
        others = [*unreachable, *((number, content) for number, content, _ in added)]
        contents = [content for _, content in others]
        added_ids = np.array([number for number, _ in others], np.uint32)
        ends = len(vocabulary.data) + np.cumsum([0, *map(len, contents)], dtype=np.int64)
        self._starts = np.concatenate([vocabulary.starts, ends[1:]])
        slack = bytes(decode.WIDEST_COPY)
        self._data = np.concatenate([vocabulary.data, np.frombuffer(b"".join(contents) + slack, np.uint8)])
        ids = np.concatenate([vocabulary.ids, added_ids])
        numbers = np.arange(len(ids), dtype=np.int32)
        # An added token may have the id of an ordinary one with the same bytes: then only its row counts.
        own = np.append(~np.isin(vocabulary.ids, added_ids), np.ones(len(others), bool))
        ids, numbers = ids[own], numbers[own]
        special = np.isin(ids, [number for number, _, is_special in added if is_special])
        skipped = np.where(special, np.int32(decode.LEFT_OUT), numbers)
        # By id where that wastes no memory; else by place among the sorted ids.
        limit = int(ids.max()) + 1
        self._sorted = None
        if limit > max(MOST_ID_TABLE, 4 * len(ids)):
            order = np.argsort(ids, kind="stable")
            self._sorted, limit = ids[order], len(ids) + 1
            ids = np.argsort(order).astype(np.uint32)
        self._tables = []
        for values in (numbers, skipped):
            table = np.full(limit, decode.UNKNOWN, np.int32)
            table[ids[::-1]] = values[::-1]  # of two added tokens with one id the first
            self._tables.append(table)
        # To ask an array for its address takes 0.8 us.
        tokens = address_of(self._starts), len(self._starts) - 1, address_of(self._data), len(self._data)
        self._lookups = [(address_of(table), len(table), *tokens) for table in self._tables]
        self._records = [np.array(lookup, np.int64) for lookup in self._lookups]

    @functools.cached_property
    def sizes(self) -> npt.NDArray[np.int32] | None:
        """int32, by id: how many bytes each token has; None where ids are too large for a table by id."""
        if self._sorted is not None:
            return None
        sizes: npt.NDArray[np.int32] = np.diff(self._starts).astype(np.int32)[np.maximum(self._tables[0], 0)]
        return sizes

    def decode(
        self, ids: Ids, offsets: Offsets, skip_special_tokens: bool, threads: int | None = None
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(bytes, ends) of documents of ids: their bytes one after the other, and where each document's end.

        ``threads`` is the caller's ``num_threads``. Raises :class:`UnknownId` with the place of the first id that is
        not in the vocabulary.
        """
        lookup = self._lookups[skip_special_tokens]
        ids = self.rows_of(ids)
        if threads_for(4 * len(ids), 2) > 1:
            with parallel_region(threads_for(4 * len(ids), threads_of(threads))) as granted:
                done = self._decode_in_parallel(ids, offsets, lookup, granted) if granted > 1 else None
            if done is not None:
                return done
        ends = np.zeros(len(offsets) - 1, np.int64)
        documents = address_of(ids), address_of(offsets), len(ends)
        ends_address = address_of(ends)
        size = decode.decode_documents(*documents, *lookup, 0, 0, ends_address)
        _check(size)
        output = np.empty(size, np.uint8)
        written = decode.decode_documents(*documents, *lookup, address_of(output), size, ends_address)
        if written != size:  # another thread has changed the ids meanwhile: go by what they are now
            return self.decode(ids.copy(), offsets, skip_special_tokens, threads)
        return output, ends

    @functools.cached_property
    def list_decoders(self) -> tuple[DecodeList, DecodeList]:
        """What gives the bytes of a list of ids, or None where :meth:`decode` has to look: the second skips special
        tokens.
        """
        if not self.is_direct:
            return _nothing, _nothing
        plain, skipping = (lists.decode_list.bound_to(record, kept=self) for record in self._records)
        return plain, skipping

    def rows_of(self, ids: Ids) -> Ids:
        """The rows of ids in the tables: the ids themselves, or their places where they are far apart."""
        if self._sorted is None:
            return ids
        places = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        return np.where(self._sorted[places] == ids, places, len(self._tables[0]) - 1).astype(np.uint32)

    def table(self, skip_special_tokens: bool) -> npt.NDArray[np.int32]:
        """int32, by row: :attr:`numbers`, but LEFT_OUT for what is skipped."""
        return self._tables[skip_special_tokens]

    @property
    def lookup(self) -> tuple[int, ...]:
        """The tables as ``decode_documents`` takes them, where nothing is left out."""
        return self._lookups[False]

    @property
    def is_direct(self) -> bool:
        """Whether ids are rows."""
        return self._sorted is None

    @property
    def numbers(self) -> npt.NDArray[np.int32]:
        """int32, by row: the number of the token, in order of symbols and then of what decoding alone knows."""
        return self._tables[0]

    @property
    def contents(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(bytes of all tokens, where each begins), by number."""
        return self._data, self._starts

    @staticmethod
    def _decode_in_parallel(
        ids: Ids, offsets: Offsets, lookup: tuple[int, ...], threads: int
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]] | None:
        """What :meth:`decode` returns; None where another thread has changed the ids meanwhile.

        The ids are cut into ranges, inside documents too, that the threads take one after the other.
        """
        cuts = np.linspace(offsets[0], offsets[-1], 4 * threads + 1).astype(np.int64)[1:-1]
        edges = np.sort(np.concatenate([offsets, cuts]))
        firsts = np.concatenate([[0], np.searchsorted(edges, cuts), [len(edges) - 1]])
        ends = np.zeros(len(edges), np.int64)  # between edges, counted from each range's begin
        rows = np.zeros((len(firsts) - 1, dtypes.CALL_FIELDS), np.int64)
        rows[:, dtypes.CALL_TABLES : dtypes.CALL_OUTPUT] = lookup
        rows[:, dtypes.CALL_IDS] = address_of(ids)
        rows[:, dtypes.CALL_OFFSETS] = address_of(edges) + 8 * firsts[:-1]
        rows[:, dtypes.CALL_DOCUMENTS] = np.diff(firsts)
        rows[:, dtypes.CALL_ENDS] = address_of(ends) + 8 * firsts[:-1]
        call_rows(decode.decode_documents, rows, threads)
        sizes = rows[:, dtypes.CALL_RESULT].copy()
        _check(int(sizes[sizes < 0].max(initial=decode.NO_ROOM)))
        output = np.empty(int(sizes.sum()), np.uint8)
        touch(output)
        begins = np.cumsum(sizes) - sizes
        rows[:, dtypes.CALL_OUTPUT], rows[:, dtypes.CALL_CAPACITY] = address_of(output) + begins, sizes
        call_rows(decode.decode_documents, rows, threads)
        if (rows[:, dtypes.CALL_RESULT] != sizes).any():
            return None
        ends += np.repeat(np.append(begins, 0), np.append(np.diff(firsts), 1))
        return output, ends[np.searchsorted(edges, offsets[1:]) - 1]


def _nothing(_: object) -> None:
    """What decodes no list."""


def _check(result: int) -> None:
    """UnknownId where ``decode_documents`` reports one."""
    if result < 0 and result != decode.NO_ROOM:
        raise UnknownId(-1 - result)
