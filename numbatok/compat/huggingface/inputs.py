"""What callers give to encode and to decode: checked, or the exception that ``tokenizers`` raises."""

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from numbatok.ids import Ids

TextInputSequence = str
PreTokenizedInputSequence = list[str] | tuple[str, ...]
InputSequence = TextInputSequence | PreTokenizedInputSequence
TextEncodeInput = TextInputSequence | tuple[TextInputSequence, TextInputSequence] | list[TextInputSequence]
PreTokenizedEncodeInput = (
    PreTokenizedInputSequence
    | tuple[PreTokenizedInputSequence, PreTokenizedInputSequence]
    | list[PreTokenizedInputSequence]
)
EncodeInput = TextEncodeInput | PreTokenizedEncodeInput
Offsets = tuple[int, int]

_INPUTS = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
_WORD_INPUTS = (
    "PreTokenizedEncodeInput must be Union[PreTokenizedInputSequence, Tuple[PreTokenizedInputSequence, "
    "PreTokenizedInputSequence]]"
)


def is_sequence(given: Any) -> bool:
    """Whether Rust takes this for a sequence of something."""
    return hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, str | Mapping)


def as_ids(ids: Any) -> Ids:
    """Ids as an array: TypeError for what are none, OverflowError for negative or too large ones."""
    if not is_sequence(ids):
        raise TypeError(f"ids must be a sequence of integers, not {type(ids).__name__}")
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
        if len(ids) and (ids.min() < 0 or ids.max() > 0xFFFFFFFF):
            raise OverflowError("an id must be from 0 to 2**32 - 1")
        return ids.astype(np.uint32, copy=False)
    try:
        numbers = array("I", ids if type(ids) is list else list(ids))
    except OverflowError:
        raise OverflowError("an id must be from 0 to 2**32 - 1") from None
    except TypeError:
        raise TypeError("ids must be integers") from None
    return np.frombuffer(numbers, np.uint32) if numbers else np.empty(0, np.uint32)


def as_text(sequence: Any) -> str:
    """A text."""
    if not isinstance(sequence, str):
        raise TypeError(f"TextInputSequence must be str, not {type(sequence).__name__}")
    return sequence


def as_words(sequence: Any) -> list[str]:
    """The words of a text that was split before."""
    if isinstance(sequence, np.ndarray) and sequence.ndim == 1 and sequence.dtype.kind in "UO":
        sequence = sequence.tolist()
    if not isinstance(sequence, list | tuple) or not all(isinstance(word, str) for word in sequence):
        raise TypeError("PreTokenizedInputSequence must be Union[List[str], Tuple[str]]")
    return list(sequence)


def pair_of_texts(input: Any) -> tuple[Any, Any]:
    """(text, second text or None) of one input of a batch."""
    if isinstance(input, str):
        return input, None
    if isinstance(input, tuple | list) and len(input) == 2 and all(isinstance(each, str) for each in input):
        return input[0], input[1]
    raise TypeError(_INPUTS)


def pair_of_words(input: Any) -> tuple[Any, Any]:
    """(words, second text's words or None) of one input of a batch."""
    try:
        return as_words(input), None
    except TypeError:
        pass
    if isinstance(input, tuple | list) and len(input) == 2:
        try:
            return as_words(input[0]), as_words(input[1])
        except TypeError:
            pass
    raise TypeError(_WORD_INPUTS)
