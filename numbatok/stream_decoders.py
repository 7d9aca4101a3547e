"""Streams of ids to text: what is final of it, at once.

The bytes of a character that is not whole yet are kept back, and of a vocabulary with a decoder what its steps may yet
change; see :mod:`numbatok.decoders`.
"""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from numbatok import decoders
from numbatok.byte_decoder import ByteDecoder
from numbatok.decoders import Decoder
from numbatok.ids import Ids, Offsets, as_ids, unknown_id
from numbatok.kernels import streams
from numbatok.kernels.decode import NO_ROOM, WIDEST_COPY
from numbatok.memory import address_of
from numbatok.normalizers.streaming import Replacing

_MOST_STRIPPED = 255  # a byte of a stream's state


class _Stage(ABC):
    """A decoder's step at work on strings that come one by one.

    Attributes
    ----------
    idle : whether strings only pass through from now on
    """

    idle = False

    @abstractmethod
    def feed(self, strings: list[str]) -> list[str]:
        """The strings, changed, that are certain."""

    def finish(self) -> list[str]:
        """The rest of them."""
        return []


class _Each(_Stage):
    """A step that changes each string by itself."""

    def __init__(self, step: decoders.Step) -> None:
        self._step = step

    def feed(self, strings: list[str]) -> list[str]:
        return self._step.apply(strings)


class _Bytes(_Stage):
    """Byte tokens in a row: whether they are UTF-8 is known at their end."""

    def __init__(self) -> None:
        self._step = decoders.ByteFallback()
        self.run: list[str] = []

    def feed(self, strings: list[str]) -> list[str]:
        done: list[str] = []
        for string in strings:
            if decoders.is_byte(string):
                self.run.append(string)
            else:
                if self.run:
                    done += self.finish()
                done.append(string)
        return done

    def finish(self) -> list[str]:
        run, self.run = self.run, []
        return self._step.apply(run)


class _Passing(_Stage):
    """A step that changes nothing of what is joined in the end."""

    idle = True

    def feed(self, strings: list[str]) -> list[str]:
        return strings


class _FirstApart(_Stage):
    """A Metaspace: the first string loses its replacements, where one was put before the text."""

    def __init__(self, step: decoders.Metaspace) -> None:
        self._step = step
        self._begun = False

    def feed(self, strings: list[str]) -> list[str]:
        if self._begun or not strings:
            return [string.replace(self._step.replacement, " ") for string in strings]
        self._begun = True
        return self._step.apply(strings)


class _LastApart(_Stage):
    """A Suffix: the last string is not followed by a blank."""

    def __init__(self, step: decoders.Suffix) -> None:
        self._step = step
        self._last: list[str] = []

    def feed(self, strings: list[str]) -> list[str]:
        if not strings:
            return []
        done, self._last = [*self._last, *strings[:-1]], strings[-1:]
        return [string.replace(self._step.suffix, " ") for string in done]

    def finish(self) -> list[str]:
        return self._step.apply(self._last)


class _Between(_Stage):
    """Spaced: a blank before each string but the first."""

    def __init__(self) -> None:
        self._begun = False

    def feed(self, strings: list[str]) -> list[str]:
        begun, self._begun = self._begun, self._begun or bool(strings)
        return [string if number == 0 and not begun else " " + string for number, string in enumerate(strings)]


# After Fuse or Spaced there is one string, which comes in parts.


class _PartsReplaced(_Stage):
    def __init__(self, old: str, new: str) -> None:
        self._replacing = Replacing(old, new)

    def feed(self, strings: list[str]) -> list[str]:
        return [self._replacing.feed("".join(strings))]

    def finish(self) -> list[str]:
        return [self._replacing.finish()]


class _PartsStripped(_Stage):
    def __init__(self, step: decoders.Strip) -> None:
        self._content, self._left, self._stop = step.content, step.start, step.stop
        self._tail = ""
        self.idle = step.start == 0 and step.stop == 0

    def feed(self, strings: list[str]) -> list[str]:
        text = "".join(strings)
        while self._left and text:
            if text[0] != self._content:
                self._left = 0
            else:
                text, self._left = text[1:], self._left - 1
        if self._stop == 0:
            self.idle = self._left == 0
            return [text]
        text = self._tail + text
        place = max(len(text) - self._stop, 0)
        self._tail = text[place:]
        return [text[:place]]

    def finish(self) -> list[str]:
        return [self._tail.rstrip(self._content)]


class _PartsAsByte(_Stage):
    """A ByteFallback of the one string: it is a byte token, or is not."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, strings: list[str]) -> list[str]:
        text = self._text + "".join(strings)
        self.idle = len(text) > decoders.BYTE_TOKEN
        self._text = "" if self.idle else text
        return [text] if self.idle else []

    def finish(self) -> list[str]:
        return decoders.ByteFallback().apply([self._text])


def _stages(decoder: Decoder) -> list[_Stage]:
    """The steps of a decoder at work."""
    made: list[_Stage] = []
    is_one = False
    for step in decoder:
        if isinstance(step, decoders.Spaced):
            made.append(_Passing() if is_one else _Between())
        elif isinstance(step, decoders.Fuse):
            made.append(_Passing())
        elif isinstance(step, decoders.ByteFallback):
            made.append(_PartsAsByte() if is_one else _Bytes())
        elif isinstance(step, decoders.Metaspace) and is_one:
            made.append(_PartsReplaced(step.replacement, "" if step.prepended else " "))
        elif isinstance(step, decoders.Metaspace):
            made.append(_FirstApart(step))
        elif isinstance(step, decoders.Suffix):
            made.append(_PartsReplaced(step.suffix, "") if is_one else _LastApart(step))
        elif isinstance(step, decoders.Replace) and is_one:
            made.append(_PartsReplaced(step.old, step.new))
        elif isinstance(step, decoders.Strip) and is_one:
            made.append(_PartsStripped(step))
        else:
            made.append(_Each(step))
        is_one = is_one or isinstance(step, decoders.Fuse | decoders.Spaced)
    return made


class Strings(dict[int, str | None]):
    """The string of each id, looked up when it is first wanted: "" for what is skipped; ValueError for no token.

    For a vocabulary of bytes it is that of whole characters, and None where a token's bytes are not.
    """

    def __init__(
        self, token: Callable[[int], bytes | None], skipped: frozenset[int], vocab_size: int, decoder: Decoder
    ) -> None:
        self.token = token
        self.skipped = skipped
        self.vocab_size = vocab_size
        self.decoder = decoder

        #: The bytes of each id that has been looked up, none for what is skipped.
        self.bytes: dict[int, bytes] = {}
        split = 0
        while split < len(decoder) and isinstance(decoder[split], decoders.Replace | decoders.Strip):
            split += 1
        #: The steps that change each string by itself, which is done once, and those after them.
        self.head, self.tail = decoder[:split], decoder[split:]

    def __missing__(self, id: int) -> str | None:
        data = self.token(id)
        if data is None:
            raise ValueError(f"id {id} is not in this vocabulary of {self.vocab_size} tokens")
        string: str | None
        if id in self.skipped:
            string = ""
        elif self.decoder:
            string = decoders.decode([data.decode("utf-8", "replace")], self.head)
        else:
            try:
                string = data.decode()
            except UnicodeDecodeError:
                string = None
        self.bytes[id] = b"" if id in self.skipped else data
        self[id] = string
        return string


class StreamDecoder:
    """Decodes ids that come one by one; made by :meth:`numbatok.Tokenizer.stream_decoder`.

    What all calls give, joined, is what :meth:`numbatok.Tokenizer.decode` gives for the ids joined, and nothing that is
    given changes later. One stream is for one thread at a time.

    >>> stream = numbatok.get_encoding("gpt2").stream_decoder()
    >>> stream.feed(15496), stream.feed([995, 0]), stream.finish()
    ('Hello', ' world!', '')
    """

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = False  # whether a character is
        self._bytes = _Bytes()
        self._run: list[str] | None = None  # the byte tokens in a row, where the first step is about these
        self._rest: list[_Stage] | None = None  # the steps after it, as long as they do anything
        self._begin()
        self._is_bytes = not strings.decoder

    def feed(self, ids: object) -> str:
        """The text that is certain with one more id, or a sequence of ids as ``decode`` takes it.

        Raises TypeError for what is no integer, and ValueError for an id that is not in the vocabulary; the stream then
        stands where it stood.
        """
        if type(ids) is int:
            string = self._strings[ids]
            if self._is_bytes:
                if string is not None and not self._open:
                    return string
                return self._decoded(self._strings.bytes[ids])
            if ids in self._strings.skipped:
                return ""
            assert string is not None
            if self._run is None:
                return self._through([string])
            # Nothing but byte tokens, in a row, is kept back.
            if string[:3] == "<0x" and decoders.is_byte(string):
                self._run.append(string)
                return ""
            strings = [string]
            if self._run:
                strings = [*self._bytes.finish(), string]
                self._run = self._bytes.run
            return "".join(strings) if self._rest is None else self._past(strings)
        if isinstance(ids, np.integer) and not isinstance(ids, np.timedelta64):
            return self.feed(int(ids))
        array = as_ids(ids, self._strings.vocab_size)
        numbers: list[int] = array.tolist()
        for place, number in enumerate(numbers):
            try:
                self._strings[number]
            except ValueError:
                edges = np.array([0, len(array)])
                raise unknown_id(array, place, edges, self._strings.vocab_size, False) from None
        if self._is_bytes:
            return self._decoded(b"".join([self._strings.bytes[number] for number in numbers]))
        return self._through([self._strings[number] or "" for number in numbers if number not in self._strings.skipped])

    def finish(self) -> str:
        """The rest of the text: U+FFFD for an incomplete character. The stream then begins anew."""
        if self._is_bytes:
            self._open = False
            text = self._utf8.decode(b"", True)
            self._utf8.reset()
            return text
        done: list[str] = []
        for stage in self._stages:
            done = stage.feed(done) + stage.finish()
        self._begin()
        return "".join(done)

    def _begin(self) -> None:
        """Let the steps begin a new text."""
        self._stages = _stages(self._strings.tail)
        self._run = self._rest = None
        first = self._stages[0] if self._stages else None
        if isinstance(first, _Bytes):
            self._bytes, self._run = first, first.run
            self._rest = self._stages[1:]

    def _past(self, strings: list[str]) -> str:
        """What the steps after that of the byte tokens make of strings."""
        assert self._rest is not None
        are_idle = True
        for stage in self._rest:
            if not stage.idle:
                strings = stage.feed(strings)
                are_idle = are_idle and stage.idle
        if are_idle:
            self._rest = None
        return "".join(strings)

    def _decoded(self, data: bytes) -> str:
        text = self._utf8.decode(data)
        self._open = bool(self._utf8.getstate()[0])
        return text

    def _through(self, strings: list[str]) -> str:
        for stage in self._stages:
            if not stage.idle:
                strings = stage.feed(strings)
        if self._run is not None:
            self._run = self._bytes.run
        return "".join(strings)


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
        self._one_each = np.arange(count + 1)
        self._keep(
            np.zeros((count, 0), np.uint8) if tables is None else tables.new_states(count), np.empty(0, np.uint8)
        )

    def __len__(self) -> int:
        return self._count

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
            return self._by_kernel(array, edges, self._tables, is_end=False)
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
        rest = self._by_kernel(np.empty(0, np.uint32), none, self._tables, is_end=True)
        self._keep(self._tables.new_states(self._count), self._output)
        return rest

    def reset(self, streams: object) -> None:
        """Let some streams, by their numbers, begin anew; what they kept back is forgotten."""
        numbers = np.atleast_1d(np.asarray(streams))
        if numbers.size == 0:
            return
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"streams must be their numbers, integers, not {numbers.dtype}")
        wrong = numbers[(numbers < 0) | (numbers >= self._count)]
        if wrong.size:
            raise IndexError(f"stream {wrong[0]} is not among {self._count}")
        if self._tables is not None:
            self._states[numbers] = 0
            self._states[numbers, :1] = self._tables.new_states(1)[:, :1]
        for number in numbers.tolist() if self._decoders else ():
            self._decoders[number].finish()

    def _checked(self, offsets: object, total: int) -> Offsets:
        edges = np.array(offsets)  # a copy, that nobody changes
        if edges.dtype.kind not in "iu" or edges.shape != (self._count + 1,):
            raise TypeError(f"offsets must be {self._count + 1} integers, one more than streams")
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

    def _by_kernel(
        self, ids: Ids, edges: Offsets, tables: "Tables", is_end: bool
    ) -> tuple[npt.NDArray[np.uint8], Offsets]:
        ends = np.zeros(self._count + 1, np.int64)
        before = self._states.copy()
        while True:
            used = tables.decode(ids, edges, self._count, self._room, address_of(ends) + ends.itemsize, is_end)
            if used >= 0:
                return self._output[:used].copy(), ends
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
    def decode(
        self, ids: Ids, edges: Offsets, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool
    ) -> int:
        """Bytes of more text, NO_ROOM, or what names an unknown id; see :mod:`numbatok.kernels.streams`.

        ``room`` is the address of ``count`` states, their width, and the address and bytes of the output; ``ends`` is
        the address of int64[count].
        """


class _ByteTables(Tables):
    """Of a vocabulary of bytes: the byte decoder's."""

    def __init__(self, decoder: ByteDecoder, skip_special_tokens: bool) -> None:
        self._rows_of = decoder.rows_of
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

    def decode(
        self, ids: Ids, edges: Offsets, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool
    ) -> int:
        ids = np.ascontiguousarray(self._rows_of(ids))
        states, _, output, capacity = room
        places = address_of(ids), address_of(edges), count
        return int(streams.decode_streams(*places, *self._fixed, states, is_end, output, capacity, ends))


class _StringTables(Tables):
    """Of a vocabulary whose strings are joined but for byte tokens, and stripped at the begin."""

    def __init__(self, decoder: ByteDecoder, skip_special_tokens: bool, head: Decoder, strip: decoders.Strip) -> None:
        self._rows_of = decoder.rows_of
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

    def decode(
        self, ids: Ids, edges: Offsets, count: int, room: tuple[int, int, int, int], ends: int, is_end: bool
    ) -> int:
        ids = np.ascontiguousarray(self._rows_of(ids))
        states, width, output, capacity = room
        places = address_of(ids), address_of(edges), count
        kept = states, width, *self._blank, is_end
        return int(streams.decode_string_streams(*places, *self._fixed, *kept, output, capacity, ends))


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
