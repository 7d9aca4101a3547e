"""Texts that grow: the ids are those of encoding each anew, whatever extends what, in any order and many threads."""

import json
import pickle
import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
import small
import texts
from numbatok import Tokenizer
from numbatok.patterns.rules import Split
from numbatok.prefix_cache import LEAST


def check(tokenizer: Tokenizer, conversation: list[str], max_bytes: int = 1 << 20) -> None:
    """Each text, as often as it comes, against the tokenizer itself."""
    cached = tokenizer.with_prefix_cache(max_bytes)
    for text in conversation:
        ids = cached.encode(text)
        assert np.array_equal(ids, tokenizer.encode(text))
        assert cached.count(text) == len(ids)
        ids[:] = 0  # it is the caller's own
        assert cached.info.bytes <= max_bytes


@settings(max_examples=60)
@given(st.lists(texts.well_formed, min_size=1, max_size=6), st.integers(0, 4))
def test_any_growth(parts: list[str], which: int) -> None:
    """Generated turns after a beginning that all share; cut anywhere, repeated, branching."""
    lacking = (small.without_bytes(missing) for missing in (b"e\xc3\xf2", b"\xc0\xff"))
    tokenizer = (small.by_ranks(), small.by_merges(), normalizing(), *lacking)[which]
    whole = "System: " + "be brief. " * 30
    conversation = [whole]
    for part in parts:
        whole += part
        conversation += [whole, whole[: len(whole) // 2] + "!", whole]
    check(tokenizer, conversation)


def normalizing() -> Tokenizer:
    """A tokenizer that normalizes, with a template and added tokens of all kinds."""
    content = small.tokenizer_json()
    content["normalizer"] = {"type": "NFC"}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "E", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"E": {"id": "E", "ids": [300], "tokens": ["a"]}},
    }
    return Tokenizer.from_str(json.dumps(content)).add_tokens(["<m>", "x y"], rstrip=True, lstrip=True)


def test_long_texts_and_seams(gpt2: Tokenizer) -> None:
    """A prompt of many turns, each of which ends amid something."""
    rng = random.Random(3)
    whole, conversation = "", []
    for _ in range(40):
        whole += texts.random_text(rng, rng.choice([1, 30, 3000])) + rng.choice([" ", "\n", "", "<|endo", "1", "e"])
        conversation.append(whole)
    check(gpt2, conversation, max_bytes=8 << 20)
    check(gpt2, conversation[::-1], max_bytes=1 << 20)
    check(gpt2, conversation, max_bytes=0)


def test_a_rule_of_two_steps(gpt2: Tokenizer) -> None:
    """A start that the second step alone makes is no place to go on from."""
    rule = Split(r"[ab]{1,3}|[^ab]+"), Split(r"a|b+|[^ab]+")
    tokenizer = Tokenizer(replace(gpt2._parts, rule=rule))
    rng = random.Random(2)
    whole, conversation = "", []
    for _ in range(60):
        whole += "".join(rng.choices(["abbb", "bb", "a", "abb", "the "], k=rng.choice([90, 3000])))
        conversation.append(whole)
    check(tokenizer, conversation, max_bytes=8 << 20)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_encodings(name: str) -> None:
    """Other split rules, whose pretokens look further ahead."""
    rng = random.Random(name)
    whole, conversation = "", []
    for _ in range(30):
        whole += texts.random_text(rng, rng.choice([5, 300, 5000])) + rng.choice(["", "\n\n", "<|endof", "'", "12"])
        conversation += [whole, whole[: rng.randrange(len(whole))]]
    check(numbatok.get_encoding(name), conversation, max_bytes=8 << 20)


def test_wide_characters(gpt2: Tokenizer) -> None:
    """CPython keeps a text in wider characters from the first on that needs them; it is the same text still."""
    conversation, whole = [], "Plain text, and more. " * 1000
    for more in ("plain ", "é ", "語 ", "😀 ", "plain again ") * 2:
        whole += more * 3000
        conversation += [whole, whole[: -len(more)] + "?", whole[: len(whole) // 2] + more]
    check(gpt2, conversation, max_bytes=64 << 20)


@pytest.mark.parametrize(("wide", "narrow"), ["\u4e41A", "\u4e00\x00", "\U0001f600\uf600", "\U000100e9é"])
def test_low_bits_alone(gpt2: Tokenizer, wide: str, narrow: str) -> None:
    """A text is no other one whose wider characters have the same low bits."""
    part = "Plain text, and more. " * 1000
    check(gpt2, [part + wide + part, part + narrow + part + "more"], max_bytes=8 << 20)


def test_no_place_to_go_on_from(gpt2: Tokenizer) -> None:
    """One long pretoken, and lone surrogates, which pair with those that follow."""
    check(gpt2, ["a" * length for length in (300, 9000, 20_000)] + ["a" * 20_000 + " b"], max_bytes=8 << 20)
    whole = "Some words. " * 1000 + "\ud83d"
    check(gpt2, [whole, whole + "\ude00", whole + "more " * 3000, whole + "\ude00" + "more " * 3000], 8 << 20)


def test_counters_and_bounds(gpt2: Tokenizer) -> None:
    """What was reused is told, the oldest goes first, and nothing is remembered that is too large."""
    cached = gpt2.with_prefix_cache(200_000)
    text = "Hello world, " * 100
    cached.encode(text)
    cached.encode(text)
    cached.encode(text + "more of it")
    cached.encode("short")
    info = cached.info
    assert (info.texts, info.hits, info.misses) == (2, 2, 1)
    assert info.reused == 2 * len(text)
    assert info.encoded == len(text) + len("more of it")
    assert cached.count(text) == gpt2.count(text)
    for number in range(100):
        cached.encode(f"{number} " * 300)
        assert cached.info.bytes <= 200_000
    assert 10 < cached.info.texts < 60
    cached.encode("z " * 200_000)
    assert cached.info.bytes <= 200_000
    for number in range(200):
        cached.encode("a " * 300 + str(number))
    cached.clear()
    assert cached.info == (0, 0, 0, 0, 0, 0)
    assert "0 texts" in repr(cached)
    with pytest.raises(TypeError, match="text must be str, not bytes"):
        cached.encode(b"a" * LEAST)
    with pytest.raises(ValueError, match="max_bytes must be at least 0"):
        gpt2.with_prefix_cache(-1)
    with pytest.raises(TypeError, match="max_bytes must be an int"):
        gpt2.with_prefix_cache("1 MB")


def test_memory_of_a_normalizer() -> None:
    """What is remembered of a text does not hold the normalizer's tables once more."""
    cached = normalizing().with_prefix_cache(1 << 20)
    cached.encode("é" * LEAST)  # what all texts share is made now
    tracemalloc.start()
    try:
        for number in range(16):
            cached.encode(f"{number} é" * LEAST)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cached.info.texts == 17
    assert held < 1 << 20


def test_many_threads(gpt2: Tokenizer) -> None:
    """They extend each other's texts at once."""
    cached = gpt2.with_prefix_cache(1 << 20)
    base = texts.random_text(random.Random(1), 2000)
    wanted = [gpt2.encode(base + "x " * number).tolist() for number in range(40)]

    def work(seed: int) -> None:
        for number in random.Random(seed).choices(range(40), k=60):
            assert cached.encode(base + "x " * number).tolist() == wanted[number]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_pickling(gpt2: Tokenizer) -> None:
    """It comes back empty, with its bound."""
    cached = gpt2.with_prefix_cache(1 << 20, add_special_tokens=False)
    cached.encode("Hello world. " * 100)
    other = pickle.loads(pickle.dumps(cached))
    assert (other.max_bytes, other.info.texts, cached.info.texts) == (1 << 20, 0, 1)
    assert other.encode("Hello world. " * 100).tolist() == cached.encode("Hello world. " * 100).tolist()
