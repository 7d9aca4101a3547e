"""Draw the README's drawings, each for light and for dark pages: ``python bench/drawings/draw.py``.

What they show of a text (starts, keys, ids, merges) is what numbatok makes of it.
"""

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

import numbatok
from numbatok.kernels import dtypes

HERE = Path(__file__).parent
WIDTH = 860
TEXT = "Hello tokenizer,  it's 2024!"
PIECE = " tokenizer"

#: Colours by what they are for: (on light pages, on dark pages).
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9aa4af"),
    "line": ("#afb8c1", "#4b5563"),
    "cell": ("#f6f8fa", "#161b22"),
    "blue": ("#b6d7ff", "#1f4f8f"),
    "green": ("#b4e7c0", "#1d6335"),
    "orange": ("#ffd8a8", "#7d4a0b"),
    "pink": ("#f6c4dc", "#82285c"),
    "strong": ("#0a56c2", "#6cb0ff"),
}
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


class Drawing:
    """Shapes on a page of ``WIDTH`` by ``height``, in the colours of one theme."""

    def __init__(self, title: str, height: int, theme: int) -> None:
        self.title, self.height, self._theme = title, height, theme
        self._shapes: list[str] = []

    def colour(self, name: str) -> str:
        """The theme's colour for a purpose."""
        return COLOURS[name][self._theme]

    def box(self, x: float, y: float, w: float, h: float, fill: str = "cell", line: str = "line") -> None:
        """A rectangle."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" fill="{self.colour(fill)}" '
            f'stroke="{self.colour(line)}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 14,
        fill: str = "ink",
        at: str = "start",
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Words whose baseline is at ``y``; ``at`` is where ``x`` is of them: start, middle or end."""
        font = MONO if mono else SANS
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-family="{font}" fill="{self.colour(fill)}" '
            f'text-anchor="{at}"{weight}>{escape(words)}</text>'
        )

    def cell(self, x: float, y: float, w: float, h: float, words: str, fill: str = "cell", size: int = 14) -> None:
        """A rectangle with words in its middle."""
        self.box(x, y, w, h, fill)
        self.text(x + w / 2, y + h / 2 + size * 0.36, words, size=size, at="middle", mono=True)

    def arrow(self, *points: tuple[float, float], fill: str = "soft") -> None:
        """A line through points, with a head at its end."""
        (x0, y0), (x1, y1) = points[-2:]
        length = max(abs(x1 - x0) + abs(y1 - y0), 1)
        dx, dy = 7 * (x1 - x0) / length, 7 * (y1 - y0) / length
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        head = (
            f"{x1:g},{y1:g} {x1 - dx - dy / 1.6:g},{y1 - dy - dx / 1.6:g} {x1 - dx + dy / 1.6:g},{y1 - dy + dx / 1.6:g}"
        )
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="{self.colour(fill)}" stroke-width="1.5"/>'
            f'<polygon points="{head}" fill="{self.colour(fill)}"/>'
        )

    def line(self, x0: float, y0: float, x1: float, y1: float, fill: str = "line") -> None:
        """A dashed line."""
        self._shapes.append(
            f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" '
            f'stroke="{self.colour(fill)}" stroke-dasharray="4 3"/>'
        )

    def svg(self) -> str:
        """The file's content."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" role="img">'
        )
        page = f'<rect width="{WIDTH}" height="{self.height}" rx="8" fill="{self.colour("page")}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", page, *self._shapes, "</svg>\n"])


def shown(text: str) -> str:
    """A text with its spaces to be seen."""
    return text.replace(" ", "␣")


def kind_of(character: str) -> str:
    """The class of an ASCII character in GPT-2's rule."""
    if character.isalpha():
        return "letter"
    if character.isdigit():
        return "number"
    return "space" if character.isspace() else "other"


def starts(draw: Drawing, tok: numbatok.Tokenizer) -> None:
    """Stage 1."""
    left, cell, row = 128, 25, 30
    edges = tok.pretokenize(TEXT).tolist()
    kinds = [kind_of(character) for character in TEXT]
    rows: list[tuple[str, Callable[[int], bool], str]] = [
        (kind, lambda i, kind=kind: kinds[i] == kind, colour)  # type: ignore[misc]
        for kind, colour in (("letter", "blue"), ("number", "green"), ("space", "orange"), ("other", "pink"))
    ]
    y = 22
    draw.text(left - 14, y + 17, "text", at="end")
    for i, character in enumerate(TEXT):
        draw.cell(left + i * cell, y, cell, 24, shown(character))
    y += 44
    for name, is_in, colour in rows:
        draw.text(left - 14, y + 17, name, at="end")
        for i in range(len(TEXT)):
            draw.cell(left + i * cell, y, cell, 24, "1" if is_in(i) else "", colour if is_in(i) else "cell")
        y += row
    draw.text(left, y + 18, "vector compares: one bit a byte, 64 bytes at a time", size=13, fill="soft")
    draw.arrow((left + 408, y + 2), (left + 408, y + 32))
    draw.text(left + 424, y + 18, "shifts and masks: a start where the class", size=13, fill="soft")
    draw.text(left + 424, y + 35, "changes; a space joins what follows; 's is one", size=13, fill="soft")
    y += 46
    draw.text(left - 14, y + 17, "starts", at="end", bold=True)
    for i in range(len(TEXT)):
        draw.cell(left + i * cell, y, cell, 24, "1" if i in edges else "", "strong" if i in edges else "cell")
    for i in edges[:-1]:
        draw.text(left + i * cell + cell / 2, y + 17, "1", at="middle", mono=True, fill="page", bold=True)
    y += 40
    draw.text(left - 14, y + 17, "pretokens", at="end")
    for begin, end in pairwise(edges):
        draw.cell(left + begin * cell + 2, y, (end - begin) * cell - 4, 24, shown(TEXT[begin:end]))


def key_bytes(piece: str) -> list[str]:
    """The bytes of a pretoken's key, as text."""
    size = 8 if len(piece) <= 7 else 16
    return [*map(shown, piece), *["0"] * (size - 1 - len(piece)), str(len(piece))]


def spans(draw: Drawing, tok: numbatok.Tokenizer) -> None:
    """Stage 2."""
    left, cell = 128, 25
    edges = tok.pretokenize(TEXT).tolist()
    y = 22
    draw.text(left - 14, y + 17, "starts", at="end", bold=True)
    for i in range(len(TEXT)):
        draw.cell(left + i * cell, y, cell, 24, "", "strong" if i in edges else "cell")
    for octet in range(0, len(TEXT), 8):
        wide = min(8, len(TEXT) - octet)
        draw.line(left + octet * cell, y + 30, left + (octet + wide) * cell - 4, y + 30, "soft")
        draw.arrow((left + (octet + wide / 2) * cell, y + 32), (left + (octet + wide / 2) * cell, y + 54))
    draw.text(left - 14, y + 48, "by octets", at="end", size=13, fill="soft")
    y += 60
    draw.text(left - 14, y + 17, "positions", at="end")
    for i, edge in enumerate(edges):
        draw.cell(left + i * 42, y, 38, 24, str(edge))
    x = left + len(edges) * 42 + 10
    draw.text(x, y + 11, "a table gives eight positions at once; store", size=13, fill="soft")
    draw.text(x, y + 27, "all, advance by the count: no branch", size=13, fill="soft")
    y += 56
    for piece, colour in ((TEXT[: edges[1]], "blue"), (TEXT[edges[1] : edges[2]], "green")):
        draw.text(left - 14, y + 17, shown(piece), at="end", mono=True, size=13)
        for i, byte in enumerate(key_bytes(piece)):
            inside = i < len(piece)
            last = i == len(key_bytes(piece)) - 1
            draw.cell(left + i * 32, y, 32, 24, byte, colour if inside else "orange" if last else "cell")
        x = left + 32 * len(key_bytes(piece)) + 14
        if len(piece) <= 7:
            draw.text(x, y + 17, "up to 7 bytes: one word; the length on top, so no key is 0", size=13, fill="soft")
        else:
            draw.text(x, y + 11, "up to 15 bytes: two words,", size=13, fill="soft")
            draw.text(x, y + 27, "a read of 16 bytes, masked", size=13, fill="soft")
        y += 38
    draw.arrow((left + 128, y), (left + 128, y + 26))
    draw.text(
        left + 144,
        y + 18,
        "times odd constants, on vectors: the place in the cache, whose line is fetched",
        size=13,
        fill="soft",
    )
    y += 32
    draw.text(left - 14, y + 17, "a group", at="end")
    draw.cell(left, y, 330, 24, f"{dtypes.GROUP} keys and places, then look-ups")
    draw.text(left + 344, y + 17, f"so memory is waited for once, not {dtypes.GROUP} times", size=13, fill="soft")


def word_of_ids(ids: Sequence[int]) -> str:
    """What stands in an entry's word of ids."""
    return " ".join(map(str, ids))


def cache(draw: Drawing, tok: numbatok.Tokenizer) -> None:
    """Stage 3."""
    left = 24
    draw.text(left, 32, "narrow: 16 bytes, four in a cache line", bold=True)
    draw.text(left + 330, 32, "pretokens of at most 7 bytes: most of a text", size=13, fill="soft")
    y = 44
    for i, piece in enumerate(("Hello", " it", "'s", " 2024")):
        x = left + i * 203
        draw.cell(x, y, 100, 28, shown(piece), "blue", 13)
        draw.cell(x + 100, y, 100, 28, word_of_ids(tok.encode(piece).tolist()), "green", 13)
        draw.text(x + 50, y + 44, "key", size=12, fill="soft", at="middle")
        draw.text(x + 150, y + 44, "ids", size=12, fill="soft", at="middle")
    y = 124
    draw.text(left, y, "wide: 32 bytes, two in a line", bold=True)
    draw.text(left + 330, y, "8 to 15 bytes, or longer by hash: then the bytes are compared, too", size=13, fill="soft")
    y += 12
    for i, piece in enumerate((PIECE, " representation")):
        x = left + i * 406
        draw.cell(x, y, 100, 28, shown(piece[:8]), "blue", 13)
        draw.cell(x + 100, y, 104, 28, word_of_ids(tok.encode(piece).tolist()[:2]), "green", 13)
        draw.cell(x + 204, y, 98, 28, word_of_ids(tok.encode(piece).tolist()[2:4]), "green", 13)
        draw.cell(x + 302, y, 100, 28, shown(piece[8:]), "blue", 13)
        for name, middle in (("key, low", 50), ("ids", 152), ("more ids", 253), ("key, high", 352)):
            draw.text(x + middle, y + 44, name, size=12, fill="soft", at="middle")
    y = 218
    draw.text(left, y, "a word of ids", bold=True)
    y += 12
    for x, wide, words, fill in (
        (0, 340, "id 0, 28 bits", "green"),
        (340, 40, "", "cell"),
        (380, 340, "id 1, 28 bits", "green"),
        (720, 92, "count, 4", "orange"),
    ):
        draw.cell(left + x, y, wide, 26, words, fill, 13)
    y += 52
    draw.text(left, y, "hit", bold=True, fill="strong")
    draw.text(
        left + 52, y, "store both ids, always, and advance by the count: nearly every pretoken has one or two", size=13
    )
    y += 24
    draw.text(left, y, "miss", bold=True, fill="strong")
    draw.text(
        left + 52,
        y,
        "merge (stage 4), enter the result here; what fits no entry stands in an arena that the word",
        size=13,
    )
    y += 19
    draw.text(
        left + 52, y, "points into. A table past its budget is emptied: that costs time, never a different id.", size=13
    )


def merge(draw: Drawing, tok: numbatok.Tokenizer) -> None:
    """Stage 4."""
    piece = tok.explain(PIECE)[0]
    left, cell, row = 24, 44, 34
    symbols = [bytes([byte]) for byte in PIECE.encode()]
    y = 44
    draw.text(left, 30, "the pair of lowest rank first", bold=True)
    draw.text(left + 14 * cell, 30, "rank of the pair", bold=True)
    steps = [*piece.merges, None]
    for step in steps:
        x = left
        for i, symbol in enumerate(symbols):
            wide = cell * len(symbol)
            chosen = step is not None and i in (step.place, step.place + 1)
            fill = "orange" if chosen else "green" if step is None else "cell"
            draw.cell(x + 2, y, wide - 4, 26, shown(symbol.decode()), fill)
            x += wide
        if step is None:
            draw.text(left + 14 * cell, y + 18, "none left: ids " + " ".join(map(str, piece.ids)), bold=True)
        else:
            draw.text(left + 14 * cell, y + 18, str(step.rank), mono=True)
            draw.arrow((left + 10.4 * cell, y + 13), (left + 13.6 * cell, y + 13))
            symbols[step.place : step.place + 2] = [step.made]
        y += row
    y += 18
    draw.text(
        left,
        y,
        "Ranks of pairs come from a grid for two bytes, and else from a hash table whose buckets are cache lines,",
        size=13,
        fill="soft",
    )
    draw.text(
        left,
        y + 19,
        "compared at once. The new pretokens of a group take turns, up to 16 side by side. One of more than 30 bytes",
        size=13,
        fill="soft",
    )
    draw.text(
        left,
        y + 38,
        "is merged alone: beyond 64 symbols a heap keeps it at n log n, whatever the text.",
        size=13,
        fill="soft",
    )


def seam(draw: Drawing, tok: numbatok.Tokenizer) -> None:
    """Why a long text can be cut anywhere."""
    left, cell = 128, 25
    text, guess = "a guess inside of words goes", 4
    y = 22
    whole = tok.pretokenize(text).tolist()
    right = [guess + edge for edge in tok.pretokenize(text[guess:]).tolist()]
    shared = next(edge for edge in right if edge in whole)
    draw.text(left - 14, y + 17, "text", at="end")
    for i, character in enumerate(text):
        draw.cell(left + i * cell, y, cell, 24, shown(character))
    y += 42
    draw.text(left - 14, y + 17, "left worker", at="end")
    for begin, end in pairwise(whole):
        if begin < shared:
            draw.cell(left + begin * cell + 2, y, (end - begin) * cell - 4, 24, shown(text[begin:end]), "blue")
    draw.text(
        left + shared * cell + 12,
        y + 17,
        "reads on until it comes to a start that the right worker has found",
        size=13,
        fill="soft",
    )
    y += 38
    draw.text(left - 14, y + 17, "right worker", at="end")
    for begin, end in pairwise(right):
        fill = "green" if begin >= shared else "cell"
        draw.cell(left + begin * cell + 2, y, (end - begin) * cell - 4, 24, shown(text[begin:end]), fill)
    draw.arrow((left + guess * cell, y + 54), (left + guess * cell, y + 29), fill="strong")
    draw.text(left + guess * cell, y + 70, "the guess", size=13, at="middle", fill="strong")
    draw.line(left + shared * cell, 14, left + shared * cell, y + 46, "strong")
    draw.text(
        left + shared * cell,
        y + 62,
        "the seam: from here both scans see the same text, so they cut alike",
        size=13,
        fill="strong",
    )


DRAWINGS: dict[str, tuple[str, int, Callable[[Drawing, numbatok.Tokenizer], None]]] = {
    "starts": ("Class bitmaps of a text become the bitmap of the starts of pretokens", 306, starts),
    "spans": ("Set bits become positions, and pretokens become keys", 286, spans),
    "cache": ("The two kinds of entries of the cache, and a word of ids", 336, cache),
    "merge": ("The bytes of a pretoken are merged, the pair of lowest rank first", 424, merge),
    "seam": ("Two scans of a text agree from the first start that they share", 190, seam),
}


def drawn() -> dict[str, str]:
    """The content of each file."""
    tok = numbatok.get_encoding("gpt2")
    files = {}
    for name, (title, height, draw) in DRAWINGS.items():
        for number, theme in enumerate(("light", "dark")):
            drawing = Drawing(title, height, number)
            draw(drawing, tok)
            files[f"{name}-{theme}.svg"] = drawing.svg()
    return files


if __name__ == "__main__":
    for name, content in drawn().items():
        (HERE / name).write_text(content, encoding="utf-8")
