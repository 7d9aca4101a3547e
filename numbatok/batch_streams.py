"""Many streams of ids to text at once, as in serving: by a kernel where it knows the decoder's steps."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from numbatok import decoders
from numbatok.byte_decoder import ByteDecoder
from numbatok.decoders import Decoder
from numbatok.ids import Ids, Offsets, as_ids, unknown_id
from numbatok.kernels import streams
from numbatok.kernels.decode import NO_ROOM, WIDEST_COPY
from numbatok.kernels.jit import Kernel
from numbatok.memory import address_of
from numbatok.stream_decoders import StreamDecoder, Strings

_MOST_STRIPPED = 255  # a byte of a stream's state
_UINT32 = np.dtype(np.uint32)


class BatchStreamDecoder:
    """Decodes many streams of ids, in step; made by :meth:`numbatok.Tokenizer.batch_stream_decoder`.

    Each stream's text, joined over all calls, is that of a :class:`StreamDecoder`. A kernel decodes bytes, and strings
    with the steps of Llama 2's or Gemma's files; for other decoders each stream is a :class:`StreamDecoder`.

    >>> streams = numbatok.get_encoding("gpt2").batch_stream_decoder(2)
    >>> text, begins = streams.feed([15496, 995])
    >>> [bytes(text[begins[i] : begins[i + 1]]) for i in range(len(streams))]
    [b'Hello', b' world']
    """

    def __init__(self, count: int, strings: Strings, tables: "Tables | None") -> None:
        self._count = count
        self._tables = tables
        self._strings = strings
        self._decoders = [] if tables is not None else [StreamDecoder(strings) for _ in range(count)]
        self._vocab_size = strings.vocab_size
        # What is always in the same place: addresses take time to ask for, and a call for few streams hardly more.
        self._one_each, self._none = np.arange(count + 1, dtype=np.int64), np.zeros(count + 1, np.int64)
        self._given, self._ends = np.empty(count, np.uint32), np.zeros(count + 1, np.int64)
        self._edges_address, self._given_address = address_of(self._one_each), address_of(self._given)
        self._record = np.zeros(streams.STREAMS_FIELDS, np.int64)
        self._record_address = address_of(self._record)
        if tables is not None:
            self._record[:] = tables.record
            self._record[streams.STREAMS_COUNT] = count
            self._set_table(streams.STREAMS_ENDS, self._ends[1:])
            self._keep(tables.new_states(count), np.empty(1024 + 32 * count, np.uint8))

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> NoReturn:  # it holds addresses
        raise TypeError("a decoder of many streams can be neither pickled nor copied; make one of the tokenizer there")

    def feed(self, ids: object, offsets: Offsets | None = None) -> tuple[npt.NDArray[np.uint8], Offsets]:
        """The text that is certain with more ids: UTF-8, flat, and where each stream's begins in it.

        Parameters
        ----------
        ids : one for each stream; with ``offsets`` any number, those of all streams one after the other
        offsets : int64[streams + 1]; those of stream ``i`` are ``ids[offsets[i]:offsets[i + 1]]``

        Returns
        -------
        uint8, and int64[streams + 1]; the text of stream ``i`` is ``bytes(text[begins[i]:begins[i + 1]]).decode()``

        Raises ValueError for ids that are not one for each stream or not in the vocabulary, TypeError for what is no
        integer; no stream has gone on then.
        """
        if offsets is None and type(ids) is np.ndarray and ids.dtype is _UINT32 and ids.shape == self._given.shape:
            array: Ids = ids
        else:
            array = as_ids(ids, self._vocab_size)
            if offsets is None and len(array) != self._count:
                raise ValueError(
                    f"{len(array)} ids are given for {self._count} streams; each takes one, or pass offsets"
                )
        if self._tables is not None and offsets is None:
            self._given[:] = array  # nobody else changes these
            return self._by_kernel(self._tables, self._given, self._given_address, self._edges_address)
        edges = self._one_each if offsets is None else self._checked(offsets, len(array))
        if self._tables is not None:
            array = array.copy()
            return self._by_kernel(self._tables, array, address_of(array), address_of(edges))
        for place, number in enumerate(array.tolist()):
            try:
                self._strings[number]
            except ValueError:
                raise self._unknown(array, place) from None
        bounds = pairwise(edges.tolist())
        return self._joined(
            decoder.feed(array[begin:end]) for decoder, (begin, end) in zip(self._decoders, bounds, strict=True)
        )

    def finish(self) -> tuple[npt.NDArray[np.uint8], Offsets]:
        """The rest of each stream's text, as :meth:`feed` gives it; all then begin anew."""
        if self._tables is None:
            return self._joined(decoder.finish() for decoder in self._decoders)
        rest = self._by_kernel(self._tables, self._given, self._given_address, address_of(self._none), is_end=True)
        self._keep(self._tables.new_states(self._count), self._output)
        return rest

    def reset(self, streams: object) -> None:
        """Let some streams, by their numbers, begin anew; what they kept back is forgotten.

        Raises TypeError for what is no integer, and IndexError for a number of no stream; none has begun anew then.
        """
        numbers = np.atleast_1d(np.asarray(streams))
        if numbers.size == 0:
            return
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"streams must be their numbers, integers, not {numbers.dtype}")
        wrong = numbers[(numbers < 0) | (numbers >= self._count)]
        if wrong.size:
            raise IndexError(f"stream {wrong[0]} is not in this decoder of {self._count} streams")
        if self._tables is not None:
            self._states[numbers] = 0
            self._states[numbers, :1] = self._tables.new_states(1)[:, :1]
        for number in numbers.tolist() if self._decoders else ():
            self._decoders[number].finish()

    def _checked(self, offsets: object, total: int) -> Offsets:
        edges = np.array(offsets)  # a copy, that nobody changes
        if edges.dtype.kind not in "iu" or edges.shape != (self._count + 1,):
            raise TypeError(
                f"offsets must be {self._count + 1} integers, one more than streams, not {edges.dtype} of shape "
                f"{edges.shape}"
            )
        edges = edges.astype(np.int64)
        if edges[0] != 0 or edges[-1] != total or (np.diff(edges) < 0).any():
            raise ValueError(f"offsets must rise from 0 to {total}, the number of ids")
        return edges

    def _set_table(self, field: int, array: npt.NDArray[Any]) -> None:
        self._record[field], self._record[field + 1] = address_of(array), array.size

    def _keep(self, states: npt.NDArray[np.uint8], output: npt.NDArray[np.uint8]) -> None:
        """Keep the streams' states, and where text is written."""
        self._states, self._output = states, output
        self._record[streams.STREAMS_WIDTH] = states.shape[1]
        self._set_table(streams.STREAMS_STATES, states)
        self._set_table(streams.STREAMS_OUTPUT, output)

    def _unknown(self, ids: Ids, place: int) -> ValueError:
        return unknown_id(ids, place, np.array([0, len(ids)], np.int64), self._vocab_size, False)

    def _by_kernel(
        self, tables: "Tables", ids: Ids, address: int, edges: int, is_end: bool = False
    ) -> tuple[npt.NDArray[np.uint8], Offsets]:
        """Feed ids from an address that nobody else writes to; ``edges`` is the address of where each stream's are."""
        if not tables.is_direct:
            rows = tables.rows_of(ids)
            address = address_of(rows)
        while (used := tables.kernel(self._record_address, address, edges, is_end)) < 0:
            if used == streams.NARROW_STATES:
                self._keep(np.concatenate([self._states, np.zeros_like(self._states)], axis=1), self._output)
            elif used == NO_ROOM:
                self._keep(self._states, np.empty(2 * len(self._output) + 32 * len(ids), np.uint8))
            else:
                raise self._unknown(ids, -1 - used)
        return self._output[:used].copy(), self._ends.copy()

    @staticmethod
    def _joined(texts: Iterable[str]) -> tuple[npt.NDArray[np.uint8], Offsets]:
        parts = [text.encode() for text in texts]
        lengths = [len(part) for part in parts]
        return np.frombuffer(bytearray(b"".join(parts)), np.uint8), np.cumsum([0, *lengths], dtype=np.int64)


class Tables:
    """What a kernel decodes streams by, and what it keeps of each stream.

    Attributes
    ----------
    kernel : the kernel; see :mod:`numbatok.kernels.streams`
    record : its record, but for what each decoder of streams has of its own
    is_direct, rows_of : whether ids are rows of the tables, and what makes rows of them
    """

    def __init__(
        self,
        decoder: ByteDecoder,
        kernel: Kernel,
        fields: dict[int, npt.NDArray[Any]],
        state: tuple[int, int],
    ) -> None:
        self.kernel, self.is_direct, self.rows_of = kernel.entry, decoder.is_direct, decoder.rows_of
        self._fields = fields
        self._width, self._first = state
        self.record = np.zeros(streams.STREAMS_FIELDS, np.int64)
        for field, array in fields.items():
            self.record[field], self.record[field + 1] = address_of(array), len(array)

    def new_states(self, count: int) -> npt.NDArray[np.uint8]:
        """uint8[count, width], of streams that begin."""
        states = np.zeros((count, self._width), np.uint8)
        states[:, 0] = self._first
        return states


def _byte_tables(decoder: ByteDecoder, skip_special_tokens: bool) -> Tables:
    """Of a vocabulary of bytes: the byte decoder's."""
    data, starts = decoder.contents
    raw = data.tobytes()
    fields: dict[int, npt.NDArray[Any]] = {
        streams.STREAMS_NUMBERS: decoder.table(skip_special_tokens),
        streams.STREAMS_STARTS: starts,
        streams.STREAMS_DATA: data,
        streams.STREAMS_KINDS: np.array(
            [_is_utf8(raw[begin:end]) for begin, end in pairwise(starts.tolist())], np.uint8
        ),
    }
    return Tables(decoder, streams.decode_streams, fields, (streams.STATE_BYTES, 0))


def _string_tables(decoder: ByteDecoder, skip_special_tokens: bool, head: Decoder, strip: decoders.Strip) -> Tables:
    """Of a vocabulary whose strings are joined but for byte tokens, and stripped at the begin."""
    data, starts = decoder.contents
    raw = data.tobytes()
    strings = [
        decoders.decode([raw[begin:end].decode("utf-8", "replace")], head) for begin, end in pairwise(starts.tolist())
    ]
    parts = [string.encode() for string in strings]
    byte_of = [int(string[3:5], 16) if decoders.is_byte(string) else streams.NO_BYTE for string in strings]
    fields: dict[int, npt.NDArray[Any]] = {
        streams.STREAMS_NUMBERS: decoder.table(skip_special_tokens),
        streams.STREAMS_STARTS: np.cumsum([0, *map(len, parts)], dtype=np.int64),
        streams.STREAMS_DATA: np.frombuffer(b"".join(parts) + bytes(WIDEST_COPY), np.uint8),
        streams.STREAMS_KINDS: np.array(byte_of, np.uint16),
        streams.STREAMS_BLANK: np.frombuffer(strip.content.encode(), np.uint8),
    }
    return Tables(decoder, streams.decode_string_streams, fields, (2 * streams.RUN_HEADER, strip.start))


def tables_of(decoder: ByteDecoder, skip_special_tokens: bool, strings: Strings) -> Tables | None:
    """The tables for a decoder that a kernel knows; None for others."""
    if not strings.decoder:
        return _byte_tables(decoder, skip_special_tokens)
    strip = decoders.Strip(" ", 0, 0)
    rest = list(strings.tail)
    if rest[:1] != [decoders.ByteFallback()] or rest[1:2] != [decoders.Fuse()]:
        return None
    for step in rest[2:]:
        if not isinstance(step, decoders.Strip) or strip.start or step.stop or step.start > _MOST_STRIPPED:
            return None
        strip = step
    return _string_tables(decoder, skip_special_tokens, strings.head, strip)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
