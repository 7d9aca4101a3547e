"""Which tokens of a text, or of documents of ids, are shown, and what is said of the rest."""

from collections.abc import Callable, Iterator
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.calls import Call
from numbatok.displays.escapes import many
from numbatok.text import as_bytes, repair_surrogates

if TYPE_CHECKING:
    from numbatok.batch import TokenBatch
    from numbatok.engine import Engine
    from numbatok.parts import Parts
    from numbatok.text import Errors, Text

#: Documents of a batch that are shown where tokens are limited.
MOST_DOCUMENTS = 20

# Bytes, or characters, of a longer text that are encoded, if these hold all tokens that are shown.
_BEGINNING = 1 << 20


class ShownToken(NamedTuple):
    """One token of a text, or what of the text no token stands for.

    Attributes
    ----------
    pretoken : number of its pretoken in the text, from 0; an added token is a pretoken of its own. -1 where there is
        none
    begin, end : byte offsets into the text's UTF-8. Where the token's bytes are not the text's, as after normalizing,
        they are those of :meth:`numbatok.Tokenizer.encode_with_offsets`, nothing trimmed. In documents of ids, offsets
        into the bytes that they decode to
    id : None for a part of the text that no token stands for, which a normalizer or the split rule removed
    content : the bytes of the token, or of that part; empty where no token has the id
    source : the text that the token stands for, where its bytes are others
    is_known : whether a token has the id
    """

    pretoken: int
    begin: int
    end: int
    id: int | None
    content: bytes
    source: bytes | None = None
    is_known: bool = True


class ShownText(NamedTuple):
    """The tokens shown of a text; a line about the whole text; and one about what is left out, empty where all is
    shown.
    """

    tokens: list[ShownToken]
    summary: str
    note: str


class ShownDocument(NamedTuple):
    """The tokens shown of a document of ids, and how many it has; ``tokens`` is None for a document that is null."""

    number: int
    tokens: list[ShownToken] | None
    length: int


class ShownBatch(NamedTuple):
    """The documents shown of a batch; a line about the whole batch; and one about what is left out."""

    documents: list[ShownDocument]
    summary: str
    note: str


# --- texts ---


def tokens_of_text(
    engine: "Engine",
    parts: "Parts",
    text: "Text",
    actions: npt.NDArray[np.uint8],
    errors: "Errors",
    limit: int | None,
) -> ShownText:
    """The first ``limit`` tokens of a text, or all.

    Of a text much longer than these only a beginning is encoded. Whether its tokens are those of the whole text tells a
    stream, which gives ids as soon as nothing that follows can change them; else the note says what was encoded.
    """
    source: str | memoryview = text if isinstance(text, str) else as_bytes(text).data
    part, size = source, _BEGINNING
    while True:
        if limit is not None:
            part = _beginning(source, size)
        encoded = engine.encode_batch([part], None, Call(actions, errors, None))
        if limit is None or len(part) == len(source) or len(encoded.ids) > limit:
            break
        size *= 4
    words = np.zeros(len(encoded.ids), np.int32)
    places = engine.locator.locate(encoded, [part], None, "byte", actions, trimmed=False, words=words)
    ids = encoded.ids[:limit].astype(np.uint32)
    data = repair_surrogates(part).encode() if isinstance(part, str) else bytes(part)
    tokens = list(_placed(parts, data, ids.tolist(), places[: len(ids)].tolist(), words[: len(ids)].tolist()))
    unit = "character" if isinstance(source, str) else "byte"
    if len(part) < len(source):
        whole = many(len(source), unit)
        note = f"... of a text of {whole} (limit {limit})"
        if not _are_certain(engine, parts, part, ids, actions, errors):
            note += f"; its first {many(len(part), unit)} were encoded by themselves"
        return ShownText(tokens, f"the first {many(len(ids), 'token')} of {whole}", note)
    total = len(encoded.ids)
    end = tokens[-1].end if tokens else 0
    note = ""
    if len(ids) < total:
        note = f"... {many(total - len(ids), 'more token')}, {many(len(data) - end, 'byte')} (limit {limit})"
    elif end < len(data):
        tokens.append(ShownToken(-1, end, len(data), None, data[end:]))
    pretokens = int(words[-1]) + 1 if total else 0
    return ShownText(
        tokens, f"{many(total, 'token')} in {many(pretokens, 'pretoken')}, {many(len(data), 'byte')}", note
    )


def _beginning(source: str | memoryview, size: int) -> str | memoryview:
    """The first ``size`` characters or bytes of a text, fewer by a part of a character."""
    if len(source) <= size:
        return source
    if isinstance(source, str):
        return source[: size - ("\ud800" <= source[size - 1] < "\udc00")]
    end = size
    while end > size - 3 and source[end] & 0xC0 == 0x80:
        end -= 1
    return source[:end]


def _are_certain(
    engine: "Engine",
    parts: "Parts",
    part: "Text",
    ids: npt.NDArray[np.uint32],
    actions: npt.NDArray[np.uint8],
    errors: "Errors",
) -> bool:
    """Whether any text that begins with ``part`` begins with these ids."""
    from numbatok.streams import StreamEncoder

    certain = StreamEncoder(engine, parts, actions, ([], []), errors).feed(part)
    return np.array_equal(certain[: len(ids)], ids)


def _placed(
    parts: "Parts", data: bytes, ids: list[int], places: list[list[int]], words: list[int]
) -> Iterator[ShownToken]:
    """Tokens with their places, and what of the text is between them."""
    done = 0
    for word, group in groupby(range(len(ids)), words.__getitem__):
        numbers = list(group)
        contents = [parts.token(ids[number]) or b"" for number in numbers]
        begin = min(places[number][0] for number in numbers)
        # Offsets are those of whole characters. Where the tokens are the text's own bytes, each has its own.
        ends = list(accumulate(map(len, contents), initial=begin))
        spans = [(places[number][0], places[number][1]) for number in numbers]
        if data.startswith(b"".join(contents), begin) and ends[-1] <= max(end for _, end in spans):
            spans = list(pairwise(ends))
        for number, content, (first, last) in zip(numbers, contents, spans, strict=True):
            if first > done:
                yield ShownToken(-1, done, first, None, data[done:first])
            source = data[first:last]
            yield ShownToken(word, first, last, ids[number], content, None if source == content else source)
            done = max(done, last)


# --- documents of ids ---


def documents_of_batch(batch: "TokenBatch", token: Callable[[int], bytes | None], limit: int | None) -> ShownBatch:
    """The first documents of a batch, and as many tokens of each as let all have at most ``limit``; or all of them.

    ``token`` gives the bytes of an id, or None.
    """
    count = len(batch)
    shown = count if limit is None else min(count, limit, MOST_DOCUMENTS)
    most = None if limit is None else limit // max(shown, 1)
    documents = []
    cut = False
    for number in range(shown):
        ids = batch[number]
        if batch.validity is not None and not batch.validity[number]:
            documents.append(ShownDocument(number, None, 0))
            continue
        numbers = ids[:most].tolist()
        contents = list(map(token, numbers))
        ends = accumulate((len(content or b"") for content in contents), initial=0)
        tokens = [
            ShownToken(-1, first, last, id, content or b"", is_known=content is not None)
            for id, content, (first, last) in zip(numbers, contents, pairwise(ends), strict=True)
        ]
        cut |= len(tokens) < len(ids)
        documents.append(ShownDocument(number, tokens, len(ids)))
    summary = f"{many(count, 'document')}, {many(int(batch.offsets[-1] - batch.offsets[0]), 'id')}"
    left = [many(count - shown, "more document")] if shown < count else []
    left += [f"the first {many(most or 0, 'token')} of each"] if cut else []
    return ShownBatch(documents, summary, f"... {', '.join(left)} (limit {limit})" if left else "")
