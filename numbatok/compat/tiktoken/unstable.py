"""How a text that breaks off may go on: what ``encode_with_unstable`` gives besides ids."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np

from numbatok.memory import without_collection
from numbatok.patterns import unicode
from numbatok.patterns.fallback import compile_with_regex
from numbatok.patterns.known import walk_of
from numbatok.tokenizer import Tokenizer


def merge_bytes(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of a piece by merging alone, also of bytes that are no text: n log n for n bytes.

    >>> merge_bytes(b"abcab", {b"a": 0, b"b": 1, b"c": 2, b"ab": 3, b"abc": 4})
    [4, 3]
    """
    size = len(piece)
    following = list(range(1, size + 2))  # where the part after the one that begins here begins
    before = list(range(-1, size))
    merged = [False] * (size + 1)  # into the part before
    queue = []  # (rank, begin, end) of two neighbours; one that has changed since is passed over
    for begin in range(size - 1):
        rank = ranks.get(piece[begin : begin + 2])
        if rank is not None:
            queue.append((rank, begin, begin + 2))
    heapify(queue)
    while queue:
        _, begin, end = heappop(queue)
        middle = following[begin]
        if merged[begin] or middle >= size or following[middle] != end:
            continue
        merged[middle] = True
        following[begin] = end
        before[end] = begin
        for first in (before[begin], begin):
            if first >= 0 and (second := following[first]) < size:
                rank = ranks.get(piece[first : following[second]])
                if rank is not None:
                    heappush(queue, (rank, first, following[second]))
    ids = []
    begin = 0
    while begin < size:
        ids.append(ranks[piece[begin : following[begin]]])
        begin = following[begin]
    return ids


def last_piece(tokenizer: Tokenizer, text: str) -> int:
    """The bytes of the last match of a tokenizer's pattern in a text, 0 where there is none."""
    rule = tokenizer._parts.rule
    if tokenizer._regex_rule is None and walk_of(rule) is not None:  # then matches leave no gap
        edges = tokenizer.pretokenize(text).tolist()
        return edges[-1] - edges[-2] if len(edges) > 1 else 0
    starts, dropped = compile_with_regex(rule).cut(text)
    edges = [*starts.tolist(), len(text.encode())]
    kept = np.flatnonzero(~dropped).tolist()
    return edges[kept[-1] + 1] - edges[kept[-1]] if kept else 0


class Completions:
    """Finds the ids that may stand for the unstable end of a text once more follows.

    That is: each token that begins with all of it; for each place in it, what comes of it if a token begins there and
    reaches over its end; and, where it ends in white space, that apart from the rest, as ``\\s+(?!\\S)`` may cut there.

    ``encode_batch`` gives the ids of texts.
    """

    def __init__(
        self,
        ranks: Mapping[bytes, int],
        bytes_of: Mapping[int, bytes],
        encode_batch: Callable[[list[str]], list[list[int]]],
    ) -> None:
        self._ranks = ranks
        self._lengths = {id: len(token) for id, token in bytes_of.items()}
        self._encode_batch = encode_batch
        self._tokens = sorted(ranks)
        self._longest = max(map(len, self._tokens))
        self._spaces = tuple(chr(point).encode() for point in np.flatnonzero(unicode.white_space()).tolist())

    def of(self, unstable: bytes) -> list[list[int]]:
        """The completions of these bytes, each once, in no particular order."""
        return without_collection(lambda: self._completions(unstable)) if unstable else []

    def _completions(self, unstable: bytes) -> list[list[int]]:
        found: set[tuple[int, ...]] = {(self._ranks[token],) for token in self._beginning_with(unstable)}
        texts, encoded = [], []
        for place in range(max(1, len(unstable) - self._longest), len(unstable)):
            for token in self._beginning_with(unstable[place:]):
                whole = unstable[:place] + token
                try:
                    texts.append(whole.decode())
                except UnicodeDecodeError:
                    encoded.append(merge_bytes(whole, self._ranks))
        lengths, size = self._lengths, len(unstable)
        for ids in chain(encoded, self._encode_batch(texts)):
            reached = count = 0
            for id in ids:
                reached += lengths[id]
                count += 1
                if reached >= size:
                    break
            found.add(tuple(ids[:count]))
        space = next((space for space in self._spaces if unstable.endswith(space)), b"")
        if space and len(space) < len(unstable):
            rest = unstable[: -len(space)]
            found.add((*merge_bytes(rest, self._ranks), *merge_bytes(space, self._ranks)))
        return [list(ids) for ids in found]

    def _beginning_with(self, prefix: bytes) -> list[bytes]:
        """The tokens that begin so."""
        first = bisect_left(self._tokens, prefix)
        last = bisect_left(self._tokens, True, first, key=lambda token: not token.startswith(prefix))
        return self._tokens[first:last]
