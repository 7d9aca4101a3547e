r"""Regular expressions as Oniguruma reads them, which tokenizer files are written for, and as this package does.

The package's patterns mean what they mean to tiktoken. Nearly all of the two languages is the same. What differs:

============  ================================  =======================================
              Oniguruma (tokenizers)            fancy-regex (tiktoken), this package
============  ================================  =======================================
``$``         before any U+000A, and at the end  at the end of the text
``^``         after any U+000A, and at the start  at the start of the text
``x{n,m}+``   ``(?:x{n,m})+``                   possessive
``x{n}?``     ``(?:x{n})?``                     lazy
``x{,m}``     ``x{0,m}``                        the literal text
``(?m:``      ``.`` matches U+000A              ``^`` and ``$`` are about lines
============  ================================  =======================================
"""

import re
from collections.abc import Iterator

_PART = re.compile(
    r"(?P<escape>\\[pPx]\{[^}]*\}|\\.)|(?P<group>\(\?[a-zA-Z-]+[:)]|\(\?(?:<?[=!]|[:>])|\()|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{(?:\d+(?:,\d*)?|,\d+)\})|(?P<open>\[)|(?P<bar>\|)|(?P<character>.)",
    re.DOTALL,
)


def from_oniguruma(pattern: str) -> str:
    r"""The pattern of this package that matches what Oniguruma's does.

    >>> from_oniguruma(r"\s+$|\p{N}{1,3}+")
    '\\s+(?![^\\n])|(?:\\p{N}{1,3})+'
    """
    return _translate(pattern, {"$": r"(?![^\n])", "^": r"(?<![^\n])"}, ("m", "s"), _spread)


def to_oniguruma(pattern: str) -> str:
    r"""The pattern that is to Oniguruma what the given one is to this package.

    >>> to_oniguruma(r"\s++$|\p{N}{1,3}+")
    '\\s++\\z|(?>\\p{N}{1,3})'
    """
    return _translate(pattern, {"$": r"\z", "^": r"\A"}, ("s", "m"), _atomic)


def _spread(atom: str, bounds: str, mark: str) -> str:
    """A bounded repeat with a mark behind it, in this package's words."""
    lowest, comma, _ = bounds[1:-1].partition(",")
    if not lowest:
        bounds = "{0" + bounds[1:]
    if mark == "+" or (mark == "?" and not comma):
        return f"(?:{atom}{bounds}){mark}"
    return atom + bounds + mark


def _atomic(atom: str, bounds: str, mark: str) -> str:
    """A bounded repeat with a mark behind it, in Oniguruma's words."""
    if mark == "+":
        return f"(?>{atom}{bounds})"
    if mark == "?" and "," not in bounds:
        return atom + bounds  # a fixed number is the same, lazy or not
    return atom + bounds + mark


def _parts(pattern: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of each part of a pattern: escapes, classes, groups' ends, repeats and characters."""
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:  # a backslash at the end, which whoever compiles the pattern will name
            yield "character", pattern[at:]
            return
        kind, end = found.lastgroup or "", found.end()
        if kind == "open":
            kind, end = "class", _class_end(pattern, at)
        yield kind, pattern[at:end]
        at = end


def _class_end(pattern: str, at: int) -> int:
    """Where the class that begins at ``[`` ends: classes may hold classes, and a first ``]`` is a member."""
    depth, here = 0, at
    while here < len(pattern):
        character = pattern[here]
        if character == "\\":
            here += 1
        elif character == "[":
            depth += 1
            here += pattern[here + 1 : here + 2] == "^"
            here += pattern[here + 1 : here + 2] == "]"
        elif character == "]":
            depth -= 1
            if depth == 0:
                return here + 1
        here += 1
    return len(pattern)


def _translate(pattern: str, anchors: dict[str, str], flag: tuple[str, str], repeat: object) -> str:
    """The pattern with anchors, the flag of the dot and marked bounded repeats in the other language's words."""
    done: list[str] = []  # finished parts
    begins: list[int] = []  # where open groups begin in it
    atom = 0  # where what a repeat would repeat begins in it
    parts = list(_parts(pattern))
    at = 0
    while at < len(parts):
        kind, text = parts[at]
        at += 1
        if kind == "repeat":
            mark = ""
            if at < len(parts) and parts[at] in (("repeat", "+"), ("repeat", "?")):
                mark = parts[at][1]
                at += 1
            if text[0] == "{":
                done[atom:] = [repeat("".join(done[atom:]), text, mark)]  # type: ignore[operator]
            else:
                done.append(text + mark)
        elif kind == "group":
            begins.append(len(done))
            names, end = text[2:-1], text[-1:]
            if text.startswith("(?") and names.replace("-", "").isalpha():
                done.append(f"(?{names.replace(*flag)}{end}")
                if end == ")":
                    begins.pop()
            else:
                done.append(text)
        elif kind == "close":
            atom = begins.pop() if begins else len(done)
            done.append(text)
        else:
            atom = len(done)
            done.append(anchors.get(text, text) if kind == "character" else text)
    return "".join(done)
