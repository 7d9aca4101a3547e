"""Decoders: how the strings of tokens become a text where tokens are not bytes, as in Llama 2's or Gemma's files.

Each step changes a list of strings; in the end they are joined. A byte-level tokenizer needs none: its tokens' bytes
joined are the text's UTF-8.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from numbatok.errors import VocabularyError
from numbatok.loading.checks import as_list, as_object, brief, not_supported, refuse_unknown, take

_BYTE = re.compile("<0x([0-9a-fA-F]{2})>")
BYTE_TOKEN = len("<0x00>")


def is_byte(token: str) -> bool:
    """Whether a token stands for a byte: ``<0xE2>``."""
    return len(token) == BYTE_TOKEN and _BYTE.fullmatch(token) is not None


class Step(ABC):
    """A change of the strings of tokens."""

    @abstractmethod
    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""


@dataclass(frozen=True)
class Replace(Step):
    """Each ``old`` in a string becomes ``new``."""

    old: str
    new: str

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        return [token.replace(self.old, self.new) for token in tokens]


@dataclass(frozen=True)
class ByteFallback(Step):
    """Tokens ``<0xE2>`` in a row become the text that they are the UTF-8 of, or U+FFFD each if they are none."""

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        done: list[str] = []
        run = bytearray()
        for token in [*tokens, None]:
            byte = token and _BYTE.fullmatch(token)
            if byte:
                run.append(int(byte[1], 16))
                continue
            if run:
                try:
                    done.append(run.decode())
                except UnicodeDecodeError:
                    done += ["\ufffd"] * len(run)
                run.clear()
            if token is not None:
                done.append(token)
        return done


@dataclass(frozen=True)
class Fuse(Step):
    """All strings become one."""

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        return ["".join(tokens)]


@dataclass(frozen=True)
class Strip(Step):
    """Each string loses up to ``start`` of a character at its start, and up to ``stop`` at its end."""

    content: str
    start: int
    stop: int

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        return [self._strip(token) for token in tokens]

    def _strip(self, token: str) -> str:
        begin, end = 0, len(token)
        while begin < min(self.start, len(token)) and token[begin] == self.content:
            begin += 1
        while end > max(begin, len(token) - self.stop) and token[end - 1] == self.content:
            end -= 1
        return token[begin:end]


@dataclass(frozen=True)
class Metaspace(Step):
    """``replacement`` becomes U+0020, but in the first string, where it goes if one was put before the text."""

    replacement: str
    prepended: bool

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        done = [token.replace(self.replacement, " ") for token in tokens]
        if self.prepended and done:
            done[0] = tokens[0].replace(self.replacement, "")
        return done


@dataclass(frozen=True)
class Suffix(Step):
    """The suffix of a word's last token becomes U+0020, and nothing in the last string."""

    suffix: str

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        last = len(tokens) - 1
        return [token.replace(self.suffix, " " if i < last else "") for i, token in enumerate(tokens)]


@dataclass(frozen=True)
class Spaced(Step):
    """U+0020 between all strings, which is what ``tokenizers`` does where a file has no decoder."""

    def apply(self, tokens: list[str]) -> list[str]:
        """The strings after the change."""
        return [" ".join(tokens)]


Decoder = tuple[Step, ...]


def decode(tokens: Sequence[str], decoder: Decoder) -> str:
    """The text of tokens.

    >>> decode(["▁Hello", "▁", "<0xE2>", "<0x82>", "<0xAC>"], (Replace("▁", " "), ByteFallback(), Fuse()))
    ' Hello €'
    """
    strings = list(tokens)
    for step in decoder:
        strings = step.apply(strings)
    return "".join(strings)


def from_json(settings: object, byte_level: bool) -> Decoder:
    """The decoder of a ``tokenizer.json``'s section; none for a byte-level vocabulary, whose bytes are the text."""
    if settings is None:
        return () if byte_level else (Spaced(),)
    waiting, steps = [settings], []
    while waiting:  # no recursion: sequences may be nested deeply
        section = as_object(waiting.pop(), "decoder")
        kind = section.get("type")
        if kind == "Sequence":
            refuse_unknown(section, "type decoders", "decoder Sequence")
            waiting += reversed(as_list(section.get("decoders"), "decoder Sequence: decoders"))
        elif byte_level and kind == "ByteLevel":
            refuse_unknown(section, "type add_prefix_space trim_offsets use_regex", "decoder ByteLevel")
        elif byte_level and kind != "Fuse":
            not_supported("decoder", kind, "with a ByteLevel pre_tokenizer ByteLevel, Fuse and Sequence")
        elif not byte_level:
            steps.append(_step(section, kind))
    return tuple(steps)


def _step(section: dict[str, object], kind: object) -> Step:
    where = f"decoder {kind}"
    if kind == "Replace":
        refuse_unknown(section, "type pattern content", where)
        pattern = section.get("pattern")
        if not isinstance(pattern, dict) or list(pattern) != ["String"] or not isinstance(pattern["String"], str):
            raise VocabularyError(f'{where}: pattern {brief(pattern)} is not supported; {{"String": …}} is')
        if not pattern["String"]:
            raise VocabularyError(f"{where}: the pattern is empty")
        return Replace(pattern["String"], take(section, "content", str, where))
    if kind == "ByteFallback" or kind == "Fuse":
        refuse_unknown(section, "type", where)
        return ByteFallback() if kind == "ByteFallback" else Fuse()
    if kind == "Strip":
        refuse_unknown(section, "type content start stop", where)
        start, stop = (take(section, key, int, where) for key in ("start", "stop"))
        if min(start, stop) < 0:
            raise VocabularyError(f"{where}: start and stop must not be negative")
        return Strip(_character(section, "content", where), start, stop)
    if kind == "Metaspace":
        refuse_unknown(section, "type replacement add_prefix_space prepend_scheme split str_rep", where)
        scheme = section.get("prepend_scheme", "always")
        if scheme not in ("always", "first", "never"):
            raise VocabularyError(f"{where}: prepend_scheme must be always, first or never, not {brief(scheme)}")
        if section.get("add_prefix_space", True) is not True and scheme != "never":
            raise VocabularyError(f"{where}: add_prefix_space false with the prepend_scheme {scheme} makes no sense")
        return Metaspace(_character(section, "replacement", where), scheme != "never")
    if kind == "BPEDecoder":
        refuse_unknown(section, "type suffix", where)
        suffix = take(section, "suffix", str, where)
        if not suffix:
            raise VocabularyError(f"{where}: the suffix is empty")
        return Suffix(suffix)
    not_supported("decoder", kind, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder and Sequence")


def _character(section: dict[str, object], key: str, where: str) -> str:
    value = take(section, key, str, where)
    if len(value) != 1:
        raise VocabularyError(f"{where}: {key} must be one character, not {brief(value)}")
    return str(value)
