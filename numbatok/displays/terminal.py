"""Tokens as lines of a terminal: coloured, or as a plain table."""

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from numbatok.displays.escapes import is_mark, many, reads_right_to_left, token_text

if TYPE_CHECKING:
    from numbatok.displays.shown import ShownBatch, ShownText, ShownToken

# Backgrounds of the 256-colour palette on which black is easy to read, neighbours far apart in hue.
_BACKGROUNDS = (153, 222, 157, 218, 183)
_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_LEFT_TO_RIGHT_MARK = "\u200e"


def color_wanted(stream: TextIO | None) -> bool:
    """Whether to colour what goes to a stream: as ``NO_COLOR`` or ``FORCE_COLOR`` say, else if it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def text_lines(shown: "ShownText", color: bool, width: int) -> Iterator[str]:
    """The tokens of a text: on backgrounds that alternate, with their ids below and a wider gap between pretokens,
    broken at ``width`` columns; or a line for each, which says its pretoken, its bytes' offsets, its id and its text.
    """
    yield from _colored(shown.tokens, width) if color else _table(shown.tokens)
    if shown.note:
        yield shown.note


def batch_lines(shown: "ShownBatch", color: bool, width: int) -> Iterator[str]:
    """The documents of a batch: each below a line of its own in colours; or one line for each."""
    if not color:
        yield "document  length  tokens"
    for number, tokens, length in shown.documents:
        if color:
            yield f"{_DIM}[{number}] {'null' if tokens is None else many(length, 'id')}{_RESET}"
            yield from _colored(tokens or (), width)
        else:
            quoted = [_quoted(token) for token in tokens or ()]
            quoted += ["null"] if tokens is None else ["..."] if len(quoted) < length else []
            yield f"{number:>8}  {length:>6}  {' '.join(quoted)}".rstrip()
    if shown.note:
        yield shown.note


def _columns(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if is_mark(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _quoted(token: "ShownToken") -> str:
    return f'"{token_text(token.content)}"' if token.is_known else f"<{token.id}>"


def _table(shown: "Sequence[ShownToken]") -> Iterator[str]:
    """A line for each token. The text comes last, so that its width and direction move nothing else."""
    rows = [
        ("-", f"{token.begin}-{token.end}", "-")
        if token.id is None
        else (str(token.pretoken), f"{token.begin}-{token.end}", str(token.id))
        for token in shown
    ]
    heads = ("pretoken", "bytes", "id")
    numbers, places, ids = (max(map(len, column)) for column in zip(heads, *rows, strict=True))
    yield f"{heads[0]:>{numbers}}  {heads[1]:<{places}}  {heads[2]:>{ids}}  token"
    for (number, place, id), token in zip(rows, shown, strict=True):
        yield f'{number:>{numbers}}  {place:<{places}}  {id:>{ids}}  "{token_text(token.content)}"'


def _colored(shown: "Iterable[ShownToken]", width: int) -> Iterator[str]:
    """Pairs of lines, tokens and their ids; a new pair at the terminal's width and after a line feed."""
    above, below, used, previous = "", "", 0, -1
    number = -1
    for token in shown:
        text = token_text(token.content) if token.is_known else f"<{token.id}>"
        id = "" if token.id is None else str(token.id)
        cell = max(_columns(text), len(id))
        gap = 0 if not used else 1 if token.pretoken == previous else 3
        if used and used + gap + cell > width:
            yield above.rstrip()
            yield below.rstrip()
            above, below, used, gap = "", "", 0, 0
        style = _DIM
        if token.id is not None:
            number += 1
            style = f"\x1b[38;5;16;48;5;{_BACKGROUNDS[number % len(_BACKGROUNDS)]}m"
        # The mark keeps a terminal that orders right-to-left text from exchanging this token with its neighbours.
        mark = _LEFT_TO_RIGHT_MARK if reads_right_to_left(text) else ""
        above += f"{' ' * gap}{style}{text}{_RESET}{mark}{' ' * (cell - _columns(text))}"
        below += f"{' ' * gap}{_DIM}{id:<{cell}}{_RESET}"
        used, previous = used + gap + cell, token.pretoken
        if b"\n" in token.content:
            yield above
            yield below
            above, below, used = "", "", 0
    if used:
        yield above
        yield below
