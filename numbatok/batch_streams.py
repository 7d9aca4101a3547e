"""Many streams of ids to text at once, as in serving: by a kernel where it knows the decoder's steps."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import pairwise
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from numbatok import decoders
from numbatok.byte_decoder import ByteDecoder
from numbatok.decoders import Decoder
from numbatok.ids import Ids, Offsets, as_ids, unknown_id
from numbatok.kernels import streams
from numbatok.kernels.decode import NO_ROOM, WIDEST_COPY
from numbatok.memory import address_of
from numbatok.stream_decoders import StreamDecoder, Strings

_MOST_STRIPPED = 255  # a byte of a stream's state


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
        self._one_each = np.arange(count + 1, dtype=np.int64)
        self._ends = np.zeros(count + 1, np.int64)
        # Addresses take time to ask for, and a call for few streams hardly more.
        self._one_each_address, self._ends_address = address_of(self._one_each), address_of(self._ends) + 8
        self._keep(
            np.zeros((count, 0), np.uint8) if tables is None else tables.new_states(count), np.empty(0, np.uint8)
        )

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
        array = as_ids(ids, self._vocab_size)
        edges = self._one_each if offsets is None else self._checked(offsets, len(array))
        if offsets is None and len(array) != self._count:
            raise ValueError(f"{len(array)} ids are given for {self._count} streams; each takes one, or pass offsets")
        if self._tables is not None:
            address = self._one_each_address if offsets is None else address_of(edges)
            return self._by_kernel(array, address, self._tables, is_end=False)
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
        none = np.zeros(self._count + 1, np.int64)
        rest = self._by_kernel(np.empty(0, np.uint32), address_of(none), self._tables, is_end=True)
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

    def _keep(self, states: npt.NDArray[np.uint8], output: npt.NDArray[np.uint8]) -> None:
        """Keep the streams' states, and where text is written, with their addresses, which take time to ask for."""
        self._states, self._output = states, output
        self._room = address_of(states), states.shape[1], address_of(output), len(output)

    def _unknown(self, ids: Ids, place: int) -> ValueError:
        return unknown_id(ids, place, np.array([0, len(ids)]), self._vocab_size, False)

    def _by_kernel(self, ids: Ids, edges: int, tables: "Tables", is_end: bool) -> tuple[npt.NDArray[np.uint8], Offsets]:
        before = self._states.copy()
        while True:
            used = tables.decode(ids, edges, self._count, self._room, self._ends_address, is_end)
            if used >= 0:
                return self._output[:used].copy(), self._ends.copy()
            self._states[:] = before
            if used != NO_ROOM:
                raise self._unknown(ids, -1 - used)
            size = 2 * len(self._output) + 32 * (len(ids) + self._count) + 1024
            self._keep(tables.wider(self._states), np.empty(size, np.uint8))
            before = self._states.copy()

    @staticmethod
    def _joined(texts: Iterable[str]) -> tuple[npt.NDArray[np.uint8], Offsets]:
        parts = [text.encode() for text in texts]
        lengths = [len(part) for part in parts]
        return np.frombuffer(bytearray(b"".join(parts)), np.uint8), np.concatenate([[0], np.cumsum(lengths, dtype=int)])


class Tables(ABC):
    """What the kernels decode streams by, and what they keep of each stream."""

    @abstractmethod
    def new_states(self, count: int) -> npt.NDArray[np.uint8]:
        """uint8[count, width], of streams that begin."""

    def wider(self, states: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """States with room for more."""
        return states

    @abstractmethod
    def decode(self, ids: Ids, edges: int, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool) -> int:
        """Bytes of more text, NO_ROOM, or what names an unknown id; see :mod:`numbatok.kernels.streams`.

        ``edges`` is the address of int64[count + 1], where each stream's ids begin; ``room`` is the address of
        ``count`` states, their width, and the address and bytes of the output; ``ends`` is the address of int64[count].
        """


class _ByteTables(Tables):
    """Of a vocabulary of bytes: the byte decoder's."""

    def __init__(self, decoder: ByteDecoder, skip_special_tokens: bool) -> None:
        self._rows_of = decoder.rows_of
        self._decode = streams.decode_streams.compiled()
        self._kept = decoder.table(skip_special_tokens), *decoder.contents
        table, data, starts = self._kept
        raw = data.tobytes()
        self._whole = np.array([_is_utf8(raw[begin:end]) for begin, end in pairwise(starts.tolist())], np.uint8)
        self._fixed = (
            address_of(table),
            len(table),
            address_of(self._whole),
            address_of(starts),
            len(starts) - 1,
            address_of(data),
            len(data),
        )

    def new_states(self, count: int) -> npt.NDArray[np.uint8]:
        return np.zeros((count, streams.STATE_BYTES), np.uint8)

    def decode(self, ids: Ids, edges: int, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool) -> int:
        ids = self._rows_of(ids)
        states, _, output, capacity = room
        places = address_of(ids), edges, count
        return int(self._decode(*places, *self._fixed, states, is_end, output, capacity, ends))


class _StringTables(Tables):
    """Of a vocabulary whose strings are joined but for byte tokens, and stripped at the begin."""

    def __init__(self, decoder: ByteDecoder, skip_special_tokens: bool, head: Decoder, strip: decoders.Strip) -> None:
        self._rows_of = decoder.rows_of
        self._decode = streams.decode_string_streams.compiled()
        data, starts = decoder.contents
        raw = data.tobytes()
        strings = [
            decoders.decode([raw[begin:end].decode("utf-8", "replace")], head)
            for begin, end in pairwise(starts.tolist())
        ]
        parts = [string.encode() for string in strings]
        byte_of = [int(string[3:5], 16) if decoders.is_byte(string) else streams.NO_BYTE for string in strings]
        edges = np.cumsum([0, *map(len, parts)])
        content = np.frombuffer(strip.content.encode(), np.uint8)
        table = decoder.table(skip_special_tokens)
        self._data = np.frombuffer(b"".join(parts) + bytes(WIDEST_COPY), np.uint8)
        self._kept = table, np.array(byte_of, np.uint16), edges, content
        self._strip = strip.start
        self._fixed = (
            address_of(table),
            len(table),
            address_of(self._kept[1]),
            address_of(edges),
            len(parts),
            address_of(self._data),
            len(self._data),
        )
        self._blank = address_of(content), len(content)

    def new_states(self, count: int) -> npt.NDArray[np.uint8]:
        states = np.zeros((count, 16), np.uint8)
        states[:, 0] = self._strip
        return states

    def wider(self, states: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        return np.concatenate([states, np.zeros_like(states)], axis=1)

    def decode(self, ids: Ids, edges: int, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool) -> int:
        ids = self._rows_of(ids)
        states, width, output, capacity = room
        places = address_of(ids), edges, count
        kept = states, width, *self._blank, is_end
        return int(self._decode(*places, *self._fixed, *kept, output, capacity, ends))


def tables_of(decoder: ByteDecoder, skip_special_tokens: bool, strings: Strings) -> Tables | None:
    """The tables for a decoder that a kernel knows; None for others."""
    if not strings.decoder:
        return _ByteTables(decoder, skip_special_tokens)
    strip = decoders.Strip(" ", 0, 0)
    rest = list(strings.tail)
    if rest[:1] != [decoders.ByteFallback()] or rest[1:2] != [decoders.Fuse()]:
        return None
    for step in rest[2:]:
        if not isinstance(step, decoders.Strip) or strip.start or step.stop or step.start > _MOST_STRIPPED:
            return None
        strip = step
    return _StringTables(decoder, skip_special_tokens, strings.head, strip)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
