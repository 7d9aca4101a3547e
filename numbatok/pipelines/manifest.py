"""The manifest: what a run was asked for, and what it has made; while it goes on, where it stands."""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from numbatok.parts import Parts
from numbatok.pipelines.writers import PARTIAL

FORMAT, VERSION = "numbatok tokens", 2
NAME = "manifest.json"
UNFINISHED = "manifest.unfinished.json"

_SHARD_FILE = re.compile(r"tokens-\d{5,}\.\w+(\.npy)?(\.partial)?")


def digest_of(parts: Parts) -> str:
    """The SHA-256 of what a tokenizer consists of, its name left out: the same for all that are equal."""
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    """Add a value, each with its kind and size, so that no two are written alike."""
    if is_dataclass(value):
        digest.update(f"{type(value).__name__}(".encode())
        for part in fields(value):
            if part.compare:
                digest.update(f"{part.name}=".encode())
                _feed(digest, getattr(value, part.name))
        digest.update(b")")
    elif isinstance(value, np.ndarray):
        digest.update(f"array {value.dtype.str} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        _feed(digest, sorted(value.items()))
    elif isinstance(value, set | frozenset):
        _feed(digest, sorted(value))
    elif isinstance(value, list | tuple):
        digest.update(f"sequence {len(value)}:".encode())
        for item in value:
            _feed(digest, item)
    elif isinstance(value, str | bytes):
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        digest.update(f"{type(value).__name__} {len(data)}:".encode())
        digest.update(data)
    elif value is None or isinstance(value, bool | int | float):
        digest.update(f"{value!r};".encode())
    elif hasattr(value, "__iter__"):  # AddedTokens
        _feed(digest, list(value))
    else:
        raise AssertionError(f"{type(value).__name__} is not known to the digest of tokenizers")


def write(folder: Path, name: str, content: dict[str, Any]) -> None:
    """Write a manifest, whole or not at all."""
    partial = folder / (name + PARTIAL)
    # A file's name may not be UTF-8: what stands for its bytes is written as an escape, as JSON has them too.
    data = (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "backslashreplace")
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, folder / name)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def read(folder: Path, name: str) -> dict[str, Any] | None:
    """The content of a manifest, or None where there is none. Raises ValueError for what is none of this version."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{folder / name}: not a manifest of numbatok: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{folder / name}: not a manifest of numbatok")
    if content.get("version") != VERSION:
        raise ValueError(
            f"{folder / name}: a manifest of version {content.get('version')}, and this numbatok reads version "
            f"{VERSION}; take the one that wrote it, or encode again with overwrite=True"
        )
    return content


def compare(folder: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """ValueError that names what differs between a run that was begun in a folder, and the one that is asked for.

    What is there of a run that has not ended must be gone on with by the same versions of what makes the files: another
    one may write other bytes.
    """
    differing = [
        f"{name} ({found['settings'].get(name)!r}, now {value!r})"
        for name, value in wanted["settings"].items()
        if found["settings"].get(name) != value
    ]
    if found["tokenizer"]["sha256"] != wanted["tokenizer"]["sha256"]:
        differing.insert(0, "tokenizer")
    if found["inputs"] != wanted["inputs"]:
        differing.append("inputs, or their sizes")
    if "resume" in found:
        for name in ("numbatok", "pyarrow"):
            if found.get(name) != wanted.get(name):
                differing.append(f"{name} ({found.get(name)}, now {wanted.get(name)})")
    if differing:
        raise ValueError(
            f"{folder} holds the output of a run that differs in: {'; '.join(differing)}. Go on with the same, name "
            "another folder, or pass overwrite=True to begin anew"
        )


def file_of(folder: Path, file: dict[str, Any]) -> Path:
    """Where a file that a manifest lists is.

    Raises FileNotFoundError where it is missing, and ValueError where its size is not what was written.
    """
    path = folder / str(file["name"])
    remedy = "put back the file, or encode again with overwrite=True"
    try:
        size = os.path.getsize(path)
    except FileNotFoundError:
        raise FileNotFoundError(2, f"is missing, but was written; {remedy}", str(path)) from None
    if size != file["bytes"]:
        raise ValueError(f"{path}: has {size} bytes, but {file['bytes']} were written; {remedy}")
    return path


def check_files(folder: Path, content: dict[str, Any]) -> None:
    """The exceptions of :func:`file_of` for the first of a manifest's files that is not as it was written."""
    for shard in content["shards"]:
        for file in shard["files"]:
            file_of(folder, file)


def shard_files(folder: Path) -> list[Path]:
    """The files in a folder that are named as shards are, whole or not."""
    return [path for path in folder.iterdir() if _SHARD_FILE.fullmatch(path.name)]


def remove_partial(folder: Path, whole: set[str]) -> None:
    """Remove what an earlier run has left: files that were not whole, or that it did not come to enter."""
    for path in shard_files(folder):
        if path.name not in whole:
            path.unlink()
    for name in (NAME, UNFINISHED):
        with suppress(FileNotFoundError):
            (folder / (name + PARTIAL)).unlink()
