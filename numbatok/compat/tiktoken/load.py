"""Rank files from a path or an address, by way of tiktoken's cache directory."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from numbatok.errors import VocabularyError
from numbatok.loading.byte_level import byte_of_character
from numbatok.loading.rank_file import parse_ranks, rank_file
from numbatok.writing import write_whole


def _blobfile() -> Any:
    """The package ``blobfile``, for addresses that are neither files nor on the web."""
    try:
        import blobfile
    except ImportError:
        raise ImportError("blobfile is not installed: pip install blobfile") from None
    return blobfile


def read_file(blobpath: str) -> bytes:
    """The content of a file: a path, an ``http`` or ``https`` address, or another one that ``blobfile`` reads.

    Raises OSError where it can't be read.
    """
    if "://" not in blobpath:
        return Path(blobpath).read_bytes()
    if blobpath.startswith(("http://", "https://")):
        from urllib.request import urlopen

        with urlopen(blobpath) as response:
            content: bytes = response.read()
        return content
    content = _blobfile().read_bytes(blobpath)
    return content


def check_hash(data: bytes, expected_hash: str) -> bool:
    """Whether the SHA-256 of ``data`` is this, in hexadecimal."""
    return hashlib.sha256(data).hexdigest() == expected_hash


def read_file_cached(blobpath: str, expected_hash: str | None = None) -> bytes:
    """The content of a file, from the cache directory, or else read and kept there.

    The directory is ``TIKTOKEN_CACHE_DIR``, or ``DATA_GYM_CACHE_DIR``, or ``data-gym-cache`` among temporary files; an
    empty name keeps nothing. A file there is called by the SHA-1 of its address. Raises ValueError where the content's
    SHA-256 is not ``expected_hash``; OSError where the file can't be read, or a directory of the caller's not be
    written.
    """
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if chosen == "":
        return read_file(blobpath)
    folder = Path(tempfile.gettempdir(), "data-gym-cache") if chosen is None else Path(chosen)
    path = folder / hashlib.sha1(blobpath.encode()).hexdigest()
    if path.exists():
        data = path.read_bytes()
        if expected_hash is None or check_hash(data, expected_hash):
            return data
        try:
            path.unlink()
        except OSError:
            pass
    data = read_file(blobpath)
    if expected_hash and not check_hash(data, expected_hash):
        raise ValueError(
            f"Hash mismatch for {blobpath}: its SHA-256 is {hashlib.sha256(data).hexdigest()}, wanted {expected_hash}. "
            "A download may have been cut short; please try again"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(data, path)
    except OSError:
        if chosen is not None:
            raise
    return data


def load_tiktoken_bpe(tiktoken_bpe_file: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The ranks in a rank file, a path or an address; ValueError names a line that can't be read."""
    try:
        return dict(zip(*parse_ranks(read_file_cached(tiktoken_bpe_file, expected_hash)), strict=True))
    except VocabularyError as error:
        raise ValueError(f"Error parsing {tiktoken_bpe_file}: {error}") from None


def dump_tiktoken_bpe(bpe_ranks: dict[bytes, int], tiktoken_bpe_file: str) -> None:
    """Write ranks as a rank file, in their order."""
    tokens = sorted(bpe_ranks, key=bpe_ranks.__getitem__)
    content = rank_file(tokens, [bpe_ranks[token] for token in tokens])
    if "://" not in tiktoken_bpe_file:
        Path(tiktoken_bpe_file).write_bytes(content)
        return
    with _blobfile().BlobFile(tiktoken_bpe_file, "wb") as file:
        file.write(content)


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: str,
    encoder_json_file: str,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> dict[bytes, int]:
    """The ranks of GPT-2's pair of files, ``vocab.bpe`` (merges) and ``encoder.json`` (ids).

    A token's rank is its merge's place after the 256 bytes, whose ids are taken from ``encoder.json`` with
    ``clobber_one_byte_tokens``. Raises AssertionError where the two files differ, as tiktoken does.
    """
    byte_of = byte_of_character()

    def spelled(token: str) -> bytes:
        return bytes(byte_of[character] for character in token)

    merges = read_file_cached(vocab_bpe_file, vocab_bpe_hash).decode().split("\n")[1:-1]
    ids = {
        spelled(token): id for token, id in json.loads(read_file_cached(encoder_json_file, encoder_json_hash)).items()
    }
    for special in (b"<|endoftext|>", b"<|startoftext|>"):
        ids.pop(special, None)
    ranks = {bytes([byte]): rank for rank, (_, byte) in enumerate(sorted(byte_of.items()))}
    for rank, merge in enumerate(merges, len(ranks)):
        first, second = merge.split()
        ranks[spelled(first) + spelled(second)] = rank
    if clobber_one_byte_tokens:
        ranks.update((token, id) for token, id in ids.items() if len(token) == 1)
    if ranks != ids:
        raise AssertionError(f"the merges of {vocab_bpe_file} and the ids of {encoder_json_file} differ")
    return ranks
