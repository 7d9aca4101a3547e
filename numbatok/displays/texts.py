"""What :meth:`numbatok.Tokenizer.show` returns."""

import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator

from numbatok.displays.html import batch_html, text_html
from numbatok.displays.shown import ShownBatch, ShownText, ShownToken
from numbatok.displays.terminal import batch_lines, color_wanted, text_lines


class Display(ABC):
    """Tokens to look at. A notebook draws them; ``print`` writes them, in colours where standard output is a terminal.

    ``NO_COLOR`` and ``FORCE_COLOR`` are heeded. To choose: ``to_text(color=False)``; ``_repr_html_()`` is the HTML.

    >>> numbatok.get_encoding("gpt2").show("Hello tokenizer").to_text(color=False).splitlines()[0]
    'pretoken  bytes     id  token'
    """

    @abstractmethod
    def _lines(self, color: bool, width: int) -> Iterator[str]: ...

    @abstractmethod
    def _repr_html_(self) -> str: ...

    def to_text(self, *, color: bool | None = None, width: int | None = None) -> str:
        """What ``print`` writes, as a ``str`` of lines that end in a newline.

        ``color`` is whether to colour it, by default as standard output wants it; coloured lines are broken at
        ``width`` columns, by default the terminal's, those of a plain table are not.
        """
        if color is None:
            color = color_wanted(sys.stdout)
        if width is None:
            width = shutil.get_terminal_size().columns
        return "".join(line + "\n" for line in self._lines(color, width))

    def __repr__(self) -> str:
        return self.to_text().removesuffix("\n")


class TextDisplay(Display):
    """The tokens of a text."""

    def __init__(self, shown: ShownText) -> None:
        self._shown = shown

    @property
    def tokens(self) -> list[ShownToken]:
        """The tokens that are shown, :class:`numbatok.displays.shown.ShownToken` s."""
        return self._shown.tokens

    def _lines(self, color: bool, width: int) -> Iterator[str]:
        return text_lines(self._shown, color, width)

    def _repr_html_(self) -> str:
        return text_html(self._shown)


class BatchDisplay(Display):
    """The tokens of documents of ids."""

    def __init__(self, shown: ShownBatch) -> None:
        self._shown = shown

    def _lines(self, color: bool, width: int) -> Iterator[str]:
        return batch_lines(self._shown, color, width)

    def _repr_html_(self) -> str:
        return batch_html(self._shown, decoded=True)
