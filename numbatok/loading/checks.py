"""Checks of JSON values, with errors that say where, what was given, and what is wanted."""

import codecs
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from numbatok.errors import VocabularyError

_WANTED = {str: "a string", bool: "true or false", int: "an integer", list: "a list", dict: "an object"}
_REQUIRED: Any = object()
_ENCODER = json.JSONEncoder(ensure_ascii=False)

LONGEST_SHOWN = 100  # characters of a value in an error
#: An escape in JSON: a pair of surrogates, a lone one, which is the group, or another.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)


@contextmanager
def json_errors(what: str) -> Iterator[None]:
    """Turn what reading JSON raises into an error that says ``what`` it should have been."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise VocabularyError(f"not {what}: not UTF-8 text at byte {error.start}") from None
    except VocabularyError:
        raise
    except ValueError as error:  # JSONDecodeError, or an integer of thousands of digits
        raise VocabularyError(f"not {what}: {error}") from None
    except RecursionError:
        raise VocabularyError(f"not {what}: nested too deeply") from None


def decode_json(content: str | bytes, what: str) -> Any:
    """The value of a JSON text; ``what`` it should be is named where it is none."""
    with json_errors(what):
        return json.loads(content if isinstance(content, str) else str(content, "utf-8"))


def refuse_mark(content: bytes) -> None:
    """Refuse a file that begins with a byte order mark, as ``tokenizers`` does."""
    if content.startswith(codecs.BOM_UTF8):
        raise VocabularyError("not a tokenizer.json: it begins with a byte order mark (BOM); save it as UTF-8 without")


def refuse_lone_surrogates(content: bytes, what: str) -> None:
    """Refuse a JSON text, which is one, where an escape is half a pair: it stands for no character, nor for UTF-8."""
    if b"\\ud" in content or b"\\uD" in content:
        for escape in _ESCAPE.finditer(content):
            if escape[1]:
                raise VocabularyError(
                    f"not {what}: \\{escape[1].decode()} at byte {escape.start()} is a lone surrogate"
                )


def brief(value: object) -> str:
    """A value as JSON, on one line and not too long; no more is made of it, however deep and large it is."""
    text = ""
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > LONGEST_SHOWN:
            return text[: LONGEST_SHOWN - 3] + "..."
    return text


def as_object(value: object, where: str) -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise VocabularyError(f"{where} must be an object, not {brief(value)}")
    return value


def as_list(value: object, where: str) -> list[Any]:
    """The value, which must be a JSON list."""
    if not isinstance(value, list):
        raise VocabularyError(f"{where} must be a list, not {brief(value)}")
    return value


def refuse_unknown(settings: dict[str, Any], known: str, where: str) -> None:
    """Refuse a key that is not among the ``known`` ones, which are separated by blanks."""
    for key in settings:
        if key not in known.split():
            raise VocabularyError(f"{where} has {key!r} ({brief(settings[key])}), which is not supported")


def take(settings: dict[str, Any], key: str, kind: type, where: str, default: Any = _REQUIRED) -> Any:
    """The value of a key, which must be of this JSON type; ``default`` stands for an absent one."""
    value = settings.get(key, default)
    if value is _REQUIRED:
        raise VocabularyError(f"{where} has no {key}; wanted {_WANTED[kind]}")
    if value is not default and type(value) is not kind:
        raise VocabularyError(f"{where}: {key} must be {_WANTED[kind]}, not {brief(value)}")
    return value


def not_supported(what: str, kind: object, supported: str) -> NoReturn:
    """Refuse a component by its type."""
    raise VocabularyError(f"{what} {brief(kind)} is not supported; {supported} are")
