"""Texts in parts: any cut into parts gives the ids of the whole, whatever rule, added tokens and normalizer."""

import copy
import dataclasses
import json
import pickle
import random
import time
import warnings
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

import numbatok
import small
import texts
import vocabularies
from conftest import TEST_DATA
from numbatok import AddedToken, Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.normalizers.streaming import stream_of
from numbatok.parts import Parts
from numbatok.patterns.known import WALKS
from numbatok.patterns.rules import GPT2, Split
from test_added_flags import CONTENTS, FLAGS, NORMALIZERS, PIECES
from test_offsets import EVERY_NORMALIZER, MARKS, with_added

#: Rules of the automaton, of one step and of several, with behaviours that drop and that look ahead.
RULES = {
    "none": (),
    "words": (Split(r"\w+|\W"),),
    "dropped": (Split(r"\s+", "removed"),),
    "next": (Split("[aeiou]", "merged_with_next"),),
    "previous": (Split(r"\p{P}|-", "merged_with_previous"),),
    "far ahead": (Split(r"a*b|a|[^a]+"),),
    "line ends": (Split(r"\s+$|\s+(?!\S)|\s|\S+"),),
    "steps": (Split(r"\p{N}"), Split(r"[^\s\p{L}]+|\p{L}+|\s+(?!\S)|\s+"), Split("ab|ba", "contiguous")),
    "spelled": (Split(GPT2), Split("²", spelled=True)),
    **{name: walk.rules[0] for name, walk in WALKS.items()},
}


def parts_of(rng: random.Random, text: str | bytes, longest: int) -> Iterable[Any]:
    """A text cut anywhere."""
    place = 0
    while place < len(text):
        size = rng.randint(0, longest)
        yield text[place : place + size]
        place += size


def streamed(tokenizer: Tokenizer, parts: Iterable[Any], **options: Any) -> list[int]:
    """The ids that a stream gives of parts."""
    stream = tokenizer.stream_encoder(**options)
    ids = [stream.feed(part) for part in parts]
    ids.append(stream.finish())
    assert all(part.dtype == np.uint32 for part in ids)
    return np.concatenate(ids).tolist()


def assert_streams(tokenizer: Tokenizer, text: str, rng: random.Random, **options: Any) -> None:
    """Some ways to cut one text, as str and as bytes."""
    wanted = tokenizer.encode(text, **options).tolist()
    for longest in (1, 7, 300, 5000):
        if longest * 2000 >= len(text):
            assert streamed(tokenizer, parts_of(rng, text, longest), **options) == wanted, (text, longest)
            assert streamed(tokenizer, parts_of(rng, text.encode(), longest), **options) == wanted, (text, longest)


@pytest.fixture(autouse=True)
def eager(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stages look at each part at once, so that short texts meet every place where they may be cut."""
    if "patient" not in request.keywords:
        monkeypatch.setattr("numbatok.streams._PART", 1)
        monkeypatch.setattr("numbatok.streams._SHARE", 1 << 30)


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    """Every walker and the automaton, over texts of every script and runs that reach far."""
    rng = random.Random(name)
    base = small.by_merges()._parts
    tokenizer = Tokenizer(dataclasses.replace(base, rule=RULES[name], settings=None))
    samples = [texts.random_text(rng, rng.choice([50, 200, 700])) for _ in range(40)]
    samples += [a * rng.randint(1, 90) + b * rng.randint(1, 90) + a for a in "a1 \n-中²'" for b in "a \n\r!é"]
    samples += ["ab " * 50 + "'re" * 60, "aaaa" * 60 + "b", "aaaa" * 60 + "c", *texts.ADVERSARIAL]
    for text in samples:
        assert_streams(tokenizer, text, rng)


@given(st.lists(texts.well_formed, max_size=6), st.sampled_from(sorted(RULES)))
def test_any_cut(parts: list[str], name: str) -> None:
    """Hypothesis over parts."""
    base = small.by_merges()._parts
    tokenizer = Tokenizer(dataclasses.replace(base, rule=RULES[name], settings=None))
    assert streamed(tokenizer, parts) == tokenizer.encode("".join(parts)).tolist()


@settings(max_examples=300)
@given(st.text(max_size=300), st.lists(st.integers(0, 1000)))
def test_any_cut_of_bytes(gpt2, text: str, cuts: list[int]) -> None:
    """In the middle of characters."""
    data = text.encode()
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parts = [data[begin:end] for begin, end in pairwise(edges)]
    assert streamed(gpt2, parts) == gpt2.encode(text).tolist()
    assert streamed(gpt2, [np.frombuffer(part, np.uint8) for part in parts]) == gpt2.encode(text).tolist()


@pytest.mark.parametrize("prefix_space", [False, True], ids=["", "prefix space"])
@pytest.mark.parametrize("name", NORMALIZERS)
def test_added_tokens(name: str, prefix_space: bool) -> None:
    """Added tokens over the edges of parts, with every flag, in both passes."""
    rng = random.Random(f"{name} {prefix_space}")
    base = small.by_merges()._parts
    for _ in range(25):
        contents = rng.sample([*CONTENTS, "<mask><mask>", "<mask> <"], rng.randint(1, 6))
        tokens = [
            AddedToken(content, 1000 + number, **{flag: rng.random() < 0.4 for flag in FLAGS})
            for number, content in enumerate(contents)
        ]
        parts = Parts(base.vocabulary, AddedTokens(tokens), small.RULE, NORMALIZERS[name][0], prefix_space)
        tokenizer = Tokenizer(parts)
        for _ in range(12):
            text = "".join(rng.choices([*contents * 4, *PIECES], k=rng.randint(0, 40)))
            assert_streams(tokenizer, text, rng)
            special = [token.content for token in tokens if token.special and rng.random() < 0.5]
            assert_streams(tokenizer, text, rng, allowed_special=special)


@pytest.mark.parametrize("name", EVERY_NORMALIZER)
def test_normalizers(name: str) -> None:
    """Normalizers cut only where they may; what they keep back is bounded where their characters are mixed."""
    _, normalizer = EVERY_NORMALIZER[name]
    rng = random.Random(name)
    for _ in range(300):
        text = "".join(rng.choices([*MARKS, " ", " ", "ab"], k=rng.randint(0, 40)))
        for longest in (1, 3, 20):
            stream = stream_of(normalizer)
            for _ in range(2):  # a stream begins anew
                made = [stream.feed(part) for part in parts_of(rng, text, longest)]
                assert "".join([*made, stream.finish()]) == normalizer.normalize(text), text
                assert stream.kept == 0
    stream = stream_of(normalizer)
    for part in ["Ab é", "  x", "ﬁ\u0301 "] * 1000:
        stream.feed(part)
        assert stream.kept < 40


@pytest.mark.parametrize("row", [row for row in vocabularies.ROWS if not row.refused], ids=lambda row: row.name)
def test_real_vocabularies(row: vocabularies.Row) -> None:
    """Every file, with its template: the small corpus in parts, and added tokens in generated text."""
    tokenizer = row.tokenizer()
    rng = random.Random(row.name)
    added = [token.content for token in tokenizer.added_tokens]
    for path in sorted((TEST_DATA / "corpus-small").rglob("*.txt"))[::4]:
        text = path.read_text(encoding="utf-8")[:4000]
        assert streamed(tokenizer, parts_of(rng, text, 400)) == tokenizer.encode(text).tolist()
        assert streamed(tokenizer, parts_of(rng, text.encode(), 60)) == tokenizer.encode(text).tolist()
    for _ in range(20):
        assert_streams(tokenizer, with_added(rng, texts.random_text(rng, 150), added), rng, add_special_tokens=False)


def test_rule_by_regex() -> None:
    """A rule that the package regex runs."""
    content = small.tokenizer_json()
    content["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": r"(\w)\1"},
        "behavior": "Removed",
        "invert": False,
    }
    content["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            content["pre_tokenizer"],
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        ],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        tokenizer = Tokenizer.from_str(json.dumps(content), pattern_engine="regex")
    rng = random.Random(5)
    for text in ["", "hello booming<|endoftext|>aabb", "x", texts.random_text(rng, 300)]:
        assert_streams(tokenizer, text, rng)


def test_through_huggingface_files() -> None:
    """Prefix space, normalizers and templates as a file says."""
    rng = random.Random(8)
    for normalizer in (None, normalizers.NFKC(), normalizers.Strip(), normalizers.Prepend("x")):
        reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
        reference.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True, rstrip=True), "<s>"])
        reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        reference.post_processor = tokenizers.processors.TemplateProcessing("<s> $A <s>", "$A $B", [("<s>", 658)])
        if normalizer is not None:
            reference.normalizer = normalizer
        tokenizer = Tokenizer.from_str(reference.to_str())
        for _ in range(30):
            text = with_added(rng, texts.random_text(rng, 60), ["<mask>", "<s>", "<|endoftext|>"])
            wanted = reference.encode(text).ids
            for longest in (1, 5, 50):
                assert streamed(tokenizer, parts_of(rng, text, longest)) == wanted


def test_surrogates(gpt2) -> None:
    """Halves of a character in two parts, and alone."""
    for parts in (
        ["a\ud83d", "\ude00b"],
        ["\ud83d", "\ud83d", "\ude00"],
        ["\ud83d"],
        ["\ude00", "\ud83d", "x"],
        ["\ud83d", ""],
    ):
        assert streamed(gpt2, parts) == gpt2.encode("".join(parts)).tolist()


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_replaced_bytes(gpt2, parts: list[bytes]) -> None:
    """What is not UTF-8, with errors="replace"."""
    wanted = gpt2.encode(b"".join(parts), errors="replace").tolist()
    assert streamed(gpt2, parts, errors="replace") == wanted


@pytest.mark.parametrize("size", [4096, 4097, 5003, 1 << 16])
def test_long_parts_of_bytes(gpt2, size: int) -> None:
    """A kernel checks these; characters across their ends, and what is no UTF-8, come to the same."""
    data = ("é☃😀" * 9000).encode()
    for cut in (*range(5), 4000):
        for text in (data, data[:cut], data[cut:-cut] or data, data[:50_000] + b"\xff" + data[50_000 + cut :]):
            stream = gpt2.stream_encoder(errors="replace")
            made = [stream.feed(text[begin : begin + size]) for begin in range(0, len(text), size)]
            whole = gpt2.encode(text, errors="replace").tolist()
            assert np.concatenate([*made, stream.finish()]).tolist() == whole
    stream = gpt2.stream_encoder()
    text = data[:49_995] + b"five \xff" + data[49_995:]
    with pytest.raises(UnicodeDecodeError, match="at byte 50000 of the stream"):
        list(map(stream.feed, (text[begin : begin + size] for begin in range(0, len(text), size))))


@pytest.mark.parametrize("name", RULES)
def test_ids_that_are_made_later(name: str) -> None:
    """The end of what is decided, looked for alone, is where encoding comes to."""
    tokenizer = Tokenizer(dataclasses.replace(small.by_merges()._parts, rule=RULES[name], settings=None))
    choose = random.Random(name)
    words = [
        "word",
        " ",
        "  ",
        "\n",
        "\r\n",
        "don't",
        "1234567",
        "é☃",
        "😀",
        "...",
        "=" * 300,
        " " * 9000,
        "x" * 9000,
        "\t",
    ]
    for _ in range(4):
        text = "".join(choose.choices(words, k=4000)).encode()
        stream = tokenizer.stream_encoder()
        made, begin = [], 0
        while begin < len(text):
            end = min(begin + choose.randrange(5000, 60_000), len(text))
            made += stream.feed_later(text[begin:end], end == len(text))
            begin = end
        assert any(map(callable, made))
        ids = [item() if callable(item) else item for item in reversed(made)]
        assert np.concatenate(ids[::-1]).tolist() == tokenizer.encode(text).tolist()


@pytest.mark.parametrize("parts", [["the o", "ther \ud83d", "\ude00"], [b"the o", b"ther \xf0\x9f", b"\x98\x80"]])
def test_a_part_of_the_wrong_type_changes_nothing(gpt2, parts: list[Any]) -> None:
    """The stream goes on as if it had not been fed, whether it has begun or not."""
    stream = gpt2.stream_encoder()
    ids = []
    for part in parts:
        for wrong in (
            3,
            None,
            ["the"],
            np.zeros(2, np.int64),
            np.zeros((2, 2), np.uint8),
            memoryview(b"abcd").cast("I"),
        ):
            with pytest.raises(TypeError, match="must be"):
                stream.feed(wrong)
        ids += stream.feed(part).tolist()
        with pytest.raises(TypeError, match="all str or all bytes"):
            stream.feed(b"x" if isinstance(part, str) else "x")
    assert ids + stream.finish().tolist() == gpt2.encode("the other 😀").tolist()
    with pytest.raises(TypeError, match=r"a part must be str, or bytes.*, not int"):
        gpt2.stream_encoder().feed(3)


def test_errors(gpt2) -> None:
    """Bytes that are not UTF-8, kinds that change, disallowed tokens, and a stream that has ended."""
    stream = gpt2.stream_encoder()
    stream.feed(b"ab\xe4")
    with pytest.raises(UnicodeDecodeError, match="at byte 2 of the stream"):
        stream.feed(b"c")
    with pytest.raises(RuntimeError, match="has ended"):
        stream.feed(b"c")
    stream = gpt2.stream_encoder()
    stream.feed(b"ab\xe4")
    with pytest.raises(UnicodeDecodeError):
        stream.finish()
    stream = gpt2.stream_encoder()
    stream.feed("a")
    with pytest.raises(TypeError, match="all str or all bytes"):
        stream.feed(b"a")
    stream = gpt2.stream_encoder(allowed_special=(), disallowed_special="all")
    with pytest.raises(ValueError, match=r"disallowed special token '<\|endoftext\|>'"):
        [stream.feed("<|endof"), stream.feed("text|> and more, much more of it"), stream.finish()]
    stream = gpt2.stream_encoder()
    assert stream.finish().tolist() == []
    with pytest.raises(RuntimeError, match="has ended"):
        stream.finish()
    with pytest.raises(ValueError, match="names 'x'"):
        gpt2.stream_encoder(allowed_special={"x"})
    base = small.by_merges()._parts
    twice = dataclasses.replace(base.template, single=base.template.single * 2)
    with pytest.raises(ValueError, match="template"):
        Tokenizer(dataclasses.replace(base, template=twice)).stream_encoder()


@pytest.mark.patient
def test_memory_and_time(gpt2) -> None:
    """What is kept back is bounded; time is linear in the text, in parts of any size, one long piece too."""
    stream = gpt2.stream_encoder()
    most = 0
    for _ in range(4000):
        stream.feed("some words, and\nothers ")
        most = max(most, stream.kept)
    assert most < 1000
    seconds = []
    for characters in (50_000, 200_000):
        started = time.perf_counter()
        stream = gpt2.stream_encoder()
        ids = [stream.feed("a") for _ in range(characters)]
        ids.append(stream.finish())
        seconds.append(time.perf_counter() - started)
        assert np.concatenate(ids).tolist() == gpt2.encode("a" * characters).tolist()
    assert seconds[1] < 12 * seconds[0]


def test_first_ids_come_early(gpt2) -> None:
    """A piece is given once it and a block behind it are there."""
    stream = numbatok.get_encoding("gpt2").stream_encoder()
    assert stream.feed("Hello world" + " and so on" * 30).tolist()[:2] == [15496, 995]


def test_copies(gpt2: Tokenizer) -> None:
    """A stream copied by any means goes on by itself, and is not pickled; the decoder of many is neither."""
    stream = gpt2.stream_encoder()
    begun = stream.feed("Hello wor" * 60).tolist()
    for other in (stream.copy(), copy.copy(stream), copy.deepcopy(stream)):
        rest = other.feed("ld").tolist() + other.finish().tolist()
        assert begun + rest == gpt2.encode("Hello wor" * 60 + "ld").tolist()
    assert begun + stream.finish().tolist() == gpt2.encode("Hello wor" * 60).tolist()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(gpt2.stream_encoder())
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither pickled nor copied"):
            attempt(gpt2.batch_stream_decoder(2))
