r"""What a tokenizer makes of a text, for people to read: pretokens, tokens and ids, coloured or as a plain table.

A text can hold anything, so nothing of it reaches a terminal that a terminal could obey: control, format and
bidirectional characters, lone bytes and invisible spaces are shown as escapes (``\n``, ``\x1b``, ``\u202e``).
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from numbatok.added_tokens import AllowedSpecial
    from numbatok.ids import Ids
    from numbatok.text import Text
    from numbatok.tokenizer import Tokenizer

#: Tokens shown of a text unless the caller says otherwise.
LIMIT = 200

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Backgrounds of the 256-colour palette on which black is easy to read, neighbours far apart in hue.
_BACKGROUNDS = (153, 222, 157, 218, 183)
_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_LEFT_TO_RIGHT_MARK = "\u200e"


class ShownToken(NamedTuple):
    """One token of a text."""

    pretoken: int  # number of its pretoken, from 0; an added token in the text is a pretoken of its own
    begin: int  # byte offsets into the text's UTF-8
    end: int
    id: int
    content: bytes


def printable(text: str) -> str:
    r"""A string on one line, in which every character that a terminal may obey or not show is an escape.

    Lone bytes, as ``surrogateescape`` leaves them in file names, are shown as bytes.

    >>> printable("a\x1b[2J\udcff.txt")
    'a\\x1b[2J\\xff.txt'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    elif code >= 0x80:
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return f"\\x{code:02x}"


def token_text(token: bytes) -> str:
    r"""A token's bytes on one line: text as it is, ``\xNN`` for bytes that are no text, backslashes doubled.

    >>> token_text(b" caf\xc3\xa9"), token_text(b"\xf0\x9f"), token_text(b"\\\n")
    (' café', '\\xf0\\x9f', '\\\\\\n')
    """
    text = token.decode("utf-8", "surrogateescape").replace("\\", "\\\\")
    # A combining mark at the start would sit on whatever stands before the token.
    if text and _is_mark(text[0]):
        return _escape(text[0]) + printable(text[1:])
    return printable(text)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Me")


def _columns(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if _is_mark(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _reads_right_to_left(text: str) -> bool:
    return not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)


def color_wanted(stream: TextIO) -> bool:
    """Whether to colour what goes to a stream: as ``NO_COLOR`` or ``FORCE_COLOR`` say, else if it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_terminal(
    tokenizer: "Tokenizer",
    text: "Text",
    *,
    color: bool = False,
    width: int = 80,
    limit: int | None = LIMIT,
    allowed_special: "AllowedSpecial" = "all",
    disallowed_special: "AllowedSpecial" = (),
) -> str:
    """The pretokens and tokens of a text, as lines that end in a newline.

    Parameters
    ----------
    tokenizer : the tokenizer
    text : what :meth:`Tokenizer.encode` takes
    color : whether to write tokens on alternating backgrounds, in lines, with their ids below and a wider gap between
        pretokens; otherwise a table with a line for each token: the number of its pretoken, its bytes' offsets, its id
        and its text
    width : columns of the terminal; coloured lines are broken there, a table's are not
    limit : tokens to show, or None for all; a last line says how many were left out
    allowed_special : as :meth:`Tokenizer.encode` has it
    disallowed_special : likewise; the exceptions are those of ``encode``

    >>> print(show_terminal(numbatok.get_encoding("gpt2"), "Hello tokenizer"), end="")
    pretoken  bytes     id  token
           0  0-5    15496  "Hello"
           1  5-11   11241  " token"
           1  11-15   7509  "izer"
    """
    from numbatok.text import as_bytes, repair_surrogates

    data = memoryview(repair_surrogates(text).encode()) if isinstance(text, str) else as_bytes(text).data
    # Ids that a template puts around a text stand for none of its bytes.
    ids = tokenizer.encode(
        data, add_special_tokens=False, allowed_special=allowed_special, disallowed_special=disallowed_special
    )
    special = tokenizer.special_tokens if allowed_special == "all" else allowed_special
    shown = list(islice(_tokens(tokenizer, data, ids, frozenset(special), limit), limit))
    lines = list(_colored(shown, width) if color else _table(shown))
    if len(shown) < len(ids):
        rest = len(data) - (shown[-1].end if shown else 0)
        lines.append(f"... {_many(len(ids) - len(shown), 'more token')}, {_many(rest, 'byte')} (limit {limit})")
    return "".join(line + "\n" for line in lines)


def _tokens(
    tokenizer: "Tokenizer", data: memoryview, ids: "Ids", special: frozenset[str], limit: int | None
) -> Iterator[ShownToken]:
    """The tokens of ``data``, which are ``ids``, at least ``limit`` of them; ``special`` are those looked for."""
    import numpy as np

    added = {
        token.id: token.content for token in tokenizer.added_tokens if not token.special or token.content in special
    }
    pretoken = begin = first = 0
    for place in [*np.flatnonzero(np.isin(ids, list(added))).tolist(), len(ids)]:
        # The split rule is given what stands between two added tokens.
        ordinary = ids[first:place]
        length = len(tokenizer.decode_bytes(ordinary)) if place < len(ids) else len(data) - begin
        boundaries = begin + tokenizer.pretokenize(data[begin : begin + length])
        ends = set(boundaries[: None if limit is None else limit + 1].tolist())
        for id in [*ordinary[:limit].tolist(), *ids[place : place + 1].tolist()]:
            content = added[id].encode() if id in added else tokenizer.id_to_token(id) or b""
            yield ShownToken(pretoken, begin, begin + len(content), id, content)
            begin += len(content)
            pretoken += begin in ends or id in added
        first = place + 1


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _table(shown: Iterable[ShownToken]) -> Iterator[str]:
    """A line for each token. The text comes last, so that its width and direction move nothing else."""
    rows = [(str(token.pretoken), f"{token.begin}-{token.end}", str(token.id)) for token in shown]
    heads = ("pretoken", "bytes", "id")
    numbers, places, ids = (max(map(len, column)) for column in zip(heads, *rows, strict=True))
    yield f"{heads[0]:>{numbers}}  {heads[1]:<{places}}  {heads[2]:>{ids}}  token"
    for (number, place, id), token in zip(rows, shown, strict=True):
        yield f'{number:>{numbers}}  {place:<{places}}  {id:>{ids}}  "{token_text(token.content)}"'


def _colored(shown: Iterable[ShownToken], width: int) -> Iterator[str]:
    """Pairs of lines, tokens and their ids; a new pair at the terminal's width and after a line feed."""
    above, below, used, previous = "", "", 0, -1
    for number, token in enumerate(shown):
        text, id = token_text(token.content), str(token.id)
        cell = max(_columns(text), len(id))
        gap = 0 if not used else 1 if token.pretoken == previous else 3
        if used and used + gap + cell > width:
            yield above.rstrip()
            yield below.rstrip()
            above, below, used, gap = "", "", 0, 0
        # The mark keeps a terminal that orders right-to-left text from exchanging this token with its neighbours.
        mark = _LEFT_TO_RIGHT_MARK if _reads_right_to_left(text) else ""
        padding = " " * (cell - _columns(text))
        above += (
            f"{' ' * gap}\x1b[38;5;16;48;5;{_BACKGROUNDS[number % len(_BACKGROUNDS)]}m{text}{_RESET}{mark}{padding}"
        )
        below += f"{' ' * gap}{_DIM}{id:<{cell}}{_RESET}"
        used, previous = used + gap + cell, token.pretoken
        if b"\n" in token.content:
            yield above
            yield below
            above, below, used = "", "", 0
    if used:
        yield above
        yield below
