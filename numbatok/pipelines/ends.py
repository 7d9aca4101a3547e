"""The id that ends each document, where one is asked for."""

import numpy.typing as npt

from numbatok.added_tokens import AllowedSpecial
from numbatok.batch import TokenBatch
from numbatok.calls import Call, id_type_of
from numbatok.columns import Column
from numbatok.rows import checked_id
from numbatok.text import Errors
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


def encode_ended(
    tokenizer: Tokenizer,
    texts: Column,
    end: int | None,
    *,
    errors: Errors = "strict",
    add_special_tokens: bool = True,
    allowed_special: AllowedSpecial = "all",
    disallowed_special: AllowedSpecial = (),
    num_threads: int | None = None,
    dtype: npt.DTypeLike | None = None,
    expected: int = 0,
) -> TokenBatch:
    """``Tokenizer.encode_batch`` with an id more, if there is one, at the end of each document that is not null.

    The kernel puts it there: to join it to ids that were there took 7 % of a run's time. ``expected`` is as
    :class:`numbatok.calls.Call` has it.
    """
    engine = tokenizer._start()
    actions = tokenizer._actions(engine, allowed_special, disallowed_special, errors)
    id_type = id_type_of(dtype, None, tokenizer.vocab_size)
    call = Call(actions, errors, bool(add_special_tokens), num_threads, id_type, end=end, expected=expected)
    return tokenizer._encode_batch(engine, texts, None, call)
