"""Loading: the embedded vocabulary, every accepted form of tokenizer.json, and a refusal by name for all else."""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers

import naive
import small
from numbatok import Tokenizer, VocabularyError, get_encoding
from numbatok.loading import byte_level, embedded
from numbatok.vocabulary import MAX_SYMBOLS, Vocabulary

# --- embedded ---


def test_embedded_ranks_are_the_published_ones() -> None:
    """The rank file made anew has the published SHA-256, and is what tiktoken's is: 50,256 tokens without gaps."""
    tokens, ranks = embedded.load_ranks("r50k_base")
    assert ranks == list(range(50256))
    assert len(set(tokens)) == 50256
    assert embedded.parse_ranks(embedded.rank_file(tokens, ranks)) == (tokens, ranks)


def test_a_damaged_package_is_noticed(monkeypatch, tmp_path: Path) -> None:
    """Any change of the embedded file is an error that says what to do."""
    content = (embedded.DATA / "r50k_base.xz").read_bytes()
    monkeypatch.setattr(embedded, "DATA", tmp_path)
    rng = random.Random(1)
    tokens, ranks = embedded.unpack(content)
    tokens[1000], tokens[1001] = tokens[1001], tokens[1000]
    exchanged = embedded.pack(embedded.rank_file(tokens, ranks))
    for damaged in (b"", content[:1000], content[:-1], rng.randbytes(100), exchanged):
        (tmp_path / "r50k_base.xz").write_bytes(damaged)
        with pytest.raises(VocabularyError, match=r"r50k_base is damaged.*install numbatok anew"):
            get_encoding("gpt2")


def test_packing_is_lossless() -> None:
    """A rank file with gaps comes back byte for byte; one that can't is refused."""
    content = b"".join(base64.b64encode(token) + b" %d\n" % (3 * n) for n, token in enumerate(small.TOKENS))
    tokens, ranks = embedded.unpack(embedded.pack(content))
    assert tokens == small.TOKENS
    assert embedded.rank_file(tokens, ranks) == content
    for wrong in (content + b"\n", b"YQ== 5\nYg== 4\n", b"YQ== 5\nYg== 5\n", base64.b64encode(b"a" * 256) + b" 0\n"):
        with pytest.raises(VocabularyError, match="can be packed"):
            embedded.pack(wrong)


@pytest.mark.parametrize("line", [b"YQ==", b"YQ== x", b"!!! 3", b"YQ== 1 2", b"YQ= 1"])
def test_damaged_rank_files(line: bytes) -> None:
    """The line is named."""
    with pytest.raises(VocabularyError, match=r"line 2 is .*wanted base64, a space and a rank"):
        embedded.parse_ranks(b"YQ== 0\n" + line + b"\n")


def test_unknown_encoding() -> None:
    """The ones there are, are named."""
    with pytest.raises(ValueError, match="unknown encoding 'gpt5'; embedded are gpt2, r50k_base"):
        get_encoding("gpt5")


# --- the byte alphabet ---


def test_byte_alphabet() -> None:
    """GPT-2's 256 characters, each a byte; a token with a stranger is its UTF-8."""
    assert byte_level.byte_of_character() == {character: byte for byte, character in small.ALPHABET.items()}
    every = small.spell(bytes(range(256)))
    assert byte_level.to_bytes(every) == bytes(range(256))
    strange = ["Ġhello", "▁x", "a b", "", "中", "Ġ中", every]
    assert byte_level.all_to_bytes(strange) == [byte_level.to_bytes(token) for token in strange]
    assert byte_level.to_bytes("▁x") == "▁x".encode()
    plain = [small.spell(token) for token in small.TOKENS]
    assert byte_level.all_to_bytes(plain) == small.TOKENS
    with pytest.raises(VocabularyError, match="lone surrogate"):
        byte_level.all_to_bytes(["a", "\ud800"])


# --- tokenizer.json: what is accepted ---


def load(settings: object) -> Tokenizer:
    """The tokenizer of a content."""
    return Tokenizer.from_str(json.dumps(settings))


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
    for nothing in ([], None):
        assert load({**settings, "added_tokens": nothing}).special_tokens == {}
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


def added(**changes: object) -> dict:
    """An entry of added_tokens."""
    return {**small.tokenizer_json()["added_tokens"][0], **changes}


def test_added_tokens_of_a_file() -> None:
    """New ones follow the vocabulary, old ones keep their ids, empty ones count for nothing, special or not."""
    settings = small.tokenizer_json()
    first = len(small.TOKENS)
    the = small.ID_OF[b" the"]
    settings["added_tokens"] = [
        added(id=first + 1, content="<o>", special=False),
        added(id=the, content=" the"),
        added(id=first, content="<s>"),
        added(id=first + 2, content=""),
    ]
    tokenizer = load(settings)
    assert tokenizer.special_tokens == {" the": the, "<s>": first}
    assert tokenizer.encode("<s>x the<o>").tolist() == [first, small.ID_OF[b"x"], the, first + 1]


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
    with pytest.raises(OSError, match=tmp_path.name):
        Tokenizer.from_file(tmp_path)


def test_gpt2_file(gpt2_json: str, tokenizers_gpt2) -> None:
    """The published file gives the reference's ids."""
    assert Tokenizer.from_str(gpt2_json).encode(small.TEXT).tolist() == tokenizers_gpt2.encode(small.TEXT).ids


# --- tokenizer.json: what is refused ---

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
#: (what is changed in the file, what the error must say)
REFUSALS: dict[str, tuple[dict, str]] = {
    "unknown key": ({"speculation": {"a": 1}}, "'speculation'.*not supported"),
    "truncation": ({"truncation": {"max_length": 5}}, "truncation .*max_length.* is not supported"),
    "padding": ({"padding": {"strategy": "BatchLongest"}}, "padding .*BatchLongest.* is not supported"),
    "normalizer": ({"normalizer": {"type": "NFC"}}, "normalizer .*NFC.* is not supported"),
    "no pre-tokenizer": ({"pre_tokenizer": None}, "no pre_tokenizer is given; only ByteLevel"),
    "other pre-tokenizer": ({"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer 'Metaspace' is not supported"),
    "pre-tokenizer no object": ({"pre_tokenizer": "ByteLevel"}, "pre_tokenizer must be an object"),
    "sequence": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL]}}, "'Sequence' is not supported"),
    "prefix space": ({"pre_tokenizer": {**BYTE_LEVEL, "add_prefix_space": True}}, "add_prefix_space is not supported"),
    "prefix space by default": ({"pre_tokenizer": {"type": "ByteLevel"}}, "add_prefix_space is not supported"),
    "no regex": ({"pre_tokenizer": {**BYTE_LEVEL, "use_regex": False}}, "without use_regex is not supported"),
    "more in pre-tokenizer": ({"pre_tokenizer": {**BYTE_LEVEL, "loud": 1}}, "pre_tokenizer has 'loud'"),
    "template": ({"post_processor": {"type": "TemplateProcessing"}}, "post_processor 'TemplateProcessing' is not supp"),
    "other decoder": ({"decoder": {"type": "WordPiece"}}, "decoder 'WordPiece' is not supported"),
    "added tokens no list": ({"added_tokens": {"a": 1}}, "added_tokens must be a list"),
    "added token no object": ({"added_tokens": ["<a>"]}, 'added token "<a>": wanted an object'),
    "added token without id": ({"added_tokens": [{"content": "<a>"}]}, "wanted an object with an id and a content"),
    "added token with a key": (
        {"added_tokens": [added(shout=True)]},
        "'<|endoftext|>' has 'shout'".replace("|", r"\|"),
    ),
    "single_word": ({"added_tokens": [added(single_word=True)]}, "has single_word, which is not supported"),
    "lstrip": ({"added_tokens": [added(lstrip=True)]}, "has lstrip, which is not supported"),
    "rstrip": ({"added_tokens": [added(rstrip=True)]}, "has rstrip, which is not supported"),
    "added token's id": ({"added_tokens": [added(id=9999)]}, "has id 9999, but 656 is what it would get"),
    "both kinds": (
        {"added_tokens": [added(), added(id=657, content="<n>", normalized=True)]},
        "normalized true and false together are not supported",
    ),
    "added surrogate": ({"added_tokens": [added(content="\ud800")]}, "lone surrogate"),
}
MODEL_REFUSALS: dict[str, tuple[dict, str]] = {
    "other model": ({"type": "Unigram"}, "model 'Unigram' is not supported; only BPE is"),
    "unknown key": ({"magic": 1}, "model has 'magic'"),
    "dropout": ({"dropout": 0.1}, r"model dropout 0\.1 is not supported"),
    "prefix": ({"continuing_subword_prefix": "##"}, "continuing_subword_prefix '##' is not supported"),
    "suffix": ({"end_of_word_suffix": "</w>"}, "end_of_word_suffix '</w>' is not supported"),
    "no vocab": ({"vocab": None}, "model has no vocab"),
    "empty vocab": ({"vocab": {}}, "model has no vocab"),
    "vocab a list": ({"vocab": ["a"]}, "model has no vocab"),
    "no merges": ({"merges": None}, "model has no merges"),
    "merge of three": ({"merges": ["a b c"]}, "merge 0 is .*wanted two tokens"),
    "merge of one": ({"merges": [["a"]]}, "merge 0 is .*wanted two tokens"),
    "merge a number": ({"merges": [["a", "b"], 5]}, "merge 0 .*needs|merge 1 is 5"),
    "merge of numbers": ({"merges": [[1, 2]]}, "merge 0 is .*wanted two tokens"),
    "merge of what is no token": ({"merges": [["a", "zqz"]]}, 'merge 0 .*needs \'zqz\', which is not in the vocab'),
    "merge into what is no token": ({"merges": [["z", "q"]]}, "merge 0 .*needs the token b'zq'"),
}  # fmt: skip
VOCAB_REFUSALS: dict[str, tuple[dict, str]] = {
    "id no integer": ({"a": "5"}, "vocab gives 'a' the id \"5\"; wanted an integer"),
    "id a fraction": ({"a": 5.5}, "vocab gives 'a' the id 5.5; wanted an integer"),
    "id true": ({"a": True}, "vocab gives 'a' the id true; wanted an integer"),
    "id twice": ({"zq": 5}, "id 5 is given to two tokens"),
    "id negative": ({"zq": -1}, "id -1 is not between 0 and"),
    "id too large": ({"zq": 1 << 32}, "id 4294967296 is not between 0 and"),
    "id enormous": ({"zq": 1 << 70}, f"id {1 << 70} is not between 0 and"),
    "empty token": ({"": 2000}, "the empty token is in the vocabulary"),
    "surrogate": ({"\ud800": 2000}, "lone surrogate"),
    "two spellings": ({"中": 2000, small.spell("中".encode()): 2001}, "stand for the same bytes"),
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


@pytest.mark.parametrize("byte", [0, 32, 97, 255])
def test_a_byte_is_missing(byte: int) -> None:
    """A byte that is no token is dropped, as the reference does it."""
    lost = small.spell(bytes([byte]))
    vocab = {"<lost>" if token == lost else token: id for token, id in small.tokenizer_json()["model"]["vocab"].items()}
    content = json.dumps(small.tokenizer_json(vocab=vocab, merges=[]))
    text = "a\x00b \U0010ffff banana"
    expected = tokenizers.Tokenizer.from_str(content).encode(text, add_special_tokens=False).ids
    assert Tokenizer.from_str(content).encode(text).tolist() == expected


NO_FILES = ["", "{", "null", "[]", "5", '"x"', "{}", '{"model": 5}', '{"model": null}', "\ufeff{}", "[" * 100_000]


@pytest.mark.parametrize("content", [*NO_FILES, '{"model": {"vocab": ' + "1" * 5000 + "}}"], ids=lambda text: text[:30])
def test_what_is_no_tokenizer_json(content: str) -> None:
    """One clear error, however odd the content."""
    with pytest.raises(VocabularyError, match=r"not a tokenizer\.json"):
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
