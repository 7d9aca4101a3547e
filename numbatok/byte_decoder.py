"""From ids to bytes, by a table."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AddedTokens
from numbatok.errors import UnknownId
from numbatok.ids import Ids, Offsets
from numbatok.kernels import decode
from numbatok.memory import address_of
from numbatok.vocabulary import Vocabulary

MOST_ID_TABLE = 1 << 24  # ids below this, or four times the tokens, are decoded through a table by id


class ByteDecoder:
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
        self, ids: Ids, offsets: Offsets, skip_special_tokens: bool
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(bytes, ends) of documents of ids: their bytes one after the other, and where each document's end.

        Raises :class:`UnknownId` with the place of the first id that is not in the vocabulary.
        """
        table = self._tables[skip_special_tokens]
        ids = self.rows_of(ids)
        ends = np.zeros(len(offsets) - 1, np.int64)
        output = np.empty(0, np.uint8)
        size = self._write(ids, offsets, table, output, ends)
        output = np.empty(size + decode.WIDEST_COPY, np.uint8)
        size = self._write(ids, offsets, table, output, ends)
        if size == decode.NO_ROOM:  # another thread has changed the ids meanwhile: go by what they are now
            return self.decode(ids.copy(), offsets, skip_special_tokens)
        return output[:size], ends

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
