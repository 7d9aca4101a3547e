"""The id that ends each document, where one is asked for."""

import numpy as np

from numbatok.batch import TokenBatch
from numbatok.memory import address_of
from numbatok.rows import checked_id, joined
from numbatok.tokenizer import Tokenizer

#: Special tokens that end a document, by the names that models give them.
_END_NAMES = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|eos|>",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
    "<EOS_TOKEN>",
)


def end_id(tokenizer: Tokenizer, wanted: bool | str | int) -> int | None:
    """The id to put after each document, or None; ValueError where ``wanted`` names none."""
    if wanted is False:
        return None
    specials = tokenizer.special_tokens
    if wanted is True:
        known = [name for name in _END_NAMES if name in specials]
        if len(known) != 1:
            raise ValueError(
                f"which special token ends a document is not certain: the tokenizer has "
                f"{', '.join(map(repr, known or specials)) or 'none'}; pass append_eos= the one to take"
            )
        return specials[known[0]]
    if isinstance(wanted, str):
        number = tokenizer.token_to_id(wanted)
        if number is None:
            raise ValueError(f"append_eos is {wanted!r}, which is no token of this tokenizer")
        return number
    number = checked_id("append_eos", wanted)
    if tokenizer.id_to_token(number) is None:
        raise ValueError(f"append_eos is {number}, which is no id of this tokenizer")
    return number


def ended(batch: TokenBatch, end: int) -> TokenBatch:
    """The batch, of uint32 ids, with an id more at the end of each document that is not null."""
    valid = batch._is_valid()
    lengths = batch.lengths
    ids = joined(address_of(batch.ids) + 4 * batch.offsets[:-1][valid], lengths[valid], end)
    offsets = np.append(np.zeros(1, np.int64), np.cumsum(lengths + valid))
    return TokenBatch(ids, offsets, validity=batch.validity)
