"""``tokenizer.json``, the format of Hugging Face tokenizers: what of it is supported, and the rest refused by name."""

import json
from os import PathLike
from typing import Any

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.loading import byte_level
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split
from numbatok.tokenizer import Tokenizer
from numbatok.vocabulary import Vocabulary

_KNOWN_KEYS = frozenset(
    "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model".split()
)
_MODEL_KEYS = frozenset(
    "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges "
    "vocab merges".split()
)


def load(path: str | PathLike[str]) -> Tokenizer:
    """The tokenizer in a file; errors name the file."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        return _build(_decode(content), str(path))
    except VocabularyError as error:
        raise VocabularyError(f"{path}: {error}") from None


def parse(content: str) -> Tokenizer:
    """The tokenizer in the content of a file."""
    if not isinstance(content, str):
        raise TypeError(f"content must be the str of a tokenizer.json, not {type(content).__name__}")
    return _build(_decode(content), "")


def _decode(content: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except UnicodeDecodeError as error:
        raise VocabularyError(f"not a tokenizer.json: not UTF-8 text at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise VocabularyError(f"not a tokenizer.json: {error}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise VocabularyError(f"not a tokenizer.json: {error}") from None
    except RecursionError:
        raise VocabularyError("not a tokenizer.json: nested too deeply") from None
    if not isinstance(value, dict) or not isinstance(value.get("model"), dict):
        raise VocabularyError('not a tokenizer.json: wanted an object with a "model"')
    return value


def _build(settings: dict[str, Any], name: str) -> Tokenizer:
    _refuse_unknown(settings, _KNOWN_KEYS, "the file")
    for key in ("truncation", "padding", "normalizer"):
        if settings.get(key) is not None:
            raise VocabularyError(f"{key} {_brief(settings[key])} is not supported")
    _check_byte_level(settings.get("pre_tokenizer"), "pre_tokenizer")
    for key in ("post_processor", "decoder"):
        if settings.get(key) is not None:
            _check_type(settings[key], key)
    vocabulary = _vocabulary(settings["model"])
    added_tokens = _added_tokens(settings.get("added_tokens") or [], vocabulary)
    return Tokenizer(Parts(vocabulary, added_tokens, (Split(GPT2),), name=name))


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."


def _refuse_unknown(settings: dict[str, Any], known: frozenset[str], where: str) -> None:
    for key in settings:
        if key not in known:
            raise VocabularyError(f"{where} has {key!r} ({_brief(settings[key])}), which is not supported")


def _check_type(value: object, key: str) -> dict[str, Any]:
    """A component that must be ByteLevel; its trim_offsets and, outside the pre_tokenizer, all else changes no id."""
    if not isinstance(value, dict):
        raise VocabularyError(f"{key} must be an object, not {_brief(value)}")
    if value.get("type") != "ByteLevel":
        raise VocabularyError(f"{key} {value.get('type')!r} is not supported; only ByteLevel is")
    _refuse_unknown(value, frozenset({"type", "add_prefix_space", "trim_offsets", "use_regex"}), key)
    return value


def _check_byte_level(value: object, key: str) -> None:
    if value is None:
        raise VocabularyError(f"no {key} is given; only ByteLevel is supported")
    settings = _check_type(value, key)
    if settings.get("add_prefix_space", True) is not False:
        raise VocabularyError(f"{key} ByteLevel with add_prefix_space is not supported; it must be false")
    if settings.get("use_regex", True) is not True:
        raise VocabularyError(f"{key} ByteLevel without use_regex is not supported; it must be true")


def _vocabulary(model: dict[str, Any]) -> Vocabulary:
    kind = model.get("type", "BPE")  # files of before the key existed leave it out
    if kind != "BPE":
        raise VocabularyError(f"model {kind!r} is not supported; only BPE is")
    _refuse_unknown(model, _MODEL_KEYS, "model")
    if model.get("dropout"):
        raise VocabularyError(f"model dropout {model['dropout']} is not supported")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise VocabularyError(f"model {key} {model[key]!r} is not supported")
    # unk_token, fuse_unk and byte_fallback say what becomes of characters without a token. There are none: all 256
    # bytes are tokens, which Vocabulary checks.
    strings, merges = model.get("vocab"), model.get("merges")
    if not isinstance(strings, dict) or not strings:
        raise VocabularyError("model has no vocab: wanted an object of tokens and their ids")
    if not isinstance(merges, list):
        raise VocabularyError("model has no merges: wanted a list")
    for token, number in strings.items():
        if type(number) is not int:
            raise VocabularyError(f"vocab gives {token!r} the id {_brief(number)}; wanted an integer")
    tokens = byte_level.all_to_bytes(list(strings))
    bytes_of = dict(zip(strings, tokens, strict=True))
    ids = dict(zip(tokens, strings.values(), strict=True))
    if len(ids) != len(strings):
        raise VocabularyError("two tokens of the vocab stand for the same bytes")
    return Vocabulary.from_merges(ids, _merges(merges, bytes_of), whole_first=bool(model.get("ignore_merges", False)))


def _merges(merges: list[Any], bytes_of: dict[str, bytes]) -> list[tuple[bytes, bytes]]:
    """Pairs of tokens' bytes from ``"a b"`` strings or lists of two."""
    pairs = []
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise VocabularyError(
                f"merge {rank} is {_brief(merge)}; wanted two tokens with a space between, or a list of two"
            )
        try:
            pairs.append((bytes_of[parts[0]], bytes_of[parts[1]]))
        except KeyError as error:
            raise VocabularyError(
                f"merge {rank} ({_brief(merge)}) needs {error.args[0]!r}, which is not in the vocab"
            ) from None
    return pairs


def _added_tokens(entries: object, vocabulary: Vocabulary) -> AddedTokens:
    if not isinstance(entries, list):
        raise VocabularyError(f"added_tokens must be a list, not {_brief(entries)}")
    tokens = []
    following = len(vocabulary)  # tokenizers gives a new added token the next id, whatever the file says
    normalized = set()
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str) or type(entry.get("id")) is not int:
            raise VocabularyError(f"added token {_brief(entry)}: wanted an object with an id and a content")
        content, number = entry["content"], entry["id"]
        _refuse_unknown(
            entry,
            frozenset("id content single_word lstrip rstrip normalized special".split()),
            f"added token {content!r}",
        )
        for flag in ("single_word", "lstrip", "rstrip"):
            if entry.get(flag):
                raise VocabularyError(f"added token {content!r} has {flag}, which is not supported")
        if not content:
            continue  # tokenizers ignores it
        normalized.add(bool(entry.get("normalized", True)))
        tokens.append(AddedToken(content, number, bool(entry.get("special", False))))
    if len(normalized) > 1:
        raise VocabularyError("added tokens with normalized true and false together are not supported")
    tokens.sort(key=lambda token: token.id)
    for token in tokens:
        expected = vocabulary.id_of.get(token.content.encode("utf-8", "surrogatepass"))
        if expected is None:
            expected, following = following, following + 1
        if token.id != expected:
            raise VocabularyError(
                f"added token {token.content!r} has id {token.id}, but {expected} is what it would get"
            )
    return AddedTokens(tokens)
