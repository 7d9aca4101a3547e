"""A vocabulary as columns, for looking at it and counting in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.loading.saving import merges_of_ranks
from numbatok.parts import Parts
from numbatok.rows import library


class VocabularyRow(NamedTuple):
    """One token: the columns of :class:`VocabularyTable`.

    >>> next(iter(numbatok.get_encoding("gpt2").vocabulary()))
    VocabularyRow(id=0, bytes=b'!', text='!', rank=0, kind='unit')
    """

    id: int
    bytes: bytes
    text: str | None
    rank: int
    kind: str


@dataclass(frozen=True, eq=False)
class VocabularyTable:
    """The tokens of a tokenizer as columns, in order of their ids. Iterating gives :class:`VocabularyRow` s.

    Attributes
    ----------
    ids : uint32[tokens]
    bytes : a list, the bytes of each
    text : a list, these as a ``str``, or None where they are not UTF-8, as of a part of a character
    rank : int64[tokens], of the first merge that makes the token; in a rank file its place among the tokens; -1 where
        it has none
    kind : a list: ``"unit"``, a byte or character that merging begins with; ``"merged"``, what merging makes of such;
        ``"unmerged"``, a token that merging does not make, so that only a whole pretoken becomes it, if anything does;
        ``"special"``; ``"added"``, an added token that is not special; ``"unreachable"``, which decoding alone knows

    >>> table = numbatok.get_encoding("gpt2").vocabulary()
    >>> table.text[995], len(table)
    (' world', 50257)
    """

    ids: npt.NDArray[np.uint32]
    bytes: list[bytes]
    text: list[str | None]
    rank: npt.NDArray[np.int64]
    kind: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[VocabularyRow]:
        columns = self.ids.tolist(), self.bytes, self.text, self.rank.tolist(), self.kind
        return map(VocabularyRow._make, zip(*columns, strict=True))

    def __repr__(self) -> str:
        counts = [f"{self.kind.count(kind)} {kind}" for kind in dict.fromkeys(self.kind)]
        return f"<numbatok.VocabularyTable {len(self)} tokens: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        from numbatok.displays.summaries import vocabulary_html

        return vocabulary_html(self)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` of the columns id, bytes, text, rank and kind: ``pip install numbatok[arrow]``.

        >>> numbatok.get_encoding("gpt2").vocabulary().to_arrow().column_names
        ['id', 'bytes', 'text', 'rank', 'kind']
        """
        pyarrow = library("pyarrow", "arrow", "VocabularyTable.to_arrow")
        return pyarrow.table(
            {
                "id": self.ids,
                "bytes": pyarrow.array(self.bytes, pyarrow.binary()),
                "text": pyarrow.array(self.text, pyarrow.string()),
                "rank": self.rank,
                "kind": pyarrow.array(self.kind, pyarrow.string()),
            }
        )

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` of the columns bytes, text, rank and kind, by id: ``pip install numbatok[pandas]``.

        >>> numbatok.get_encoding("gpt2").vocabulary().to_pandas().loc[995, "text"]
        ' world'
        """
        pandas = library("pandas", "pandas", "VocabularyTable.to_pandas")
        columns = {"bytes": self.bytes, "text": self.text, "rank": self.rank, "kind": self.kind}
        return pandas.DataFrame(columns, index=pandas.Index(self.ids, name="id"))


def vocabulary_table(parts: Parts) -> VocabularyTable:
    """The columns of a tokenizer's parts."""
    vocabulary = parts.vocabulary
    count = len(vocabulary)
    ranks = np.arange(count, dtype=np.int64)
    is_unit = np.zeros(count, np.bool_)
    options = vocabulary.options
    for prefix in {b"", options.prefix}:
        for suffix in {b"", options.suffix}:
            is_unit[vocabulary.units(prefix, suffix)[1]] = True
    if options.byte_fallback:
        is_unit[list(vocabulary.byte_tokens().values())] = True
    if options.unk is not None:
        is_unit[vocabulary.symbol_of(options.unk)] = True
    if vocabulary.merges is not None:
        ranks = np.full(count, -1, np.int64)
        made = vocabulary.merges[::-1, 2]  # the first merge that makes a token is set last
        ranks[made] = np.arange(len(made))[::-1]
    kinds = np.where(is_unit, "unit", np.where(ranks >= 0, "merged", "unmerged")).tolist()
    rows = {
        number: (token, rank, kind)
        for number, token, rank, kind in zip(
            vocabulary.ids.tolist(), vocabulary.tokens, ranks.tolist(), kinds, strict=True
        )
    }
    rows |= {number: (content, -1, "unreachable") for number, content in parts.unreachable}
    for token in reversed(parts.added_tokens):  # of two with one id the first counts
        rank = rows[token.id][1] if token.id in rows else -1
        rows[token.id] = token.content.encode(), rank, "special" if token.special else "added"
    numbers = sorted(rows)
    contents, places, names = zip(*(rows[number] for number in numbers), strict=True)
    return VocabularyTable(
        np.array(numbers, np.uint32),
        list(contents),
        [_text(content) for content in contents],
        np.array(places, np.int64),
        list(names),
    )


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def merges(parts: Parts) -> list[tuple[bytes, bytes]]:
    """(left, right) of each merge, in order of rank."""
    vocabulary = parts.vocabulary
    tokens = vocabulary.tokens
    pairs = merges_of_ranks(vocabulary) if vocabulary.merges is None else vocabulary.merges[:, :2].tolist()
    return [(tokens[left], tokens[right]) for left, right in pairs]
