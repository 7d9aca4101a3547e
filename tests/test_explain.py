"""Vocabularies as columns, lists of merges, and texts explained merge by merge."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

import naive
import numbatok
import small
import vocabularies
from numbatok import AddedToken, Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.explain import Merge
from numbatok.parts import Parts
from numbatok.patterns.rules import Split
from numbatok.vocabulary import Vocabulary
from texts import ADVERSARIAL, well_formed

LOADED = [row for row in vocabularies.ROWS if not row.refused]
SAMPLES = [
    *ADVERSARIAL,
    "It's the  naïve Über-test, 中国人 ½ and 1000 more 🎉!\n It ends here\t",
    "a" * 300,
    "\U000f1234é\x01",
]


def replay(piece: numbatok.explain.Piece) -> tuple[bytes, ...]:
    """The tokens that a piece's merges leave of its units."""
    state = list(piece.units)
    for merge in piece.merges:
        assert (merge.left, merge.right) == tuple(state[merge.place : merge.place + 2])
        state[merge.place : merge.place + 2] = [merge.made]
    return tuple(state)


@given(well_formed)
def test_explained(small_ranks: Tokenizer, small_merges: Tokenizer, text: str) -> None:
    """Pieces are the pretokens, the merges lead from the units to the tokens, and the ids are those of ``encode``."""
    for tokenizer in (small_ranks, small_merges):
        explained = tokenizer.explain(text)
        assert explained.ids.tolist() == tokenizer.encode(text).tolist()
        assert b"".join(piece.content for piece in explained).decode() == text
        for piece in explained:
            if piece.kind == "merged":
                assert replay(piece) == piece.tokens
                assert b"".join(piece.units) == piece.content
                assert [tokenizer.token_to_id(token) for token in piece.tokens] == list(piece.ids)


def naive_merges(pretoken: bytes) -> list[Merge]:
    """The merges of a pretoken, found by looking for the lowest rank anew each time."""
    rank = {pair: place for place, pair in enumerate(small.TRAINED)}
    tokens, merges = [bytes([byte]) for byte in pretoken], []
    while True:
        ranks = [rank.get(pair, len(rank)) for pair in pairwise(tokens)]
        if not ranks or min(ranks) == len(rank):
            return merges
        place = ranks.index(min(ranks))
        left, right = tokens[place : place + 2]
        merges.append(Merge(left, right, left + right, ranks[place], place))
        tokens[place : place + 2] = [left + right]


@given(well_formed)
def test_merges_in_their_order(small_merges: Tokenizer, text: str) -> None:
    """Each merge, its rank and its place are those of the definition."""
    pieces = list(small_merges.explain(text, allowed_special=()))
    assert [piece.content for piece in pieces] == [pretoken.encode() for pretoken in naive.split(text)]
    for piece in pieces:
        assert list(piece.merges) == naive_merges(piece.content)


@pytest.mark.parametrize("row", LOADED, ids=lambda row: row.name)
def test_real_vocabularies(row: vocabularies.Row) -> None:
    """With normalizers, prefixes, byte tokens and unknown ones: the ids, and the table's tokens."""
    tokenizer = row.tokenizer()
    for text in [*SAMPLES, *list(tokenizer.special_tokens)[:2], "x".join(list(tokenizer.special_tokens)[:3])]:
        explained = tokenizer.explain(text)
        assert explained.ids.tolist() == tokenizer.encode(text, add_special_tokens=False).tolist()
        for piece in explained:
            assert piece.kind != "merged" or piece.units or not piece.ids
            repr(piece)
    table = tokenizer.vocabulary()
    numbers = table.ids.tolist()
    assert numbers == sorted(set(numbers))
    assert max(numbers) + 1 == tokenizer.vocab_size
    assert [tokenizer.id_to_token(number) for number in numbers[::97]] == table.bytes[::97]
    specials = [number for number, kind in zip(numbers, table.kind, strict=True) if kind == "special"]
    assert specials == sorted(set(tokenizer.special_tokens.values()))


def test_repr(gpt2: Tokenizer) -> None:
    """What a notebook shows."""
    assert repr(gpt2.explain("the<|endoftext|>\x1b")).splitlines() == [
        '"the" -> 1169',
        "    [t] [h] [e]",
        "    [t] [he]    rank 258: [h] [e]",
        "    [the]    rank 1169: [t] [he]",
        '"<|endoftext|>" added -> 50256',
        '"\\x1b" -> 215',
        "    [\\x1b]",
    ]
    assert repr(gpt2.explain("")) == "no pieces"
    shown = repr(gpt2.explain("=" * 2_000 + "x" * 201)[:1])
    assert "more merges" in shown


def test_sequence(small_merges: Tokenizer) -> None:
    """Pieces by number, slices, iteration."""
    explained = small_merges.explain("the other thing")
    assert len(explained) == 3
    assert explained[0].content == b"the"
    assert [piece.content for piece in explained[1:]] == [b" other", b" thing"]
    assert explained[1:].ids.tolist() == small_merges.encode(" other thing").tolist()


def test_dropped_pieces() -> None:
    """What the split rule removes is said to be so."""
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([]), (Split(r"\s+", "removed"),)))
    explained = tokenizer.explain("the  other\n")
    assert [(piece.content, piece.kind) for piece in explained] == [
        (b"the", "merged"),
        (b"  ", "dropped"),
        (b"other", "merged"),
        (b"\n", "dropped"),
    ]
    assert explained.ids.tolist() == tokenizer.encode("the  other\n").tolist()
    assert repr(explained[1]) == '"  " dropped'


def test_rule_run_by_regex() -> None:
    """Back-references, by the package ``regex``."""
    with pytest.warns(RuntimeWarning, match="the package regex"):
        tokenizer = Tokenizer(
            Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([]), (Split(r"(.)\1"),), pattern_engine="regex")
        )
    explained = tokenizer.explain("hello there")
    assert [piece.content for piece in explained] == [b"he", b"ll", b"o there"]
    assert explained.ids.tolist() == tokenizer.encode("hello there").tolist()


def test_long_pieces(gpt2: Tokenizer) -> None:
    """A piece of 100,000 bytes in n log n."""
    text = "ab" * 50_000
    assert gpt2.explain(text).ids.tolist() == gpt2.encode(text).tolist()


def test_special_tokens(small_ranks: Tokenizer) -> None:
    """As ``encode`` treats them."""
    assert [piece.kind for piece in small_ranks.explain("a<|endoftext|>")] == ["merged", "added"]
    plain = small_ranks.explain("a<|endoftext|>", allowed_special=())
    assert plain.ids.tolist() == small_ranks.encode("a<|endoftext|>", allowed_special=()).tolist()
    with pytest.raises(ValueError, match=r"disallowed special token '<\|endoftext\|>' at character 1"):
        small_ranks.explain("a<|endoftext|>", allowed_special=(), disallowed_special="all")
    with pytest.raises(UnicodeDecodeError):
        small_ranks.explain(b"\xff")
    with pytest.raises(TypeError):
        small_ranks.explain(3)
    with pytest.raises(ValueError, match="merges at random"):
        small_ranks.with_dropout(0.1).explain("a")


@settings(max_examples=20)
@given(well_formed)
def test_surrogates_and_bytes(small_ranks: Tokenizer, text: str) -> None:
    """Other kinds of text."""
    assert repr(small_ranks.explain(text.encode())) == repr(small_ranks.explain(text))
    lone = text + "\ud800"
    assert small_ranks.explain(lone).ids.tolist() == small_ranks.encode(lone).tolist()


def test_merges_of_a_file(gpt2_json: str) -> None:
    """The list as it stands there."""
    listed = [
        tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge)
        for merge in json.loads(gpt2_json)["model"]["merges"]
    ]
    merges = Tokenizer.from_str(gpt2_json).merges()
    assert [(small.spell(left), small.spell(right)) for left, right in merges] == listed


def test_merges_of_ranks(small_ranks: Tokenizer, small_merges: Tokenizer) -> None:
    """A list that merges as the ranks do; and the trained ones."""
    assert small_merges.merges() == small.TRAINED
    merging = Vocabulary.from_merges(small.ID_OF, small_ranks.merges(), whole_first=True)
    same = Tokenizer(Parts(merging, small_ranks._parts.added_tokens, small.RULE))
    assert same.encode(small.TEXT).tolist() == small_ranks.encode(small.TEXT).tolist()


def test_table() -> None:
    """All kinds of tokens, and their columns."""
    ids = {b"a": 3, b"b": 5, b"ab": 2, b"\xe4\xb8": 9, b"abab": 11}
    vocabulary = Vocabulary.from_merges(ids, [(b"ab", b"ab"), (b"a", b"b"), (b"a", b"b")])
    added = AddedTokens([AddedToken("<s>", 7), AddedToken("ab", 2, special=False)])
    table = Tokenizer(Parts(vocabulary, added, small.RULE, unreachable=((1, b"x"),))).vocabulary()
    assert [tuple(row) for row in table] == [
        (1, b"x", "x", -1, "unreachable"),
        (2, b"ab", "ab", 1, "added"),
        (3, b"a", "a", -1, "unit"),
        (5, b"b", "b", -1, "unit"),
        (7, b"<s>", "<s>", -1, "special"),
        (9, b"\xe4\xb8", None, -1, "unmerged"),
        (11, b"abab", "abab", 0, "merged"),
    ]
    assert repr(table) == (
        "<numbatok.VocabularyTable 7 tokens: 1 unreachable, 1 added, 2 unit, 1 special, 1 unmerged, 1 merged>"
    )
    assert (table.ids.dtype, table.rank.dtype) == (np.uint32, np.int64)


def test_table_of_gpt2(gpt2: Tokenizer) -> None:
    """Its ranks are its ids."""
    table = gpt2.vocabulary()
    assert repr(table) == "<numbatok.VocabularyTable 50257 tokens: 256 unit, 50000 merged, 1 special>"
    assert np.array_equal(table.rank[:50256], np.arange(50256))


def test_arrow(small_merges: Tokenizer) -> None:
    """A table with nulls where there is no text."""
    pytest.importorskip("pyarrow")
    table = small_merges.vocabulary()
    columns = table.to_arrow().to_pydict()
    assert columns["id"] == table.ids.tolist()
    assert columns["bytes"] == table.bytes
    assert columns["text"] == table.text
    assert columns["rank"] == table.rank.tolist()
    assert columns["kind"] == table.kind


def test_pandas(small_merges: Tokenizer) -> None:
    """A frame by id."""
    pytest.importorskip("pandas")
    table = small_merges.vocabulary()
    frame = table.to_pandas()
    assert frame.index.tolist() == table.ids.tolist()
    assert frame["bytes"].tolist() == table.bytes
    assert frame.loc[small.ADDED["<|endoftext|>"], "kind"] == "special"


def test_whole_tokens() -> None:
    """A token that merging would not make, where the vocabulary takes it whole."""
    ids = {b"a": 0, b"b": 1, b"c": 2, b"abc": 3}
    vocabulary = Vocabulary.from_merges(ids, [], whole_first=True)
    tokenizer = Tokenizer(Parts(vocabulary, AddedTokens([]), small.RULE))
    assert repr(tokenizer.explain("abc")) == '"abc" whole -> 3'
    assert tokenizer.explain("ab").ids.tolist() == [0, 1]
