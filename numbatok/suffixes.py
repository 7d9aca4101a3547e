"""How many tokens the suffixes of a text have, where parts are counted whole: see :mod:`numbatok.counting`.

The text is fed to a stream once. A suffix is fed to one of its own, until that stands as another does of which it is
known how many tokens follow: streams that stand alike at one place of a text give the same ids from there on. Most do
after a few hundred characters.
"""

from collections.abc import Hashable
from typing import NamedTuple

from numbatok.streams import StreamEncoder

STRIDE = 512  # characters between the places where streams are compared
LAST_PART = 256  # characters of the last part before such a place: of fewer a stream may only take note
TRIES = 8  # places where a suffix is compared
MOST_KEPT = 1 << 16  # bytes: streams that keep more of the text back are no use, and their copies take much memory


class Fed(NamedTuple):
    """A stream that has been fed the beginning of a text."""

    place: int  # up to where, in characters
    tokens: int  # how many are certain
    stream: StreamEncoder

    def extended(self, part: str) -> "Fed":
        """Another one that has been fed more."""
        stream = self.stream.copy()
        return Fed(self.place + len(part), self.tokens + len(stream.feed(part)), stream)

    def count_with(self, part: str) -> int:
        """How many tokens the text has if it ends after another part."""
        fed = self.extended(part)
        return fed.tokens + len(fed.stream.finish())


class Suffixes:
    """The suffixes of a text, by copies of a stream that has been fed nothing."""

    def __init__(self, text: str, stream: StreamEncoder, size: int) -> None:
        self._text, self._stream = text, stream
        self._fed = [Fed(0, 0, stream)]  # the text, after parts of ``size`` characters
        self._total = 0
        self._known: dict[int, dict[Hashable, int]] = {}  # by place: tokens that follow, by where a stream stands
        self.are_told = True  # whether streams are of use
        while self._fed[-1].place < len(text):
            last = self._fed[-1]
            self._fed.append(last.extended(text[last.place : last.place + size]))
            if self._fed[-1].stream.kept > MOST_KEPT:
                self.are_told = False
                return
        self._total = self._fed[-1].count_with("")

    def _fed_before(self, place: int) -> Fed:
        """The text fed up to a place, or before it."""
        size = self._fed[1].place if len(self._fed) > 1 else 1
        return self._fed[min(place // size, len(self._fed) - 1)]

    def near(self, room: int) -> int:
        """About where the suffix of ``room`` tokens begins."""
        gone = self._total - room
        number = next((n for n, fed in enumerate(self._fed) if fed.tokens > gone), len(self._fed)) - 1
        last = self._fed[max(number, 0)]
        while last.place < len(self._text):
            following = last.extended(self._text[last.place : last.place + STRIDE])
            if following.tokens > gone:
                break
            last = following
        return last.place

    def count(self, begin: int) -> int | None:
        """How many tokens the text has from a character on; None if no stream comes to stand alike."""
        text = self._text
        stream, tokens, place = self._stream.copy(), 0, begin
        passed: list[tuple[int, Hashable, int]] = []
        first = (begin // STRIDE + 2) * STRIDE
        for stop in range(first, first + TRIES * STRIDE, STRIDE):
            if stop >= len(text):
                return tokens + len(stream.feed(text[place:])) + len(stream.finish())
            tokens += len(stream.feed(text[place:stop]))
            place = stop
            following = self._following(stop).get(stream.state)
            if following is not None:
                for earlier, state, before in passed:
                    self._known[earlier][state] = following + tokens - before
                return tokens + following
            passed.append((stop, stream.state, tokens))
        return None

    def _following(self, place: int) -> dict[Hashable, int]:
        """How many tokens follow at a place of the text, by where a stream stands."""
        if place not in self._known:
            text = self._text
            begin = place - LAST_PART
            last = self._fed_before(begin)
            fed = last.extended(text[last.place : begin]).extended(text[begin:place])
            self._known[place] = {fed.stream.state: self._total - fed.tokens}
        return self._known[place]
