"""The steps of a decoder at work on strings that come one by one; see :mod:`numbatok.decoders`."""

from abc import ABC, abstractmethod

from numbatok import decoders
from numbatok.decoders import Decoder
from numbatok.normalizers.streaming import Replacing


class Stage(ABC):
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


class _Each(Stage):
    """A step that changes each string by itself."""

    def __init__(self, step: decoders.Step) -> None:
        self._step = step

    def feed(self, strings: list[str]) -> list[str]:
        return self._step.apply(strings)


class Bytes(Stage):
    """Byte tokens in a row: whether they are UTF-8 is known at their end."""

    def __init__(self) -> None:
        self._step = decoders.ByteFallback()
        self.run: list[str] = []

    def feed(self, strings: list[str]) -> list[str]:
        """See :class:`Stage`."""
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
        """See :class:`Stage`."""
        run, self.run = self.run, []
        return self._step.apply(run)


class _Passing(Stage):
    """A step that changes nothing of what is joined in the end."""

    idle = True

    def feed(self, strings: list[str]) -> list[str]:
        return strings


class _FirstApart(Stage):
    """A Metaspace: the first string loses its replacements, where one was put before the text."""

    def __init__(self, step: decoders.Metaspace) -> None:
        self._step = step
        self._begun = False

    def feed(self, strings: list[str]) -> list[str]:
        if self._begun or not strings:
            return [string.replace(self._step.replacement, " ") for string in strings]
        self._begun = True
        return self._step.apply(strings)


class _LastApart(Stage):
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


class _Between(Stage):
    """Spaced: a blank before each string but the first."""

    def __init__(self) -> None:
        self._begun = False

    def feed(self, strings: list[str]) -> list[str]:
        begun, self._begun = self._begun, self._begun or bool(strings)
        return [string if number == 0 and not begun else " " + string for number, string in enumerate(strings)]


# After Fuse or Spaced there is one string, which comes in parts.


class _PartsReplaced(Stage):
    def __init__(self, old: str, new: str) -> None:
        self._replacing = Replacing(old, new)

    def feed(self, strings: list[str]) -> list[str]:
        return [self._replacing.feed("".join(strings))]

    def finish(self) -> list[str]:
        return [self._replacing.finish()]


class _PartsStripped(Stage):
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


class _PartsAsByte(Stage):
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


def stages_of(decoder: Decoder) -> list[Stage]:
    """The steps of a decoder at work."""
    made: list[Stage] = []
    is_one = False
    for step in decoder:
        if isinstance(step, decoders.Spaced):
            made.append(_Passing() if is_one else _Between())
        elif isinstance(step, decoders.Fuse):
            made.append(_Passing())
        elif isinstance(step, decoders.ByteFallback):
            made.append(_PartsAsByte() if is_one else Bytes())
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
