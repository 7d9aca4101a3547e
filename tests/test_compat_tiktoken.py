"""tiktoken's interface: the same calls on tiktoken, results and types of exceptions compared."""

import copy
import gc
import hashlib
import inspect
import json
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import tiktoken as reference_module
import tiktoken.load
import tiktoken.model
from hypothesis import example, given, settings

import numbatok
import numbatok.compat.tiktoken as compat
import numbatok.compat.tiktoken.core
import numbatok.compat.tiktoken.load
import numbatok.compat.tiktoken.model
import numbatok.compat.tiktoken.registry as registry
import small
import texts
from conftest import TEST_DATA, TIKTOKEN_PATTERN
from support import output_of
from vocabularies import ROWS

END = "<|endoftext|>"
RANK_FILES = [row for row in ROWS if row.kind in ("rank file", "Tekken JSON")]
ENCODINGS = compat.list_encoding_names()
PANICS = "panics"


def outcome(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a call gives: its result, or the type of its exception; PANICS where Rust gives up."""
    try:
        result = call(*arguments, **named)
    except Exception as error:
        return type(error)
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            return PANICS
        raise
    return result.tolist() if isinstance(result, np.ndarray) else result


def both(arguments: dict[str, Any]) -> tuple[compat.Encoding, reference_module.Encoding]:
    """An encoding of ours and tiktoken's, of the same arguments."""
    return compat.Encoding(**arguments), reference_module.Encoding(**arguments)


def small_arguments(**changes: Any) -> dict[str, Any]:
    """Arguments for an encoding of the small vocabulary."""
    arguments = {
        "name": "small",
        "pat_str": TIKTOKEN_PATTERN,
        "mergeable_ranks": small.ID_OF,
        "special_tokens": {END: 1000, "<|fim|>": 1001, "<s>": 1002},
    }
    return arguments | changes


@pytest.fixture(scope="module")
def small_pair() -> tuple[compat.Encoding, reference_module.Encoding]:
    return both(small_arguments())


@pytest.fixture(scope="module", params=ENCODINGS)
def embedded_pair(request: pytest.FixtureRequest) -> Iterator[tuple[compat.Encoding, reference_module.Encoding]]:
    """An encoding from inside the package, and tiktoken's, made of the arguments that the registry has."""
    constructors = registry.ENCODING_CONSTRUCTORS
    assert constructors is not None
    yield compat.get_encoding(request.param), reference_module.Encoding(**constructors[request.param]())
    gc.collect()


@pytest.fixture(scope="module", params=RANK_FILES, ids=lambda row: row.name)
def file_pair(request: pytest.FixtureRequest) -> Iterator[tuple[compat.Encoding, reference_module.Encoding]]:
    """An encoding of ranks of the test data, with special tokens."""
    plain = request.param.reference()._encoding
    top = plain.max_token_value
    specials = {END: top + 1, "<|im_start|>": top + 2, "<|im_end|>": top + 7}
    arguments = {"name": plain.name, "pat_str": plain._pat_str, "mergeable_ranks": plain._mergeable_ranks}
    yield both({**arguments, "special_tokens": specials})
    gc.collect()


#: Texts with special tokens, and what looks like them, in between; now and then a lone surrogate, or a pair.
sprinkled = st.lists(
    st.one_of(
        texts.well_formed,
        st.sampled_from(
            [END, "<|fim|>", "<s>", "<|fim_prefix|>", "<|endofprompt|>", "<|im_start|>", "<|end", "|>", "<"]
        ),
        st.sampled_from(["\ud83d", "\udc4d", "\ud83d\udc4d", "👍"]),
    ),
    max_size=8,
).map("".join)

#: The arguments of calls: the usual ones, sets, other collections, and strings that are no special tokens.
POLICIES: list[dict[str, Any]] = [
    {},
    {"allowed_special": "all"},
    {"disallowed_special": ()},
    {"allowed_special": "all", "disallowed_special": ()},
    {"allowed_special": {END}},
    {"allowed_special": frozenset([END, "<s>"]), "disallowed_special": ()},
    {"allowed_special": {END, "no special token"}, "disallowed_special": {"<|fim|>"}},
    {"allowed_special": "all", "disallowed_special": {END}},
    {"disallowed_special": ["the", END]},
    {"disallowed_special": "ab"},
    {"disallowed_special": frozenset()},
    {"disallowed_special": None},
    {"disallowed_special": {""}},
    {"disallowed_special": {1}},
    {"disallowed_special": {END: 1}.keys()},
    {"disallowed_special": [[]]},
    {"disallowed_special": ([],)},
    {"allowed_special": {END: 1}.keys(), "disallowed_special": ()},
    {"allowed_special": [END]},
    {"allowed_special": (), "disallowed_special": ()},
    {"allowed_special": END, "disallowed_special": ()},
    {"allowed_special": {1}, "disallowed_special": ()},
]


def compare_encoding(pair: tuple[compat.Encoding, reference_module.Encoding], text: Any) -> None:
    """All ways to encode a text, and the text in a batch, agree."""
    ours, reference = pair
    assert outcome(ours.encode_ordinary, text) == outcome(reference.encode_ordinary, text)
    for policy in POLICIES:
        for method in ("encode", "encode_to_numpy"):
            got, wanted = (outcome(getattr(encoding, method), text, **policy) for encoding in pair)
            assert got == wanted, (method, policy)
        batch = ["a b", text, text]
        assert outcome(ours.encode_batch, batch, **policy) == outcome(reference.encode_batch, batch, **policy), policy
    assert outcome(ours.encode_ordinary_batch, [text, "x"]) == outcome(reference.encode_ordinary_batch, [text, "x"])


# --- encoding ---


@given(text=sprinkled)
@example(text=END)
@example(text=f"\ud83d{END}")
@example(text="")
def test_encoding_small(small_pair, text: str) -> None:
    compare_encoding(small_pair, text)


@settings(max_examples=15)
@given(text=sprinkled)
@example(text=f"a {END} <|fim_prefix|>b<|endofprompt|>")
def test_encoding_embedded(embedded_pair, text: str) -> None:
    compare_encoding(embedded_pair, text)


@settings(max_examples=15)
@given(text=sprinkled)
@example(text=f"a {END}b<|im_start|>")
def test_encoding_files(file_pair, text: str) -> None:
    compare_encoding(file_pair, text)


def test_corpus(embedded_pair, corpus_text: str) -> None:
    """Real text, whole and as documents."""
    ours, reference = embedded_pair
    text = corpus_text[:20_000]
    assert ours.encode(text, disallowed_special=()) == reference.encode(text, disallowed_special=())
    documents = text.split(END)
    assert ours.encode_batch(documents) == [reference.encode(document) for document in documents]
    ids = ours.encode(text, allowed_special="all")
    assert ids == reference.encode(text, allowed_special="all")
    assert ours.decode(ids) == reference.decode(ids) == text
    assert ours.decode_tokens_bytes(ids) == reference.decode_tokens_bytes(ids)
    assert ours.decode_with_offsets(ids) == reference.decode_with_offsets(ids)


@pytest.mark.parametrize("text", [b"abc", 5, None, ["a"], bytearray(b"abc"), np.array([97], np.uint8)])
def test_no_text(small_pair, text: Any) -> None:
    """Bytes, which a Tokenizer takes, are none."""
    compare_encoding(small_pair, text)
    for encoding in small_pair:
        assert outcome(encoding.encode_with_unstable, text) is TypeError


def test_an_iterator_of_disallowed_tokens(small_pair) -> None:
    """It is read once."""
    for text in ("the dog", f"the{END}dog", "<s>"):
        for method in ("encode", "encode_to_numpy", "encode_with_unstable"):
            got, wanted = (
                outcome(getattr(encoding, method), text, disallowed_special=iter([END])) for encoding in small_pair
            )
            compare_unstable(got, wanted)


def test_a_subclass_of_str(small_pair) -> None:
    class Name(str):
        pass

    compare_encoding(small_pair, Name(f"the dog {END}"))


@pytest.mark.parametrize("size", [511, 512, 513, 65_535, 65_536, 65_537, 200_000])
def test_sizes(small_pair, size: int) -> None:
    """On both sides of where kernels do otherwise; ASCII and not."""
    ours, reference = small_pair
    for piece in ("the lazy dog, ", "собака 狗 "):
        text = (piece * (size // len(piece) + 1))[:size]
        assert ours.encode(text) == reference.encode(text)
        assert ours.encode(text + END, allowed_special="all") == reference.encode(text + END, allowed_special="all")


def test_what_the_reference_gives_up_on() -> None:
    """A pattern that matches the empty text, at places, and a long run of one character have a result."""
    with pytest.warns(RuntimeWarning, match="can match the empty text"):
        ours, reference = both(small_arguments(pat_str=r"a*|."))
    assert outcome(reference.encode, "baab") == PANICS
    assert ours.decode(ours.encode("baab")) == "aa"  # before a "b" the empty match comes first
    ours = compat.get_encoding("o200k_base")
    text = "x" * 1_000_000
    assert ours.decode(ours.encode(text)) == text


@pytest.mark.parametrize("pattern", [r"\p{L}+", r"\d|[a-m]+", r"(?<=a)b|\w", r"(\w)\1", r"\s+(?!\S)|\S+", "ab|a|b"])
@pytest.mark.filterwarnings("ignore:the package regex runs:RuntimeWarning")
def test_any_pattern(pattern: str) -> None:
    """What a pattern does not match is dropped."""
    pair = both(small_arguments(pat_str=pattern))
    for text in ["", "ab 12 cd", "aabb  bbaa\n", f"ab{END}b é", "the lazy dog; ", "...", "日本aa"]:
        compare_encoding(pair, text)
        got, wanted = (outcome(encoding.encode_with_unstable, text) for encoding in pair)
        compare_unstable(got, wanted)


# --- special tokens ---


def no_prefixes(tokens: list[str]) -> bool:
    return not any(a != b and b.startswith(a) for a in tokens for b in tokens)


@settings(max_examples=200)
@given(
    tokens=st.lists(st.text("ab<é", min_size=1, max_size=4), min_size=1, max_size=4, unique=True).filter(no_prefixes),
    text=st.text("ab<é ", max_size=12),
    data=st.data(),
)
@example(tokens=["<a>", "a>"], text="<a>", data=None)
def test_special_tokens_inside_each_other(tokens: list[str], text: str, data: Any) -> None:
    """After one that is not allowed the search goes on at the next character; one inside another is refused."""
    pair = both(small_arguments(special_tokens={token: 1000 + number for number, token in enumerate(tokens)}))
    chosen = tokens[1:] if data is None else data.draw(st.lists(st.sampled_from(tokens), unique=True))
    for allowed in ("all", set(chosen), set()):
        for disallowed in ("all", (), set(chosen), [tokens[0]]):
            policy = {"allowed_special": allowed, "disallowed_special": disallowed}
            for method in ("encode", "encode_to_numpy"):
                got, wanted = (outcome(getattr(encoding, method), text, **policy) for encoding in pair)
                assert got == wanted, (method, policy)
            got, wanted = (outcome(encoding.encode_batch, [text, "a"], **policy) for encoding in pair)
            assert got == wanted, policy
            compare_unstable(*(outcome(encoding.encode_with_unstable, text, **policy) for encoding in pair))


def test_one_special_token_begins_another() -> None:
    """The longest counts, whatever the order; tiktoken goes by a hash table, which no order makes take the longest."""
    taken = set()
    for number in range(8):
        short, long = f"<{number}>", f"<{number}>b"
        for tokens in ({short: 1000, long: 1001}, {long: 1001, short: 1000}):
            ours, reference = both(small_arguments(special_tokens=tokens))
            assert ours.encode(f"a{long}", allowed_special="all") == [*ours.encode("a"), 1001]
            assert ours.encode(short, allowed_special="all") == [1000]
            # The longer one, which is not allowed, does not hide the shorter one's being refused.
            assert outcome(ours.encode, long, allowed_special={long}) is ValueError
            assert outcome(ours.encode, long, disallowed_special={short}) is ValueError
            taken.add(reference.encode(long, allowed_special="all")[0])
    assert taken == {1000, 1001}


def test_special_tokens_that_repairing_makes() -> None:
    """Text is searched for what is refused before lone surrogates are repaired, and for what is allowed after it."""
    pair = both(small_arguments(special_tokens={"👍": 1000, "\ufffd": 1001}))
    for text in ["\ud83d\udc4d", "a\ud83d", "👍", "\ufffd", "\udc4d👍"]:
        for policy in ({}, {"allowed_special": "all"}, {"disallowed_special": ()}, {"allowed_special": {"👍"}}):
            got, wanted = (outcome(encoding.encode, text, **policy) for encoding in pair)
            assert got == wanted, (ascii(text), policy)
            got, wanted = (outcome(encoding.encode_batch, [text], **policy) for encoding in pair)
            assert got == wanted, (ascii(text), policy)


def test_special_tokens_with_the_id_of_another() -> None:
    """It is encoded so, and decoded as the other; the text of one that is a token too has that one's id."""
    tokens = {"<x>": 5, END: 1000, "the": 1001, "a": small.ID_OF[b"a"]}
    pair = both(small_arguments(special_tokens=tokens))
    for text in ["<x>", f"a<x>b{END}the", "nothing"]:
        compare_encoding(pair, text)
    for ids in ([5], [5, 1000, 1001], [small.ID_OF[b"a"]] * 100 + [5]):
        got, wanted = (outcome(encoding.decode_bytes, ids) for encoding in pair)
        assert got == wanted
    for token in tokens:
        got, wanted = (encoding.encode_single_token(token) for encoding in pair)
        assert got == wanted


def test_harmony_has_two_names_for_one_id() -> None:
    """They are told apart as tiktoken does, one id at a time and many."""
    encoding = compat.get_encoding("o200k_harmony")
    assert encoding.decode([200018]) == encoding._tokenizer.decode([200018]) == "<|endofprompt|>"
    assert encoding.decode([200018] * 100) == "<|endofprompt|>" * 100
    assert encoding._tokenizer.id_to_token(200018) == b"<|endofprompt|>"


def test_message_of_a_disallowed_token(small_pair) -> None:
    """It names the token, the remedies, and in a batch the text."""
    ours, _ = small_pair
    for call in (ours.encode, ours.encode_to_numpy, ours.encode_with_unstable):
        with pytest.raises(ValueError, match=r"disallowed special token '<s>'(?s:.*)allowed_special=\{'<s>'\}"):
            call(f"a<s>b{END}")
    with pytest.raises(ValueError, match=r"token '<\|fim\|>'(?s:.*)index 2 of the batch"):
        ours.encode_batch(["a", "b", "<|fim|>", "<s>"])
    with pytest.raises(TypeError, match=r"must be str, not int \(index 1 of the batch"):
        ours.encode_batch(["a", 5, "<|fim|>"])
    with pytest.raises(KeyError, match=r"999999, at position 1(?s:.*)index 1 of the batch"):
        ours.decode_batch([[1], [2, 999_999]])


# --- batches ---


def test_batches(small_pair) -> None:
    """Any iterable of texts, of which a str is one; the number of threads is that of a pool."""
    for texts_of in (lambda: ("a b", ""), lambda: iter(["x", "y z"]), lambda: "abc", lambda: {"a": 1}, lambda: []):
        got, wanted = (outcome(encoding.encode_batch, texts_of()) for encoding in small_pair)
        assert got == wanted
        got, wanted = (outcome(encoding.encode_ordinary_batch, texts_of()) for encoding in small_pair)
        assert got == wanted
    for wrong in (5, None):
        assert {outcome(encoding.encode_batch, wrong) for encoding in small_pair} == {TypeError}
    for threads in (1, 8, None, 0, -1, True, 2.5, "2"):
        for method, argument in (
            ("encode_batch", ["a", "b"]),
            ("encode_ordinary_batch", ["a", "b"]),
            ("encode_ordinary_batch", []),
            ("decode_batch", [[1], [2]]),
            ("decode_bytes_batch", [[1], [2]]),
        ):
            got, wanted = (outcome(getattr(encoding, method), argument, num_threads=threads) for encoding in small_pair)
            assert got == wanted, (method, threads)


def test_results_are_lists_of_ints(small_pair) -> None:
    """Which the caller may change, though they share their ints."""
    ours, _ = small_pair
    for text in ("the dog", "the dog " * 20_000):
        ids = ours.encode(text)
        assert type(ids) is list
        assert {type(id) for id in ids} == {int}
        wanted = list(ids)
        ids[0] = -1
        ids.append(7)
        assert ours.encode(text) == wanted
    batch = ours.encode_batch(["a", "b"])
    batch[0].append(3)
    assert ours.encode_batch(["a", "b"]) == [ours.encode("a"), ours.encode("b")]


# --- completions ---


def compare_unstable(got: Any, wanted: Any) -> None:
    """The same stable ids, and the same completions, which tiktoken gives in no order."""
    if isinstance(wanted, tuple) and isinstance(got, tuple):
        assert got[0] == wanted[0]
        assert all(type(ids) is list for ids in got[1])
        assert sorted(got[1]) == sorted(wanted[1])
    else:
        assert got == wanted


@given(text=sprinkled)
@example(text="hello fanta")
@example(text="a \n\n \t")
@example(text="日本")
@example(text="the \u3000")
@example(text=f"x{END}")
@example(text=f"{END}  ")
@example(text="😀"[:1] + "\u2028")
def test_unstable_small(small_pair, text: str) -> None:
    for policy in POLICIES[:8]:
        compare_unstable(*(outcome(encoding.encode_with_unstable, text, **policy) for encoding in small_pair))


@pytest.mark.parametrize(
    "text", ["hello fanta", "x\n \n", "我非常渴", "a  ", "caf\u00e9", "today\n ", "\u00a0\u2003", "👍🏽", "1234", ""]
)
def test_unstable_embedded(embedded_pair, text: str) -> None:
    ours, _ = embedded_pair
    compare_unstable(*(encoding.encode_with_unstable(text) for encoding in embedded_pair))
    ids, completions = ours.encode_with_unstable(text)
    assert text.encode().startswith(ours.decode_bytes(ids))
    assert all(ours.decode_bytes(ids + after).startswith(text.encode()) for after in completions)


def test_unstable_after_a_long_piece(small_pair) -> None:
    """Only as many places are tried as the longest token has bytes."""
    compare_unstable(*(encoding.encode_with_unstable("ab" * 300) for encoding in small_pair))


@given(data=st.binary(max_size=40))
@example(data=b" \xec\x8b\xa4\xed")
@example(data=b"\x80" * 9)
@example(data=b"a \n\xff")
def test_bytes_that_are_no_text(small_pair, data: bytes) -> None:
    for name in ("_encode_bytes", "_encode_single_piece"):
        got, wanted = (outcome(getattr(encoding, name), data) for encoding in small_pair)
        assert got == wanted or (data == b"" and wanted == PANICS)


@pytest.mark.parametrize("size", [1, 2, 3, 99, 100, 101, 3000])
def test_merging(size: int) -> None:
    """On both sides of where the reference takes a heap."""
    pair = both(small_arguments())
    rng = random.Random(size)
    for alphabet in (b"ab", b"the lazy dog", bytes(range(256))):
        piece = bytes(rng.choices(alphabet, k=size))
        got, wanted = (encoding._encode_single_piece(piece) for encoding in pair)
        assert got == wanted


# --- decoding ---

IDS: list[Any] = [
    [],
    [1, 2, 3],
    (1, 2),
    range(5),
    b"ab",
    bytearray(b"ab"),
    np.array([1, 2]),
    np.array([1, 2], np.uint32),
    np.array([1.0]),
    np.array([[1, 2]]),
    np.array(5),
    [np.int64(3)],
    [True],
    [1.0],
    ["1"],
    [None],
    [[1]],
    [-1],
    [1 << 32],
    [1 << 70],
    [999_999],
    [1, 999_999, -1],
    [1] * 65,
    [1] * 65 + [999_999],
    np.array([1] * 65 + [999_999]),
    "12",
    {1, 2},
    {1: 2},
    iter([1]),
    5,
    None,
    memoryview(b"ab"),
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: repr(ids)[:30])
def test_decoding_anything(small_pair, ids: Any) -> None:
    if isinstance(ids, type(iter([]))):
        ids = [1]
        assert {outcome(encoding.decode, iter(ids)) for encoding in small_pair} == {TypeError}
    for name in ("decode_bytes", "decode", "decode_tokens_bytes", "decode_with_offsets"):
        got, wanted = (outcome(getattr(encoding, name), ids) for encoding in small_pair)
        assert got == wanted, name
    for name in ("decode_batch", "decode_bytes_batch"):
        got, wanted = (outcome(getattr(encoding, name), [[1], ids]) for encoding in small_pair)
        assert got == wanted, name
        got, wanted = (outcome(getattr(encoding, name), ids) for encoding in small_pair)
        assert got == wanted, name


@pytest.mark.parametrize("id", [0, 5, True, 1000, 1.0, -1, 1 << 32, 1 << 70, 999_999, "a", None, b"a"])
def test_decoding_one_id(small_pair, id: Any) -> None:
    for name in ("decode_single_token_bytes", "is_special_token"):
        got, wanted = (outcome(getattr(encoding, name), id) for encoding in small_pair)
        assert got == wanted, name
    got, wanted = (outcome(encoding.decode_single_token_bytes, np.int64(5)) for encoding in small_pair)
    assert got == wanted


@settings(max_examples=30)
@given(data=st.data())
def test_decoding_ids_at_random(embedded_pair, data: Any) -> None:
    """With all ways to treat what is not UTF-8."""
    ours, reference = embedded_pair
    ids = data.draw(st.lists(st.integers(0, ours.n_vocab + 2), max_size=100))
    for errors in ("replace", "strict", "ignore", "backslashreplace", "no such way"):
        got, wanted = (outcome(encoding.decode, ids, errors) for encoding in embedded_pair)
        assert got == wanted, errors
        got, wanted = (outcome(encoding.decode_batch, [ids, ids], errors=errors) for encoding in embedded_pair)
        assert got == wanted, errors
    assert outcome(ours.decode_with_offsets, ids) == outcome(reference.decode_with_offsets, ids)
    text = ours.decode([id for id in ids if id in ours._bytes_of], "ignore")
    assert ours.decode_with_offsets(ours.encode(text, allowed_special="all")) == reference.decode_with_offsets(
        reference.encode(text, allowed_special="all")
    )


def test_empty_token() -> None:
    """Whisper's rank file has one: it is decoded, and stands in no text."""
    ranks = {**small.ID_OF, b"": 900}
    pair = both(small_arguments(mergeable_ranks=ranks))
    compare_encoding(pair, "the dog")
    for name, argument in [
        ("decode_bytes", [900, 1]),
        ("decode_bytes", [900] * 100),
        ("decode_with_offsets", [1, 900]),
        ("encode_single_token", ""),
        ("decode_single_token_bytes", 900),
    ]:
        got, wanted = (outcome(getattr(encoding, name), argument) for encoding in pair)
        assert got == wanted, name


# --- vocabulary and construction ---


@pytest.mark.parametrize(
    "token", ["the", "<s>", b"the", b"<s>", "no token", b"\xff", b"\xff\xfe", "", "\ud83d", 5, None]
)
def test_single_tokens(small_pair, token: Any) -> None:
    got, wanted = (outcome(encoding.encode_single_token, token) for encoding in small_pair)
    assert got == wanted


def test_attributes(embedded_pair) -> None:
    ours, reference = embedded_pair
    for name in (
        "name",
        "n_vocab",
        "max_token_value",
        "eot_token",
        "special_tokens_set",
        "_pat_str",
        "_mergeable_ranks",
        "_special_tokens",
        "_special_token_values",
    ):
        assert getattr(ours, name) == getattr(reference, name), name
    assert ours.token_byte_values() == reference.token_byte_values()
    assert repr(ours) == repr(reference)
    assert outcome(lambda: both(small_arguments(special_tokens={}))[0].eot_token) is KeyError


@pytest.mark.parametrize(
    "changes",
    [
        {"explicit_n_vocab": 5},
        {"explicit_n_vocab": len(small.ID_OF) + 3},
        {"special_tokens": {END: len(small.ID_OF)}, "explicit_n_vocab": len(small.ID_OF) + 1},
        {"special_tokens": {}},
        {"mergeable_ranks": {}},
        {"mergeable_ranks": {b"a": -1}},
        {"mergeable_ranks": {b"a": 1 << 32}},
        {"mergeable_ranks": {b"a": 1.5}},
        {"mergeable_ranks": {"a": 1}},
        {"mergeable_ranks": {token: np.int64(rank) for token, rank in small.ID_OF.items()}},
        {"special_tokens": {END: -1}},
        {"special_tokens": {END: 1 << 32}},
        {"special_tokens": {END: "1"}},
        {"special_tokens": {5: 1000}},
        {"special_tokens": {"\ud83d": 1000}},
        {"pat_str": "("},
        {"pat_str": 5},
        {"name": None},
    ],
    ids=lambda changes: repr(changes)[:40],
)
def test_construction(changes: dict[str, Any]) -> None:
    """What makes an encoding, and the type of the exception for what does not."""
    got, wanted = (outcome(module.Encoding, **small_arguments(**changes)) for module in (compat, reference_module))
    if isinstance(wanted, type):
        assert got is wanted or issubclass(got, wanted)
    else:
        assert isinstance(got, compat.Encoding)
        assert got.encode("the dog") == wanted.encode("the dog")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mergeable_ranks": {b"a": 0}}, "byte 0x00 is not a token"),
        ({"mergeable_ranks": {**small.ID_OF, b"twice": 5}}, "id 5"),
        ({"special_tokens": {"": 1000}}, "is empty"),
    ],
)
def test_where_the_reference_panics_or_hangs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compat.Encoding(**small_arguments(**changes))


def test_from_tiktoken(small_pair) -> None:
    ours, reference = small_pair
    taken = compat.Encoding.from_tiktoken(reference)
    assert taken.name == "small"
    assert taken.encode(f"the dog{END}", allowed_special="all") == ours.encode(f"the dog{END}", allowed_special="all")


def test_a_tokenizer_drops_what_its_pattern_does_not_match() -> None:
    """Also without this interface."""
    reference = reference_module.Encoding(**small_arguments(pat_str=r"\p{L}+"))
    tokenizer = numbatok.Tokenizer.from_tiktoken(reference)
    for text in ("ab 12 cd", "12", "the lazy dog; "):
        assert tokenizer.encode(text).tolist() == reference.encode(text)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda encoding: pickle.loads(pickle.dumps(encoding))])
def test_pickles_and_copies(way: Callable[[Any], Any]) -> None:
    """A registered encoding by its name; others by their content."""
    encoding = compat.get_encoding("gpt2")
    assert len(pickle.dumps(encoding)) < 200
    again = way(encoding)
    assert again.encode("hello world") == [31373, 995]
    assert again._tokenizer is encoding._tokenizer
    custom = compat.Encoding(**small_arguments(name="gpt2"))
    custom.encode("the dog")
    again = way(custom)
    assert again.encode(f"the{END}", allowed_special="all") == custom.encode(f"the{END}", allowed_special="all")
    assert again.special_tokens_set == custom.special_tokens_set


def test_threads(small_pair) -> None:
    """One encoding, and other arguments in each thread."""
    ours, reference = small_pair
    text = f"the lazy dog {END} sleeps <s>. "
    policies = [{"allowed_special": "all"}, {"disallowed_special": ()}, {"allowed_special": {"<s>"}}, {}]
    jobs = []
    for number in range(8):
        policy, own = policies[number % 4], text * (1 + 40 * (number % 3))
        jobs.append((own, policy, outcome(reference.encode, own, **policy)))
    failures: list[Any] = []

    def work(job: tuple[str, dict[str, Any], Any]) -> None:
        own, policy, wanted = job
        for _ in range(300):
            if outcome(ours.encode, own, **policy) != wanted:
                failures.append(policy)
            if ours.encode_ordinary(str(len(own))) != reference.encode_ordinary(str(len(own))):
                failures.append("ordinary")

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


# --- names, models, plugins ---


def public(module: Any) -> set[str]:
    """Public functions and classes that a module defines or offers."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
        if value.__module__.split(".")[0] in ("tiktoken", "numbatok")
    }


@pytest.mark.parametrize("name", ["", ".load", ".model", ".registry", ".core"])
def test_signatures(name: str) -> None:
    """Every public function, class and method is there, and takes the same arguments with the same defaults."""
    reference = sys.modules[f"tiktoken{name}"]
    ours = sys.modules[f"numbatok.compat.tiktoken{name}"]
    assert public(reference) <= public(ours)
    pairs = [(getattr(ours, each), getattr(reference, each)) for each in public(reference)]
    if name == ".core":
        methods = {each for each in vars(reference_module.Encoding) if not each.startswith("_")}
        assert methods <= set(vars(compat.Encoding))
        pairs += [(getattr(compat.Encoding, each), getattr(reference_module.Encoding, each)) for each in methods]
    for mine, other in pairs:
        if callable(other):
            mine, other = inspect.signature(mine), inspect.signature(other)
            assert [(p.name, p.kind, p.default) for p in mine.parameters.values()] == [
                (p.name, p.kind, p.default) for p in other.parameters.values()
            ]
    assert compat.__version__ == reference_module.__version__


def test_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of tiktoken's, in its order; a program may add others."""
    model, other = numbatok.compat.tiktoken.model, tiktoken.model
    assert other.MODEL_TO_ENCODING == model.MODEL_TO_ENCODING
    assert list(model.MODEL_PREFIX_TO_ENCODING.items()) == list(other.MODEL_PREFIX_TO_ENCODING.items())
    for name in [*other.MODEL_TO_ENCODING, *(f"{prefix}x" for prefix in other.MODEL_PREFIX_TO_ENCODING), "gpt-6", ""]:
        assert outcome(compat.encoding_name_for_model, name) == outcome(other.encoding_name_for_model, name)
    assert compat.encoding_for_model("gpt-4") is compat.get_encoding("cl100k_base")
    monkeypatch.setitem(model.MODEL_TO_ENCODING, "mine", "gpt2")
    monkeypatch.setitem(model.MODEL_PREFIX_TO_ENCODING, "our-", "r50k_base")
    assert compat.encoding_for_model("mine").name == "gpt2"
    assert compat.encoding_name_for_model("our-own") == "r50k_base"


def test_names() -> None:
    assert compat.list_encoding_names()[:7] == reference_module.list_encoding_names()[:7]
    for wrong in ("gpt3", "", None, 5):
        assert outcome(compat.get_encoding, wrong) is outcome(reference_module.get_encoding, wrong) is ValueError
    assert compat.get_encoding("gpt2") is compat.get_encoding("gpt2")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_while_an_encoding_is_made() -> None:
    """The child does not wait for a lock that nobody in it holds."""
    code = """
        import os, signal, threading
        import numbatok.compat.tiktoken as tiktoken

        stop = threading.Event()

        def load():
            while not stop.is_set():
                tiktoken.registry.ENCODINGS.clear()
                tiktoken.get_encoding("gpt2")

        thread = threading.Thread(target=load)
        thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                tiktoken.get_encoding("r50k_base")
                os._exit(0)
            print(os.waitpid(child, 0)[1])
        stop.set()
        thread.join()
    """
    assert output_of(code).split() == ["0"] * 10


PLUGIN = """
def mine():
    ranks = {bytes([byte]): byte for byte in range(256)}
    return {"name": "mine", "pat_str": ".", "mergeable_ranks": ranks, "special_tokens": {"<x>": 256}}

ENCODING_CONSTRUCTORS = {"mine": mine}
"""


def plugin_folder(folder: Path, content: str) -> str:
    """A folder for the module path with a plugin in it."""
    (folder / "tiktoken_ext").mkdir()
    (folder / "tiktoken_ext" / "my_encodings.py").write_text(content)
    return str(folder)


def test_plugins(tmp_path: Path) -> None:
    """Found in the namespace package; neither tiktoken nor its own plugin is imported for them."""
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import numbatok.compat.tiktoken as tiktoken
        assert "mine" in tiktoken.list_encoding_names()
        print(tiktoken.get_encoding("mine").encode("ab<x>", allowed_special="all"), tiktoken.get_encoding("mine"))
        print([name for name in sys.modules if name == "tiktoken" or name.startswith("tiktoken.")])
        print([name for name in sys.modules if name.startswith("tiktoken_ext")])
    """
    wanted = "[97, 98, 256] <Encoding 'mine'>\n[]\n['tiktoken_ext', 'tiktoken_ext.my_encodings']\n"
    assert output_of(code, plugin_folder(tmp_path, PLUGIN)) == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "plugin tiktoken_ext.my_encodings does not define ENCODING_CONSTRUCTORS"),
        ("ENCODING_CONSTRUCTORS = {'gpt2': dict}", "defines the encoding 'gpt2', which is there already"),
    ],
)
def test_wrong_plugins(tmp_path: Path, content: str, message: str) -> None:
    """Each look at the names says so; embedded encodings go without."""
    code = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import numbatok.compat.tiktoken as tiktoken
        print(tiktoken.get_encoding("gpt2").name)
        for _ in range(2):
            try:
                tiktoken.get_encoding("mine")
            except ValueError as error:
                print(error)
    """
    lines = output_of(code, plugin_folder(tmp_path, content)).splitlines()
    assert lines[0] == "gpt2"
    assert len(lines) == 3
    assert all(message in line for line in lines[1:])


def test_imports() -> None:
    """Neither the library that is imitated, nor Numba before the first use; without it all works as well."""
    code = """
        import sys
        for name in ("tiktoken", "tiktoken_ext", "requests", "blobfile"):
            sys.modules[name] = None
        import numbatok
        assert "numbatok.compat" not in sys.modules
        import numbatok.compat.tiktoken as tiktoken
        assert "numba" not in sys.modules
        encoding = tiktoken.get_encoding("gpt2")
        assert encoding.n_vocab == 50257 and len(tiktoken.list_encoding_names()) == 7
        assert tiktoken.load.check_hash(b"", "") is False
        assert tiktoken.model.MODEL_TO_ENCODING["gpt2"] == "gpt2" and tiktoken.registry.ENCODINGS
        assert "numba" not in sys.modules
        assert encoding.encode("hello world") == [31373, 995]
        assert encoding.decode([31373, 995]) == "hello world"
        assert encoding.encode_with_unstable("hello fanta")[0] == [31373]
    """
    output_of(code)


# --- rank files ---


def same_in_both(name: str, *arguments: Any, **named: Any) -> Any:
    """The outcome of a function of the module ``load``, which is tiktoken's too."""
    got = outcome(getattr(numbatok.compat.tiktoken.load, name), *arguments, **named)
    wanted = outcome(getattr(tiktoken.load, name), *arguments, **named)
    assert got == wanted
    return got


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    return tmp_path / "cache"


def test_rank_files(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written, read by way of the cache, checked, and read anew where the cache is damaged."""
    load = numbatok.compat.tiktoken.load
    path = tmp_path / "small.tiktoken"
    load.dump_tiktoken_bpe(small.ID_OF, str(path))
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert load.check_hash(content, digest)
    assert same_in_both("load_tiktoken_bpe", str(path), digest) == small.ID_OF
    (kept,) = cache.iterdir()
    assert kept.read_bytes() == content
    kept.write_bytes(b"damaged")
    assert same_in_both("read_file_cached", str(path), digest) == content
    assert kept.read_bytes() == content
    assert same_in_both("read_file_cached", str(path)) == content
    kept.unlink()
    assert same_in_both("read_file_cached", str(path), "0" * 64) is ValueError
    assert list(cache.iterdir()) == []
    assert same_in_both("read_file", str(tmp_path / "none")) is FileNotFoundError
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert same_in_both("read_file_cached", str(path), digest) == content
    assert list(cache.iterdir()) == []
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(cache))
    same_in_both("read_file_cached", str(path))
    assert list(cache.iterdir()) == [kept]


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error where the caller chose it, and none where nobody did."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(path))
    assert issubclass(same_in_both("read_file_cached", str(path)), OSError)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(path))
    assert same_in_both("read_file_cached", str(path)) == b"content"


def test_a_cache_that_breaks_off(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of a file is left in it."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        numbatok.compat.tiktoken.load.read_file_cached(str(path))
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("content", [b"YQ== 0\nYg== 1\n", b"", b"\nYQ== 0\n\n", b"YQ== x\n", b"YQ==\n", b"YQ== 0 0\n"])
def test_lines_of_rank_files(tmp_path: Path, cache: Path, content: bytes) -> None:
    (tmp_path / "ranks").write_bytes(content)
    same_in_both("load_tiktoken_bpe", str(tmp_path / "ranks"))


def test_gpt2_pair_of_files(tmp_path: Path, cache: Path) -> None:
    """Merges and ids, which must agree."""
    merges = ["#version: 0.2", *(f"{small.spell(left)} {small.spell(right)}" for left, right in small.TRAINED), ""]
    (tmp_path / "vocab.bpe").write_text("\n".join(merges), encoding="utf-8")
    ids = {small.spell(token): id for token, id in small.ID_OF.items()}
    paths = str(tmp_path / "vocab.bpe"), str(tmp_path / "encoder.json")
    for changes in ({}, {END: 5000}, {"a": 7777}, {small.spell(b"the"): 7777}):
        (tmp_path / "encoder.json").write_text(json.dumps(ids | changes), encoding="utf-8")
        for file in cache.iterdir() if cache.is_dir() else ():
            file.unlink()
        for clobber in (False, True):
            same_in_both("data_gym_to_mergeable_bpe_ranks", *paths, clobber_one_byte_tokens=clobber)


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the web are read as such; others are blobfile's."""
    load = numbatok.compat.tiktoken.load
    asked = []

    class Response:
        def __enter__(self) -> "Response":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def read(self) -> bytes:
            return b"content"

    monkeypatch.setattr("urllib.request.urlopen", lambda address: asked.append(address) or Response())
    assert load.read_file("https://example.org/ranks") == b"content"
    assert asked == ["https://example.org/ranks"]
    monkeypatch.setitem(sys.modules, "blobfile", None)
    for call in (lambda: load.read_file("az://a/b"), lambda: load.dump_tiktoken_bpe({}, "az://a/b")):
        with pytest.raises(ImportError, match="pip install blobfile"):
            call()


def test_every_rank_file_is_compared() -> None:
    """The test data's folders with a rank file are all among the rows."""
    if not TEST_DATA.is_dir():
        pytest.skip(f"no test data: {TEST_DATA} is not there (NUMBATOK_TEST_DATA says where to look)")
    files = {path.relative_to(TEST_DATA / "vocab").as_posix() for path in (TEST_DATA / "vocab").glob("*/*.tiktoken*")}
    assert {file.removesuffix(".xz") for file in files} <= {row.file for row in RANK_FILES}


def test_by_the_name_of_tiktoken() -> None:
    """A program for tiktoken runs on this module by its name, submodules too."""
    code = """
        import sys
        import numbatok.compat.tiktoken
        for name in list(sys.modules):
            if name.startswith("numbatok.compat.tiktoken"):
                sys.modules[name.removeprefix("numbatok.compat.")] = sys.modules[name]
        import tiktoken
        from tiktoken.load import load_tiktoken_bpe
        from tiktoken.core import Encoding
        assert tiktoken.Encoding is Encoding and "numbatok" in Encoding.__module__
        print(tiktoken.encoding_for_model("gpt-4o").encode("hello world"))
    """
    assert output_of(code) == "[24912, 2375]\n"
