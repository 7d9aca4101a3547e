"""Reading back what :func:`numbatok.pipelines.encode_files` has written."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.calls import AnyIds
from numbatok.displays.escapes import many
from numbatok.pipelines import manifest
from numbatok.pipelines.writers import MEGATRON_CODES, MEGATRON_MAGIC, crc_of, shown_crc
from numbatok.rows import library
from numbatok.tokenizer import Tokenizer


class TokenFiles:
    """The documents of a run's shards, which are mapped, not read, but for Parquet and Arrow.

    Made by :func:`numbatok.open_tokens`. Indexing gives one document's ids (a view of the map, read-only), slicing a
    :class:`numbatok.TokenBatch`.

    Attributes
    ----------
    path : the folder
    manifest : what ``manifest.json`` holds, as a dict
    tokens : how many ids there are in all
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.manifest = path, content
        self.tokens = int(content["tokens"])
        self._dtype = np.dtype(content["settings"]["dtype"]).newbyteorder("<")
        counts = [shard["documents"] for shard in content["shards"]]
        self._edges = np.append(np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64)))
        self._open: dict[int, TokenBatch] = {}

    def __len__(self) -> int:
        return int(self._edges[-1])

    def __repr__(self) -> str:
        return f"<numbatok.TokenFiles {str(self.path)!r}, {many(len(self), 'document')}, {many(self.tokens, 'id')}>"

    @overload
    def __getitem__(self, index: int) -> AnyIds: ...
    @overload
    def __getitem__(self, index: slice) -> TokenBatch: ...
    def __getitem__(self, index: int | slice) -> "AnyIds | TokenBatch":
        if isinstance(index, slice):
            return self._batch(range(len(self))[index])
        number = _number_of(index, "document", len(self), "the index must be an integer or a slice")
        shard = int(np.searchsorted(self._edges, number, side="right")) - 1
        return self.shard(shard)[number - int(self._edges[shard])]

    def __iter__(self) -> Iterator[AnyIds]:
        for number in range(len(self.manifest["shards"])):
            yield from self.shard(number)

    def _batch(self, numbers: range) -> TokenBatch:
        if len(numbers) == 0:
            return TokenBatch(np.empty(0, self._dtype), np.zeros(1, np.int64))
        if numbers.step < 0:
            backwards = self._batch(numbers[::-1])
            return backwards.take(np.arange(len(backwards))[::-1])
        parts = []
        wanted = np.array(numbers, np.int64)
        shards = np.searchsorted(self._edges, wanted, side="right") - 1
        for shard in np.unique(shards).tolist():
            inside = wanted[shards == shard] - self._edges[shard]
            parts.append(self.shard(shard)[int(inside[0]) : int(inside[-1]) + 1 : numbers.step])
        return parts[0] if len(parts) == 1 else TokenBatch.concatenate(parts)

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self.manifest["shards"])

    def shard(self, number: int) -> TokenBatch:
        """The documents of one shard. The last of Parquet or Arrow is kept in memory, of others all maps."""
        number = _number_of(number, "shard", self.shards, "number must be an integer")
        if number not in self._open:
            batch = self._load(self.manifest["shards"][number])
            if self.manifest["settings"]["output_format"] in ("parquet", "arrow"):
                self._open.clear()
            self._open[number] = batch
        return self._open[number]

    def decode(self, index: int, tokenizer: Tokenizer, *, skip_special_tokens: bool = False) -> str:
        """The text of a document. Raises ValueError unless the tokenizer is the one that made it."""
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"tokenizer must be a numbatok.Tokenizer, not {type(tokenizer).__name__}")
        if manifest.digest_of(tokenizer._content()) != self.manifest["tokenizer"]["sha256"]:
            raise ValueError(f"{self.path} was made by another tokenizer than {tokenizer!r}")
        return tokenizer.decode(self[index], skip_special_tokens=skip_special_tokens)

    def verify(self) -> None:
        """Read all files, and raise ValueError that names the first which is not what was written."""
        for shard in self.manifest["shards"]:
            for file in shard["files"]:
                path = manifest.file_of(self.path, file)
                if shown_crc(crc_of(path)) != file["crc32"]:
                    raise ValueError(f"{path}: is not what was written: its CRC-32 is another than the manifest's")

    def _load(self, shard: dict[str, Any]) -> TokenBatch:
        # Sizes once more: a map of a file that has become shorter would end the process.
        first, *rest = (manifest.file_of(self.path, file) for file in shard["files"])
        kind = self.manifest["settings"]["output_format"]
        if kind == "parquet":
            parquet = library("pyarrow.parquet", "arrow", "reading Parquet files")
            return _batch_of(parquet.read_table(first, columns=["ids"])["ids"])
        if kind == "arrow":
            pyarrow = library("pyarrow", "arrow", "reading Arrow files")
            with pyarrow.OSFile(str(first)) as file:
                return _batch_of(pyarrow.ipc.open_file(file).read_all()["ids"])
        if kind == "megatron":
            return TokenBatch(_mapped(first, self._dtype), _megatron_offsets(rest[0]))
        offsets = np.load(rest[0])
        ids = np.load(first, mmap_mode="r") if kind == "npy" else _mapped(first, self._dtype)
        return TokenBatch(ids, offsets)


def _number_of(index: object, what: str, count: int, wanted: str) -> int:
    """Which of ``count`` documents or shards an index means; negative ones count from the end."""
    if isinstance(index, bool | np.bool_) or not isinstance(index, SupportsIndex):
        raise TypeError(f"{wanted}, not {type(index).__name__}")
    try:
        return range(count)[index]
    except IndexError:
        raise IndexError(f"{what} {index} is out of range for {many(count, what)}") from None
    except TypeError:  # an array of more than one element has __index__, too
        raise TypeError(f"{wanted}, not {type(index).__name__}") from None


def _mapped(path: Path, dtype: np.dtype[Any]) -> AnyIds:
    if os.path.getsize(path) == 0:
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _batch_of(column: Any) -> TokenBatch:
    """The ids of a column of lists."""
    lists = column.combine_chunks()
    lists = lists.chunk(0) if hasattr(lists, "chunk") else lists
    ends = lists.offsets.to_numpy().astype(np.int64)
    valid = lists.is_valid().to_numpy(zero_copy_only=False) if lists.null_count else None
    if valid is not None and (np.diff(ends)[~valid] > 0).any():
        raise ValueError("the column of ids has ids where it is null: it is damaged")
    return TokenBatch(lists.values.to_numpy(), ends, validity=valid)


def _megatron_offsets(path: Path) -> npt.NDArray[np.int64]:
    """Where documents begin, by an ``.idx`` file."""
    data = path.read_bytes()
    header = struct.Struct("<QBQQ")
    if not data.startswith(MEGATRON_MAGIC):
        raise ValueError(f"{path}: is no index of Megatron-LM")
    version, code, count, _ = header.unpack_from(data, len(MEGATRON_MAGIC))
    if version != 1 or code not in MEGATRON_CODES.values():
        raise ValueError(f"{path}: an index of version {version} and type {code} is not what numbatok writes")
    lengths = np.frombuffer(data, "<i4", count, len(MEGATRON_MAGIC) + header.size)
    return np.append(np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))


def open_tokens(path: "str | os.PathLike[str]") -> TokenFiles:
    """The documents that ``encode_files`` or ``numbatok encode`` has written to a folder.

    Raises FileNotFoundError where there is no ``manifest.json``, as while the run goes on, or a shard's file is
    missing, and ValueError where the size of one is not what was written; :meth:`TokenFiles.verify` reads them all.

    >>> tokens = numbatok.open_tokens("tokens")
    >>> len(tokens), tokens.tokens, tokens[0], tokens[10:20].tolist()
    """
    folder = Path(path)
    if folder.name == manifest.NAME:
        folder = folder.parent
    content = manifest.read(folder, manifest.NAME)
    if content is None:
        begun = " (a run that was broken off; the same call again ends it)" * (folder / manifest.UNFINISHED).exists()
        raise FileNotFoundError(2, f"no manifest.json is there{begun}", str(folder))
    manifest.check_files(folder, content)
    return TokenFiles(folder, content)
