"""Writing a tokenizer as a ``tokenizer.json``."""

import json
from os import PathLike
from typing import Any

from numbatok.added_tokens import AddedToken
from numbatok.errors import VocabularyError
from numbatok.loading.components import BEHAVIORS
from numbatok.loading.dialect import to_oniguruma
from numbatok.loading.tokenizer_json import KEPT_SECTIONS
from numbatok.memory import without_collection
from numbatok.parts import Parts
from numbatok.patterns.known import canonical
from numbatok.patterns.rules import GPT2, Split
from numbatok.templates import Piece, Special, Template, Text
from numbatok.vocabulary import Vocabulary
from numbatok.writing import write_whole

_BEHAVIOR_NAMES = {behavior: name for name, behavior in BEHAVIORS.items()}


def save(parts: Parts, path: str | PathLike[str]) -> None:
    """Write the file of a tokenizer."""
    try:
        content = dumps(parts).encode()
    except UnicodeEncodeError as error:
        raise VocabularyError(f"the tokenizer's settings have a lone surrogate: {error.reason}") from None
    write_whole(content, path)


def dumps(parts: Parts) -> str:
    """The content of the file."""

    def made() -> str:
        model = _model(parts)
        _give_ids(parts, model["vocab"])
        sections = _sections(parts)
        content = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [_added_token(token) for token in parts.added_tokens],
            **{key: sections[key] for key in KEPT_SECTIONS},
            "model": model,
        }
        return json.dumps(content, ensure_ascii=False)

    return without_collection(made)


def _added_token(token: AddedToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "content": token.content,
        "single_word": token.single_word,
        "lstrip": token.lstrip,
        "rstrip": token.rstrip,
        "normalized": token.normalized,
        "special": token.special,
    }


def _give_ids(parts: Parts, vocab: dict[str, int]) -> None:
    """Put the added tokens into the vocabulary if ``tokenizers`` would give one of them another id.

    It looks an added token up in the vocabulary; those that are not there follow its size, in order.
    """
    owners: dict[int, str] = {}
    for token in parts.added_tokens:
        if owners.setdefault(token.id, token.content) != token.content:
            raise VocabularyError(
                f"the added tokens {owners[token.id]!r} and {token.content!r} have one id, {token.id}, of which "
                "tokenizers would find only one in a text, so they can't stand in a tokenizer.json"
            )
    following = len(vocab)
    expected = []
    for token in parts.added_tokens:
        expected.append(vocab.get(token.content, following))
        following += token.content not in vocab
    if expected == [token.id for token in parts.added_tokens]:
        return
    taken = set(vocab.values())
    for token in parts.added_tokens:
        if vocab.get(token.content, token.id) != token.id or (token.content not in vocab and token.id in taken):
            raise VocabularyError(
                f"added token {token.content!r} can't have the id {token.id} in a tokenizer.json: the vocabulary has "
                "the token, or the id, for another one"
            )
    vocab |= {token.content: token.id for token in parts.added_tokens}


def _model(parts: Parts) -> dict[str, Any]:
    """The section ``"model"``."""
    vocabulary = parts.vocabulary
    options, spell = vocabulary.options, parts.spell
    vocab = parts.spelled_ids()
    names = list(vocab)  # those of the vocabulary by their symbols
    if vocabulary.merges is None:
        merges = [[names[left], names[right]] for left, right in merges_of_ranks(vocabulary)]
    else:
        merges = [[names[left], names[right]] for left, right in vocabulary.merges[:, :2].tolist()]
    return {
        "type": "BPE",
        "dropout": options.dropout or None,
        "unk_token": None if options.unk is None else spell(options.unk),
        "continuing_subword_prefix": spell(options.prefix) or None,
        "end_of_word_suffix": spell(options.suffix) or None,
        "fuse_unk": options.fuse_unk,
        "byte_fallback": options.byte_fallback,
        "ignore_merges": vocabulary.whole_first,
        "vocab": vocab,
        "merges": merges,
    }


def merges_of_ranks(vocabulary: Vocabulary) -> list[tuple[int, int]]:
    """A merge list, as pairs of symbols, that merges as the ranks of concatenations do.

    Each way to cut a token into two tokens is a merge, of the rank of what it makes. Of the ways to make one token,
    those whose left part has the lower rank come first.
    """
    symbol_of = {token: symbol for symbol, token in enumerate(vocabulary.tokens)}
    merges: list[tuple[int, int]] = []
    for token in vocabulary.tokens:
        ways = []
        for cut in range(1, len(token)):
            left = symbol_of.get(token[:cut])
            if left is not None:
                right = symbol_of.get(token[cut:])
                if right is not None:
                    ways.append((left, right))
        ways.sort()
        merges += ways
    return merges


def _sections(parts: Parts) -> dict[str, Any]:
    """The sections around the model: as they came from a file, or made from the parts."""
    if parts.settings is not None:
        sections: dict[str, Any] = json.loads(parts.settings)
        return sections
    if parts.normalizer is not None or parts.vocabulary.options.unit != "byte":
        raise VocabularyError(
            "only a tokenizer that came from a tokenizer.json can be saved with a normalizer or without a byte alphabet"
        )
    rule = parts.rule if parts.pattern_engine == "regex" else canonical(parts.rule)
    is_gpt2 = rule == (Split(GPT2),)
    if parts.prefix_space and not is_gpt2:
        raise VocabularyError("a tokenizer.json can put a space before the text only where GPT-2's rule cuts it")
    ending = {"type": "ByteLevel", "add_prefix_space": parts.prefix_space, "trim_offsets": True, "use_regex": is_gpt2}
    steps = [] if is_gpt2 else [_split(step) for step in rule]
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*steps, ending]} if steps else ending,
        "post_processor": _post_processor(parts.template),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    }


def _split(step: Split) -> dict[str, Any]:
    if step.spelled:
        raise VocabularyError(f"the step {step.pattern!r} of the split rule follows a ByteLevel, which is not kept")
    pattern = step.pattern if step.dialect == "oniguruma" else to_oniguruma(step.pattern)
    behavior = _BEHAVIOR_NAMES[step.behavior]
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": step.invert}


def _post_processor(template: Template) -> dict[str, Any]:
    if not any(isinstance(piece, Special) for piece in template.single + template.pair):
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    specials = [piece for piece in template.single + template.pair if isinstance(piece, Special)]
    return {
        "type": "TemplateProcessing",
        "single": [_piece(piece) for piece in template.single],
        "pair": [_piece(piece) for piece in template.pair],
        "special_tokens": {
            piece.token: {"id": piece.token, "ids": list(piece.ids), "tokens": [piece.token] * len(piece.ids)}
            for piece in specials
        },
    }


def _piece(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Text):
        return {"Sequence": {"id": piece.which, "type_id": piece.type_id}}
    return {"SpecialToken": {"id": piece.token, "type_id": piece.type_id}}
