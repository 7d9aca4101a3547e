"""What a notebook shows of a tokenizer, a batch of ids, a vocabulary, and an explained text."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from numbatok.displays import LIMIT
from numbatok.displays.escapes import many, printable
from numbatok.displays.html import batch_html, chip, element, quiet, table
from numbatok.displays.shown import documents_of_batch
from numbatok.templates import Special, Text

if TYPE_CHECKING:
    from numbatok.batch import TokenBatch
    from numbatok.explain import Piece
    from numbatok.parts import Parts
    from numbatok.tables import VocabularyTable

_SAMPLE = 24  # tokens of a vocabulary, and special tokens, that stand for all
_ROWS = 10  # of a table, at its beginning and at its end
_MOST_PATTERN = 400  # characters of a split rule
_MOST_LINES = 200  # of an explanation
_MOST_MERGES = 24  # of a piece
_MOST_CHIPS = 48  # of a line

_MONOSPACE = "font-family: monospace; white-space: pre-wrap"


def tokenizer_html(parts: "Parts", vocab_size: int) -> str:
    """What a tokenizer is made of. No kernel is compiled or called for it."""
    vocabulary, added = parts.vocabulary, parts.added_tokens
    rows = [("tokens", f"{vocab_size:,}"), ("model", _model(parts))]
    step = max(len(vocabulary) // _SAMPLE, 1)
    numbers = vocabulary.ids[::step][:_SAMPLE].tolist()
    rows.append(("such as", _chips([(parts.token(number) or b"", f"id {number}") for number in numbers])))
    for name, special in (("special", True), ("added", False)):
        named = [(token.content.encode(), f"id {token.id}") for token in added if token.special == special]
        if named:
            rows.append((name, _chips(named[:_SAMPLE]) + _more(len(named) - _SAMPLE)))
    if parts.normalizer is not None:
        rows.append(("normalizer", escape(type(parts.normalizer).__name__)))
    rows += [("split rule" if not number else "then", _code(step.pattern)) for number, step in enumerate(parts.rule)]
    template = _template(parts)
    if template:
        rows.append(("template", template))
    heading = quiet(f"numbatok.Tokenizer {printable(parts.name)}".rstrip())
    return element("div", "overflow: auto", heading, table((), rows))


def _model(parts: "Parts") -> str:
    vocabulary = parts.vocabulary
    how = "merged by rank" if vocabulary.merges is None else many(len(vocabulary.merges), "merge")
    return f"BPE of {vocabulary.options.unit}s: {many(len(vocabulary), 'token')}, {how}"


def _template(parts: "Parts") -> str:
    pieces = parts.template.single
    if not any(isinstance(piece, Special) for piece in pieces):
        return ""
    return " ".join(
        element("i", "", "text") if isinstance(piece, Text) else chip(piece.token.encode(), 0, f"ids {piece.ids}")
        for piece in pieces
    )


def _code(pattern: str) -> str:
    shown = printable(pattern[:_MOST_PATTERN])
    return element("span", _MONOSPACE, escape(shown)) + _more(len(pattern) - _MOST_PATTERN, " character")


def _more(count: int, noun: str = "") -> str:
    return f" ... {count:,} more{noun}{'s' if noun and count != 1 else ''}" if count > 0 else ""


def _chips(tokens: Iterable[tuple[bytes, str]]) -> str:
    chips = [chip(content, number, title, "display: inline-block") for number, (content, title) in enumerate(tokens)]
    return element("span", _MONOSPACE, " ".join(chips))


def token_batch_html(batch: "TokenBatch") -> str:
    """The ids of the first documents."""
    return batch_html(documents_of_batch(batch, lambda number: None, LIMIT), decoded=False)


def vocabulary_html(vocabulary: "VocabularyTable") -> str:
    """The first and the last rows."""
    count = len(vocabulary)
    left = count - 2 * _ROWS
    lines = [_row(vocabulary, number) for number in range(_ROWS if left > 0 else count)]
    if left > 0:
        lines.append(("...", "", "", "", ""))
        lines += [_row(vocabulary, number) for number in range(count - _ROWS, count)]
    counts = [f"{vocabulary.kind.count(kind):,} {kind}" for kind in dict.fromkeys(vocabulary.kind)]
    note = quiet(f"{many(left, 'row')} left out" if left > 0 else "")
    heads = ("id", "token", "bytes", "rank", "kind")
    heading = quiet(f"{many(count, 'token')}: {', '.join(counts)}")
    return element("div", "overflow: auto", heading, table(heads, lines), note)


def _row(vocabulary: "VocabularyTable", number: int) -> tuple[str, ...]:
    token, rank = vocabulary.bytes[number], int(vocabulary.rank[number])
    spelled = token[:_SAMPLE].hex(" ") + (" ..." if len(token) > _SAMPLE else "")
    cells = _chips([(token, "")]), element("span", _MONOSPACE, spelled), "" if rank < 0 else str(rank)
    return str(vocabulary.ids[number]), *cells, vocabulary.kind[number]


def explanation_html(pieces: "Sequence[Piece]") -> str:
    """The pieces of a text, each with its merges, one a line."""
    blocks, lines = [], 0
    for piece in pieces:
        if lines > _MOST_LINES:
            break
        rows = _piece(piece)
        lines += len(rows)
        blocks.append(element("div", f"{_MONOSPACE}; margin: 6px 0", *rows))
    left = len(pieces) - len(blocks)
    note = "" if pieces else "no pieces"
    return element("div", "overflow: auto", *blocks, quiet(f"... {many(left, 'more piece')}" if left else note))


def _piece(piece: "Piece") -> list[str]:
    """The lines of a piece, each a block."""
    ids = " ".join(map(str, piece.ids[:_MOST_CHIPS])) + _more(len(piece.ids) - _MOST_CHIPS)
    lines = [chip(piece.content, 0) + (" dropped" if piece.kind == "dropped" else f" {piece.kind}: {ids}")]
    if piece.kind == "merged":
        state = list(enumerate(piece.units))  # what merges keeps the tint of its left part
        lines.append(_state(state))
        for merge in piece.merges[:_MOST_MERGES]:
            state[merge.place : merge.place + 2] = [(state[merge.place][0], merge.made)]
            lines.append(_state(state) + element("span", "opacity: 0.65", f"   rank {merge.rank}"))
        if len(piece.merges) > _MOST_MERGES:
            lines.append(f"... {many(len(piece.merges) - _MOST_MERGES, 'more merge')}")
            lines.append(_state(list(enumerate(piece.tokens))))
    return [element("div", "padding-left: 24px" if number else "", line) for number, line in enumerate(lines)]


def _state(tokens: Sequence[tuple[int, bytes]]) -> str:
    chips = [chip(token, number) for number, token in tokens[:_MOST_CHIPS]]
    return "".join(chips) + _more(len(tokens) - _MOST_CHIPS)
