r"""tiktoken's regular expressions in the words of Oniguruma, which ``tokenizers`` reads them with.

Nearly all of the two languages is the same. What means something else to Oniguruma, and what is written instead:

==========  ==============================  ===========
tiktoken    to Oniguruma                    written as
==========  ==============================  ===========
``$``       before any U+000A too           ``\z``
``^``       after any U+000A too            ``\A``
``x{n,m}+``  ``(?:x{n,m})+``                ``(?>x{n,m})``
``x{n}?``   ``(?:x{n})?``                   ``x{n}``
``(?s:``    an error                        ``(?m:``
==========  ==============================  ===========
"""

import re
from collections.abc import Iterator

_PART = re.compile(
    r"(?P<escape>\\[pPx]\{[^}]*\}|\\.)|(?P<group>\(\?[a-zA-Z-]+[:)]|\(\?(?:<?[=!]|[:>])|\()|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{\d+(?:,\d*)?\})|(?P<class>\[)|(?P<bar>\|)|(?P<character>.)",
    re.DOTALL,
)
_ANCHORS = {"$": r"\z", "^": r"\A"}


def to_oniguruma(pattern: str) -> str:
    r"""The pattern that is to Oniguruma what the given one is to tiktoken.

    >>> to_oniguruma(r"\s++$|\p{N}{1,3}+")
    '\\s++\\z|(?>\\p{N}{1,3})'
    """
    done: list[str] = []  # finished parts
    groups: list[int] = []  # where open groups begin in it
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
            if text[0] == "{" and mark == "+":
                done[atom:] = ["(?>", *done[atom:], text, ")"]
            elif text[0] == "{" and mark == "?" and "," not in text:
                done.append(text)  # a fixed number is the same, lazy or not
            else:
                done.append(text + mark)
        elif kind == "close":
            atom = groups.pop() if groups else len(done)
            done.append(text)
        else:
            atom = len(done)
            if kind == "group" and not (text[:2] == "(?" and text[-1] == ")"):
                groups.append(atom)
            if kind == "group" and text[:2] == "(?" and text[-1] in ":)":
                text = text.replace("s", "m")
            done.append(_ANCHORS.get(text, text) if kind == "character" else text)
    return "".join(done)


def _parts(pattern: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of each part of a pattern: escapes, classes, groups' ends, repeats and characters."""
    at = 0
    while at < len(pattern):
        found = _PART.match(pattern, at)
        if found is None:  # a backslash at the end, which whoever compiles the pattern will name
            yield "character", pattern[at:]
            return
        kind, end = found.lastgroup or "", found.end()
        if kind == "class":
            end = _class_end(pattern, at)
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
