"""Streams of ids to text: what is final of it, at once.

The bytes of a character that is not whole yet are kept back, and of a vocabulary with a decoder what its steps may yet
change; see :mod:`numbatok.decoders`.
"""

import codecs
import copy
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from numbatok import decoders
from numbatok.decoders import Decoder
from numbatok.ids import as_ids, unknown_id
from numbatok.stream_stages import Bytes, Stage, stages_of


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
        self._bytes = Bytes()
        self._run: list[str] | None = None  # the byte tokens in a row, where the first step is about these
        self._rest: list[Stage] | None = None  # the steps after it, as long as they do anything
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
                edges = np.array([0, len(array)], np.int64)
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

    def copy(self) -> "StreamDecoder":
        """Another stream that has been fed the same: what follows may differ from here on."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        other._utf8.setstate(self._utf8.getstate())
        steps = self._stages, self._bytes, self._run, self._rest  # which share parts
        other._stages, other._bytes, other._run, other._rest = copy.deepcopy(steps)
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "StreamDecoder":
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be pickled; pickle its tokenizer, and feed the ids so far to a new stream")

    def _begin(self) -> None:
        """Let the steps begin a new text."""
        self._stages = stages_of(self._strings.tail)
        self._run = self._rest = None
        first = self._stages[0] if self._stages else None
        if isinstance(first, Bytes):
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
