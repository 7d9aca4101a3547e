"""Tokenizers of other libraries, taken over from their objects."""

from collections.abc import Mapping
from typing import Any

from numbatok.loading import rank_file, tokenizer_json
from numbatok.loading.checks import decode_json
from numbatok.memory import without_collection
from numbatok.parts import Parts


def from_huggingface(tokenizer: Any) -> Parts:
    """The parts of a ``tokenizers.Tokenizer``, or of the one inside a fast tokenizer of ``transformers``."""
    inner = getattr(tokenizer, "backend_tokenizer", None)
    content = getattr(tokenizer if inner is None else inner, "to_str", None)
    if content is None:
        raise TypeError(
            "tokenizer must be a tokenizers.Tokenizer or a fast tokenizer of transformers, not "
            f"{type(tokenizer).__name__}"
        )
    name = getattr(tokenizer, "name_or_path", "") or ""

    def made() -> Parts:
        settings = decode_json(content(), "a tokenizer.json")
        if inner is not None:  # transformers sets these anew for each call, by the call's arguments
            settings["truncation"] = settings["padding"] = None
        return tokenizer_json.build(settings, name)

    return without_collection(made)


def from_tiktoken(encoding: Any, *, pattern: str | None, special_tokens: Mapping[str, int] | None, name: str) -> Parts:
    """The parts of a ``tiktoken.Encoding``, or of a mapping of tokens to ranks; arguments come before its own."""
    ranks = encoding
    if not isinstance(encoding, Mapping):
        try:
            ranks, its_pattern, its_specials = encoding._mergeable_ranks, encoding._pat_str, encoding._special_tokens
        except AttributeError:
            raise TypeError(
                f"encoding must be a tiktoken.Encoding or a mapping of bytes to ranks, not {type(encoding).__name__}"
            ) from None
        pattern = its_pattern if pattern is None else pattern
        special_tokens = its_specials if special_tokens is None else special_tokens
        name = name or encoding.name
    for token, rank in ranks.items():
        if not isinstance(token, bytes) or not isinstance(rank, int):
            raise TypeError(f"ranks have {token!r}: {rank!r}; wanted bytes and their int rank")
    return rank_file.build(list(ranks), list(ranks.values()), pattern, special_tokens, name)
