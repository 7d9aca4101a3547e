"""Loading tokenizer.json: every accepted form, and a refusal by name for all else."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers

import naive
import small
from numbatok import Tokenizer, VocabularyError
from numbatok.decoders import ByteFallback, Fuse, Metaspace, Replace, Spaced, Strip, Suffix, decode
from numbatok.loading import byte_level, tokenizer_json
from numbatok.loading.checks import brief
from numbatok.normalizers import NFC
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split
from numbatok.templates import PLAIN, Special, Template, Text
from numbatok.vocabulary import MAX_SYMBOLS, Vocabulary

# --- the byte alphabet ---


def test_byte_alphabet() -> None:
    """GPT-2's 256 characters, each a byte; a token with a stranger is its UTF-8."""
    assert byte_level.byte_of_character() == {character: byte for byte, character in small.ALPHABET.items()}
    every = small.spell(bytes(range(256)))
    assert byte_level.to_bytes(every) == bytes(range(256))
    assert byte_level.to_bytes("▁x") == "▁x".encode()
    assert [byte_level.to_bytes(byte_level.spell(token)) for token in small.TOKENS] == small.TOKENS
    with pytest.raises(VocabularyError, match="lone surrogate"):
        byte_level.to_bytes("\ud800")


# --- tokenizer.json: what is accepted ---


def load(settings: object) -> Tokenizer:
    """The tokenizer of a content."""
    return Tokenizer.from_str(json.dumps(settings))


def parse(settings: object) -> Parts:
    """The parts of a content."""
    return tokenizer_json.parse(json.dumps(settings))


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES_ALONE = {**BYTE_LEVEL, "use_regex": False}
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]} | {
    "trim_offsets": True,
    "add_prefix_space": False,
}
TEXT_A, TEXT_B = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")


def sequence(*steps: dict) -> dict:
    """A Sequence of pre-tokenizers."""
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(regex: str, **changes: object) -> dict:
    """A Split by a regular expression."""
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False, **changes}


def template_json(single: list, pair: list, special_tokens: dict) -> dict:
    """A TemplateProcessing."""
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special_tokens}


def added(**changes: object) -> dict:
    """An entry of added_tokens."""
    return {**small.tokenizer_json()["added_tokens"][0], **changes}


def test_merges_as_pairs_and_as_strings(small_merges) -> None:
    """Both forms make the same tokenizer."""
    strings = [f"{small.spell(left)} {small.spell(right)}" for left, right in small.TRAINED]
    assert load(small.tokenizer_json(merges=strings)) == small_merges
    assert (
        load(small.tokenizer_json(merges=strings[:50] + small.tokenizer_json()["model"]["merges"][50:])) == small_merges
    )


def test_what_older_files_leave_out(small_merges) -> None:
    """No model type, none of the optional keys, null for the post-processor and decoder, no added tokens."""
    settings = small.tokenizer_json()
    model = settings["model"]
    bare = {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "added_tokens": settings["added_tokens"],
        "model": {"vocab": model["vocab"], "merges": model["merges"]},
    }
    assert load(bare) == small_merges
    assert load({**settings, "post_processor": None, "decoder": None}) == small_merges
    assert load({**settings, "added_tokens": []}).special_tokens == {}
    without = {key: value for key, value in settings.items() if key != "added_tokens"}
    assert load(without).special_tokens == {}


def test_settings_without_effect(small_merges) -> None:
    """What changes no id is accepted: trim_offsets, unknown-token settings of a vocabulary without unknowns."""
    settings = small.tokenizer_json(unk_token="<unk>", fuse_unk=True, byte_fallback=True, dropout=0.0)
    settings["pre_tokenizer"]["trim_offsets"] = False
    assert load(settings) == small_merges
    empty = small.tokenizer_json(continuing_subword_prefix="", end_of_word_suffix="")
    assert load(empty) == small_merges


def test_ignore_merges() -> None:
    """A whole pretoken in the vocabulary is taken first where the file says so, and only there."""
    vocab = {**small.tokenizer_json()["model"]["vocab"], "zqz": 2000}
    for ignore_merges in (True, False):
        settings = {**small.tokenizer_json(vocab=vocab, ignore_merges=ignore_merges), "added_tokens": []}
        assert (load(settings).encode("zqz").tolist() == [2000]) == ignore_merges


def test_the_last_rank_of_a_repeated_merge(tokenizers_small) -> None:
    """A merge list may hold a pair twice; the oracle and the tokenizer agree on which counts."""
    merges = [*small.TRAINED, small.TRAINED[0], small.TRAINED[3]]
    tokenizer = load(small.tokenizer_json(merges=[[small.spell(left), small.spell(right)] for left, right in merges]))
    oracle = naive.Tokenizer.from_merges(small.ID_OF, merges, small.ADDED)
    reference = type(tokenizers_small).from_str(
        json.dumps(small.tokenizer_json(merges=[[small.spell(left), small.spell(right)] for left, right in merges]))
    )
    assert tokenizer.encode(small.TEXT).tolist() == oracle.encode(small.TEXT) == reference.encode(small.TEXT).ids


def test_vocabulary_with_gaps_and_any_order(tokenizers_small) -> None:
    """Ids need be neither dense nor in order of the merges."""
    rng = random.Random(2)
    ids = dict(zip(small.TOKENS, rng.sample(range(5000), len(small.TOKENS)), strict=True))
    settings = small.tokenizer_json(vocab={small.spell(token): id for token, id in ids.items()})
    settings["added_tokens"] = []
    expected = [ids[small.TOKENS[id]] for id in tokenizers_small.encode(small.TEXT).ids]
    tokenizer = load(settings)
    assert tokenizer.encode(small.TEXT).tolist() == expected
    assert tokenizer.decode(expected) == small.TEXT
    assert tokenizer.vocab_size == max(ids.values()) + 1


def test_added_tokens_of_a_file() -> None:
    """New ones follow the vocabulary in the file's order, old ones keep their ids, empty ones count for nothing."""
    settings = small.tokenizer_json()
    first = len(small.TOKENS)
    the = small.ID_OF[b"re"]
    settings["added_tokens"] = [
        added(id=first, content="<o>", special=False),
        added(id=the, content="re"),
        added(id=first + 1, content="<s>"),
        added(id=first + 2, content=""),
        added(id=first, content="<o>", special=False),
        added(id=first + 2, content=" "),  # U+0020 is spelled otherwise in the vocabulary
    ]
    tokenizer = load(settings)
    assert tokenizer.special_tokens == {"re": the, "<s>": first + 1, " ": first + 2}
    assert tokenizer.encode("<s>xre<o>").tolist() == [first + 1, small.ID_OF[b"x"], the, first]
    reference = tokenizers.Tokenizer.from_str(json.dumps(settings))
    assert {token.content: token.id for token in tokenizer.added_tokens} == {
        token.content: id for id, token in reference.get_added_tokens_decoder().items()
    }


@pytest.mark.parametrize("seed", range(20))
def test_ids_of_added_tokens(seed: int) -> None:
    """Ids are those that tokenizers gives; a file that says others is refused."""
    rng = random.Random(seed)
    settings = small.tokenizer_json()
    vocab = settings["model"]["vocab"]
    for content in rng.sample(["<a>", "zqz", "中", "<｜x｜>"], rng.randrange(4)):
        vocab[content] = rng.choice([5000, 6000, 7000]) + rng.randrange(1000)
    contents = rng.sample(["<a>", "<b>", "zqz", "q", "the", " ", "<｜x｜>", "<c>"], rng.randrange(1, 8))
    settings["added_tokens"] = [added(id=0, content=content, special=rng.random() < 0.5) for content in contents]
    reference = tokenizers.Tokenizer.from_str(json.dumps(settings))
    for entry in settings["added_tokens"]:
        entry["id"] = reference.token_to_id(entry["content"])
    tokenizer = parse(settings)
    assert {token.content: token.id for token in tokenizer.added_tokens} == {
        entry["content"]: entry["id"] for entry in settings["added_tokens"]
    }
    settings["added_tokens"][-1]["id"] += 1
    check_refusal(settings, "is what tokenizers gives it")


def test_flags_of_added_tokens() -> None:
    """All are kept."""
    flags = {"single_word": True, "lstrip": True, "rstrip": True, "normalized": True, "special": False}
    for flag, value in flags.items():
        (token,) = parse({**small.tokenizer_json(), "added_tokens": [added(**{flag: value})]}).added_tokens
        assert getattr(token, flag) == value
        assert all(getattr(token, other) != flags[other] for other in flags if other != flag)


def test_tokens_out_of_reach() -> None:
    """A token outside the byte alphabet, and the empty one, has its id but stands for no text."""
    settings = small.tokenizer_json(vocab={**small.tokenizer_json()["model"]["vocab"], "中": 5000, "": 5001, "«": 5002})
    settings["model"]["vocab"][small.spell("中".encode())] = 5003
    settings["added_tokens"] = []
    parts = parse(settings)
    assert parts.unreachable == ((5000, "中".encode()), (5001, b""))
    assert parts.vocabulary.id_of["中".encode()] == 5003
    assert parts.vocabulary.id_of[b"\xab"] == 5002
    tokenizer = Tokenizer(parts)
    assert tokenizer.id_to_token(5000) == "中".encode()
    assert tokenizer.id_to_token(5001) == b""
    settings["added_tokens"] = [added(id=5000, content="中")]
    assert parse(settings).unreachable == ((5001, b""),)


def test_added_tokens_that_share_an_id() -> None:
    """Which of them the reference finds is its hash table's affair, so they are refused."""
    settings = small.tokenizer_json(vocab={**small.tokenizer_json()["model"]["vocab"], "<a>": 5000, "<b>": 5000})
    settings["added_tokens"] = [added(id=5000, content="<a>"), added(id=5000, content="<b>")]
    check_refusal(settings, "id 5000 is given to two tokens")


def test_from_file(tmp_path: Path, small_merges) -> None:
    """From a path or its text; the path is the name, and stands in every error."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(small.tokenizer_json(), ensure_ascii=False), encoding="utf-8")
    for given in (path, str(path)):
        tokenizer = Tokenizer.from_file(given)
        assert tokenizer == small_merges
        assert tokenizer.name == str(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(VocabularyError, match=r"tokenizer\.json: not a tokenizer.json"):
        Tokenizer.from_file(path)
    with pytest.raises(FileNotFoundError):
        Tokenizer.from_file(tmp_path / "absent.json")
    path.unlink()
    with pytest.raises(VocabularyError, match=f"{tmp_path.name}: the directory has no tokenizer"):
        Tokenizer.from_file(tmp_path)


def test_gpt2_file(gpt2_json: str, tokenizers_gpt2) -> None:
    """The published file gives the reference's ids."""
    assert Tokenizer.from_str(gpt2_json).encode(small.TEXT).tolist() == tokenizers_gpt2.encode(small.TEXT).ids


# --- tokenizer.json: the sections around the model ---

DIGIT, PUNCTUATION = r"\p{is_numeric}", r"\p{is_punctuation}"
PRE_TOKENIZERS: dict[str, tuple[object, tuple[Split, ...]]] = {
    "none": (None, ()),
    "bytes alone": (BYTES_ALONE, ()),
    "byte level": (BYTE_LEVEL, (Split(GPT2),)),
    "nested": (sequence(sequence(), sequence(sequence(BYTE_LEVEL))), (Split(GPT2),)),
    "regex": (split(r"\s+$"), (Split(r"\s+$", dialect="oniguruma"),)),
    "string": (split("", pattern={"String": "a.b|[c]"}), (Split(r"a\.b\|\[c\]", dialect="oniguruma"),)),
    "inverted": (split("a", invert=True), (Split("a", "isolated", True, "oniguruma"),)),
    "removed": (split("a", behavior="Removed"), (Split("a", "removed", dialect="oniguruma"),)),
    "previous": (split("a", behavior="MergedWithPrevious"), (Split("a", "merged_with_previous", dialect="oniguruma"),)),
    "next": (split("a", behavior="MergedWithNext"), (Split("a", "merged_with_next", dialect="oniguruma"),)),
    "contiguous": (split("a", behavior="Contiguous"), (Split("a", "contiguous", dialect="oniguruma"),)),
    "digits": ({"type": "Digits", "individual_digits": False}, (Split(DIGIT, "contiguous"),)),
    "single digits": ({"type": "Digits", "individual_digits": True}, (Split(DIGIT),)),
    "punctuation": ({"type": "Punctuation"}, (Split(PUNCTUATION),)),
    "removed punctuation": ({"type": "Punctuation", "behavior": "Removed"}, (Split(PUNCTUATION, "removed"),)),
    "white space": ({"type": "Whitespace"}, (Split(r"\w+|[^\w\s]+", "removed", invert=True),)),
    "no white space": ({"type": "WhitespaceSplit"}, (Split(r"\s", "removed"),)),
    "starcoder": (
        sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL),
        (Split(DIGIT), Split(GPT2)),
    ),
    "falcon": (
        sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            BYTE_LEVEL,
            {"type": "Digits", "individual_digits": False},
            split("[0-9][0-9][0-9]"),
        ),
        (
            Split(PUNCTUATION, "contiguous"),
            Split(GPT2),
            Split(DIGIT, "contiguous", spelled=True),
            Split("[0-9][0-9][0-9]", dialect="oniguruma"),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "rule"), PRE_TOKENIZERS.values(), ids=PRE_TOKENIZERS.keys())
def test_pre_tokenizers(settings: object, rule: tuple[Split, ...]) -> None:
    """Each is steps of a split rule, and the reference takes it too."""
    content = {**small.tokenizer_json(), "pre_tokenizer": settings}
    tokenizers.Tokenizer.from_str(json.dumps(content))
    parts = parse({**content, "decoder": None})
    assert parts.rule == rule
    assert parts.vocabulary.options.unit == ("byte" if "ByteLevel" in json.dumps(settings) else "character")
    assert not parts.prefix_space


def test_prefix_space() -> None:
    """A ByteLevel in front can ask for it."""
    for settings in ({**BYTE_LEVEL, "add_prefix_space": True}, sequence({**BYTE_LEVEL, "add_prefix_space": True})):
        assert parse({**small.tokenizer_json(), "pre_tokenizer": settings}).prefix_space


def test_steps_behind_byte_level_see_the_alphabet() -> None:
    """In the reference the byte 0xB2 is the digit ² there, so that ò falls in two: what ``spelled`` stands for."""
    pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.pre_tokenizers.Digits()]
    )
    assert [piece for piece, _ in pre_tokenizer.pre_tokenize_str("xòab")] == ["xÃ", "²", "ab"]


def test_normalizers() -> None:
    """They are made by their own module; one that spells the text leaves that to the model."""
    settings = {**small.tokenizer_json(), "normalizer": {"type": "NFC"}}
    assert parse(settings).normalizer == NFC()
    spelled = {"pre_tokenizer": split(r"\s"), "normalizer": {"type": "ByteLevel"}}
    parts = parse({**settings, **spelled})
    assert (parts.normalizer, parts.vocabulary.options.unit) == (None, "byte")
    assert parts.rule == (Split(r"\s", dialect="oniguruma", spelled=True),)
    sequences = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "ByteLevel"}]}
    parts = parse({**settings, "pre_tokenizer": None, "normalizer": sequences})
    assert (parts.normalizer, parts.vocabulary.options.unit, parts.rule) == (NFC(), "byte", ())
    check_refusal({**settings, "normalizer": {"type": "ByteLevel"}}, "after a ByteLevel normalizer")


def special(name: str, type_id: int = 0) -> dict:
    """A SpecialToken of a template."""
    return {"SpecialToken": {"id": name, "type_id": type_id}}


def place(which: str, type_id: int = 0) -> dict:
    """A Sequence of a template."""
    return {"Sequence": {"id": which, "type_id": type_id}}


SPECIAL_TOKENS = {
    "<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]},
    "</s>": {"id": "</s>", "ids": [6, 7], "tokens": ["</s>", "</t>"]},
}
POST_PROCESSORS: dict[str, object] = {
    "none": None,
    "byte level": BYTE_LEVEL,
    "empty": {"type": "Sequence", "processors": []},
    "roberta": ROBERTA,
    "bert": {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    "template": template_json(
        [special("<s>", 3), place("A"), special("</s>", 2)],
        [special("<s>"), place("A", 1), special("</s>"), place("B", 4), special("</s>", 1)],
        SPECIAL_TOKENS,
    ),
    "twice": template_json([place("A", 2), place("A")], [place("B"), place("A"), place("B", 1)], {}),
    "specials alone": template_json([special("</s>")], [special("<s>"), place("B")], SPECIAL_TOKENS),
    "nothing": template_json([], [], SPECIAL_TOKENS),
    "sequence": {
        "type": "Sequence",
        "processors": [BYTE_LEVEL, template_json([special("<s>"), place("A")], [place("A")], SPECIAL_TOKENS)],
    },
    "sequence, the other way": {
        "type": "Sequence",
        "processors": [{"type": "Sequence", "processors": [ROBERTA]}, BYTE_LEVEL],
    },
}


def fill(pieces: tuple, texts: dict[str, list[int]], specials: bool) -> tuple[list[int], list[int]]:
    """(ids, type ids) of a template filled with texts."""
    ids: list[int] = []
    types: list[int] = []
    for piece in pieces:
        if isinstance(piece, Special) and not specials:
            continue
        more = texts[piece.which] if isinstance(piece, Text) else list(piece.ids)
        ids += more
        types += [piece.type_id] * len(more)
    return ids, types


@pytest.mark.parametrize("settings", POST_PROCESSORS.values(), ids=POST_PROCESSORS.keys())
def test_templates(settings: object, small_merges) -> None:
    """Filled with two texts, or one, a template is what the reference gives, with and without special tokens."""
    content = {**small.tokenizer_json(), "post_processor": settings}
    template = parse(content).template
    reference = tokenizers.Tokenizer.from_str(json.dumps(content))
    first, second = "the other thing", "dog 100"
    texts = {"A": small_merges.encode(first).tolist(), "B": small_merges.encode(second).tolist()}
    for specials in (True, False):
        single = reference.encode(first, add_special_tokens=specials)
        assert fill(template.single, texts, specials) == (single.ids, single.type_ids)
        pair = reference.encode(first, second, add_special_tokens=specials)
        assert fill(template.pair, texts, specials) == (pair.ids, pair.type_ids)


def test_template_of_its_parts() -> None:
    """Names, ids and types stand where they should; a file without specials has the plain one."""
    assert parse(small.tokenizer_json()).template == PLAIN
    template = parse({**small.tokenizer_json(), "post_processor": POST_PROCESSORS["template"]}).template
    assert template == Template(
        (Special("<s>", (5,), 3), Text("A"), Special("</s>", (6, 7), 2)),
        (Special("<s>", (5,)), Text("A", 1), Special("</s>", (6, 7)), Text("B", 4), Special("</s>", (6, 7), 1)),
    )


SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
METASPACE = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True, "prepend_scheme": "always"}
DECODERS: dict[str, tuple[object, tuple]] = {
    "none": (None, (Spaced(),)),
    "llama": (
        {"type": "Sequence", "decoders": [SPACE, FALLBACK, FUSE, STRIP]},
        (Replace("▁", " "), ByteFallback(), Fuse(), Strip(" ", 1, 0)),
    ),
    "chatglm": ({"type": "Sequence", "decoders": [FALLBACK, METASPACE]}, (ByteFallback(), Metaspace("▁", True))),
    "metaspace": ({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}, (Metaspace("▁", False),)),
    "words": ({"type": "BPEDecoder", "suffix": "</w>"}, (Suffix("</w>"),)),
    "strip": ({**STRIP, "stop": 2}, (Strip(" ", 1, 2),)),
    "fallback": (FALLBACK, (ByteFallback(),)),
}


@pytest.mark.parametrize(("settings", "steps"), DECODERS.values(), ids=DECODERS.keys())
def test_decoders(settings: object, steps: tuple) -> None:
    """A decoder of strings gives what the reference gives."""
    content = {**small.tokenizer_json(), "pre_tokenizer": None, "decoder": settings}
    assert parse(content).decoder == steps
    reference = tokenizers.Tokenizer.from_str(json.dumps(content)).decoder
    rng = random.Random(3)
    strings = [
        "▁Hello",
        "▁",
        "▁▁x",
        "ld",
        "<0xE2>",
        "<0x82>",
        "<0xac>",
        "<0xFF>",
        "<0x041>",
        "</w>",
        "a</w>",
        "x  y  ",
        "é",
    ]
    for _ in range(300):
        tokens = rng.choices(strings, k=rng.randrange(1, 9))
        expected = " ".join(tokens) if reference is None else reference.decode(tokens)
        assert decode(tokens, steps) == expected


def test_decoder_of_bytes() -> None:
    """A byte-level vocabulary has none."""
    settings = small.tokenizer_json()
    assert parse(settings).decoder == parse({**settings, "decoder": None}).decoder == ()
    inner = {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, FUSE]}
    assert parse({**settings, "decoder": inner}).decoder == ()


def test_model_options() -> None:
    """They become the vocabulary's; those that change nothing do not."""
    vocab = {**small.tokenizer_json()["model"]["vocab"], "<unk>": 5000}
    for unit, pre_tokenizer in (("byte", BYTE_LEVEL), ("character", None)):
        settings = {**small.tokenizer_json(vocab=vocab, merges=[], unk_token="<unk>", fuse_unk=True, dropout=0.5)}
        settings |= {"pre_tokenizer": pre_tokenizer, "decoder": None, "added_tokens": []}
        settings["model"] |= {"byte_fallback": True, "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}
        options = parse(settings).vocabulary.options
        assert (options.unit, options.unk, options.fuse_unk, options.byte_fallback) == (unit, b"<unk>", True, True)
        assert (options.prefix, options.suffix, options.dropout) == (b"##", b"</w>", 0.5)
    del vocab[small.spell(b"x")]
    settings = {**small.tokenizer_json(vocab=vocab, merges=[], unk_token="<unk>"), "added_tokens": []}
    assert parse(settings).vocabulary.options.unk == b"<unk>"


def test_first_line_of_merges() -> None:
    """The version that a merges.txt begins with is no merge."""
    strings = [f"{small.spell(left)} {small.spell(right)}" for left, right in small.TRAINED]
    assert parse(small.tokenizer_json(merges=["#version: 0.2", *strings])) == parse(
        small.tokenizer_json(merges=strings)
    )


# --- tokenizer.json: what is refused ---

#: (what is changed in the file, what the error must say)
REFUSALS: dict[str, tuple[dict, str]] = {
    "unknown key": ({"speculation": {"a": 1}}, "'speculation'.*not supported"),
    "version": ({"version": "2.0"}, 'version "2.0" is not supported'),
    "truncation": ({"truncation": {"max_length": 5}}, "truncation .*max_length.* is not supported"),
    "padding": ({"padding": {"strategy": "BatchLongest"}}, "padding .*BatchLongest.* is not supported"),
    "normalizer": ({"normalizer": {"type": "Precompiled"}}, "[nN]ormalizer .*Precompiled"),
    "other pre-tokenizer": ({"pre_tokenizer": {"type": "Metaspace"}}, 'pre_tokenizer "Metaspace" is not supported'),
    "pre-tokenizer no object": ({"pre_tokenizer": "ByteLevel"}, "pre_tokenizer must be an object"),
    "pre-tokenizers no list": ({"pre_tokenizer": {"type": "Sequence"}}, "pretokenizers must be a list"),
    "two byte levels": ({"pre_tokenizer": sequence(BYTE_LEVEL, BYTE_LEVEL)}, "ByteLevel is there twice"),
    "late prefix space": (
        {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, {**BYTE_LEVEL, "add_prefix_space": True})},
        "add_prefix_space behind another step is not supported",
    ),
    "no prefix space": ({"pre_tokenizer": {"type": "ByteLevel"}}, "ByteLevel has no add_prefix_space"),
    "regex null": ({"pre_tokenizer": {**BYTE_LEVEL, "use_regex": None}}, "use_regex must be true or false, not null"),
    "more in pre-tokenizer": ({"pre_tokenizer": {**BYTE_LEVEL, "loud": 1}}, "pre_tokenizer ByteLevel has 'loud'"),
    "pattern": ({"pre_tokenizer": split(" ", pattern=" ")}, 'pattern must be {"String": …} or {"Regex": …}, not " "'),
    "behavior": ({"pre_tokenizer": split(" ", behavior="isolated")}, "behavior must be one of Isolated, Removed"),
    "template": ({"post_processor": {"type": "Template"}}, 'post_processor "Template" is not supported'),
    "template's name": (
        {"post_processor": template_json([{"SpecialToken": {"id": "<x>", "type_id": 0}}], [], {})},
        "single: '<x>' is not among its special_tokens",
    ),
    "template's piece": ({"post_processor": template_json(["$A"], [], {})}, r'single: "\$A" is neither a SpecialToken'),
    "template's text": ({"post_processor": template_json([TEXT_B], [], {})}, "single has a sequence B"),
    "template's ids": (
        {"post_processor": template_json([], [], {"<s>": {"ids": [1 << 32]}})},
        "4294967296 is not an id",
    ),
    "roberta's token": ({"post_processor": {**ROBERTA, "sep": "</s>"}}, "sep must be a list of a token and its id"),
    "roberta's flag": (
        {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}},
        "RobertaProcessing has no trim_offsets",
    ),
    "two templates": (
        {"post_processor": {"type": "Sequence", "processors": [ROBERTA, ROBERTA]}},
        'has two that add tokens, the second "RobertaProcessing"',
    ),
    "other decoder": ({"decoder": {"type": "WordPiece"}}, 'decoder "WordPiece" is not supported'),
    "decoder no object": ({"decoder": []}, r"decoder must be an object, not \[\]"),
    "added tokens no list": ({"added_tokens": {"a": 1}}, "added_tokens must be a list"),
    "added token no object": ({"added_tokens": ["<a>"]}, 'added token "<a>": wanted an object'),
    "added token without id": ({"added_tokens": [{"content": "<a>"}]}, "wanted an object with an id and a content"),
    "added token without flag": ({"added_tokens": [{"content": "<a>", "id": 656}]}, "'<a>' has no single_word"),
    "added token's flag": ({"added_tokens": [added(lstrip=1)]}, "lstrip must be true or false, not 1"),
    "added token with a key": ({"added_tokens": [added(shout=True)]}, r"'<\|endoftext\|>' has 'shout'"),
    "added token's id": ({"added_tokens": [added(id=9999)]}, "has id 9999, but 656 is what tokenizers gives it"),
    "added token twice": (
        {"added_tokens": [added(), added(lstrip=True)]},
        "is there twice, and not the same each time",
    ),
    "added surrogate": ({"added_tokens": [added(content="\ud800")]}, "lone surrogate"),
    "strip after spelling": (
        {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": None}
        | {"added_tokens": [added(lstrip=True, normalized=True)]},
        "in a text that a ByteLevel normalizer has spelled",
    ),
}
MODEL_REFUSALS: dict[str, tuple[dict, str]] = {
    "other model": ({"type": "Unigram"}, 'model "Unigram" is not supported; those of type BPE are'),
    "unknown key": ({"magic": 1}, "model has 'magic'"),
    "dropout": ({"dropout": 1.5}, r"dropout must be a number from 0 to 1, not 1\.5"),
    "dropout a string": ({"dropout": "0.1"}, "dropout must be a number"),
    "prefix": ({"continuing_subword_prefix": 5}, "continuing_subword_prefix must be a string"),
    "unknown token": ({"unk_token": "<u>", "end_of_word_suffix": "</w>"}, "unk_token '<u>' is not in the vocab"),
    "ignore_merges": ({"ignore_merges": "yes"}, "ignore_merges must be true or false"),
    **{
        f"dropout {value!r}": ({"dropout": value}, "dropout must be a number from 0 to 1")
        for value in ("", False, [], {})
    },
    **{
        f"type {value!r}": ({"type": value}, "model .* is not supported; those of type BPE are")
        for value in (None, "", False, [])
    },
    "no vocab": ({"vocab": None}, "vocab must be an object, not null"),
    "empty vocab": ({"vocab": {}}, "vocab is empty"),
    "vocab a list": ({"vocab": ["a"]}, "vocab must be an object"),
    "no merges": ({"merges": None}, "merges must be a list, not null"),
    "merge of three": ({"merges": ["a b c"]}, "merge 0 is .*wanted two tokens"),
    "merge of one": ({"merges": [["a"]]}, "merge 0 is .*wanted two tokens"),
    "merge a number": ({"merges": [["a", "b"], 5]}, "merge 0 .*needs|merge 1 is 5"),
    "merge of numbers": ({"merges": [[1, 2]]}, "merge 0 is .*wanted two tokens"),
    "merge of what is no token": ({"merges": [["a", "zqz"]]}, "merge 0 .*needs .*zqz.*, which is not in the vocab"),
    "merge into what is no token": ({"merges": [["z", "q"]]}, "merge 0 .*needs .*zq"),
}  # fmt: skip
VOCAB_REFUSALS: dict[str, tuple[dict, str]] = {
    "id no integer": ({"a": "5"}, "vocab gives 'a' the id .*5.*; wanted an integer"),
    "id a fraction": ({"a": 5.5}, "vocab gives 'a' the id 5.5; wanted an integer"),
    "id true": ({"a": True}, "vocab gives 'a' the id [tT]rue; wanted an integer"),
    "id twice": ({"zq": 5}, "id 5 is given to two tokens"),
    "id negative": ({"zq": -1}, "id -1 is not between 0 and"),
    "id too large": ({"zq": 1 << 32}, "id 4294967296 is not between 0 and"),
    "id enormous": ({"zq": 1 << 70}, f"id {1 << 70} is not between 0 and"),
    "id out of reach twice": ({"": 5}, "id 5 is given to two tokens"),
    "id out of reach too large": ({"中": 1 << 70}, f"id {1 << 70} is not between 0 and"),
    "surrogate": ({"\ud800": 2000}, "lone surrogate"),
}


def check_refusal(settings: object, message: str) -> None:
    """The tokenizer is refused with this message, in one line."""
    with pytest.raises(VocabularyError, match=message) as raised:
        load(settings)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(("changes", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(changes: dict, message: str) -> None:
    """What the file asks for and is not supported is named, never ignored."""
    check_refusal({**small.tokenizer_json(), **changes}, message)


@pytest.mark.parametrize(("changes", "message"), MODEL_REFUSALS.values(), ids=MODEL_REFUSALS.keys())
def test_refusals_of_the_model(changes: dict, message: str) -> None:
    """The same in the model."""
    check_refusal(small.tokenizer_json(**changes), message)


@pytest.mark.parametrize(("changes", "message"), VOCAB_REFUSALS.values(), ids=VOCAB_REFUSALS.keys())
def test_refusals_of_the_vocabulary(changes: dict, message: str) -> None:
    """The same among the tokens."""
    check_refusal(small.tokenizer_json(vocab={**small.tokenizer_json()["model"]["vocab"], **changes}), message)


@pytest.mark.parametrize("value", [None, False, 0, "", {}])
def test_added_tokens_that_are_no_list(value: object) -> None:
    """What tokenizers refuses is refused, if there is nothing in it or not."""
    settings = {**small.tokenizer_json(), "added_tokens": value}
    with pytest.raises(Exception, match="expected a sequence"):
        tokenizers.Tokenizer.from_str(json.dumps(settings))
    check_refusal(settings, f"added_tokens must be a list, not {json.dumps(value)}")


#: Where strings with a lone surrogate can stand: in what is put into the text, and in what nobody reads.
SURROGATES: dict[str, Callable[[str], dict]] = {
    "Replace": lambda text: {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": text}},
    "Replace's pattern": lambda text: {"normalizer": {"type": "Replace", "pattern": {"String": text}, "content": "a"}},
    "Prepend": lambda text: {"normalizer": {"type": "Prepend", "prepend": text}},
    "decoder": lambda text: {"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": text}},
    "added token": lambda text: {"added_tokens": [added(content=text)]},
    "prefix": lambda text: small.tokenizer_json(continuing_subword_prefix=text),
    "suffix": lambda text: small.tokenizer_json(end_of_word_suffix=text),
    "unk_token": lambda text: small.tokenizer_json(unk_token=text),
    "cache_capacity": lambda text: small.tokenizer_json(cache_capacity=text),
}


@pytest.mark.parametrize("place", SURROGATES)
@pytest.mark.parametrize("text", ["\ud800", "x\udbffx", "\ude00\ud83d", "\ud83d\ud83d\ude00", "\\\ud800"])
def test_lone_surrogates(place: str, text: str) -> None:
    """Refused at load, as in tokenizers, wherever one stands; escaped or, in a str, as it is."""
    settings = {**small.tokenizer_json(), **SURROGATES[place](text)}
    with pytest.raises(Exception, match=r"hex escape|surrogate"):
        tokenizers.Tokenizer.from_str(json.dumps(settings))
    check_refusal(settings, r"not a tokenizer\.json: \\ud[89a-f]\w\w at byte \d+ is a lone surrogate$")
    with pytest.raises(VocabularyError, match=r"not a tokenizer\.json: not UTF-8 text at byte \d+$"):
        Tokenizer.from_str(json.dumps(settings, ensure_ascii=False))


@pytest.mark.parametrize("text", ["😀", "\\ud800", "\\\\ud800", "\\😀", "\ud7ff\ue000"])
def test_what_only_looks_like_lone_surrogates(text: str) -> None:
    """Pairs, and a backslash before letters, are text."""
    settings = small.tokenizer_json()
    settings["normalizer"] = {"type": "Replace", "pattern": {"String": "a"}, "content": text}
    for content in (json.dumps(settings), json.dumps(settings).replace("\\ud83d\\ude00", "\\uD83D\\uDE00")):
        tokenizer = Tokenizer.from_str(content)
        assert tokenizer.encode("banana").tolist() == tokenizers.Tokenizer.from_str(content).encode("banana").ids
        assert tokenizer.decode(tokenizer.encode("a")) == text


NO_FILES = ["", "{", "null", "[]", "5", '"x"', "{}", '{"model": 5}', '{"model": null}', "\ufeff{}", "[" * 100_000]


@pytest.mark.parametrize("content", [*NO_FILES, '{"model": {"vocab": ' + "1" * 5000 + "}}"], ids=lambda text: text[:30])
def test_what_is_no_tokenizer_json(content: str) -> None:
    """One clear error, however odd the content."""
    with pytest.raises(VocabularyError, match=r"not a tokenizer\.json"):
        Tokenizer.from_str(content)


DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize("section", ["version", "padding", "normalizer", "pre_tokenizer", "decoder", "merges", "x"])
@pytest.mark.parametrize(
    "value",
    [DEEP, f'["#version", {DEEP}]', f'["a b", {"1" * 5000}]', str([1] * 10**6)],
    ids=["deep", "deep behind a version", "digits", "wide"],
)
def test_deep_and_large_values(section: str, value: str) -> None:
    """One short error, where Python's own reader gives up, and where an error shows the value."""
    settings = small.tokenizer_json(merges="<here>")
    if section != "merges":
        settings = {**small.tokenizer_json(), section: "<here>"}
    with pytest.raises(VocabularyError) as error:
        Tokenizer.from_str(json.dumps(settings).replace('"<here>"', value))
    assert len(str(error.value)) < 400


def test_broken_merges() -> None:
    """They are read apart from the rest of the file."""
    content = json.dumps(small.tokenizer_json(merges="<here>"))
    with pytest.raises(VocabularyError, match="not a list of merges: Expecting value"):
        Tokenizer.from_str(content.replace('"<here>"', "[foo]"))


@pytest.mark.parametrize("depth", [10, 100, 900])
def test_brief(depth: int) -> None:
    """A value in an error takes one line, and no more is made of it than is shown."""
    value: object = "end"
    for _ in range(depth):
        value = [value, {"é": None}]
    whole = json.dumps(value, ensure_ascii=False)
    assert brief(value) == (whole if len(whole) <= 100 else whole[:97] + "...")


def test_byte_order_mark() -> None:
    """Refused, as in tokenizers, by its name."""
    content = "\ufeff" + json.dumps(small.tokenizer_json())
    with pytest.raises(Exception, match="expected value at line 1 column 1"):
        tokenizers.Tokenizer.from_str(content)
    with pytest.raises(VocabularyError, match=r"begins with a byte order mark \(BOM\); save it as UTF-8 without"):
        Tokenizer.from_str(content)


def test_content_must_be_str() -> None:
    """Bytes and paths are not taken for content."""
    for wrong in (b"{}", None, Path("tokenizer.json")):
        with pytest.raises(TypeError, match="content must be the str of a tokenizer"):
            Tokenizer.from_str(wrong)


def survives(content: str) -> bool:
    """Whether a content loads; if not, it must be with a VocabularyError of one line."""
    try:
        Tokenizer.from_str(content)
    except VocabularyError as error:
        message = str(error)
    else:
        return True
    assert message.splitlines() == [message]
    return False


def test_truncated_files() -> None:
    """Cut anywhere, a file is refused."""
    content = json.dumps(small.tokenizer_json())
    assert survives(content)
    assert not any(survives(content[:end]) for end in range(0, len(content), 37))


REPLACEMENTS: list[object] = [None, True, -1, 0.5, 1 << 31, 1 << 63, 1 << 64, "", "x", [], [[]], {}, {"a": []}]


def mutations(value: object, change: Callable[[object], object]) -> list[Callable[[], None]]:
    """Ways to change one place of a nested value, to be called and undone by the caller's copy."""
    places: list[Callable[[], None]] = []
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append(lambda key=key: value.__setitem__(key, change(value[key])))
            places += mutations(value[key], change)
    return places


@pytest.mark.parametrize("seed", range(len(REPLACEMENTS)))
def test_mutated_files(seed: int) -> None:
    """With any value in any place changed, a file loads or is refused in one line: no other exception."""
    rng = random.Random(seed)
    content = json.dumps(small.tokenizer_json())
    places = len(mutations(json.loads(content), lambda old: old))
    refused = 0
    for place in [*range(60), *rng.sample(range(60, places), 60)]:
        settings = json.loads(content)
        mutations(settings, lambda old: REPLACEMENTS[seed])[place]()
        refused += not survives(json.dumps(settings))
    assert refused > 5


DAMAGE = [b"\xff", b"\xed\xa0\x80", b'"', b"]", b",", b"\n", b"[[", b"9" * 5000, b"[" * 10**5]


@pytest.mark.parametrize("first", ["#version: 0.2", "Ġ t"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_merges(tmp_path: Path, damage: bytes, first: str) -> None:
    """The merges, which are read after all else, are refused in the same way."""
    settings = small.tokenizer_json()
    settings["model"]["merges"] = [first, *map(" ".join, settings["model"]["merges"])]
    content = json.dumps(settings, ensure_ascii=False).encode()
    place = content.index(b'"merges": [') + 40
    (tmp_path / "damaged.json").write_bytes(content[:place] + damage + content[place:])
    with pytest.raises(VocabularyError, match=r"damaged\.json: ") as raised:
        Tokenizer.from_file(tmp_path / "damaged.json")
    assert len(str(raised.value)) < 500


# --- vocabularies ---


def test_impossible_vocabularies() -> None:
    """Each broken invariant is named."""
    tokens = small.TOKENS
    for make, message in [
        (lambda: Vocabulary.from_ranks([*tokens, tokens[300]]), "is in the vocabulary twice"),
        (lambda: Vocabulary.from_ranks([*tokens, b""]), "the empty token"),
        (lambda: Vocabulary.from_ranks(tokens[1:]), "is not a token"),
        (lambda: Vocabulary.from_ranks([]), "byte 0x00 is not a token"),
        (lambda: Vocabulary.from_ranks(tokens, [5] * len(tokens)), "id 5 is given to two tokens"),
        (lambda: Vocabulary.from_ranks(tokens, range(3)), "tokens given with 3 ids"),
        (lambda: Vocabulary.from_ranks([b"x"] * (MAX_SYMBOLS + 1)), "tokens given; at most"),
        (lambda: Vocabulary.from_merges(small.ID_OF, [(b"z", b"qq")]), "needs the token b'qq'"),
    ]:
        with pytest.raises(VocabularyError, match=message):
            make()


def test_ranks_with_ids() -> None:
    """Ids may have gaps: the order of the tokens is the rank."""
    ids = [3 * id + 7 for id in range(len(small.TOKENS))]
    vocabulary = Vocabulary.from_ranks(small.TOKENS, np.array(ids, np.uint32))
    assert vocabulary.id_of == dict(zip(small.TOKENS, ids, strict=True))
    assert vocabulary.token_of == dict(zip(ids, small.TOKENS, strict=True))
    assert vocabulary == Vocabulary.from_ranks(small.TOKENS, ids)
