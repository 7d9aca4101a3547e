"""Files and directories: what kind of tokenizer one holds is told by its content, not by its name."""

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from numbatok.errors import VocabularyError
from numbatok.loading import rank_file, tekken, tokenizer_json
from numbatok.loading.checks import refuse_mark
from numbatok.memory import without_collection
from numbatok.parts import Parts

_KINDS = "a tokenizer.json, a rank file (.tiktoken, tokenizer.model) and a Tekken JSON"
_HEAD = 1 << 16  # bytes that are looked at to tell a file's kind


def load(
    path: str | PathLike[str], *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> Parts:
    """The parts of the tokenizer in a file or directory; errors name it."""
    path = os.fspath(path)  # open() would take an int for a descriptor, and close it: standard output, for 1
    if os.path.isdir(path):
        from numbatok.loading.directory import load as load_directory

        return load_directory(Path(path), pattern, special_tokens)
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            check_head(head)
            content = head + file.read()
        return parse(content, str(path), pattern, special_tokens)
    except VocabularyError as error:
        raise VocabularyError(f"{path}: {error}") from None


def check_head(head: bytes) -> None:
    """Refuse what no tokenizer file begins with, before the rest is read."""
    if rank_file.looks_like(head) or head.lstrip(b" \t\r\n")[:1] in (b"{", b""):
        return
    refuse_mark(head)
    if head.startswith(b"\n") and b"<unk>" in head[:64]:
        raise VocabularyError(f"a SentencePiece model is not supported; {_KINDS} are")
    raise VocabularyError(f"not a tokenizer.json, nor another known file: it begins with {head[:20]!r}; {_KINDS} are")


def parse(content: bytes, name: str, pattern: str | None, special_tokens: Mapping[str, int] | None) -> Parts:
    """The parts of the tokenizer in a file's content."""
    check_head(content[:_HEAD])
    if rank_file.looks_like(content[:_HEAD]):
        return rank_file.build(*rank_file.parse_ranks(content), pattern, special_tokens, name)
    for argument, value in (("pattern", pattern), ("special_tokens", special_tokens)):
        if value is not None:
            raise VocabularyError(f"{argument} is for files that do not say it, such as rank files; this is JSON")

    def made() -> Parts:
        settings = tokenizer_json.decode(content)
        if isinstance(settings, dict) and "model" not in settings and "config" in settings:
            return tekken.build(settings, name)
        return tokenizer_json.build(settings, name)

    return without_collection(made)
