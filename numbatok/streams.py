"""Text that comes in parts to the ids of the whole.

A text meets the stages that it meets as a whole, each of which gives on what can no longer change, whatever follows,
and keeps the rest back: added tokens are found in the text as it is, what lies between is normalized, others are found
in that, and the rest is cut into pretokens and merged.
"""

import codecs
import copy
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AddedToken
from numbatok.errors import DisallowedToken
from numbatok.ids import Ids
from numbatok.kernels import added, dtypes, streams
from numbatok.memory import address_of
from numbatok.normalizers.edits import all_white_space
from numbatok.normalizers.streaming import Stream, stream_of
from numbatok.parts import Parts
from numbatok.text import WANTED, as_bytes, repair_surrogates
from numbatok.utf8 import first_invalid

if TYPE_CHECKING:
    from numbatok.engine import Engine

#: New bytes that are waited for before the stages look at what has come, and that part of what they keep at least, a
#: half: so that a text in small parts takes time linear in its length.
_PART = 256
_SHARE = 2
_CHARACTER = 4  # most bytes of one
_LONG = 1 << 12  # bytes of a part from which on a kernel looks whether it is UTF-8


#: Ids, or what makes them.
Made: TypeAlias = Ids | Callable[[], Ids]


_Any = TypeVar("_Any")


def _twin(one: _Any) -> _Any:
    """Another object with the same attributes: ``copy.copy`` takes three times as long."""
    other = object.__new__(type(one))
    other.__dict__.update(one.__dict__)
    return other


class _Pretokens:
    """The last stage: pretokens to ids."""

    def __init__(self, engine: "Engine", prefix_space: bool) -> None:
        self._engine = engine
        self._prefix_space = prefix_space
        self._buffer = bytearray()
        self._begun = False  # whether the text between two added tokens is
        self.later = False  # whether ids are made by functions that are called later

    @property
    def kept(self) -> int:
        return len(self._buffer)

    @property
    def state(self) -> Hashable:
        return bytes(self._buffer), self._begun

    def copy(self) -> "_Pretokens":
        """Another one in the same state."""
        other = _twin(self)
        other._buffer = self._buffer.copy()
        return other

    def feed(self, data: bytes) -> None:
        """Take more text, which is not empty."""
        if self._prefix_space and not self._begun and data[0] != ord(" "):
            self._buffer += b" "
        self._begun = True
        self._buffer += data

    def decided(self) -> list[Made]:
        """The ids of all decided pretokens."""
        return [] if self._engine.regex_rule is not None else self._encode(is_end=False)

    def finish(self) -> list[Made]:
        """The ids of the rest: an added token follows, or the end."""
        self._begun = False
        rule = self._engine.regex_rule
        if rule is None:
            return self._encode(is_end=True)
        whole = bytes(self._buffer)
        made: list[Made] = []
        starts, dropped = rule.cut(whole.decode())
        edges = [*starts.tolist(), len(whole)]
        for first, last, gone in zip(edges[:-1], edges[1:], dropped.tolist(), strict=True):
            if not gone:
                self._buffer = bytearray(whole[first:last])
                made += self._encode(is_end=True)
        self._buffer = bytearray()
        return made

    def _encode(self, is_end: bool) -> list[Made]:
        length = len(self._buffer)
        if not length:
            return []
        data = np.frombuffer(bytes(self._buffer), np.uint8)
        made: Made
        if self.later and length >= _LONG:
            done = length if is_end else self._run(data, is_end=False, only_end=True)[1]
            made = functools.partial(self._ids_of, data, is_end)
        else:
            made, done = self._run(data, is_end)
        del self._buffer[:done]
        return [made] if done else []

    def _ids_of(self, data: npt.NDArray[np.uint8], is_end: bool) -> Ids:
        return self._run(data, is_end)[0]

    def _run(self, data: npt.NDArray[np.uint8], is_end: bool, only_end: bool = False) -> tuple[Ids, int]:
        """(ids, where the rest begins)."""
        length = len(data)
        room = self._engine.ids_per_byte * (length + dtypes.CHUNK_BYTES) + dtypes.OUTPUT_SLACK
        with self._engine.scratch() as scratch:
            scratch.restart()
            scratch.record[dtypes.WORK_POSITION] = scratch.record[dtypes.WORK_RESUME] = 0
            output = scratch.small_output
            if room > len(output) and not only_end:
                scratch.expect(length)
                output = np.empty(room, np.uint32)
                scratch.set_table(dtypes.WORK_OUTPUT, output)
            while (count := streams.encode_decided(scratch.address, address_of(data), length, is_end, only_end)) < 0:
                scratch.mend(count)
            done = int(scratch.record[dtypes.WORK_POSITION])
            ids = output[:count].copy()
            scratch.use_small_output()
            scratch.shrink()
        return ids, done


class _Finder:
    """A stage that finds the added tokens of one trie in a text, as the kernel does in the whole."""

    def __init__(
        self,
        engine: "Engine",
        trie: int,
        tokens: Sequence[AddedToken],
        contents: dict[int, bytes],
        actions: npt.NDArray[np.uint8],
        take_text: Callable[[bytes], None],
        end_text: Callable[[], None],
        take_token: Callable[[int], None],
    ) -> None:
        self._engine = engine
        self._trie = trie
        self._tokens = tokens
        self._contents = contents  # of the tokens, by index, as they are found
        self._actions = actions
        self._take_text, self._end_text, self._take_token = take_text, end_text, take_token
        self._longest = max(map(len, contents.values()), default=0)
        self._takes_blanks = any(tokens[index].lstrip for index in contents)
        # A refused match hides others inside it; none is refused across a byte that no such token has.
        alone = [content for index, content in contents.items() if tokens[index].single_word]
        self._sticky = bytes(set(b"".join(alone)))
        self._buffer = bytearray()
        self._base = 0  # what is before it has been given on; the byte before it stays for single words
        self._begin = 0  # where the search goes on

    @property
    def kept(self) -> int:
        return len(self._buffer)

    @property
    def state(self) -> Hashable:
        return bytes(self._buffer), self._base, self._begin

    def copy(
        self, take_text: Callable[[bytes], None], end_text: Callable[[], None], take_token: Callable[[int], None]
    ) -> "_Finder":
        """Another one in the same state that gives on to others."""
        other = _twin(self)
        other._take_text, other._end_text, other._take_token = take_text, end_text, take_token
        other._buffer = self._buffer.copy()
        return other

    def feed(self, data: bytes, is_end: bool = False) -> None:
        """Give on what is decided with more text; all where it ends."""
        if not self._contents:
            if data:
                self._take_text(data)
        else:
            self._buffer += data
            self._search(is_end)
        if is_end:
            self._end_text()
            self._buffer = bytearray()
            self._base = self._begin = 0

    def _search(self, is_end: bool) -> None:
        length = len(self._buffer)
        data = np.frombuffer(bytes(self._buffer), np.uint8)
        # Whether a token begins before this place is decided: the longest, and the character after it, are there.
        horizon = length if is_end else max(length - self._longest - _CHARACTER, 0)
        match = np.zeros(4, np.int64)
        with self._engine.scratch() as scratch:
            scratch.set_actions(self._actions)
            while self._begin < length:
                token = added.search_text(
                    scratch.address, self._trie, address_of(match), address_of(data), length, self._base, self._begin
                )
                if token < 0:
                    break
                start, stop, end = (int(place) for place in match[1:])
                if end - len(self._contents[token]) >= horizon:
                    break
                if not is_end and self._tokens[token].rstrip and stop + _CHARACTER > length:
                    # The white space after it may go on.
                    horizon = min(horizon, start)
                    break
                self._give(self._base, max(start, self._base))
                self._end_text()
                if self._actions[token] == dtypes.ADDED_REFUSED:
                    raise DisallowedToken(0, start, token)
                self._take_token(token)
                self._base, self._begin = stop, end
        safe = max(horizon, self._base)
        if not is_end:
            while safe > self._base and self._buffer[safe : safe + 1] and self._buffer[safe] & 0xC0 == 0x80:
                safe -= 1
            if self._takes_blanks:  # white space before a token may go with it
                kept = self._buffer[self._base : safe].decode().rstrip(all_white_space())
                safe = self._base + len(kept.encode())
        self._give(self._base, safe)
        self._base = max(safe, self._base)
        if self._begin < horizon:
            settled = len(self._buffer[:horizon].rstrip(self._sticky)) if self._sticky else horizon
            self._begin = max(self._begin, settled)
        gone = max(min(self._base - _CHARACTER, self._begin - _CHARACTER), 0)
        while gone > 0 and self._buffer[gone] & 0xC0 == 0x80:
            gone -= 1
        del self._buffer[:gone]
        self._base -= gone
        self._begin -= gone

    def _give(self, begin: int, end: int) -> None:
        if begin < end:
            self._take_text(bytes(self._buffer[begin:end]))


def _open_bytes(end: bytes) -> int:
    """How many of the last bytes of UTF-8 are the beginning of a character that goes on."""
    for count, byte in enumerate(reversed(end), 1):
        if byte & 0xC0 != 0x80:
            return count if byte >= 0xC0 and count < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
    return 0


def _joined(made: list[Made]) -> Ids:
    """All ids."""
    return np.concatenate([np.empty(0, np.uint32), *(ids() if callable(ids) else ids for ids in made)])


class StreamEncoder:
    """Encodes a text that comes in parts; made by :meth:`numbatok.Tokenizer.stream_encoder`.

    The ids of all calls joined are those of :meth:`numbatok.Tokenizer.encode` for the parts joined. It keeps back what
    may still change: the pretoken that is open, added tokens that may have begun, some hundred bytes besides. A rule
    that does not cut, as Llama 2's, or one that the package ``regex`` runs, keeps the text between two added tokens.
    One stream is for one thread at a time.

    >>> stream = numbatok.get_encoding("gpt2").stream_encoder()
    >>> ids = [*stream.feed("Hello wor"), *stream.feed("ld"), *stream.finish()]
    """

    def __init__(
        self,
        engine: "Engine",
        parts: Parts,
        actions: npt.NDArray[np.uint8],
        ends: tuple[list[int], list[int]],
        errors: Literal["strict", "replace"],
    ) -> None:
        self._made: list[Made] = []
        #: The template's ids before and after a text.
        self.ends = [np.array(block, np.uint32) for block in ends]
        self._tokens = parts.added_tokens
        self._ids = [np.array([token.id], np.uint32) for token in parts.added_tokens]
        self._pretokens = _Pretokens(engine, parts.prefix_space)
        self._normalizer: Stream | None = None if parts.normalizer is None else stream_of(parts.normalizer)
        contents: list[dict[int, bytes]] = [{}, {}]
        for index, token in enumerate(parts.added_tokens):
            content = token.content
            if token.normalized and parts.normalizer is not None:
                content = parts.normalizer.normalize(content)
            contents[token.normalized][index] = content.encode()
        arguments = engine, parts.added_tokens, actions
        self._inner = self._finder(
            *arguments, dtypes.VIEW_NORMALIZED_TRIE, contents[1], self._take_piece, self._end_piece
        )
        self._outer = self._finder(*arguments, dtypes.VIEW_RAW_TRIE, contents[0], self._take_segment, self._end_segment)
        self._errors = errors
        self._decoder: codecs.IncrementalDecoder | None = None  # of bytes
        self._surrogate = ""  # the first half of a pair
        self._kind: type | None = None
        self._waiting: list[bytes] = []
        self._size = 0  # of what waits
        self._fed = 0  # bytes of all parts before this one
        self._finished = False
        self._begun = False

    def _finder(
        self,
        engine: "Engine",
        tokens: Sequence[AddedToken],
        actions: npt.NDArray[np.uint8],
        trie: int,
        contents: dict[int, bytes],
        take_text: Callable[[bytes], None],
        end_text: Callable[[], None],
    ) -> _Finder:
        return _Finder(engine, trie, tokens, contents, actions, take_text, end_text, self._take_token)

    def feed(self, part: Any) -> Ids:
        """The ids, uint32, that are certain with one more part of the text.

        ``part`` is ``str``, or bytes of UTF-8 in any of the forms that ``encode`` takes, which may begin and end inside
        of a character; all parts are of one kind. Anything else raises TypeError, and the stream stands where it
        stood. Raises UnicodeDecodeError where bytes are not UTF-8, and ValueError at a disallowed token, after which,
        as after :meth:`finish`, nothing more can be fed (RuntimeError).
        """
        return _joined(self._feed(part))

    def finish(self) -> Ids:
        """The ids of the rest of the text, which ends here, and of what the template puts after it."""
        return _joined(self._finish())

    def feed_later(self, part: Any, is_end: bool) -> list[Made]:
        """What :meth:`feed` gives, and where ``is_end`` holds :meth:`finish`: arrays of ids and functions, in order.

        A function makes ids when it is called, once, by any thread. So the text is gone through by one thread, which
        is quick, and encoded by others.
        """
        self._pretokens.later = True
        made = self._feed(part)
        return made + self._finish() if is_end else made

    def _feed(self, part: Any) -> list[Made]:
        self._check()
        given = self._checked(part)  # before anything changes
        try:
            data = self._as_utf8(given)
            if data:
                self._waiting.append(data)
                self._size += len(data)
            return self._advance(is_end=False)
        except BaseException:
            self._finished = True
            raise

    def _finish(self) -> list[Made]:
        self._check()
        self._finished = True
        rest = b""
        if self._decoder is not None:
            rest = self._decoded(b"", is_end=True)
        elif self._surrogate:
            rest = repair_surrogates(self._surrogate).encode()
        self._waiting.append(rest)
        return self._advance(is_end=True)

    def copy(self) -> "StreamEncoder":
        """Another stream that has been fed the same: what follows may differ from here on."""
        other = _twin(self)
        other._made, other._waiting = list(self._made), list(self._waiting)
        other._pretokens = self._pretokens.copy()
        other._normalizer = copy.deepcopy(self._normalizer)
        other._inner = self._inner.copy(other._take_piece, other._end_piece, other._take_token)
        other._outer = self._outer.copy(other._take_segment, other._end_segment, other._take_token)
        if self._decoder is not None:
            other._decoder = codecs.getincrementaldecoder("utf-8")(self._errors)
            other._decoder.setstate(self._decoder.getstate())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "StreamEncoder":
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be pickled; pickle its tokenizer, and feed the text so far to a new stream")

    @property
    def kept(self) -> int:
        """About how many bytes are kept back."""
        stages = self._outer.kept + self._inner.kept + self._pretokens.kept + self._size
        return stages if self._normalizer is None else stages + self._normalizer.kept

    @property
    def state(self) -> Hashable:
        """All that the ids of what follows depend on, besides the tokenizer, in a stream of ``str``."""
        normalizer = None if self._normalizer is None else self._normalizer.state
        waiting = b"".join(self._waiting), self._surrogate, self._begun
        return waiting, self._outer.state, normalizer, self._inner.state, self._pretokens.state

    def _check(self) -> None:
        if self._finished:
            raise RuntimeError("this stream has ended; the tokenizer's stream_encoder() begins another")

    def _checked(self, part: Any) -> str | bytes:
        """The part as one of the two kinds, if it is of that of the parts before it."""
        kind = str if isinstance(part, str) else bytes
        if self._kind not in (None, kind):
            raise TypeError(f"the parts of one stream must be all str or all bytes, not {type(part).__name__} now")
        if isinstance(part, str):
            return part
        try:
            return as_bytes(part).tobytes()
        except TypeError:
            raise TypeError(f"a part must be {WANTED}, not {type(part).__name__}") from None

    def _as_utf8(self, part: str | bytes) -> bytes:
        """The UTF-8 of a part, less what may be an open character."""
        if isinstance(part, str):
            self._kind = str
            try:
                if not self._surrogate:
                    return bytes(part, "utf-8")
            except UnicodeEncodeError:
                pass
            text = self._surrogate + part
            self._surrogate = ""
            if text and "\ud800" <= text[-1] < "\udc00":
                text, self._surrogate = text[:-1], text[-1]
            return repair_surrogates(text).encode()
        self._kind = bytes
        if self._decoder is None:
            self._decoder = codecs.getincrementaldecoder("utf-8")(self._errors)
        return self._decoded(part, is_end=False)

    def _decoded(self, data: bytes, is_end: bool) -> bytes:
        """Valid UTF-8 of more bytes."""
        assert self._decoder is not None
        open_character = self._decoder.getstate()[0]
        before = len(open_character)
        if len(data) >= _LONG and not is_end:
            # What is UTF-8 goes on as it is: to decode and encode it took 1 ms a MB, as long as its ids take two cores.
            whole = open_character + data
            end = len(whole) - _open_bytes(whole[-_CHARACTER:])
            if first_invalid(np.frombuffer(whole, np.uint8, end), 1) < 0:
                self._decoder.setstate((whole[end:], 0))
                self._fed += len(data)
                return whole[:end]
        try:
            text = self._decoder.decode(data, is_end)
        except UnicodeDecodeError as error:
            place = self._fed - before + error.start
            error.reason += f', at byte {place} of the stream; errors="replace" would take U+FFFD in its place'
            raise
        self._fed += len(data)
        return text.encode()

    def _advance(self, is_end: bool) -> list[Made]:
        """Let the stages work, if that is worth it; the ids that this gives."""
        if not is_end and self._size < max(_PART, (self.kept - self._size) // _SHARE):
            return []
        data = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        if not self._begun:
            self._begun = True
            self._made.append(self.ends[0])
        try:
            self._outer.feed(data, is_end)
        except DisallowedToken as found:
            token = self._tokens[found.token].content
            raise ValueError(
                f"the text has the disallowed special token {token!r}. To encode it as its id, pass "
                f"allowed_special={{{token!r}}} and leave it out of disallowed_special; to encode it as ordinary text, "
                "pass allowed_special=() and disallowed_special=()"
            ) from None
        self._made += self._pretokens.decided()
        if is_end:
            self._made.append(self.ends[1])
        made, self._made = self._made, []
        return made

    # Between the stages: text of a raw segment, which may go on, and its end; pieces of it between added tokens.

    def _take_segment(self, data: bytes) -> None:
        if self._normalizer is not None:
            data = self._normalizer.feed(data.decode()).encode()
        self._inner.feed(data)

    def _end_segment(self) -> None:
        rest = b"" if self._normalizer is None else self._normalizer.finish().encode()
        self._inner.feed(rest, is_end=True)

    def _take_piece(self, data: bytes) -> None:
        self._pretokens.feed(data)

    def _end_piece(self) -> None:
        self._made += self._pretokens.finish()

    def _take_token(self, index: int) -> None:
        self._made.append(self._ids[index])
