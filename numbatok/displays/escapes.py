r"""What stands for characters and bytes that cannot be shown as they are.

Control, format and bidirectional characters, lone bytes and invisible signs are shown as escapes (``\n``, ``\x1b``,
``\u202e``). So are combining marks that have no character of their token to stand on, or are many: they would be drawn
over what is around them.
"""

import unicodedata
from collections.abc import Iterator

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = (
    "\u115f\u1160\u2800\u3164\uffa0"  # that Python takes for printable: Hangul fillers and an empty Braille cell
)
_MOST_MARKS = 4  # on one character; pointed Hebrew has three

#: Bytes of one token that are shown, the rest being told by its number.
MOST_BYTES = 120


def printable(text: str) -> str:
    r"""A string on one line, in which every character that a terminal may obey or not show is an escape.

    Lone bytes, as ``surrogateescape`` leaves them in file names, are shown as bytes.

    >>> printable("a\x1b[2J\udcff.txt")
    'a\\x1b[2J\\xff.txt'
    """
    if text.isprintable() and not any(character in text for character in _INVISIBLE):
        return text
    return "".join(c if _is_visible(c) else _escape(c) for c in text)


def _is_visible(character: str) -> bool:
    return character.isprintable() and character not in _INVISIBLE


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
    return "".join(run for run, _ in token_runs(token))


def token_runs(token: bytes) -> Iterator[tuple[str, bool]]:
    r"""What :func:`token_text` joins: (run, whether it is escapes), each as long as can be.

    Of a token of more than ``MOST_BYTES`` bytes the beginning is shown, and how many bytes are left out.

    >>> list(token_runs(b"a\n\x00b"))
    [('a', False), ('\\n\\x00', True), ('b', False)]
    """
    head = token
    if len(token) > MOST_BYTES:
        end = MOST_BYTES
        while end > MOST_BYTES - 3 and token[end] & 0xC0 == 0x80:
            end -= 1
        head = token[:end]
    run, escaped, marks = "", False, _MOST_MARKS  # no mark at the start
    for character in head.decode("utf-8", "surrogateescape"):
        marks = marks + 1 if is_mark(character) else 0
        plain = _is_visible(character) and character != "\\" and marks <= _MOST_MARKS
        if not plain:
            marks = _MOST_MARKS  # nor after an escape
        if run and escaped == plain:
            yield run, escaped
            run = ""
        escaped = not plain
        run += character if plain else "\\\\" if character == "\\" else _escape(character)
    if run:
        yield run, escaped
    if len(head) < len(token):
        yield f"...{len(token) - len(head):,} more bytes", True


def is_mark(character: str) -> bool:
    """Whether a character is drawn on the one before it."""
    return unicodedata.category(character) in ("Mn", "Me")


def reads_right_to_left(text: str) -> bool:
    """Whether any of a text is written from right to left."""
    return not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)


def many(count: int, noun: str) -> str:
    """A number of things: "1 token", "1,234 tokens"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
