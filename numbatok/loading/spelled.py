"""A ``tokenizer.json``'s vocab and merges, from the strings that spell them to arrays.

The kernels of :mod:`numbatok.kernels.spelled` do the work. Importing this module imports Numba.
"""

import functools
import json
from collections.abc import Sequence
from itertools import chain, repeat
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.errors import VocabularyError
from numbatok.kernels import build, spelled
from numbatok.kernels.json_parts import ODD, STRING_SLACK
from numbatok.loading import byte_level
from numbatok.loading.checks import decode_json
from numbatok.memory import address_of
from numbatok.view import TOKEN_SLACK, View

Merges = bytes | Sequence[str | Sequence[str]]


def split_json(content: bytes) -> tuple[Any, bytes | None]:
    """The value of a JSON file without its merges, and the JSON of these; all, and None, where there are no merges.

    The merges of the value's model are an empty list. Raises what ``json.loads`` does.
    """
    data = np.frombuffer(content, np.uint8)
    span = np.zeros(2, np.int64)
    if len(data) == 0 or spelled.find_merges(address_of(data), len(data), address_of(span)) == ODD:
        return json.loads(str(content, "utf-8")), None
    begin, end = span.tolist()
    try:
        return json.loads(str(content[:begin] + b"[]" + content[end:], "utf-8")), content[begin:end]
    except ValueError:
        return json.loads(str(content, "utf-8")), None  # raises, with the right position


class Spelled:
    """Tokens as a file spells them, in order of their symbols, indexed."""

    def __init__(self, tokens: list[str]) -> None:
        try:
            encoded = list(map(str.encode, tokens))
        except UnicodeEncodeError as error:
            raise VocabularyError(f"token {error.object!r} has a lone surrogate: {error.reason}") from None
        self._tokens = tokens
        self._starts = np.zeros(len(tokens) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(tokens)), out=self._starts[1:])
        self._data = np.frombuffer(b"".join(encoded) + bytes(TOKEN_SLACK), np.uint8)
        self._view = View()
        self._view.set_tokens(self._data, self._starts)

    def data(self, unit: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(bytes of all tokens, where each begins and the end), the byte alphabet resolved where the unit is a byte."""
        if unit != "byte":
            return self._data[:-TOKEN_SLACK], self._starts
        data, starts = np.empty(len(self._data), np.uint8), np.empty(len(self._starts), np.int64)
        alphabet = _byte_of_point()
        strange = spelled.spell_out(self._view.address, address_of(alphabet), address_of(data), address_of(starts))
        data = data[: int(starts[-1])].copy()
        if strange:
            _check_different(data.tobytes(), starts.tolist(), self._tokens)
        return data, starts

    def rows(self, merges: Merges, prefix: str) -> npt.NDArray[np.uint32]:
        """uint32[merges, 3] rows (left, right, made) of symbols.

        Raises VocabularyError for a merge of another form, or of, or into, what is no token.
        """
        size = len(prefix.encode())
        if isinstance(merges, bytes):
            build.index_tokens(self._view.address)
            data = np.frombuffer(merges, np.uint8)
            rows = np.empty((len(data) // 5 + 1, 3), np.uint32)
            work = np.empty(len(data) + STRING_SLACK, np.uint8)
            places = address_of(work), address_of(rows), len(rows)
            count = spelled.resolve_merges(self._view.address, address_of(data), len(data), size, *places)
            if count != ODD:
                return rows[:count].copy()
            return self._rows_of_list(decode_json(merges, "a list of merges"), size)
        return self._rows_of_list(merges, size)

    def _rows_of_list(self, merges: Sequence[str | Sequence[str]], prefix: int) -> npt.NDArray[np.uint32]:
        """The same of Python's strings; ``prefix`` is in bytes."""
        symbol = dict(zip(self._tokens, range(len(self._tokens)), strict=True)).__getitem__
        rows = np.empty((len(merges), 3), np.uint32)
        try:
            lefts, rights = _flat(merges)
            joined = map(add, lefts, rights if not prefix else (_without(right, prefix) for right in rights))
            for column, strings in enumerate((lefts, rights, joined)):
                rows[:, column] = np.fromiter(map(symbol, strings), np.uint32, len(merges))
        except (KeyError, TypeError, ValueError):
            _explain(merges, set(self._tokens), prefix)
            raise
        return rows


@functools.cache
def _byte_of_point() -> npt.NDArray[np.uint16]:
    """uint16[0x200]: the byte that each character of the alphabet stands for, STRANGE for others."""
    table = np.full(0x200, spelled.STRANGE, np.uint16)
    for character, byte in byte_level.byte_of_character().items():
        table[ord(character)] = byte
    return table


def _check_different(data: bytes, starts: list[int], tokens: list[str]) -> None:
    """Refuse two tokens that stand for the same bytes, one in the byte alphabet and one as it is."""
    seen: dict[bytes, str] = {}
    for token, begin, end in zip(tokens, starts, starts[1:], strict=False):
        other = seen.setdefault(data[begin:end], token)
        if other is not token:
            raise VocabularyError(f"two tokens of the vocab stand for the same bytes, {other!r} and {token!r}")


def _flat(merges: Sequence[str | Sequence[str]]) -> tuple[list[str], list[str]]:
    """(left parts, right parts); ValueError or TypeError where a merge has another form."""
    if all(isinstance(merge, str) for merge in merges):
        if set(map(str.count, merges, repeat(" "))) - {1}:  # type: ignore[arg-type]
            raise ValueError("a merge has not one space")
        flat = " ".join(merges).split(" ") if merges else []  # type: ignore[arg-type]
    else:
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
        if not set(map(type, pairs)) <= {list, tuple} or set(map(len, pairs)) != {2}:
            raise ValueError("a merge has not two parts")
        flat = list(chain.from_iterable(pairs))
        if set(map(type, flat)) != {str}:
            raise ValueError("a part of a merge is not a string")
    return flat[::2], flat[1::2]


def _without(right: str, prefix: int) -> str:
    """The right part of a merge without the first ``prefix`` bytes of its UTF-8, which need not be the prefix."""
    spelling = right.encode()
    if len(spelling) < prefix:
        raise ValueError("the right part of a merge is shorter than the prefix")
    return spelling[prefix:].decode("utf-8", "surrogateescape")


def _explain(merges: Sequence[Any], tokens: set[str], prefix: int) -> None:
    """Raise the error for the first merge that is not as it should be."""
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        shown = repr(merge) if len(repr(merge)) <= 100 else repr(merge)[:97] + "..."
        if not isinstance(parts, list | tuple) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise VocabularyError(f"merge {rank} is {shown}; wanted two tokens with a space between, or a list of two")
        left, right = parts
        for part in (left, right):
            if part not in tokens:
                raise VocabularyError(f"merge {rank} ({shown}) needs {part!r:.100}, which is not in the vocab")
        if len(right.encode()) < prefix:
            raise VocabularyError(
                f"merge {rank} ({shown}): its right part is shorter than the prefix of {prefix} bytes"
            )
        if left + _without(right, prefix) not in tokens:
            made = left + _without(right, prefix)
            raise VocabularyError(f"merge {rank} ({shown}) needs {made!r:.100}, which is not in the vocab")
