"""Padding and truncation as a ``tokenizers.Tokenizer`` has them: set on the object, fixed for each call."""

import operator
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from numbatok.errors import VocabularyError
from numbatok.loading.checks import as_object, brief, refuse_unknown
from numbatok.rows import Side
from numbatok.windows import Strategy

_SIDES: dict[str, Side] = {"Left": "left", "Right": "right"}
_STRATEGIES: dict[str, Strategy] = {
    "LongestFirst": "longest_first",
    "OnlyFirst": "only_first",
    "OnlySecond": "only_second",
}


def checked_text(name: str, value: object) -> str:
    """A string: TypeError for what is none, UnicodeEncodeError for lone surrogates."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    value.encode()
    return value


def checked_side(direction: str) -> Side:
    """A direction, or the ValueError that ``tokenizers`` raises."""
    if checked_text("direction", direction) not in _SIDES.values():
        raise ValueError(f"Unknown `direction`: `{direction}`. Use one of `left` or `right`")
    return direction  # type: ignore[return-value]


def checked_count(name: str, value: object, most: int = (1 << 64) - 1) -> int:
    """A number as Rust takes it: TypeError for what is no integer, OverflowError below 0 or above ``most``."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise OverflowError(f"{name} must be from 0 to {most}, not {number}")
    return number


def checked_id(name: str, value: object) -> int:
    """An id, or a type id: :func:`checked_count` of 32 bits."""
    return checked_count(name, value, (1 << 32) - 1)


def checked_flag(name: str, value: object) -> bool:
    """A flag: TypeError for what is no bool, which Rust does not take other values for."""
    if type(value) is bool:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be a bool, not {type(value).__name__}")


class Padding(NamedTuple):
    """How encodings are padded; with ``length`` None to the longest of a batch."""

    length: int | None
    pad_to_multiple_of: int | None
    pad_id: int
    pad_token: str
    pad_type_id: int
    direction: Side

    def width(self, longest: int) -> int:
        """The length that encodings of which the longest has so many ids are padded to."""
        width = longest if self.length is None else self.length
        return width + -width % self.pad_to_multiple_of if self.pad_to_multiple_of else width

    def to_json(self) -> dict[str, Any]:
        """The section of a ``tokenizer.json``."""
        return {
            "strategy": "BatchLongest" if self.length is None else {"Fixed": self.length},
            "direction": _name_of(_SIDES, self.direction),
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "pad_id": self.pad_id,
            "pad_type_id": self.pad_type_id,
            "pad_token": self.pad_token,
        }


class Truncation(NamedTuple):
    """How encodings are truncated; ``max_length`` counts the template's special tokens."""

    max_length: int
    stride: int
    strategy: Strategy
    direction: Side

    def to_json(self) -> dict[str, Any]:
        """The section of a ``tokenizer.json``."""
        return {
            "direction": _name_of(_SIDES, self.direction),
            "max_length": self.max_length,
            "strategy": _name_of(_STRATEGIES, self.strategy),
            "stride": self.stride,
        }


def padding(
    direction: str, pad_id: int, pad_type_id: int, pad_token: str, length: int | None, pad_to_multiple_of: int | None
) -> Padding:
    """Checked arguments of ``enable_padding``."""
    return Padding(
        None if length is None else checked_count("length", length),
        None if pad_to_multiple_of is None else checked_count("pad_to_multiple_of", pad_to_multiple_of),
        checked_id("pad_id", pad_id),
        checked_text("pad_token", pad_token),
        checked_id("pad_type_id", pad_type_id),
        checked_side(direction),
    )


def truncation(max_length: int, stride: int, strategy: str, direction: str) -> Truncation:
    """Checked arguments of ``enable_truncation``."""
    if checked_text("strategy", strategy) not in _STRATEGIES.values():
        raise ValueError(
            f"Unknown `strategy`: `{strategy}`. Use one of `longest_first`, `only_first`, or `only_second`"
        )
    counts = checked_count("max_length", max_length), checked_count("stride", stride)
    return Truncation(*counts, strategy, checked_side(direction))  # type: ignore[arg-type]


def padding_from_json(section: object) -> Padding | None:
    """The padding of a file's section."""
    if section is None:
        return None
    given = as_object(section, "padding")
    refuse_unknown(given, "strategy direction pad_to_multiple_of pad_id pad_type_id pad_token", "padding")
    strategy: Any = given.get("strategy")
    length = strategy.get("Fixed") if isinstance(strategy, dict) else None
    if strategy != "BatchLongest" and (length is None or len(strategy) != 1):
        raise VocabularyError(f'padding: strategy must be "BatchLongest" or {{"Fixed": n}}, not {brief(strategy)}')
    try:
        return padding(
            _choice(given, "direction", _SIDES, "padding"),
            given.get("pad_id", 0),
            given.get("pad_type_id", 0),
            given.get("pad_token", "[PAD]"),
            length,
            given.get("pad_to_multiple_of"),
        )
    except (TypeError, OverflowError) as error:
        raise VocabularyError(f"padding: {error}") from None


def truncation_from_json(section: object) -> Truncation | None:
    """The truncation of a file's section."""
    if section is None:
        return None
    given = as_object(section, "truncation")
    refuse_unknown(given, "direction max_length strategy stride", "truncation")
    direction = _choice({"direction": "Right", **given}, "direction", _SIDES, "truncation")
    strategy = _choice(given, "strategy", _STRATEGIES, "truncation")
    try:
        return truncation(given.get("max_length", ...), given.get("stride", ...), strategy, direction)
    except (TypeError, OverflowError) as error:
        raise VocabularyError(f"truncation: {error}") from None


def _choice(given: Mapping[str, Any], key: str, names: Mapping[str, str], where: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or value not in names:
        raise VocabularyError(f"{where}: {key} must be one of {', '.join(names)}, not {brief(value)}")
    return names[value]


def _name_of(names: Mapping[str, Literal["left", "right"] | Strategy], value: str) -> str:
    return next(name for name, each in names.items() if each == value)
