"""The whole against tiktoken and Hugging Face's tokenizers: the same ids for the same text, or it is no tokenizer."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import small
import texts

SEPARATOR = "<|endoftext|>"


@given(texts.well_formed)
def test_gpt2_as_tiktoken(gpt2, tiktoken_gpt2, text: str) -> None:
    """Any text, with its special tokens and with them as text."""
    assert gpt2.encode(text).tolist() == tiktoken_gpt2.encode(text, allowed_special="all")
    assert gpt2.encode(text, allowed_special=()).tolist() == tiktoken_gpt2.encode_ordinary(text)


@given(texts.well_formed)
def test_small_vocabularies_as_references(
    small_ranks, small_merges, tiktoken_small, tokenizers_small, text: str
) -> None:
    """Ranks as tiktoken, merges as tokenizers."""
    assert small_ranks.encode(text).tolist() == tiktoken_small.encode(text, allowed_special="all")
    assert small_merges.encode(text).tolist() == tokenizers_small.encode(text).ids


@given(texts.well_formed)
def test_gpt2_file_as_tokenizers(gpt2, tokenizers_gpt2, text: str) -> None:
    """GPT-2's ranks give what its merges give."""
    assert gpt2.encode(text).tolist() == tokenizers_gpt2.encode(text).ids


@given(st.binary(max_size=200))
def test_random_bytes(gpt2, tiktoken_gpt2, content: bytes) -> None:
    """Bytes with what is not UTF-8 replaced, as Python replaces it."""
    text = content.decode("utf-8", "replace")
    assert gpt2.encode(content, errors="replace").tolist() == tiktoken_gpt2.encode(text, allowed_special="all")


@pytest.mark.parametrize("text", texts.ADVERSARIAL, ids=range(len(texts.ADVERSARIAL)))
def test_adversarial_text(gpt2, tiktoken_gpt2, small_merges, tokenizers_small, text: str) -> None:
    """Alone, twice, and in the middle of a sentence."""
    for whole in (text, text + text, f"It's {text} isn't it {text}", text + "\n\n" + text):
        assert gpt2.encode(whole).tolist() == tiktoken_gpt2.encode(whole, allowed_special="all")
        assert small_merges.encode(whole).tolist() == tokenizers_small.encode(whole).ids


def test_generated_text_of_every_script(gpt2, tiktoken_gpt2) -> None:
    """Longer texts, over many chunks, that no hash or cache has seen."""
    rng = random.Random(12)
    for _ in range(20):
        text = texts.random_text(rng, 30_000)
        expected = tiktoken_gpt2.encode(text, allowed_special="all")
        assert gpt2.encode(text).tolist() == expected
        assert gpt2.count(text) == len(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a" * 20_000,
        " " * 20_000,
        " " * 20_000 + "x",
        "\n" * 20_000,
        "=" * 20_000,
        "中" * 7_000,
        "".join(random.Random(0).choices("abcdefghij", k=20_000)),
        "'" * 20_000,
        "1" * 20_000,
        "😀" * 5_000,
        "ab" * 10_000,
    ],
    ids=lambda text: repr(text[:3]),
)
def test_repetitive_text(gpt2, tiktoken_gpt2, text: str) -> None:
    """One pretoken of tens of thousands of bytes."""
    assert gpt2.encode(text).tolist() == tiktoken_gpt2.encode_ordinary(text)


def test_corpus_as_tiktoken(gpt2, tiktoken_gpt2, corpus_text: str) -> None:
    """A whole file, its documents with the separator as one token and as text; and as a batch of documents."""
    expected = np.array(tiktoken_gpt2.encode(corpus_text, allowed_special="all"), np.uint32)
    assert np.array_equal(gpt2.encode(corpus_text), expected)
    assert np.array_equal(gpt2.encode(corpus_text.encode()), expected)
    assert gpt2.decode(expected) == corpus_text
    ordinary = tiktoken_gpt2.encode_ordinary(corpus_text)
    assert np.array_equal(gpt2.encode(corpus_text, allowed_special=()), np.array(ordinary, np.uint32))
    documents = corpus_text.split(SEPARATOR)
    batch = gpt2.encode_batch(documents)
    assert batch.tolist() == tiktoken_gpt2.encode_ordinary_batch(documents)
    assert np.array_equal(gpt2.count_batch(documents), batch.lengths)


def test_corpus_as_tokenizers(gpt2_json: str, tokenizers_gpt2, corpus_text: str) -> None:
    """The same against the other reference, with the vocabulary from its own file."""
    from numbatok import Tokenizer

    loaded = Tokenizer.from_str(gpt2_json)
    part = corpus_text[:600_000]
    assert np.array_equal(loaded.encode(part), np.array(tokenizers_gpt2.encode(part).ids, np.uint32))
    tokenizers_gpt2.encode_special_tokens = True
    try:
        as_text = tokenizers_gpt2.encode(part[:100_000]).ids
    finally:
        tokenizers_gpt2.encode_special_tokens = False
    assert loaded.encode(part[:100_000], allowed_special=()).tolist() == as_text


def test_corpus_with_a_small_vocabulary(small_merges, tokenizers_small, corpus_text: str) -> None:
    """Real text under few merges: pretokens of many ids, long ones among them."""
    part = corpus_text[:100_000]
    assert np.array_equal(small_merges.encode(part), np.array(tokenizers_small.encode(part).ids, np.uint32))
    assert small.END not in part or small.ADDED[small.END] in small_merges.encode(part)
