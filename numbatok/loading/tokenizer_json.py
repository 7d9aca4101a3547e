"""``tokenizer.json``, the format of Hugging Face tokenizers: what of it is supported, and the rest refused by name."""

import json
from collections.abc import Mapping, Set
from typing import Any

from numbatok import decoders
from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.loading import byte_level, components
from numbatok.loading.checks import (
    as_list,
    as_object,
    brief,
    decode_json,
    json_errors,
    not_supported,
    refuse_lone_surrogates,
    refuse_mark,
    refuse_unknown,
    take,
)
from numbatok.loading.spelled import split_json
from numbatok.memory import without_collection
from numbatok.normalizers import Normalizer, from_json
from numbatok.parts import Parts
from numbatok.vocabulary import Vocabulary

#: The sections that :meth:`numbatok.Tokenizer.save` writes back as they came.
KEPT_SECTIONS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_SMALL = 100_000  # bytes of a file that is read whatever it is, for the sake of the error's words
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def parse(content: str, name: str = "") -> Parts:
    """The parts of the tokenizer in the content of a file."""

    def made() -> Parts:
        return build(decode(content.encode("utf-8", "surrogatepass")), name)

    return without_collection(made)


def decode(content: bytes) -> Any:
    """The value of the JSON in a file, which can be a Tekken JSON as well; a model's merges stay JSON, as bytes."""
    # Whatever else is JSON is refused before Python objects of many times its size are made of it.
    if len(content) > _SMALL and b'"model"' not in content and b'"token_bytes"' not in content:
        return None
    refuse_mark(content)
    with json_errors("a tokenizer.json"):
        if json.detect_encoding(content) != "utf-8":
            raise VocabularyError("not a tokenizer.json: not UTF-8 text at byte 0")
        value, merges = split_json(content)
    if isinstance(value, dict) and "model" in value:
        refuse_lone_surrogates(content, "a tokenizer.json")
    if merges is not None:
        value["model"]["merges"] = merges
    return value


def build(settings: object, name: str) -> Parts:
    """The parts of a tokenizer from the value of its JSON."""
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), dict):
        raise VocabularyError('not a tokenizer.json: wanted an object with a "model"')
    refuse_unknown(settings, f"version truncation padding added_tokens model {' '.join(KEPT_SECTIONS)}", "the file")
    if settings.get("version", "1.0") != "1.0":
        raise VocabularyError(f'version {brief(settings["version"])} is not supported; "1.0" is')
    for key in ("truncation", "padding"):
        if settings.get(key) is not None:
            raise VocabularyError(
                f"{key} {brief(settings[key])} is not supported: it would change the ids of a text; set it to null"
            )
    model = settings["model"]
    check_model(model)
    normalizer, alphabet = _normalizer(settings.get("normalizer"))
    cut = components.pre_tokenizer(settings.get("pre_tokenizer"), alphabet)
    listed = [_added_token(entry) for entry in as_list(settings.get("added_tokens", []), "added_tokens")]
    listed = [token for token in listed if token.content]
    tokens, unreachable = vocabulary(model, cut.byte_level, {token.content for token in listed})
    added = _with_their_ids(listed, model["vocab"])
    if alphabet:
        for token in added:
            if token.normalized and (token.lstrip or token.rstrip or token.single_word):
                raise VocabularyError(
                    f"added token {token.content!r} has lstrip, rstrip or single_word in a text that a ByteLevel "
                    "normalizer has spelled, which is not supported"
                )
    return Parts(
        tokens,
        AddedTokens(added),
        cut.rule,
        normalizer,
        cut.prefix_space,
        components.template(settings.get("post_processor")),
        components.trims(settings.get("post_processor")),
        decoders.from_json(settings.get("decoder"), cut.byte_level),
        unreachable,
        name,
        json.dumps({key: settings.get(key) for key in KEPT_SECTIONS}, ensure_ascii=False),
    )


def _normalizer(settings: object) -> tuple[Normalizer | None, bool]:
    """(the normalizer, whether it ends by spelling the text in the byte alphabet), which is left to the model."""
    if settings is None:
        return None, False
    settings = as_object(settings, "normalizer")
    if settings.get("type") == "ByteLevel":
        return None, True
    alphabet = False
    if settings.get("type") == "Sequence" and isinstance(settings.get("normalizers"), list):
        inner = settings["normalizers"]
        if inner and isinstance(inner[-1], dict) and inner[-1].get("type") == "ByteLevel":
            settings, alphabet = {**settings, "normalizers": inner[:-1]}, True
    return from_json(settings), alphabet


def check_model(model: dict[str, Any]) -> None:
    """Refuse a model that is not BPE, by its type or, in files of before there was one, by what it has."""
    kind = model.get("type", "BPE")
    if "type" not in model and "merges" not in model and "vocab" in model:
        kind = "Unigram" if isinstance(model["vocab"], list) else "WordPiece or WordLevel"
    if kind != "BPE":
        not_supported("model", kind, "those of type BPE")
    refuse_unknown(
        model,
        "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges "
        "cache_capacity vocab merges",
        "model",
    )


def vocabulary(
    model: dict[str, Any], is_byte_level: bool, added: Set[str]
) -> tuple[Vocabulary, tuple[tuple[int, bytes], ...]]:
    """(vocabulary, unreachable tokens) of a BPE model, as :class:`Parts` has them.

    ``is_byte_level`` where the tokens are spelled in the byte alphabet; ``added`` are the contents of added tokens.
    """
    strings: dict[str, int] = take(model, "vocab", dict, "model")
    merges = model.get("merges")
    if not isinstance(merges, bytes):
        merges = take(model, "merges", list, "model")
    if not strings:
        raise VocabularyError("model: vocab is empty; wanted an object of tokens and their ids")
    if set(map(type, strings.values())) != {int}:
        token, number = next((token, number) for token, number in strings.items() if type(number) is not int)
        raise VocabularyError(f"vocab gives {token!r} the id {brief(number)}; wanted an integer")
    options = _options(model, strings, is_byte_level)
    names = list(strings)
    apart = {""} & strings.keys()
    strange = set("".join(names)) - byte_level.byte_of_character().keys() if is_byte_level else None
    if strange:
        # A token with a character outside the alphabet is out of the merges' reach, and its UTF-8 can be another
        # token's spelling. Where it is an added token, as in DeepSeek's files, it belongs there alone.
        apart |= {string for string in names if not strange.isdisjoint(string)}
    unreachable = [
        (strings[string], data)
        for string, data in zip(apart, _all_to_utf8([*apart]), strict=True)
        if string not in added
    ]
    if apart:
        _check_ids(strings)
        strings = dict(strings)
        for string in apart:
            del strings[string]
        if not strings:
            raise VocabularyError("the vocab has no token that a text can become, such as the byte alphabet's 256")
    tokens = Vocabulary.from_spelled(strings, _without_version(merges), **options)
    return tokens, tuple(sorted(unreachable))


def _check_ids(strings: Mapping[str, int]) -> None:
    """Check all ids as the vocabulary's are, where some tokens stand apart from it."""
    if len(set(strings.values())) == len(strings) and 0 <= min(strings.values()) <= max(strings.values()) < 1 << 32:
        return
    owners: dict[int, str] = {}
    for string, number in strings.items():
        if not 0 <= number < 1 << 32:
            raise VocabularyError(f"id {number} is not between 0 and 2**32 - 1")
        if owners.setdefault(number, string) != string:
            raise VocabularyError(f"id {number} is given to two tokens, {owners[number]!r} and {string!r}")


def _options(model: dict[str, Any], strings: Mapping[str, int], is_byte_level: bool) -> dict[str, Any]:
    """The model's options as the arguments of :meth:`Vocabulary.from_spelled`, without those that change nothing."""

    def option(key: str, kind: type) -> Any:
        return None if model.get(key) is None else take(model, key, kind, "model")

    dropout = 0.0 if model.get("dropout") is None else model["dropout"]
    if type(dropout) not in (int, float) or not 0 <= dropout <= 1:
        raise VocabularyError(f"model: dropout must be a number from 0 to 1, not {brief(dropout)}")
    prefix, suffix, unknown = (
        option(key, str) or "" for key in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token")
    )
    fuse_unk, byte_fallback, whole_first = (
        option(key, bool) or False for key in ("fuse_unk", "byte_fallback", "ignore_merges")
    )
    options = {"whole_first": whole_first, "dropout": float(dropout), "prefix": prefix, "suffix": suffix}
    # A byte-level vocabulary with all bytes and neither prefix nor suffix has no unknown characters.
    if is_byte_level and not prefix + suffix and strings.keys() >= byte_level.byte_of_character().keys():
        return options
    if model.get("unk_token") is not None and unknown not in strings:
        raise VocabularyError(f"model: unk_token {unknown!r} is not in the vocab")
    return options | {
        "unit": "byte" if is_byte_level else "character",
        "unk": unknown or None,
        "fuse_unk": fuse_unk,
        "byte_fallback": byte_fallback,
    }


def _without_version(merges: bytes | list[Any]) -> bytes | list[Any]:
    """The merges without ``#version: 0.2``, the first line of a merges.txt, which stands in some files."""
    if isinstance(merges, bytes):
        if b'"#version' not in merges:
            return merges
        merges = decode_json(merges, "a list of merges")
    return [merge for merge in merges if not (isinstance(merge, str) and merge.startswith("#version"))]


def _all_to_utf8(tokens: list[str]) -> list[bytes]:
    """The UTF-8 of each token."""
    try:
        return list(map(str.encode, tokens))
    except UnicodeEncodeError as error:
        raise VocabularyError(f"token {error.object!r} has a lone surrogate: {error.reason}") from None


def _added_token(entry: object) -> AddedToken:
    """An added token as the file has it."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str) or type(entry.get("id")) is not int:
        raise VocabularyError(f"added token {brief(entry)}: wanted an object with an id and a content")
    where = f"added token {entry['content']!r}"
    refuse_unknown(entry, f"id content {' '.join(_FLAGS)}", where)
    flags = {flag: take(entry, flag, bool, where) for flag in _FLAGS}
    return AddedToken(entry["content"], entry["id"], **flags)


def _with_their_ids(tokens: list[AddedToken], vocab: Mapping[str, int]) -> list[AddedToken]:
    """The added tokens, each once, if their ids are those that ``tokenizers`` gives them whatever the file says.

    A token that is in the vocabulary has its id there; the others follow the vocabulary's size, in the file's order.
    """
    kept: dict[str, AddedToken] = {}
    following = len(vocab)
    for token in tokens:
        if kept.get(token.content) == token:
            continue
        if token.content in kept:
            raise VocabularyError(f"added token {token.content!r} is there twice, and not the same each time")
        expected = vocab.get(token.content)
        if expected is None:
            expected, following = following, following + 1
        if token.id != expected:
            raise VocabularyError(
                f"added token {token.content!r} has id {token.id}, but {expected} is what tokenizers gives it"
            )
        kept[token.content] = token
    if following > len(vocab):
        owners = {number: string for string, number in vocab.items()}
        for token in kept.values():
            owner = owners.get(token.id, token.content)
            if owner != token.content and token.content not in vocab:
                raise VocabularyError(f"id {token.id} is given to the token {owner!r} and to added {token.content!r}")
    return list(kept.values())
