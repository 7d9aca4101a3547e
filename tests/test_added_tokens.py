"""Added tokens: where they are found, who may use them, and what is said about those who may not."""

import itertools
import json
from collections.abc import Iterator

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

import naive
import small
import texts
from conftest import TIKTOKEN_PATTERN
from numbatok import AddedToken, Tokenizer, VocabularyError
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import dtypes
from numbatok.parts import Parts

FIRST = len(small.TOKENS)
#: Sets of added tokens, by what is hard about them.
SETS = {
    "one": ["<|endoftext|>"],
    "prefixes": ["<a>", "<a><b>", "<b>", "<a><b><c>"],
    "overlapping": ["abc", "bcd", "cde", "ab"],
    "single characters": ["a", "é", "中", "😀"],
    "three first bytes": ["[x]", "<x>", "{x}", "<y>", "[xx]"],
    "four first bytes": ["[x]", "<x>", "{x}", "(x)", "<y>"],
    "many first bytes": [f"{chr(33 + n)}{chr(33 + n)}{n}" for n in range(90)],
    "white space": [" ", "  ", "\n", "\u3000", "\n\n\n"],
    "zero bytes": ["\x00", "\x00\x00x"],
    "words": [" the", "the", "there", "'s", "'"],
    "long": ["<" + "x" * 200 + ">", "<" + "x" * 199],
}


def tokenizer_with(contents: list[str]) -> tuple[Tokenizer, naive.Tokenizer]:
    """The small vocabulary with these special tokens, and its oracle."""
    added = {content: FIRST + n for n, content in enumerate(contents)}
    return (
        small.by_ranks(*(AddedToken(content, id) for content, id in added.items())),
        naive.Tokenizer.from_ranks(small.TOKENS, added),
    )


@pytest.fixture(scope="module", params=SETS.values(), ids=SETS.keys())
def tokens_and_both(request: pytest.FixtureRequest) -> tuple[list[str], Tokenizer, naive.Tokenizer]:
    """(contents, tokenizer, oracle) of one set of added tokens."""
    return request.param, *tokenizer_with(request.param)


@given(data=st.data())
def test_leftmost_longest(tokens_and_both, data: st.DataObject) -> None:
    """All allowed, and some allowed: text made of the tokens, of parts of them, and of other text."""
    contents, tokenizer, oracle = tokens_and_both
    parts = st.sampled_from([content[:n] for content in contents for n in range(1, len(content) + 1)])
    pieces = st.sampled_from(contents) | parts | texts.well_formed
    text = "".join(data.draw(st.lists(pieces, max_size=12)))
    allowed = data.draw(st.sets(st.sampled_from(contents)))
    assert tokenizer.encode(text).tolist() == oracle.encode(text)
    assert tokenizer.encode(text, allowed_special=allowed).tolist() == oracle.encode(text, allowed)
    assert tokenizer.count(text, allowed_special=allowed) == len(oracle.encode(text, allowed))


def mixtures(contents: list[str]) -> Iterator[str]:
    """All texts of three parts that are tokens, halves of tokens, or neither."""
    few = contents[:4]
    pieces = [*few, *(content[: len(content) // 2] for content in few), "x", " "]
    return map("".join, itertools.product(pieces, repeat=3))


def test_as_tiktoken(tokens_and_both) -> None:
    """The same ids as tiktoken, whichever single token is allowed.

    Not where one token begins another: there tiktoken takes the one that its hash map gives first.
    """
    contents, tokenizer, _ = tokens_and_both
    if any(longer.startswith(content) for content, longer in itertools.permutations(contents, 2)):
        contents = [
            content for content in contents if not any(c != content and c.startswith(content) for c in contents)
        ]
        tokenizer, _ = tokenizer_with(contents)
    reference = tiktoken.Encoding(
        "added",
        pat_str=TIKTOKEN_PATTERN,
        mergeable_ranks=small.ID_OF,
        special_tokens={content: FIRST + n for n, content in enumerate(contents)},
    )
    for text in mixtures(contents):
        for allowed in ({contents[0]}, {contents[-1]}, set(contents)):
            expected = reference.encode(text, allowed_special=allowed, disallowed_special=())
            assert tokenizer.encode(text, allowed_special=allowed).tolist() == expected, (text, allowed)


def test_as_tokenizers(tokens_and_both) -> None:
    """The same ids as Hugging Face, whose search is leftmost-longest."""
    contents, _, _ = tokens_and_both
    settings = small.tokenizer_json()
    contents = [content for content in contents if content.encode() not in small.ID_OF]
    (entry,) = settings["added_tokens"]
    settings["added_tokens"] = [{**entry, "id": FIRST + n, "content": content} for n, content in enumerate(contents)]
    reference = tokenizers.Tokenizer.from_str(json.dumps(settings))
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    for text in mixtures(contents or ["x"]):
        assert tokenizer.encode(text).tolist() == reference.encode(text).ids, text


def test_across_the_edges_of_blocks_and_chunks(tokens_and_both) -> None:
    """A token that begins before an edge and ends after it, from either side; the text may end with it, too."""
    contents, tokenizer, oracle = tokens_and_both
    for content in contents[:3]:
        size = len(content.encode())
        for edge in (64, dtypes.CHUNK_BYTES):
            for before in {edge - 1, edge, edge - size, edge - size - 1, edge - size // 2}:
                filler = "z" * (before % 9) + "zzzz zzzz" * (before // 9)
                for end in ("", "q", " q" * 70):
                    text = filler + content + end
                    assert tokenizer.encode(text).tolist() == oracle.encode(text), (content, before, end)
                    assert tokenizer.encode(text, allowed_special=()).tolist() == oracle.encode(text, ())


def test_far_away(tokens_and_both) -> None:
    """A pretoken longer than a chunk before a token, and long stretches without one."""
    contents, tokenizer, oracle = tokens_and_both
    for content in contents[:3]:
        for gap in ("q" * (dtypes.CHUNK_BYTES + 100), " " * (2 * dtypes.CHUNK_BYTES), "qq " * 9000):
            text = gap + content + gap + content
            kept = [section for section, _ in oracle.sections(text, contents)]
            assert "".join(kept) == text
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == text
            assert np.count_nonzero(ids >= FIRST) == sum(is_added for _, is_added in oracle.sections(text, contents))


def test_empty_pieces_between_tokens() -> None:
    """Adjacent tokens, and nothing but tokens."""
    tokenizer, _ = tokenizer_with(["<a>", "<b>"])
    assert tokenizer.encode("<a><b><b><a>" * 1000).tolist() == [FIRST, FIRST + 1, FIRST + 1, FIRST] * 1000


def test_a_token_ends_the_text_before_it() -> None:
    """White space before a token is white space at the end of a text: ``\\s+(?!\\S)`` takes all of it."""
    tokenizer, _ = tokenizer_with(["<a>"])
    spaces = tokenizer.encode("x   ").tolist()
    assert tokenizer.encode("x   <a>y").tolist() == [*spaces, FIRST, *tokenizer.encode("y").tolist()]


def test_no_added_tokens_at_all() -> None:
    """Text is text."""
    tokenizer = Tokenizer(Parts(small.by_ranks()._vocabulary, AddedTokens([]), small.RULE))
    assert tokenizer.encode("<|endoftext|> x").tolist() == naive.Tokenizer.from_ranks(small.TOKENS).encode(
        "<|endoftext|> x"
    )
    assert tokenizer.special_tokens == {}
    with pytest.raises(ValueError, match="not a special token of this tokenizer; it has none"):
        tokenizer.encode("x", allowed_special={"<a>"})


def test_ordinary_added_tokens_always_count() -> None:
    """A token that is not special is found whatever the policy, and can't be named in one."""
    tokenizer = small.by_ranks(AddedToken("<o>", FIRST, special=False), AddedToken("<s>", FIRST + 1))
    x = small.ID_OF[b"x"]
    assert tokenizer.encode("x<o>x<s>").tolist() == [x, FIRST, x, FIRST + 1]
    as_text = tokenizer.encode("x<o>x<s>", allowed_special=()).tolist()
    assert as_text[:3] == [x, FIRST, x]
    assert FIRST + 1 not in as_text
    assert tokenizer.encode("x<o>x", allowed_special=(), disallowed_special="all").tolist() == [x, FIRST, x]
    assert tokenizer.special_tokens == {"<s>": FIRST + 1}
    with pytest.raises(ValueError, match="allowed_special names '<o>'"):
        tokenizer.encode("x", allowed_special={"<o>"})


def test_policy_arguments() -> None:
    """``"all"``, collections of any kind, both arguments together; refused wins where both name a token."""
    tokenizer, oracle = tokenizer_with(["<a>", "<b>"])
    text = "x<a>y<b>z"
    for allowed in ({"<a>"}, frozenset({"<a>"}), ["<a>"], ("<a>",), {"<a>": 1}.keys()):
        assert tokenizer.encode(text, allowed_special=allowed).tolist() == oracle.encode(text, {"<a>"})
    assert tokenizer.encode(text, disallowed_special="all").tolist() == oracle.encode(text)
    assert tokenizer.encode("x<a>", allowed_special={"<a>"}, disallowed_special="all")[-1] == FIRST
    with pytest.raises(ValueError, match="'<b>'"):
        tokenizer.encode(text, allowed_special={"<a>"}, disallowed_special="all")
    with pytest.raises(ValueError, match="'<a>'"):
        tokenizer.encode(text, allowed_special={"<a>"}, disallowed_special=["<a>"])


def test_disallowed_names_token_place_and_remedies() -> None:
    """The message holds what one needs to go on."""
    tokenizer, _ = tokenizer_with(["<a>", "<b>"])
    for call in (tokenizer.encode, tokenizer.count):
        with pytest.raises(ValueError, match="disallowed") as raised:
            call("hé <b> <a>", allowed_special=(), disallowed_special="all")
        message = str(raised.value)
        assert "'<b>'" in message
        assert "at character 3" in message
        assert "allowed_special={'<b>'}" in message
        assert "disallowed_special=()" in message
    with pytest.raises(ValueError, match="and leave it out of disallowed_special"):
        tokenizer.encode("<a>", allowed_special={"<a>"}, disallowed_special={"<a>"})


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<a>", "character 0"),
        ("\ud800<a>", "character 1"),
        ("\ud83d\ude00<a>", "character 2"),
        ("😀 \udfff<a>", "character 3"),
        ("é<a>".encode(), "byte 2"),
        (bytearray(b"xy<a>"), "byte 2"),
        ("y" * 20_000 + "<a>", "character 20000"),
    ],
)
def test_place_of_a_disallowed_token(text: object, place: str) -> None:
    """Counted in characters of the ``str`` or bytes of the buffer that the caller gave."""
    tokenizer, _ = tokenizer_with(["<a>"])
    with pytest.raises(ValueError, match=f"at {place}\\."):
        tokenizer.encode(text, allowed_special=(), disallowed_special="all")


def test_place_of_a_disallowed_token_after_replaced_bytes() -> None:
    """Counted in the bytes that were given, not in those with U+FFFD in their place."""
    tokenizer, _ = tokenizer_with(["<a>"])
    with pytest.raises(ValueError, match="at byte 2"):
        tokenizer.encode(b"\xff\xfe<a>", errors="replace", allowed_special=(), disallowed_special="all")


def test_disallowed_in_a_batch_names_the_text() -> None:
    """The index of the text; and later calls are none the worse."""
    tokenizer, oracle = tokenizer_with(["<a>"])
    for call in (tokenizer.encode_batch, tokenizer.count_batch):
        with pytest.raises(ValueError, match="character 1 of the text at index 2 of the batch"):
            call(["x", "y", "z<a>", "<a>"], allowed_special=(), disallowed_special="all")
    assert tokenizer.encode("z<a>").tolist() == oracle.encode("z<a>")


@pytest.mark.parametrize("argument", ["allowed_special", "disallowed_special"])
def test_wrong_policies(small_ranks, argument: str) -> None:
    """A string that is not "all" is a mistake, not a collection of characters; unknown names are errors."""
    for wrong in ("<|endoftext|>", "", None, 5, iter(["<|endoftext|>"])):
        with pytest.raises(TypeError, match=f'{argument} must be "all" or a collection of special tokens, not'):
            small_ranks.encode("x", **{argument: wrong})
    for wrong in ([["a"]], [None], (5,)):
        with pytest.raises(TypeError, match=f"{argument} must hold special tokens, which are str, not"):
            small_ranks.encode("x", **{argument: wrong})
    with pytest.raises(ValueError, match=f"{argument} names 'nobody', which is not a special token"):
        small_ranks.encode("x", **{argument: ["nobody"]})


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([AddedToken("", 7)], "added token 7 is empty"),
        ([AddedToken("<a>", 7), AddedToken("<a>", 8)], "'<a>' is given twice, with ids 7 and 8"),
        ([AddedToken("<a>", -1)], "has id -1; ids are 0 to"),
        ([AddedToken("<a>", 1 << 32)], "has id 4294967296; ids are 0 to"),
        ([AddedToken("\ud800", 7)], "lone surrogate"),
    ],
)
def test_impossible_tokens(tokens: list[AddedToken], message: str) -> None:
    """Refused where they are made, by name."""
    with pytest.raises(VocabularyError, match=message):
        AddedTokens(tokens)


def test_special_tokens_in_order_of_ids() -> None:
    """The mapping is the caller's own copy."""
    tokenizer = small.by_ranks(AddedToken("<b>", FIRST + 1), AddedToken("<a>", FIRST + 5), AddedToken("<c>", FIRST))
    assert list(tokenizer.special_tokens.items()) == [("<c>", FIRST), ("<b>", FIRST + 1), ("<a>", FIRST + 5)]
    tokenizer.special_tokens.clear()
    assert len(tokenizer.special_tokens) == 3
    assert tokenizer.vocab_size == FIRST + 6
