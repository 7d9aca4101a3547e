"""Tekken JSON, Mistral's format: ranks in base64, the pattern, and ids that begin after those of special tokens."""

import base64
from typing import Any

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.loading.checks import as_list, as_object, brief, take
from numbatok.loading.rank_file import matches_of
from numbatok.parts import Parts
from numbatok.vocabulary import Vocabulary

#: The special tokens of files that don't list theirs (before version 7), by their ids; mistral-common names them so.
_UNLISTED = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
).split()

MOST_SPECIALS = 1 << 20  # real files have a thousand; each becomes an object


def build(settings: dict[str, Any], name: str) -> Parts:
    """The parts of a tokenizer from the value of its JSON.

    Mistral's own code never finds special tokens in a text. Here they are added tokens, as in the ``tokenizer.json`` of
    the same models; ``allowed_special=()`` encodes them as ordinary text.
    """
    config = as_object(settings.get("config"), "Tekken: config")
    pattern = take(config, "pattern", str, "Tekken: config")
    size = take(config, "default_vocab_size", int, "Tekken: config")
    specials = take(config, "default_num_special_tokens", int, "Tekken: config")
    entries = take(settings, "vocab", list, "Tekken")
    count = size - specials
    if not 0 <= specials <= min(size, MOST_SPECIALS) or count > len(entries):
        raise VocabularyError(
            f"Tekken: config wants {size} tokens, {specials} of them special, but vocab has {len(entries)}"
        )
    tokens: dict[int, bytes] = {}
    for entry in entries:
        rank, encoded = (entry.get("rank"), entry.get("token_bytes")) if isinstance(entry, dict) else (None, None)
        if type(rank) is not int or rank < 0 or not isinstance(encoded, str):
            raise VocabularyError(f"Tekken: vocab has {brief(entry)}; wanted an object with rank and token_bytes")
        if rank >= count:
            continue
        if rank in tokens:
            raise VocabularyError(f"Tekken: rank {rank} is given to two tokens")
        try:
            tokens[rank] = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise VocabularyError(f"Tekken: the token_bytes of rank {rank} are not base64 ({error})") from None
    if len(tokens) != count:
        missing = next(rank for rank in range(count) if rank not in tokens)
        raise VocabularyError(f"Tekken: no token has rank {missing}; wanted {count} from 0 on")
    ranks = range(count)
    vocabulary = Vocabulary.from_ranks([tokens[rank] for rank in ranks], [specials + rank for rank in ranks])
    return Parts(vocabulary, AddedTokens(_special_tokens(settings, specials)), matches_of(pattern), name=name)


def _special_tokens(settings: dict[str, Any], count: int) -> list[AddedToken]:
    """The special tokens that the file lists, or those that it implies; the rest of their ids have made-up names."""
    names = dict(enumerate(_UNLISTED[:count]))
    listed = settings.get("special_tokens")
    if listed is not None:
        names = {}
        for entry in as_list(listed, "Tekken: special_tokens"):
            rank, content = (entry.get("rank"), entry.get("token_str")) if isinstance(entry, dict) else (None, None)
            if type(rank) is not int or not 0 <= rank < count or not isinstance(content, str) or rank in names:
                raise VocabularyError(
                    f"Tekken: special_tokens has {brief(entry)}; wanted a token_str and a rank of its own below {count}"
                )
            names[rank] = content
    return [AddedToken(names.get(rank, f"<SPECIAL_{rank}>"), rank) for rank in range(count)]
