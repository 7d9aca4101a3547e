"""Directories: a model's files, of which the most telling are taken."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.loading import files, tokenizer_json
from numbatok.loading.checks import as_list, as_object, brief, decode_json, take
from numbatok.loading.rank_file import check_ids, check_pattern, special_added_tokens
from numbatok.memory import without_collection
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split

#: Files that hold a whole tokenizer, the preferred first. A tokenizer.json is the truth: the files beside it, which
#: transformers reads as well, say nothing of how a text becomes ids that it doesn't.
WHOLE = ("tokenizer.json", "tekken.json")
#: The vocabulary and merges of GPT-2's format, and the names of rank files.
PAIR = ("vocab.json", "merges.txt")
RANKS = ("tokenizer.model", "tiktoken.model")
#: Where special tokens stand that the files above don't have.
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")

_GPT2_CLASSES = (None, "GPT2Tokenizer", "GPT2TokenizerFast")


def load(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Parts:
    """The parts of the tokenizer in a directory; errors name it or the file."""
    for name in WHOLE:
        if (path / name).is_file():
            return files.load(path / name, pattern=pattern, special_tokens=special_tokens)
    try:
        if all((path / name).is_file() for name in PAIR):
            return _load_pair(path, pattern, special_tokens)
        beside = {token.content: token.id for token in _beside(path)}
    except VocabularyError as error:
        raise VocabularyError(f"{path}: {error}") from None
    for file in [*(path / name for name in RANKS), *sorted(path.glob("*.tiktoken"))]:
        if file.is_file():
            return files.load(file, pattern=pattern, special_tokens={**beside, **(special_tokens or {})})
    raise VocabularyError(
        f"{path}: the directory has no tokenizer: wanted {', '.join(WHOLE)}, vocab.json with merges.txt, "
        f"{', '.join(RANKS)} or *.tiktoken"
    )


def _load_pair(path: Path, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Parts:
    """GPT-2's format: a vocabulary in the byte alphabet, its merges, and GPT-2's pattern unless another is given."""
    config = _read_object(path / BESIDE[0])
    kind = config.get("tokenizer_class")
    if pattern is None:
        if kind not in _GPT2_CLASSES:
            raise VocabularyError(
                f"tokenizer_class {brief(kind)} with vocab.json and merges.txt is not supported without pattern=, the "
                "regular expression that cuts the text; a tokenizer.json would say it"
            )
        pattern = GPT2
    check_pattern(pattern)
    for key in ("add_bos_token", "add_eos_token"):
        if config.get(key):
            raise VocabularyError(f"tokenizer_config.json: {key} is not supported; a tokenizer.json would say its ids")
    prefix_space = take(config, "add_prefix_space", bool, "tokenizer_config.json", False)
    merges = (path / PAIR[1]).read_bytes()

    def made() -> Parts:
        vocab = as_object(decode_json((path / PAIR[0]).read_bytes(), "a vocab.json"), "vocab.json")
        try:
            lines = str(merges, "utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise VocabularyError(f"merges.txt: not UTF-8 text at byte {error.start}") from None
        lines = [line for line in (line.removesuffix("\r") for line in lines) if line]
        added = {token.content: token for token in _beside(path)}
        added |= {token.content: token for token in special_added_tokens(special_tokens or {})}
        model = {"vocab": vocab, "merges": lines}
        vocabulary, unreachable = tokenizer_json.vocabulary(model, True, added.keys())
        check_ids(vocabulary, list(added.values()))
        return Parts(
            vocabulary,
            AddedTokens(added.values()),
            (Split(pattern),),
            prefix_space=prefix_space,
            unreachable=unreachable,
            name=str(path),
        )

    return without_collection(made)


def _read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, empty where there is no file."""
    if not path.is_file():
        return {}
    return as_object(decode_json(path.read_bytes(), f"a {path.name}"), path.name)


def _beside(path: Path) -> list[AddedToken]:
    """The added tokens that the files beside a vocabulary name, with their ids."""
    config, named, added = (_read_object(path / name) for name in BESIDE)
    found: dict[str, AddedToken] = {}
    decoder = as_object(config.get("added_tokens_decoder", {}), "tokenizer_config.json: added_tokens_decoder")
    for number, entry in decoder.items():
        where = f"tokenizer_config.json: added token {number}"
        content = take(as_object(entry, where), "content", str, where)
        if not number.isdecimal():
            raise VocabularyError(f"{where}: wanted an id")
        flags = {
            flag: take(entry, flag, bool, where, False)
            for flag in ("special", "lstrip", "rstrip", "single_word", "normalized")
        }
        found[content] = AddedToken(content, int(number), **flags)
    ids: dict[str, object] = dict(added)
    if (path / PAIR[0]).is_file():
        ids |= _read_object(path / PAIR[0])
    specials = set()
    for role, entry in named.items():
        entries = as_list(entry, f"special_tokens_map.json: {role}") if role == "additional_special_tokens" else [entry]
        for each in entries:
            content = each.get("content") if isinstance(each, dict) else each
            if not isinstance(content, str):
                raise VocabularyError(f"special_tokens_map.json: {role} is {brief(each)}; wanted a token")
            specials.add(content)
    for content in [*added, *sorted(specials)]:
        if content in found or content not in ids:
            continue
        value = ids[content]
        if not isinstance(value, int) or isinstance(value, bool):
            raise VocabularyError(f"added_tokens.json: {content!r} has {brief(value)}; wanted an id")
        found[content] = AddedToken(content, value, special=content in specials)
    return list(found.values())
