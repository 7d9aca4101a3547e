"""Segments: special tokens come from where the caller says so, and from nowhere else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import vocabularies
from numbatok import AddedToken, Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.parts import Parts
from numbatok.patterns.rules import Split
from numbatok.vocabulary import Vocabulary
from texts import well_formed

CHAT = ("<|im_start|>", "<|im_end|>", "<|im_", "|im_end|>")


@pytest.fixture(scope="module")
def chat() -> Tokenizer:
    """GPT-2's trained little sister with special tokens, some within others, and added tokens that are not special."""
    return small.by_ranks().add_special_tokens(CHAT).add_tokens(["<tool>", " the"], normalized=False)


hostile = st.lists(st.sampled_from([*CHAT, "<|", "im_start", "|>", "<tool>", " the", "user\n"]), max_size=5).map(
    "".join
)
contents = st.one_of(hostile, well_formed)
segments = st.one_of(
    st.tuples(contents, st.just("text")),
    st.tuples(contents, st.just("plain")),
    st.tuples(st.sampled_from([*CHAT, "<tool>"]), st.just("special")),
)


@given(st.lists(segments, max_size=8))
def test_segments(chat: Tokenizer, given_segments: list[tuple[str, str]]) -> None:
    """Each segment's ids are those of its text, or its token; the spans are exact."""
    batch = chat.encode_segments(iter(given_segments))
    plain = Tokenizer(Parts(chat._vocabulary, AddedTokens([]), chat._parts.rule))
    wanted = {
        "text": lambda content: chat.encode(content, allowed_special=()).tolist(),
        "plain": lambda content: plain.encode(content).tolist(),
        "special": lambda content: [chat.token_to_id(content)],
    }
    assert batch.tolist() == [wanted[kind](content) for content, kind in given_segments]
    assert batch.ids.tolist() == [id for ids in batch.tolist() for id in ids]
    specials = np.isin(batch.ids, list(chat.special_tokens.values()))
    assert specials.sum() == sum(kind == "special" and content != "<tool>" for content, kind in given_segments)
    assert chat.decode(batch.ids) == "".join(content for content, _ in given_segments)


@given(st.sampled_from(CHAT), st.integers(0, 12), st.integers(0, 12))
def test_seams(chat: Tokenizer, token: str, first: int, second: int) -> None:
    """The parts of a token in neighbouring segments do not make it."""
    first, second = min(first, second), max(first, second)
    parts = [(token[:first], "text"), (token[first:second], "plain"), (token[second:], "text")]
    ids = chat.encode_segments(parts).ids
    assert not np.isin(ids, list(chat.special_tokens.values())).any()
    assert chat.decode(ids) == token


@pytest.mark.parametrize("row", [row for row in vocabularies.ROWS if not row.refused], ids=lambda row: row.name)
def test_every_special_token_as_hostile_text(row: vocabularies.Row) -> None:
    """No text of any vocabulary becomes a special token."""
    tokenizer = row.tokenizer()
    if not tokenizer.special_tokens:
        tokenizer = tokenizer.add_special_tokens(CHAT)
    specials = list(tokenizer.special_tokens)
    unknown = tokenizer._vocabulary.options.unk  # which a character that has no token becomes, and no other text
    numbers = [tokenizer.token_to_id(token) for token in specials if token.encode() != unknown]
    for kind in ("text", "plain"):
        for attack in ("{}", " {}", "x{}y", "{}\n", "{0}{0}"):
            batch = tokenizer.encode_segments([(attack.format(token), kind) for token in specials])
            assert not np.isin(batch.ids, numbers).any()
        halves = [part for token in specials for part in ((token[:-1], kind), (token[-1:], kind))]
        assert not np.isin(tokenizer.encode_segments(halves).ids, numbers).any()
    batch = tokenizer.encode_segments([(token, "special") for token in specials])
    assert batch.tolist() == [[tokenizer.token_to_id(token)] for token in specials]


def test_merged_specials() -> None:
    """A vocabulary whose merging gives a special token can't tell a text from it: an error, not a forged token."""
    number = small.ID_OF[b" the"]
    by_ranks = small.by_ranks(AddedToken(" the", number), AddedToken("<|endoftext|>", len(small.TOKENS)))
    by_merges = Tokenizer(
        Parts(Vocabulary.from_merges(small.ID_OF, small.TRAINED), by_ranks._parts.added_tokens, small.RULE)
    )
    for tokenizer in (by_ranks, by_merges):
        assert tokenizer.encode_segments([(" the", "special")]).ids.tolist() == [number]
        with pytest.raises(ValueError, match="merges the text of the segment at index 1 into the special token ' the'"):
            tokenizer.encode_segments([("a", "text"), ("in the sea", "text")])
        assert tokenizer.encode_segments([("a<|endoftext|>", "text")]).tolist() != []


def test_errors(chat: Tokenizer) -> None:
    """What is wrong, with which segment."""
    encode = chat.encode_segments
    with pytest.raises(ValueError, match=r"special segment at index 1 is '<\|nothing\|>', which is no special"):
        encode([("a", "text"), ("<|nothing|>", "special")])
    with pytest.raises(ValueError, match="Each needs a segment of its own"):
        encode([("<|im_start|>user", "special")])
    with pytest.raises(ValueError, match="kind must be one of text, plain, special, not 'user' at index 0"):
        encode([("a", "user")])
    with pytest.raises(TypeError, match="a special segment must be a str, not bytes at index 0"):
        encode([(b"<|im_start|>", "special")])
    with pytest.raises(TypeError, match=r"a segment must be a pair \(content, kind\), not 'ab' at index 0"):
        encode(["ab"])
    with pytest.raises(TypeError, match="segments must be an iterable"):
        encode("ab")
    with pytest.raises(TypeError, match="not int at index 1 of the batch"):
        encode([("a", "text"), (3, "text")])
    with pytest.raises(UnicodeDecodeError, match="at index 1 of the batch"):
        encode([("<|im_start|>", "special"), (b"\xff", "plain")])
    assert encode([(b"\xff", "plain")], errors="replace").tolist() == [chat.encode("\ufffd").tolist()]
    assert encode([]).tolist() == []


def test_with_prefixes() -> None:
    """A prefix space counts from each segment's start, and the template's tokens are left out."""
    from numbatok.templates import Special, Template, Text

    template = Template((Special("<s>", (0,)), Text("A"), Text("A")))
    tokenizer = Tokenizer(Parts(**{**vars(small.by_ranks()._parts), "prefix_space": True, "template": template}))
    batch = tokenizer.encode_segments([("the", "text"), ("<|endoftext|>", "special"), ("the", "plain")])
    number = small.ID_OF[b" the"]
    assert batch.tolist() == [[number], [len(small.TOKENS)], [number]]


def test_rules_that_look_over_a_seam() -> None:
    """A rule that would join what stands on both sides of a seam does not see it."""
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([]), (Split(r"\w+|\W+"),)))
    joined = tokenizer.encode_segments([("th", "text"), ("e", "text")])
    assert joined.tolist() == [tokenizer.encode("th").tolist(), tokenizer.encode("e").tolist()]
