"""Tokens as HTML: no scripts, no style sheets, no colours but tints.

JupyterLab takes style sheets out of notebooks that it does not trust, which are all that others have run, and leaves
styles of elements; so those are used, of the properties and spellings that it allows (0.6, not .6; no variables). Tints
are transparent and text keeps the page's colour, so that all is readable on light and dark themes of Jupyter, VS Code
and others alike, without knowing them.
"""

from collections.abc import Iterable, Iterator
from html import escape

from numbatok.displays.escapes import reads_right_to_left, token_runs, token_text
from numbatok.displays.shown import ShownBatch, ShownText, ShownToken

# Tints of which neighbours are far apart in hue, readable under black and white text.
_TINTS = tuple(
    f"background-color: rgba({color}, 0.28)"
    for color in ("66, 133, 244", "244, 160, 0", "52, 168, 83", "234, 67, 120", "150, 90, 220")
)
_QUIET = "opacity: 0.65"
_TOKENS = "font-family: monospace; white-space: pre-wrap; word-wrap: break-word; line-height: 1.7"
_BORDER = "border-{}: 2px solid rgba(128, 128, 128, 0.9)"
_CELL = "text-align: left; vertical-align: top; padding: 2px 8px"

_MOST_HEX = 24  # bytes of a token that its title spells


def element(tag: str, style: str, *content: str, title: str = "", more: str = "") -> str:
    """An element of content that is HTML already."""
    titled = f' title="{escape(title)}"' if title else ""
    return f'<{tag} style="{style}"{titled}{more}>{"".join(content)}</{tag}>'


def quiet(text: str) -> str:
    """A line about what is shown."""
    return element("div", _QUIET, escape(text)) if text else ""


def text_html(shown: ShownText) -> str:
    """The tokens of a text, as the text itself; what is in the way of that on hover."""
    lines = [element("div", _TOKENS, *line, more=' dir="auto"') for line in _lines(shown.tokens)]
    return element("div", "overflow: auto", quiet(shown.summary), *lines, quiet(shown.note))


def batch_html(shown: ShownBatch, decoded: bool) -> str:
    """A row for each document: its number, how many ids it has, and tokens, or ids where these are not decoded."""
    rows = []
    for number, tokens, length in shown.documents:
        if tokens is None:
            content = element("span", _QUIET, "null")
        elif decoded:
            content = element("div", _TOKENS, *_chips(tokens), more=' dir="auto"')
        else:
            content = " ".join(map(str, (token.id for token in tokens)))
        if tokens is not None and len(tokens) < length:
            content += element("span", _QUIET, " ...")
        rows.append((str(number), f"{length:,}", content))
    heads = ("document", "length", "tokens" if decoded else "ids")
    return element("div", "overflow: auto", quiet(shown.summary), table(heads, rows), quiet(shown.note))


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    lines = ["".join(element("th", _CELL, head) for head in heads)]
    for first, *others in rows:
        cells = [
            element("td", f"{_CELL}; white-space: nowrap", first),
            *(element("td", _CELL, cell) for cell in others),
        ]
        lines.append("".join(cells))
    return element("table", "border-collapse: collapse", *(f"<tr>{line}</tr>" for line in lines if line))


def chip(content: bytes, number: int, title: str = "", style: str = "") -> str:
    """A token on the tint of its number, escapes in it quieter."""
    runs = (
        element("span", _QUIET, escape(run), more=' dir="ltr"') if escaped else escape(run)
        for run, escaped in token_runs(content)
    )
    tint = _TINTS[number % len(_TINTS)]
    return element("span", f"{tint}; {style}" if style else tint, *runs, title=title)


def _lines(shown: Iterable[ShownToken]) -> Iterator[list[str]]:
    """The chips of each line of a text; a line is a block of its own, since it has a direction of its own."""
    line: list[str] = []
    for token, html in zip(shown, _chips(shown), strict=True):
        line.append(html)
        if b"\n" in token.content:
            yield line
            line = []
    if line:
        yield line


def _chips(shown: Iterable[ShownToken]) -> Iterator[str]:
    number, previous = -1, 0
    for token in shown:
        if token.id is None:
            runs = escape(token_text(token.content))
            yield element("span", "opacity: 0.5; text-decoration: line-through", runs, title=_title(token))
            continue
        number += 1
        side = "right" if reads_right_to_left(token_text(token.content)) else "left"
        style = _BORDER.format(side) if token.pretoken > previous else ""
        previous = max(previous, token.pretoken)
        if token.is_known:
            yield chip(token.content, number, _title(token), style)
        else:
            yield element("span", _TINTS[number % len(_TINTS)], f"&lt;{token.id}&gt;", title="no token has this id")


def _title(token: ShownToken) -> str:
    """What is told of a token on hover."""
    content = token.content[:_MOST_HEX].hex(" ") + (" ..." if len(token.content) > _MOST_HEX else "")
    lines = ["no token" if token.id is None else f"id {token.id}", f"bytes {content}", f"at {token.begin}-{token.end}"]
    if token.source is not None:
        lines.append(f'of "{token_text(token.source)}"')
    if token.pretoken >= 0:
        lines.append(f"pretoken {token.pretoken}")
    return "\n".join(lines)
