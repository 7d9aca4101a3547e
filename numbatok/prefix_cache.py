"""Texts that grow: the ids of one that extends an earlier one, by encoding only what is new.

Of an earlier text the ids are kept up to a pretoken that begins there whatever follows, and the characters before it,
to be compared. A longer text is encoded from that place on: with what is new the last few thousand characters at most
of what was known, which takes less time than finding a later place for every text. Where texts are normalized, or
tokens are not parts of them, a stream is kept instead that has been fed all (:mod:`numbatok.streams`), and a longer
text goes on from a copy of that.

So a long text that is known is read once, and its ids are copied; the rest is constant.
"""

import bisect
import itertools
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.counting import Bytes, characters_before, is_local, settle
from numbatok.ids import Ids
from numbatok.kernels import packed
from numbatok.memory import address_of, bytes_at
from numbatok.rows import checked_number

if TYPE_CHECKING:
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.streams import StreamEncoder
    from numbatok.tokenizer import Tokenizer

LEAST = 256  # characters; a shorter text is encoded sooner than it is looked for
MOST_ALIKE = 64  # texts that begin alike and are compared with a new one
OPEN = 8192  # characters behind a known place that are encoded again, before a later place is looked for
_STATE_BYTES = 4096  # that an entry takes besides, about


class PrefixCacheInfo(NamedTuple):
    """What :attr:`PrefixCache.info` tells.

    Attributes
    ----------
    texts, bytes : how many texts are remembered, and the memory that they take
    hits, misses : calls whose text repeated or extended one, and those whose text did not
    reused, encoded : characters that were part of a remembered text, and those that were new

    >>> numbatok.get_encoding("gpt2").with_prefix_cache(64 << 20).info
    PrefixCacheInfo(texts=0, bytes=0, hits=0, misses=0, reused=0, encoded=0)
    """

    texts: int
    bytes: int
    hits: int
    misses: int
    reused: int
    encoded: int


class _Part(NamedTuple):
    """The characters of a part of a text, see :mod:`numbatok.kernels.packed`, and its ids."""

    length: int  # characters
    widths: npt.NDArray[np.uint8]
    characters: npt.NDArray[np.uint8]
    ids: Ids

    @property
    def size(self) -> int:
        return self.widths.nbytes + self.characters.nbytes + self.ids.nbytes


class _Entry(NamedTuple):
    number: int
    beginning: str  # LEAST characters; a dictionary would hash a text, which takes as long as a third of encoding it
    parts: tuple[_Part, ...]  # up to the place from which others go on; shared with entries that do
    place: int  # in characters
    rest: str  # the characters behind it
    length: int  # of all
    stream: "StreamEncoder | None"  # that has been fed all before the place, where that must be known to go on

    @property
    def size(self) -> int:
        return self.rest.__sizeof__() + sum(part.size for part in self.parts) + _STATE_BYTES

    def begins(self, text: str) -> bool:
        """Whether a text begins with all of this one. Texts that part late are told apart by the end first."""
        if len(text) < self.length or not text.startswith(self.rest, self.place):
            return False
        begin = self.place
        for part in reversed(self.parts):
            begin -= part.length
            addresses = address_of(part.widths), address_of(part.characters)
            if not packed.has_packed(id(text), begin, part.length, *addresses):
                return False
        return True


def _extended(parts: tuple[_Part, ...], text: str, begin: int, end: int, ids: Ids) -> tuple[_Part, ...]:
    """The parts of a text up to ``begin``, and another with its characters and ids from there to ``end``.

    That takes in those before it that are less than twice as long: so there are few, however often a text grows, and
    what is copied in all is a small multiple of the text.
    """
    kept, joined = list(parts), [ids]
    while kept and kept[-1].length < 2 * (end - begin):
        part = kept.pop()
        begin -= part.length
        joined.insert(0, part.ids)
    length = end - begin
    widths, characters = np.empty(-(-length // packed.PACKED_BLOCK), np.uint8), np.empty(length, np.uint32)
    used = packed.pack_characters(id(text), begin, length, address_of(widths), address_of(characters))
    return *kept, _Part(length, widths, characters.view(np.uint8)[:used].copy(), np.concatenate(joined))


def _joined(parts: list[Ids]) -> Ids:
    """The ids of parts in a new array.

    Its memory has one of few sizes, and the allocator gives that of a result that is gone again. Fresh memory, of a
    size that is new each time, took longer than all else that an extended text takes.
    """
    count = sum(map(len, parts))
    step = max(1 << (count.bit_length() - 3), 1 << 10) if count > 3 else 1
    ids: Ids = np.empty(-(-count // step) * step, np.uint32)[:count]
    return np.concatenate(parts, out=ids)


def _again(tokenizer: "Tokenizer", max_bytes: int, add_special_tokens: bool) -> "PrefixCache":
    return tokenizer.with_prefix_cache(max_bytes, add_special_tokens=add_special_tokens)


class PrefixCache:
    """Encodes texts of which many begin with one before; made by :meth:`numbatok.Tokenizer.with_prefix_cache`.

    The ids are those of :meth:`numbatok.Tokenizer.encode`. Any number of threads may use one at once. The texts that
    were used least recently are forgotten where there is no more room.

    >>> chat = numbatok.get_encoding("gpt2").with_prefix_cache(64 << 20)
    >>> first, both = chat.encode("Hello world. " * 100), chat.encode("Hello world. " * 101)
    >>> chat.info.reused, chat.info.encoded
    (1300, 1313)
    """

    def __init__(
        self,
        tokenizer: "Tokenizer",
        engine: "Engine",
        parts: "Parts",
        stream: "StreamEncoder",
        max_bytes: int,
        add_special_tokens: bool,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_bytes = checked_number("max_bytes", max_bytes, 0)
        self._special = add_special_tokens
        self._engine, self._parts = engine, parts
        goes_on = is_local(engine, parts, None)
        self._before, self._after = stream.ends
        self._nothing = _Entry(-1, "", (), 0, "", 0, None if goes_on else stream)
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
        known = self._longest_prefix(text) or self._nothing
        entry, rest = self._gone_on(known, text) if known.stream is None else self._fed(known, known.stream, text)
        if len(text) > known.length:
            self._remember(entry, text)
        ids = [*(part.ids for part in entry.parts), rest]
        return [self._before, *ids, self._after] if entry.stream is None else ids

    def _gone_on(self, known: _Entry, text: str) -> tuple[_Entry, Ids]:
        """The entry of a text that begins with a known one, and the ids behind its place."""
        parts, place, rest = known.parts, known.place, text[known.place :]
        found = self._encode_settled(rest) if len(rest) > OPEN else None
        if found is None:
            ids = self.tokenizer.encode(rest, add_special_tokens=False)
        else:
            ids, tokens, length = found
            parts = _extended(parts, text, place, place + length, ids[:tokens])
            place, rest, ids = place + length, rest[length:], ids[tokens:]
        return _Entry(next(self._numbers), text[:LEAST], parts, place, rest, len(text), None), ids

    def _encode_settled(self, text: str) -> tuple[Ids, int, int] | None:
        """(ids, tokens, characters) of a text and of that part of it behind which others may go on.

        None where there is no such part, as in one long pretoken, or where the text has lone surrogates.
        """
        kept: list[Any] = []
        addresses, lengths = self._engine.placer.place_all([text], "strict", kept)
        if kept and isinstance(kept[0], str):  # what CPython counts is not what is encoded
            return None
        data = bytes_at(int(addresses[0]), int(lengths[0]))
        with self._engine.scratch() as scratch:
            scratch.set_actions(self._engine.everything_allowed)
            local = Bytes(self._engine, self._parts, scratch, data)
            traced = local.traced(0, local.size)
            place, tokens = local.last_settled(traced.ids, *traced.settled, local.size)
            ids = traced.ids.copy()  # of the scratch's memory, which it is given back with
            settle(scratch)
        if place == 0:
            return None
        return ids, tokens, int(characters_before(local.address, np.array([place], np.int64))[0])

    def _fed(self, known: _Entry, stream: "StreamEncoder", text: str) -> tuple[_Entry, Ids]:
        """What :meth:`_gone_on` gives, by a stream that has been fed the known text."""
        stream = stream.copy()
        entry = known
        if len(text) > known.length:
            ids = stream.feed(text[known.place :])
            parts = _extended(known.parts, text, known.place, len(text), ids)
            entry = _Entry(next(self._numbers), text[:LEAST], parts, len(text), "", len(text), stream.copy())
        return entry, stream.finish()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, and copied, it is one that remembers nothing."""
        return _again, (self.tokenizer, self.max_bytes, self._special)

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
        entry = next((known for known in candidates if known.begins(text)), None)
        with self._lock:
            if entry is None:
                self._misses += 1
                self._encoded += len(text)
            else:
                if entry.number in self._entries:
                    self._entries.move_to_end(entry.number)
                self._hits += 1
                self._reused += entry.length
                self._encoded += len(text) - entry.length
            return entry

    def _remember(self, entry: _Entry, text: str) -> None:
        size = entry.size
        if size > self.max_bytes:
            return
        with self._lock:
            alike = self._alike.setdefault(entry.beginning, [])
            place = bisect.bisect_left(alike, -entry.length, key=lambda known: -known.length)
            for known in itertools.islice(alike, place, None):
                if known.length != entry.length:
                    break
                if known.begins(text):
                    return  # another thread was sooner
            self._entries[entry.number] = entry
            self._bytes += size
            alike.insert(place, entry)
            if len(alike) > MOST_ALIKE:
                by_number = {known.number: known for known in alike}
                self._forget(next(by_number[number] for number in self._entries if number in by_number))
            while self._bytes > self.max_bytes:
                self._forget(next(iter(self._entries.values())))

    def _forget(self, entry: _Entry) -> None:
        del self._entries[entry.number]
        self._bytes -= entry.size
        alike = [known for known in self._alike[entry.beginning] if known is not entry]
        if alike:
            self._alike[entry.beginning] = alike
        else:
            del self._alike[entry.beginning]
