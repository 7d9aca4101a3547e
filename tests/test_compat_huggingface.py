"""Hugging Face's interface, against ``tokenizers`` itself: the same calls on both."""

import asyncio
import copy
import functools
import inspect
import itertools
import json
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
import small
from conftest import data_file
from numbatok import VocabularyError
from numbatok.compat import huggingface
from numbatok.compat.huggingface import AddedToken, Encoding, Tokenizer, decoders
from support import output_of
from texts import well_formed
from vocabularies import ROWS

# tokenizers warns of `words`, which its encodings still have, and so do ours.
pytestmark = pytest.mark.filterwarnings("ignore:.*Encoding.words is deprecated:DeprecationWarning")

VERSION = ".".join(tokenizers.__version__.split(".")[:2])
of_this_version = pytest.mark.skipif(VERSION != "0.23", reason=f"tokenizers {VERSION} is not the one that is imitated")
FIELDS = (
    "ids type_ids tokens offsets attention_mask special_tokens_mask word_ids words sequence_ids n_sequences".split()
)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


def special(name: str, id: int) -> dict[str, Any]:
    return {"id": name, "ids": [id], "tokens": [name]}


def added(content: str, id: int, **flags: bool) -> dict[str, Any]:
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": id, "content": content, **token, **flags}


TOKENS = [
    added("<|endoftext|>", 656),
    added("[CLS]", 657),
    added("[SEP]", 658),
    added("<mask>", 659, lstrip=True),
    added("Dog", 660, special=False, normalized=True),
    added("fox", 661, special=False, normalized=True, single_word=True, rstrip=True),
]


def piece(kind: str, name: str, type_id: int) -> dict[str, Any]:
    return {kind: {"id": name, "type_id": type_id}}


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0), piece("SpecialToken", "[SEP]", 0)],
    "pair": [
        piece("SpecialToken", "[CLS]", 0),
        piece("Sequence", "A", 2),
        piece("SpecialToken", "[SEP]", 0),
        piece("Sequence", "B", 1),
        piece("SpecialToken", "[SEP]", 1),
    ],
    "special_tokens": {"[CLS]": special("[CLS]", 657), "[SEP]": special("[SEP]", 658)},
}
PAIR = {"sep": ["[SEP]", 658], "cls": ["[CLS]", 657]}
ROBERTA = {"type": "RobertaProcessing", **PAIR, "trim_offsets": True, "add_prefix_space": True}
#: Tokenizers that differ in what is around the model.
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "trimming": {"post_processor": BYTE_LEVEL},
    "no post-processor": {"post_processor": None},
    "template": {"post_processor": TEMPLATE},
    "trimming and template": {"post_processor": {"type": "Sequence", "processors": [BYTE_LEVEL, TEMPLATE]}},
    "template and trimming": {"post_processor": {"type": "Sequence", "processors": [TEMPLATE, BYTE_LEVEL]}},
    "roberta": {"post_processor": ROBERTA, "pre_tokenizer": BYTE_LEVEL},
    "bert": {"post_processor": {"type": "BertProcessing", **PAIR}},
    "names": {"post_processor": {**TEMPLATE, "special_tokens": {
        "[CLS]": {"id": "[CLS]", "ids": [7, 657], "tokens": ["begin", "of"]}, "[SEP]": special("[SEP]", 8)}}},
    "names of bert": {"post_processor": {"type": "BertProcessing", "sep": ["end", 8], "cls": ["begin", 7]}},
    "no text": {"post_processor": {**TEMPLATE, "single": [piece("SpecialToken", "[CLS]", 0)]}},
    "empty sequence": {"post_processor": {"type": "Sequence", "processors": []}},
    "prepending": {"normalizer": {"type": "Prepend", "prepend": " "}},
    "blank": {"normalizer": {"type": "NFC"}, "added_tokens": [
        *TOKENS, added("  ", 662, special=False, normalized=True, lstrip=True, rstrip=True)]},
    "fractions": {"normalizer": {"type": "NFKD"}, "added_tokens": [
        *TOKENS, added("1", 16, special=False, normalized=True),
        added("x", 87, special=False, normalized=True, lstrip=True)]},
    "lowercase": {"post_processor": TEMPLATE, "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Lowercase"}]}},
    "dropping": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}},
}  # fmt: skip


@functools.cache
def content(kind: str) -> str:
    return json.dumps({**small.tokenizer_json(), "added_tokens": TOKENS, **KINDS[kind]})


@functools.cache
def loaded(kind: str) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    return tokenizers.Tokenizer.from_str(content(kind)), Tokenizer.from_str(content(kind))


def both(kind: str) -> tuple[tokenizers.Tokenizer, Tokenizer]:
    """The reference's tokenizer and ours, without padding, truncation and more tokens."""
    pair = loaded(kind)
    for each in pair:
        each.no_padding()
        each.no_truncation()
        each.encode_special_tokens = False
    return pair


def fields(encoding: Any) -> dict[str, Any]:
    """All that an encoding has."""
    found = {name: getattr(encoding, name) for name in FIELDS}
    return found | {"overflowing": [fields(each) for each in encoding.overflowing]}


def outcome(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a call returns, or the kind of its error; the reference's panics are ValueErrors here."""
    try:
        return call(*arguments, **named)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if type(error).__name__ in ("PanicException", "Exception"):
            return ValueError
        return ValueError if isinstance(error, ValueError) else type(error)


def same(one: Any, other: Any) -> None:
    """Compare encodings, or lists of them, or errors."""
    if isinstance(one, list):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif hasattr(one, "overflowing"):
        early = "ids attention_mask type_ids n_sequences".split()
        found = {name: getattr(other, name) for name in early}, len(other)  # before the rest is made
        wanted = fields(one)
        assert fields(other) == wanted
        assert found == ({name: wanted[name] for name in early}, len(one))
    else:
        assert one == other


PARTS = [
    " ", "  ", "\n", "the", " the", "Dog", "dog", "fox", " fox ", "<mask>", " <mask>", "[CLS]", "[SEP]",
    "<|endoftext|>", "été", "e\u0301", "日月", "😀", "123", "?!", "\u00a0", "A", "ß",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=14).map("".join),
    st.text(st.characters(codec="utf-8"), max_size=30),
)
TRUNCATIONS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "max_length": st.integers(0, 12),
            "stride": st.sampled_from([0, 0, 0, 1, 2, 4]),
            "strategy": st.sampled_from(["longest_first", "longest_first", "only_first", "only_second"]),
            "direction": st.sampled_from(["right", "left"]),
        }
    ),
)
PADDINGS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "direction": st.sampled_from(["right", "left"]),
            "pad_id": st.integers(0, 600),
            "pad_type_id": st.integers(0, 3),
            "pad_token": st.just("<pad>"),
            "length": st.one_of(st.none(), st.integers(0, 12)),
            "pad_to_multiple_of": st.sampled_from([None, 0, 1, 4]),
        }
    ),
)


def set_all(pair: tuple[Any, Any], truncation: dict[str, Any] | None, padding: dict[str, Any] | None) -> None:
    if truncation is not None:  # the reference takes a length smaller than the template's for an endless one
        truncation = {**truncation, "max_length": truncation["max_length"] + pair[0].num_special_tokens_to_add(True)}
        assert len({outcome(lambda each=each: each.enable_truncation(**truncation)) for each in pair}) == 1
    for each in pair:
        if padding is not None:
            each.enable_padding(**padding)
    assert pair[0].truncation == pair[1].truncation
    assert pair[0].padding == pair[1].padding


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(TEXTS, st.one_of(st.none(), TEXTS), TRUNCATIONS, PADDINGS, st.booleans(), st.booleans())
def test_encode(
    kind: str, text: str, second: str | None, truncation: Any, padding: Any, special: bool, as_text: bool
) -> None:
    reference, ours = both(kind)
    set_all((reference, ours), truncation, padding)
    reference.encode_special_tokens = ours.encode_special_tokens = as_text
    calls = [lambda each=each: each.encode(text, second, add_special_tokens=special) for each in (reference, ours)]
    same(*map(outcome, calls))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(
    st.lists(st.one_of(TEXTS, st.tuples(TEXTS, TEXTS), st.lists(TEXTS, min_size=2, max_size=2)), max_size=4),
    TRUNCATIONS,
    PADDINGS,
)
def test_encode_batch(kind: str, texts: list[Any], truncation: Any, padding: Any) -> None:
    reference, ours = both(kind)
    set_all((reference, ours), truncation, padding)
    same(outcome(lambda: reference.encode_batch(texts)), outcome(lambda: ours.encode_batch(texts)))


WORDS = st.lists(st.one_of(st.sampled_from(PARTS), st.text(st.characters(codec="utf-8"), max_size=5)), max_size=5)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(st.lists(st.one_of(WORDS, st.tuples(WORDS, WORDS)), max_size=3), TRUNCATIONS, PADDINGS)
def test_words(kind: str, texts: list[Any], truncation: Any, padding: Any) -> None:
    reference, ours = both(kind)
    set_all((reference, ours), truncation, padding)
    same(
        outcome(lambda: reference.encode_batch(texts, is_pretokenized=True)),
        outcome(lambda: ours.encode_batch(texts, is_pretokenized=True)),
    )


# --- what one asks of an encoding ---


@settings(max_examples=30)
@given(TEXTS, st.one_of(st.none(), TEXTS), TRUNCATIONS, PADDINGS)
def test_from_one_to_another(text: str, second: str | None, truncation: Any, padding: Any) -> None:
    pair = both("roberta")
    set_all(pair, truncation, padding)
    encodings = [outcome(lambda each=each: each.encode(text, second)) for each in pair]
    if encodings[0] is ValueError:
        return
    for place in range(len(encodings[0]) + 3):
        for name in ("token_to_chars", "token_to_word", "token_to_sequence"):
            assert getattr(encodings[1], name)(place) == getattr(encodings[0], name)(place), (name, place)
        for sequence in range(3):
            for name in ("char_to_token", "char_to_word", "word_to_tokens", "word_to_chars"):
                found = [outcome(getattr(each, name), place, sequence) for each in encodings]
                assert found[0] == found[1], (name, place, sequence)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("truncate"), st.integers(0, 8), st.integers(0, 3), st.sampled_from(["left", "right"])),
        st.tuples(
            st.just("pad"), st.integers(0, 12), st.sampled_from(["left", "right"]), st.integers(0, 9), st.integers(0, 2)
        ),
        st.tuples(st.just("set_sequence_id"), st.integers(0, 2)),
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(TEXTS, TEXTS, CHANGES, st.booleans())
def test_changes(text: str, second: str, changes: list[tuple[Any, ...]], growing: bool) -> None:
    pair = both("template")
    encodings = [each.encode(text, second) for each in pair]
    for name, *arguments in changes:
        if name == "pad":
            named = dict(zip(("direction", "pad_id", "pad_type_id"), arguments[1:], strict=True))
            results = [outcome(each.pad, arguments[0], **named) for each in encodings]
        else:
            results = [outcome(getattr(each, name), *arguments) for each in encodings]
        assert results[0] == results[1]
        if results[0] is not None:
            return
    same(*encodings)
    merged = [
        kind.merge([each, one.encode(text), each], growing_offsets=growing)
        for kind, one, each in zip((tokenizers.Encoding, Encoding), pair, encodings, strict=True)
    ]
    same(*merged)
    same(encodings[0], pickle.loads(pickle.dumps(encodings[1])))
    same(encodings[0], copy.deepcopy(encodings[1]))


@settings(max_examples=30)
@given(TEXTS, st.one_of(st.none(), TEXTS), TRUNCATIONS, PADDINGS, st.booleans())
def test_post_process(text: str, second: str | None, truncation: Any, padding: Any, special: bool) -> None:
    for kind in ("trimming and template", "roberta", "no post-processor"):
        pair = both(kind)
        sides = [
            [each.encode(one, add_special_tokens=False) for one in (text, second) if one is not None] for each in pair
        ]
        set_all(pair, truncation, padding)
        calls = [
            lambda each=each, side=side: each.post_process(*side, add_special_tokens=special)
            for each, side in zip(pair, sides, strict=True)
        ]
        same(*map(outcome, calls))


def test_encoding_by_itself() -> None:
    same(tokenizers.Encoding(), Encoding())
    assert repr(Encoding()) == repr(tokenizers.Encoding())
    same(tokenizers.Encoding.merge([]), Encoding.merge([]))
    encoding = both("plain")[1].encode("the dog")
    encoding.ids.append(3)
    encoding.tokens.clear()
    assert encoding.ids == both("plain")[0].encode("the dog").ids
    assert len(encoding.tokens) == len(encoding)


# --- the vocabulary ---


def compare_vocabularies(reference: tokenizers.Tokenizer, ours: Tokenizer) -> None:
    for with_added in (True, False):
        assert ours.get_vocab(with_added) == reference.get_vocab(with_added)
        assert ours.get_vocab_size(with_added) == reference.get_vocab_size(with_added)
    assert list(map(str, ours.get_added_tokens_decoder().items())) == list(
        map(str, reference.get_added_tokens_decoder().items())
    )
    for id in range(reference.get_vocab_size() + 2):
        assert ours.id_to_token(id) == reference.id_to_token(id)
    for token in (*list(reference.get_vocab())[:300], "", "no such", " "):
        assert ours.token_to_id(token) == reference.token_to_id(token)
    for is_pair in (False, True):
        assert ours.num_special_tokens_to_add(is_pair) == reference.num_special_tokens_to_add(is_pair)


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary(kind: str) -> None:
    compare_vocabularies(*both(kind))


def test_add_tokens() -> None:
    for kind in ("plain", "lowercase"):
        reference, ours = tokenizers.Tokenizer.from_str(content(kind)), Tokenizer.from_str(content(kind))
        for name, tokens in (
            ("add_tokens", ["one", "one", "", "the", "bar", "[CLS]"]),
            ("add_special_tokens", ["[Q]", "bar", "[SEP]"]),
            ("add_tokens", [("two", {"lstrip": True, "rstrip": True}), ("Three", {"single_word": True})]),
            ("add_special_tokens", [("[Q]", {"normalized": True}), ("four", {})]),
        ):
            counts = []
            for each, made in ((reference, tokenizers.AddedToken), (ours, AddedToken)):
                given = [token if isinstance(token, str) else made(token[0], **token[1]) for token in tokens]
                counts.append(getattr(each, name)(given))
            assert counts[0] == counts[1], tokens
            compare_vocabularies(reference, ours)
            same(
                reference.encode("a one two  Three[Q]bar  four [CLS]"),
                ours.encode("a one two  Three[Q]bar  four [CLS]"),
            )
        theirs = Tokenizer.from_str(content(kind))
        assert theirs.add_tokens([tokenizers.AddedToken("two", lstrip=True)]) == 1
        assert ours.encode_batch([]) == []
    assert repr(AddedToken('"\n\\')) == repr(tokenizers.AddedToken('"\n\\'))
    assert repr(AddedToken("x", lstrip=True)) == repr(tokenizers.AddedToken("x", lstrip=True))
    with pytest.raises(TypeError, match="a token must be a str or an AddedToken, not int"):
        ours.add_tokens([3])


# --- decoding ---


@settings(max_examples=60)
@given(st.lists(st.integers(0, 670), max_size=20), st.booleans())
def test_decode(ids: list[int], skip: bool) -> None:
    for kind in ("lowercase", "roberta"):
        reference, ours = both(kind)
        assert ours.decode(ids, skip) == reference.decode(ids, skip)
    reference, ours = both("plain")
    assert ours.decode(ids, skip) == reference.decode(ids, skip)
    assert ours.decode_batch([ids, [], ids[:3]], skip) == reference.decode_batch([ids, [], ids[:3]], skip)
    streams = [
        decoders.DecodeStream(skip_special_tokens=skip),
        tokenizers.decoders.DecodeStream(skip_special_tokens=skip),
    ]
    for id in ids:
        steps = [outcome(stream.step, each, id) for each, stream in zip((ours, reference), streams, strict=True)]
        assert steps[0] == steps[1]


def test_decode_stream() -> None:
    reference, ours = both("plain")
    ids = reference.encode("the 日月 dog 😀 été<|endoftext|>").ids
    for prompt in ([], ids[:3], ids[:5]):
        for step in (1, 2):
            streams = [module.DecodeStream(ids=prompt) for module in (decoders, tokenizers.decoders)]
            for place in range(0, len(ids), step):
                given = ids[place] if step == 1 else ids[place : place + step]
                results = [stream.step(each, given) for stream, each in zip(streams, (ours, reference), strict=True)]
                assert results[0] == results[1]
                streams[0] = copy.copy(streams[0])
    with pytest.raises(TypeError, match="tokenizer must be"):
        decoders.DecodeStream().step(reference, 3)
    with pytest.raises(NotImplementedError, match="ByteLevel"):
        _ = decoders.ByteLevel


SPELLED = [
    added("õõ", 656),
    added("ĠĠx", 657, normalized=True),
    added("日ĠĀ", 658),
    added("Ãdog", 659, normalized=True),
]


@pytest.mark.parametrize("normalizer", [None, {"type": "Lowercase"}, {"type": "ByteLevel"}], ids=str)
@pytest.mark.parametrize(
    "decoder",
    [
        BYTE_LEVEL,
        None,
        {"type": "Fuse"},
        {"type": "Sequence", "decoders": []},
        {"type": "Sequence", "decoders": [BYTE_LEVEL]},
    ],
    ids=["byte-level", "none", "fuse", "empty", "sequence"],
)
@settings(max_examples=15)
@given(st.lists(st.integers(0, 662), max_size=9), st.booleans())
def test_decoders(normalizer: Any, decoder: Any, ids: list[int], skip: bool) -> None:
    """Without a ByteLevel the strings of tokens are joined as they are; with one, those of added tokens count too."""
    settings = {**small.tokenizer_json(), "added_tokens": SPELLED, "normalizer": normalizer, "decoder": decoder}
    if normalizer == {"type": "ByteLevel"}:
        settings["pre_tokenizer"] = None
    text = json.dumps(settings)
    reference, ours = tokenizers.Tokenizer.from_str(text), Tokenizer.from_str(text)
    for each in (ids, [*ids, 657, 659]):
        assert ours.decode(each, skip) == reference.decode(each, skip)
        assert ours.decode_batch([each, ids], skip) == reference.decode_batch([each, ids], skip)
    streams = [module.DecodeStream(skip_special_tokens=skip) for module in (tokenizers.decoders, decoders)]
    for id in ids:
        steps = [outcome(stream.step, each, id) for stream, each in zip(streams, (reference, ours), strict=True)]
        assert steps[0] == steps[1]
    for id in range(656, 660):
        assert ours.id_to_token(id) == reference.id_to_token(id)
    same(reference.encode("a ĠĠx日ĠĀ Ãdog"), ours.encode("a ĠĠx日ĠĀ Ãdog"))


def test_decode_refuses() -> None:
    reference, ours = both("plain")
    for ids in (
        3,
        [-1],
        ["a"],
        [1.5],
        [1 << 32],
        None,
        b"ab",
        bytearray(b"ab"),
        (1, 2),
        range(3),
        {},
        {1},
        "12",
        [True],
    ):
        assert outcome(lambda ids=ids: ours.decode(ids)) == outcome(lambda ids=ids: reference.decode(ids))
    assert ours.decode(np.array([1, 2])) == reference.decode([1, 2])


# --- settings ---


def test_settings() -> None:
    reference, ours = both("template")
    for each in (reference, ours):
        assert each.padding is None
        assert each.truncation is None
    for name, arguments in (
        ("enable_padding", {"direction": "up"}),
        ("enable_padding", {"pad_id": -1}),
        ("enable_padding", {"length": "a"}),
        ("enable_padding", {"pad_token": 3}),
        ("enable_truncation", {"max_length": 3, "strategy": "some"}),
        ("enable_truncation", {"max_length": 3, "direction": "up"}),
        ("enable_truncation", {"max_length": -1}),
        ("enable_truncation", {"max_length": 5, "stride": 4}),
        ("enable_truncation", {}),
    ):
        results = [outcome(getattr(each, name), **arguments) for each in (reference, ours)]
        assert results[0] == results[1], (name, arguments)
    ours.enable_truncation(2, stride=0)
    with pytest.raises(ValueError, match="max_length is 2, and the template alone puts 3"):
        ours.encode("a", "b")
    ours.enable_truncation(5, stride=3)
    with pytest.raises(ValueError, match="stride must be smaller"):
        ours.encode("the dog was here before")
    assert ours.encode("a").ids == reference.encode("a").ids


def test_files(tmp_path: Any) -> None:
    for kind in KINDS:
        pair = both(kind)
        set_all(pair, {"max_length": 6, "stride": 1, "strategy": "longest_first", "direction": "left"}, {"length": 9})
        texts = ["the quick brown fox", "jumps over <mask> the lazy dog"]
        wanted = pair[0].encode_batch(texts)
        ours = pair[1]
        ours.save(tmp_path / "a.json")
        ours.save(str(tmp_path / "b.json"), pretty=False)
        assert json.loads((tmp_path / "a.json").read_text()) == json.loads((tmp_path / "b.json").read_text())
        for text in (ours.to_str(), ours.to_str(pretty=True)):
            again = tokenizers.Tokenizer.from_str(text)
            assert [each.ids for each in again.encode_batch(texts)] == [each.ids for each in wanted]
            assert (again.padding, again.truncation) == (ours.padding, ours.truncation)
        pair[0].save(str(tmp_path / "c.json"))
        for made in (
            Tokenizer.from_file(tmp_path / "a.json"),
            Tokenizer.from_file(str(tmp_path / "c.json")),
            Tokenizer.from_buffer((tmp_path / "b.json").read_bytes()),
            Tokenizer.from_huggingface(pair[0]),
            pickle.loads(pickle.dumps(ours)),
            copy.deepcopy(ours),
        ):
            same(wanted, made.encode_batch(texts))
    (tmp_path / "tokenizer.json").write_text(ours.to_str())
    same(wanted, Tokenizer.from_pretrained(str(tmp_path)).encode_batch(texts))


def test_from_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "models--someone--model" / "snapshots" / commit
    folder.mkdir(parents=True)
    with pytest.raises(OSError, match="no tokenizer of 'someone/model'"):
        Tokenizer.from_pretrained("someone/model", revision=commit)
    ours = both("template")[1]
    ours.enable_truncation(5)
    ours.save(folder / "tokenizer.json")
    loaded = Tokenizer.from_pretrained("someone/model", revision=commit)
    assert loaded.truncation == ours.truncation
    assert loaded.encode("the dog was there").ids == ours.encode("the dog was there").ids


def test_files_refused(tmp_path: Any) -> None:
    damaged = {**json.loads(content("plain")), "padding": {"strategy": "Longest", "direction": "Right"}}
    (tmp_path / "a.json").write_text(json.dumps(damaged))
    with pytest.raises(VocabularyError, match=r"a\.json: padding: strategy must be"):
        Tokenizer.from_file(tmp_path / "a.json")
    with pytest.raises(VocabularyError, match="not a tokenizer"):
        Tokenizer.from_str("{}")
    other = {**json.loads(content("plain")), "model": {"type": "WordPiece", "vocab": {"a": 0}}}
    (tmp_path / "b.json").write_text(json.dumps(other))
    with pytest.raises(NotImplementedError, match=r"b\.json: model .WordPiece. is not supported.*Tokenizer"):
        Tokenizer.from_file(tmp_path / "b.json")
    with pytest.raises(OSError, match="no such file"):
        Tokenizer.from_file(tmp_path / "no such file")


def test_other_tokenizers(gpt2: numbatok.Tokenizer, gpt2_json: str) -> None:
    ours, reference = Tokenizer.from_numbatok(gpt2), tokenizers.Tokenizer.from_str(gpt2_json)
    text = "Hello world, it's naïve ☃<|endoftext|>"
    assert ours.encode(text).ids == gpt2.encode(text).tolist()
    assert ours.encode(text).tokens == reference.encode(text).tokens
    assert ours.encode(text).word_ids == reference.encode(text).word_ids
    assert ours.encode(text).offsets == reference.encode(text).offsets


# --- inputs, errors ---


def test_inputs() -> None:
    reference, ours = both("plain")
    for name, arguments in (
        ("encode", (3,)),
        ("encode", ("\ud800",)),
        ("encode", (["a"],)),
        ("encode", ("a", 3)),
        ("encode", ("a", None, True)),
        ("encode", (["a", 3], None, True)),
        ("encode", (("a", "b"), ["c"], True)),
        ("encode", (np.array(["a", "bc"], object), None, True)),
        ("encode_batch", ("ab",)),
        ("encode_batch", ([3],)),
        ("encode_batch", ([("a", "b", "c")],)),
        ("encode_batch", ([("a", "b"), "c"],)),
        ("encode_batch", ((each for each in "ab"),)),
        ("encode_batch", ([["a", "b"], ("c", "d")],)),
        ("encode_batch", ([["a", "b"], (["c"], ["d"])], True)),
        ("encode_batch", (["a"], True)),
        ("encode_batch", ([],)),
        ("encode_batch", (["a", "\ud800"],)),
    ):
        same(outcome(getattr(reference, name), *arguments), outcome(getattr(ours, name), *arguments))


def test_words_of_one_length() -> None:
    ours = both("plain")[1]  # the reference takes the padding inside of such an array for characters
    same(ours.encode(["a", "bc"], is_pretokenized=True), ours.encode(np.array(["a", "bc"]), is_pretokenized=True))


#: Values of all sorts, for every argument.
ODD: list[Any] = [
    None, True, False, 0, 5, -1, 1 << 32, 1 << 64, 1.0, "", "a", "left", "only_first", b"a", [], [1], ["a"], {"a": 1},
    np.int64(3), np.bool_(True), np.float64(1), np.array([1, 2]), object(), "\ud800", [None], [[1]], [["a"]], ["a", 1],
    {1}, range(3),
]  # fmt: skip
#: Methods with arguments that are right, by which all others are changed.
CALLS: dict[str, list[Any]] = {
    "encode": ["the dog", "a", False, True],
    "encode_batch": [["the dog"], False, True],
    "decode": [[1, 2], True],
    "decode_batch": [[[1], [2]], True],
    "token_to_id": ["a"],
    "id_to_token": [1],
    "get_vocab_size": [True],
    "get_vocab": [True],
    "num_special_tokens_to_add": [True],
    "to_str": [False],
    "from_str": ["{}"],
    "enable_truncation": [5],
}
NAMED = {
    "enable_padding": ({}, "direction pad_id pad_type_id pad_token length pad_to_multiple_of"),
    "enable_truncation": ({"max_length": 20}, "max_length stride strategy direction"),
}
OF_ENCODINGS: dict[str, list[Any]] = {
    "token_to_chars": [1],
    "token_to_word": [1],
    "token_to_sequence": [1],
    "char_to_token": [1, 0],
    "char_to_word": [1, 0],
    "word_to_tokens": [1, 0],
    "word_to_chars": [1, 0],
    "set_sequence_id": [1],
    "truncate": [5, 0, "right"],
}


def kind_of(result: Any) -> Any:
    """A result, comparable: whatever to_str gives is another text."""
    return type(result) if isinstance(result, str) and result.startswith(("{", "Tok")) else result


@of_this_version
@pytest.mark.parametrize("name", CALLS)
def test_types_of_arguments(name: str) -> None:
    """Each argument is refused with the same exception, or taken with the same result."""
    for place in range(len(CALLS[name])):
        for value in ODD:
            arguments = [*CALLS[name]]
            arguments[place] = value
            reference, ours = both("template")
            found = [kind_of(outcome(getattr(each, name), *arguments)) for each in (reference, ours)]
            same(*found)
            assert ours.truncation == reference.truncation
    for arguments, named in (((), {}), ([1] * 7, {}), (CALLS[name], {"no_such": 1})):
        reference, ours = both("template")
        if name == "enable_truncation" and named:  # the reference prints that it ignores it
            assert outcome(getattr(ours, name), *arguments, **named) is TypeError
            continue
        same(*(kind_of(outcome(getattr(each, name), *arguments, **named)) for each in (reference, ours)))


@of_this_version
@pytest.mark.parametrize("name", NAMED)
def test_types_of_named_arguments(name: str) -> None:
    right, names = NAMED[name]
    for key in names.split():
        for value in ODD:
            reference, ours = both("template")
            found = [outcome(getattr(each, name), **{**right, key: value}) for each in (reference, ours)]
            assert found[0] == found[1], (key, value)
            assert (ours.padding, ours.truncation) == (reference.padding, reference.truncation)
    for each in both("template"):
        assert outcome(getattr(each, name), *right.values(), "left") is TypeError


@of_this_version
@pytest.mark.parametrize("name", OF_ENCODINGS)
def test_types_of_arguments_of_encodings(name: str) -> None:
    for place in range(len(OF_ENCODINGS[name])):
        for value in ODD:
            arguments = [*OF_ENCODINGS[name]]
            arguments[place] = value
            encodings = [each.encode("the dog was here", "a fox") for each in both("template")]
            found = [outcome(getattr(each, name), *arguments) for each in encodings]
            assert found[0] == found[1], arguments
            same(*encodings)


def other_calls(library: Any, tokenizer: Any, value: Any) -> list[Callable[[], Any]]:
    """Calls of all else that takes an argument, with a value."""
    encoding, partial = tokenizer.encode("the dog"), functools.partial
    stream = library.decoders.DecodeStream
    return [
        partial(setattr, tokenizer, "encode_special_tokens", value),
        partial(library.Encoding.merge, value),
        partial(library.Encoding.merge, [encoding], value),
        partial(tokenizer.post_process, value),
        partial(tokenizer.post_process, encoding, value),
        partial(tokenizer.post_process, encoding, None, value),
        partial(stream().step, tokenizer, value),
        lambda: type(stream(ids=value)).__name__,
        lambda: type(stream(skip_special_tokens=value)).__name__,
        partial(library.AddedToken, "a", value),
        *(
            lambda key=key: repr(library.AddedToken(**{key: value}))
            for key in ("content", "single_word", "lstrip", "rstrip", "special")
        ),
    ]


@of_this_version
def test_types_of_other_arguments() -> None:
    for value in ODD:
        calls = map(other_calls, (tokenizers, huggingface), both("template"), (value, value))
        for number, (one, other) in enumerate(zip(*calls, strict=True)):
            found = outcome(one), outcome(other)
            assert number < 6 or found[0] == found[1], (number, value)
            same(*found)
    both("template")


CLASSES = [
    (tokenizers.Tokenizer, Tokenizer),
    (tokenizers.Encoding, Encoding),
    (tokenizers.AddedToken, AddedToken),
    (tokenizers.decoders.DecodeStream, decoders.DecodeStream),
]


def public(owner: Any) -> set[str]:
    return {name for name in vars(owner) if not name.startswith("_")}


@of_this_version
@pytest.mark.parametrize("pair", CLASSES, ids=lambda pair: pair[0].__name__)
def test_signatures(pair: tuple[Any, Any]) -> None:
    """Every public name is there, and every argument, in its place and with its default."""
    theirs, own = pair
    made = own("a") if own is AddedToken else own if own is not Tokenizer else both("plain")[1]
    for name in public(theirs):
        if name not in ("model", "normalizer", "pre_tokenizer", "post_processor", "decoder"):
            assert hasattr(made, name), name
        if callable(getattr(theirs, name)):
            wanted = inspect.signature(getattr(theirs, name)).parameters
            found = inspect.signature(getattr(own, name)).parameters
            assert list(found) == list(wanted), name
            for each in wanted:
                assert found[each].default == wanted[each].default, (name, each)


@of_this_version
def test_every_name() -> None:
    """Of the package and of its decoders: there, or refused with the way round."""
    typing = {"Enum", "List", "Tuple", "Union", "Any", "tokenizers"}
    for module, own in ((tokenizers, huggingface), (tokenizers.decoders, decoders)):
        for name in public(module) - typing - {"decoders"}:
            if name in own.__dict__:
                continue
            with pytest.raises(NotImplementedError, match=f"s.{name}: numbatok .*(from_huggingface|Tokenizer.decode)"):
                getattr(own, name)
    with pytest.raises(NotImplementedError, match="put it together with tokenizers"):
        from numbatok.compat.huggingface import models  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        _ = huggingface.no_such
    assert not hasattr(decoders, "no_such")


def test_not_supported() -> None:
    ours = both("plain")[1]
    for name in ("model", "normalizer", "pre_tokenizer", "post_processor", "decoder"):
        with pytest.raises(NotImplementedError, match=name):
            getattr(ours, name)
    with pytest.raises(NotImplementedError, match="train with tokenizers"):
        ours.train(["a"])
    with pytest.raises(NotImplementedError, match="train with tokenizers"):
        ours.train_from_iterator(["a"])
    with pytest.raises(NotImplementedError, match="from_file"):
        Tokenizer(object())


def test_asynchronous() -> None:
    reference, ours = both("template")

    async def run() -> None:
        same(reference.encode("the dog"), await ours.async_encode("the dog"))
        same(reference.encode_batch(["a", "b"]), await ours.async_encode_batch(["a", "b"]))
        assert [each.ids for each in await ours.async_encode_batch_fast(["a", "b"])] == [
            each.ids for each in reference.encode_batch(["a", "b"])
        ]
        assert await ours.async_decode_batch([[1], [2]]) == reference.decode_batch([[1], [2]])

    asyncio.run(run())


def test_dropout() -> None:
    model = small.tokenizer_json(dropout=0.5)
    ours = Tokenizer.from_str(json.dumps(model))
    for _ in range(20):
        encoding = ours.encode("the dog that they thought of")
        ids = encoding.ids
        assert "".join(encoding.tokens) == "theĠdogĠthatĠtheyĠthoughtĠof"
        assert encoding.ids == ids
        assert [ours.token_to_id(token) for token in encoding.tokens] == ids
        assert encoding.offsets[-1][1] == 28


def test_threads_share_one_object() -> None:
    """Each call takes one state of the settings, though other threads change them all the time."""
    reference, ours = both("template")
    texts = ["the quick brown fox " * number for number in range(1, 9)]
    lengths = (None, 5, 9)
    good = []
    for most, width in itertools.product(lengths, lengths):
        for each in both("template"):
            if most is not None:
                each.enable_truncation(most)
            if width is not None:
                each.enable_padding(length=width)
        good.append([fields(each) for each in reference.encode_batch(texts)])
    wanted = {None: good[0]}
    both("template")
    failures = []

    def work(length: int | None) -> None:
        for _ in range(15):
            if length is None:
                ours.no_truncation()
                ours.no_padding()
            else:
                ours.enable_truncation(length)
                ours.enable_padding(length=length)
            found = [fields(each) for each in ours.encode_batch(texts)]
            if found not in good:
                failures.append(found)

    threads = [threading.Thread(target=work, args=(length,)) for length in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    both("template")
    encodings = ours.encode_batch(texts)
    results: list[Any] = []
    readers = [threading.Thread(target=lambda: results.append([fields(each) for each in encodings])) for _ in range(4)]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    assert all(result == wanted[None] for result in results)
    assert len(results) == 4


def test_is_apart() -> None:
    code = """
        import sys
        sys.modules["tokenizers"] = sys.modules["transformers"] = None
        import numbatok
        assert "numbatok.compat.huggingface" not in sys.modules
        from numbatok.compat.huggingface import Tokenizer
        tokenizer = Tokenizer.from_numbatok(numbatok.get_encoding("gpt2"))
        print(tokenizer.encode("Hello world").tokens)
    """
    assert output_of(code) == "['Hello', 'Ġworld']\n"


# --- real vocabularies ---


ALL = [row for row in ROWS if row.kind == "tokenizer.json"]
GRID = [
    {"max_length": most, "stride": stride, "strategy": strategy, "direction": direction}
    for most, stride in ((7, 0), (12, 2))
    for strategy in ("longest_first", "only_first", "only_second")
    for direction in ("right", "left")
]
PADS = [{}, {"length": 20}, {"direction": "left", "pad_to_multiple_of": 8, "pad_id": 3, "pad_type_id": 1}]


@pytest.mark.parametrize("row", [row for row in ALL if row.refused], ids=str)
def test_vocabularies_refused(row: Any) -> None:
    """Those of other models, by their names and with the way round."""
    for kind in (VocabularyError, NotImplementedError):
        with pytest.raises(kind, match=r"use tokenizers\.Tokenizer"):
            Tokenizer.from_str(data_file(f"vocab/{row.file}").decode())


@pytest.mark.parametrize("row", [row for row in ALL if not row.refused], ids=str)
def test_real_vocabularies(row: Any) -> None:
    text = data_file(f"vocab/{row.file}").decode()
    reference, ours = tokenizers.Tokenizer.from_str(text), Tokenizer.from_str(text)
    for with_added in (True, False):
        assert ours.get_vocab(with_added) == reference.get_vocab(with_added)
    assert str(ours.get_added_tokens_decoder()) == str(reference.get_added_tokens_decoder())
    special = [token.content for token in reference.get_added_tokens_decoder().values()]
    texts = ["Hello world, it's  naïve ☃ 1234", *small.TEXT.split("\n"), " ".join(["a", *special[:3], "b"]), "", "  x"]
    same(reference.encode_batch(texts), ours.encode_batch(texts))
    pairs = list(zip(texts, reversed(texts), strict=True))[:5]
    words = [line.split(" ") for line in texts]
    same(reference.encode_batch(words, is_pretokenized=True), ours.encode_batch(words, is_pretokenized=True))
    ids = reference.encode(small.TEXT).ids
    assert ours.decode(ids) == reference.decode(ids)
    streams = [module.DecodeStream() for module in (decoders, tokenizers.decoders)]
    for id in ids[:60]:
        assert streams[0].step(ours, id) == streams[1].step(reference, id)
    added = [token for token in reference.get_added_tokens_decoder() if token < 1 << 20]
    rng = random.Random(3)
    for skip in (False, True):
        for some in ([[id] for id in added[:40]], [rng.sample(ids + added, 9) for _ in range(9)]):
            assert ours.decode_batch(some, skip) == reference.decode_batch(some, skip)
    for number, truncation in enumerate(GRID):
        padding = PADS[number % len(PADS)]
        for each in (reference, ours):
            each.enable_truncation(**truncation)
            each.enable_padding(**padding)
        for given_texts in (texts[:3], pairs[:3], pairs[3:]):
            same(*(outcome(each.encode_batch, given_texts) for each in (reference, ours)))
    for each in (reference, ours):
        each.no_truncation()
        each.no_padding()

    @settings(max_examples=12)
    @given(
        st.lists(st.one_of(well_formed, st.sampled_from([*special[:20], " ", "\n", "the dog"])), max_size=5).map(
            "".join
        )
    )
    def sprinkled(text: str) -> None:
        same(reference.encode(text), ours.encode(text))
        same(reference.encode(text, "a" + text), ours.encode(text, "a" + text))
        reference.encode_special_tokens = ours.encode_special_tokens = True
        same(reference.encode(text), ours.encode(text))
        reference.encode_special_tokens = ours.encode_special_tokens = False
        ids = reference.encode(text).ids
        assert ours.decode(ids) == reference.decode(ids)

    sprinkled()
