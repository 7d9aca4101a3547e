"""Normalizers from the JSON of a tokenizer file."""

from collections.abc import Callable, Mapping
from reprlib import repr as shown  # of bounded length and depth
from typing import Any, cast

from numbatok.errors import VocabularyError
from numbatok.normalizers.edits import Lowercase, Prepend, Replace, Sequence, Strip, StripAccents
from numbatok.normalizers.forms import NFC, NFD, NFKC, NFKD
from numbatok.normalizers.normalizer import Normalizer

_Settings = dict[str, Any]


def _replace(settings: _Settings) -> Normalizer:
    pattern = settings["pattern"]
    if not isinstance(pattern, dict) or len(pattern) != 1 or not set(pattern) <= {"String", "Regex"}:
        raise VocabularyError(
            f'normalizer Replace: pattern is {shown(pattern)}, wanted {{"String": …}} or {{"Regex": …}}'
        )
    (kind, text), content = *pattern.items(), settings["content"]
    return Replace(_string("Replace", kind, text), _string("Replace", "content", content), kind == "Regex")


def _strip(settings: _Settings) -> Normalizer:
    for key in ("strip_left", "strip_right"):
        if not isinstance(settings[key], bool):
            raise VocabularyError(f"normalizer Strip: {key} is {shown(settings[key])}, wanted true or false")
    return Strip(settings["strip_left"], settings["strip_right"])


def _string(owner: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise VocabularyError(f"normalizer {owner}: {key} is {shown(value)}, wanted a string")
    return value


#: Of each type of normalizer: the keys it has besides "type", and what makes it from them.
_TYPES: dict[str, tuple[tuple[str, ...], Callable[[_Settings], Normalizer]]] = {
    "NFC": ((), lambda settings: NFC()),
    "NFD": ((), lambda settings: NFD()),
    "NFKC": ((), lambda settings: NFKC()),
    "NFKD": ((), lambda settings: NFKD()),
    "Lowercase": ((), lambda settings: Lowercase()),
    "StripAccents": ((), lambda settings: StripAccents()),
    "Strip": (("strip_left", "strip_right"), _strip),
    "Replace": (("pattern", "content"), _replace),
    "Prepend": (("prepend",), lambda settings: Prepend(_string("Prepend", "prepend", settings["prepend"]))),
}
_SUPPORTED = ", ".join([*_TYPES, "Sequence"])


def from_json(settings: object) -> Normalizer | None:
    """The normalizer of a tokenizer file's section ``normalizer``; None for null and for sequences of nothing.

    Raises
    ------
    VocabularyError : for types of normalizers and keys that are not known, and values that are not what they should be
    """
    if settings is None:
        return None
    found: list[Normalizer] = []
    waiting = [settings]
    while waiting:  # no recursion: sequences may be nested deeply
        section = waiting.pop()
        if not isinstance(section, Mapping):
            raise VocabularyError(f"a normalizer is {shown(section)}, wanted an object with a type")
        kind = section.get("type")
        if kind == "Sequence":
            _check_keys(kind, section, ("normalizers",))
            parts = section["normalizers"]
            if not isinstance(parts, list):
                raise VocabularyError(f"normalizer Sequence: normalizers is {shown(parts)}, wanted a list")
            waiting += reversed(parts)
        elif isinstance(kind, str) and kind in _TYPES:
            keys, make = _TYPES[kind]
            _check_keys(kind, section, keys)
            found.append(make(cast(_Settings, section)))
        else:
            raise VocabularyError(f"normalizer of type {shown(kind)} is not supported, only {_SUPPORTED}")
    if len(found) < 2:
        return found[0] if found else None
    return Sequence(tuple(found))


def _check_keys(kind: str, section: Mapping[str, Any], wanted: tuple[str, ...]) -> None:
    missing = [key for key in wanted if key not in section]
    if missing:
        raise VocabularyError(f"normalizer {kind} lacks {', '.join(missing)}")
    unknown = [str(key) for key in section if key not in (*wanted, "type")]
    if unknown:
        raise VocabularyError(f"normalizer {kind} has keys that are not known: {', '.join(unknown)[:200]}")
