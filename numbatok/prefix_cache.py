"""Texts that grow: the ids of one that extends an earlier one, by encoding only what is new.

What an earlier text has come to is kept as a stream that has been fed all of it (:mod:`numbatok.streams`): its ids that
no continuation can change, and the rest, some hundred bytes, still open. A longer text goes on from a copy of that.
"""

import itertools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from numbatok.ids import Ids
from numbatok.rows import checked_number

if TYPE_CHECKING:
    from numbatok.streams import StreamEncoder
    from numbatok.tokenizer import Tokenizer

LEAST = 256  # characters; a shorter text is encoded sooner than it is looked for
MOST_ALIKE = 64  # texts that begin alike and are compared with a new one
_STATE_BYTES = 4096  # that a stream takes, about


class PrefixCacheInfo(NamedTuple):
    """What :attr:`PrefixCache.info` tells.

    Attributes
    ----------
    texts, bytes : how many texts are remembered, and the memory that they take
    hits, misses : calls whose text repeated or extended one, and those whose text did not
    reused, encoded : characters that were not encoded again, and those that were

    >>> numbatok.get_encoding("gpt2").with_prefix_cache(64 << 20).info
    PrefixCacheInfo(texts=0, bytes=0, hits=0, misses=0, reused=0, encoded=0)
    """

    texts: int
    bytes: int
    hits: int
    misses: int
    reused: int
    encoded: int


class _Entry(NamedTuple):
    number: int  # a dictionary would hash a text, which takes as long as a third of encoding it
    text: str
    stream: "StreamEncoder"
    ids: tuple[Ids, ...]  # that the stream has given, joined; those of a shorter text are shared with its entry

    @property
    def size(self) -> int:
        return self.text.__sizeof__() + sum(part.nbytes for part in self.ids) + _STATE_BYTES


def _joined(parts: list[Ids]) -> Ids:
    """The ids of parts in a new array.

    Its memory has one of few sizes, and the allocator gives that of a result that is gone again. Fresh memory, of a
    size that is new each time, took longer than all else that an extended text takes.
    """
    count = sum(map(len, parts))
    step = max(1 << (count.bit_length() - 3), 1 << 10) if count > 3 else 1
    ids: Ids = np.empty(-(-count // step) * step, np.uint32)[:count]
    return np.concatenate(parts, out=ids)


def _begins_with(text: str, beginning: str) -> bool:
    """Whether a text begins so. Texts that part late are told apart by the end of the beginning first.

    The fortieth that goes on from one prompt of 1 MB took 1.5 ms otherwise, more than the first; so all take 0.45.
    """
    place = max(len(beginning) - LEAST, 0)
    return text.startswith(beginning[place:], place) and text.startswith(beginning)


class PrefixCache:
    """Encodes texts of which many begin with one before; made by :meth:`numbatok.Tokenizer.with_prefix_cache`.

    The ids are those of :meth:`numbatok.Tokenizer.encode`. Any number of threads may use one at once. The texts that
    were used least recently are forgotten where there is no more room.

    >>> chat = numbatok.get_encoding("gpt2").with_prefix_cache(64 << 20)
    >>> first, both = chat.encode("Hello world. " * 100), chat.encode("Hello world. " * 101)
    >>> chat.info.reused, chat.info.encoded
    (1300, 1313)
    """

    def __init__(self, tokenizer: "Tokenizer", max_bytes: int, add_special_tokens: bool) -> None:
        self.tokenizer = tokenizer
        self.max_bytes = checked_number("max_bytes", max_bytes, 0)
        self._special = add_special_tokens
        self._fresh = tokenizer.stream_encoder(add_special_tokens=add_special_tokens)
        self._nothing: tuple[Ids, ...] = ()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()  # by number, the one used last at the end
        self._alike: dict[str, list[_Entry]] = {}  # those whose texts begin with these characters, the longest first
        self._bytes = self._hits = self._misses = self._reused = self._encoded = 0

    def __repr__(self) -> str:
        return f"<numbatok.PrefixCache of {self.tokenizer!r}: {len(self._entries)} texts, {self._bytes} bytes>"

    def encode(self, text: str) -> Ids:
        """The ids of a text, uint32, in a new array; TypeError for what is no ``str``."""
        return _joined(self._made(text))

    def count(self, text: str) -> int:
        """How many ids :meth:`encode` gives, without joining them."""
        return sum(map(len, self._made(text)))

    def _made(self, text: str) -> list[Ids]:
        """The ids of a text, in parts that others share."""
        if not isinstance(text, str):
            raise TypeError(f"text must be str, not {type(text).__name__}; the tokenizer's encode takes bytes too")
        if len(text) < LEAST:
            return [self.tokenizer.encode(text, add_special_tokens=self._special)]
        entry = self._longest_prefix(text)
        stream, ids, rest = self._fresh, self._nothing, text
        if entry is not None:
            stream, ids, rest = entry.stream, entry.ids, text[len(entry.text) :]
        stream = stream.copy()
        if rest:
            ids = (*ids, stream.feed(rest))
            self._remember(_Entry(next(self._numbers), text, stream.copy(), ids))
        return [*ids, stream.finish()]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, it is one that remembers nothing."""
        return PrefixCache, (self.tokenizer, self.max_bytes, self._special)

    def clear(self) -> None:
        """Forget all texts, and count anew."""
        with self._lock:
            self._entries.clear()
            self._alike.clear()
            self._bytes = self._hits = self._misses = self._reused = self._encoded = 0

    @property
    def info(self) -> PrefixCacheInfo:
        """What is remembered, and what that has saved."""
        with self._lock:
            counts = self._hits, self._misses, self._reused, self._encoded
            return PrefixCacheInfo(len(self._entries), self._bytes, *counts)

    def _longest_prefix(self, text: str) -> _Entry | None:
        """The longest remembered text that this one begins with."""
        with self._lock:
            candidates = list(self._alike.get(text[:LEAST], ()))
        entry = next((known for known in candidates if _begins_with(text, known.text)), None)
        with self._lock:
            if entry is None:
                self._misses += 1
                self._encoded += len(text)
            else:
                if entry.number in self._entries:
                    self._entries.move_to_end(entry.number)
                self._hits += 1
                self._reused += len(entry.text)
                self._encoded += len(text) - len(entry.text)
            return entry

    def _remember(self, entry: _Entry) -> None:
        if entry.size > self.max_bytes:
            return
        with self._lock:
            alike = self._alike.setdefault(entry.text[:LEAST], [])
            if any(len(known.text) == len(entry.text) and _begins_with(entry.text, known.text) for known in alike):
                return  # another thread was sooner
            self._entries[entry.number] = entry
            self._bytes += entry.size
            alike.append(entry)
            alike.sort(key=lambda known: len(known.text), reverse=True)
            if len(alike) > MOST_ALIKE:
                by_number = {known.number: known for known in alike}
                self._forget(next(by_number[number] for number in self._entries if number in by_number))
            while self._bytes > self.max_bytes:
                self._forget(next(iter(self._entries.values())))

    def _forget(self, entry: _Entry) -> None:
        del self._entries[entry.number]
        self._bytes -= entry.size
        beginning = entry.text[:LEAST]
        alike = [known for known in self._alike[beginning] if known is not entry]
        if alike:
            self._alike[beginning] = alike
        else:
            del self._alike[beginning]
