"""The sink: encoded blocks to shards, the account of what is in them, and where a run stands."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch
from numbatok.displays.escapes import many
from numbatok.notices import log
from numbatok.pipelines import manifest
from numbatok.pipelines.blocks import Block, Fault
from numbatok.pipelines.encoder import Encoded
from numbatok.pipelines.readers import Place
from numbatok.pipelines.writers import OutputFormat, Shard, new_shard

NAMED_FAULTS = 100  # that the manifest and the report list; all are counted


@dataclass(frozen=True)
class Report:
    """What a run has done.

    Attributes
    ----------
    path : the folder with the shards and ``manifest.json``
    documents, tokens, bytes : of all shards; bytes of the texts as UTF-8
    nulls : documents among them that were null
    faults : how many files, lines, rows or documents could not be encoded and were left out
    named_faults : the first of them
    shards : how many there are
    seconds : that this call took
    encoded_bytes : of the texts that this call encoded: fewer where it went on with a run that was broken off
    """

    path: Path
    documents: int
    tokens: int
    bytes: int
    nulls: int
    faults: int
    named_faults: list[Fault] = field(repr=False)
    shards: int
    seconds: float
    encoded_bytes: int

    @property
    def megabytes_per_second(self) -> float:
        """Text that this call encoded, in 10^6 bytes a second."""
        return self.encoded_bytes / 1e6 / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        left_out = f", {self.faults:,} bad left out" if self.faults else ""
        speed = f"{self.seconds:.1f} s, {self.megabytes_per_second:.1f} MB/s"
        return (
            f"{self.path}: {many(self.documents, 'document')}, {many(self.tokens, 'token')}, "
            f"{many(self.bytes, 'byte')} of text in {many(self.shards, 'shard')}{left_out}; "
            f"{speed if self.encoded_bytes or not self.bytes else 'all was there already'}"
        )


class Sink:
    """Encoded blocks to shards, with the account of what is in them."""

    def __init__(
        self,
        folder: Path,
        head: dict[str, Any],
        id_type: np.dtype[Any],
        output_format: OutputFormat,
        shard_size: int,
        overwrite: bool,
    ) -> None:
        self._folder, self._head, self._id_type = folder, head, id_type
        self._format, self._shard_size = output_format, shard_size
        self._shard: Shard | None = None
        self._in_shard = {"documents": 0, "tokens": 0, "bytes": 0, "nulls": 0}
        self._part_tokens = 0
        self._shards: list[dict[str, Any]] = []
        self.totals = {"documents": 0, "tokens": 0, "bytes": 0, "nulls": 0, "faults": 0}
        self._faults: list[Fault] = []
        self.place = Place()
        self.finished = False
        #: The first manifest, on its way to the disk while the first blocks are encoded; no shard begins before.
        self._beginning: Future[None] | None = None
        self._take_up(overwrite)

    def _take_up(self, overwrite: bool) -> None:
        """Stand where an earlier run of the same kind has come to, or at the beginning."""
        folder = self._folder
        if overwrite:
            for name in (manifest.NAME, manifest.UNFINISHED):
                (folder / name).unlink(missing_ok=True)
            manifest.remove_partial(folder, set())
        found = manifest.read(folder, manifest.NAME) or manifest.read(folder, manifest.UNFINISHED)
        if found is None:
            strangers = manifest.shard_files(folder)
            if strangers:
                raise ValueError(
                    f"{strangers[0]}: is in the way, and no manifest lists it; name another folder, or pass "
                    "overwrite=True to remove such files"
                )
            crew = ThreadPoolExecutor(1, "numbatok manifest")
            self._beginning = crew.submit(self._save)
            crew.shutdown(wait=False)
            return
        manifest.compare(folder, found, self._head)
        manifest.check_files(folder, found)
        self._shards = found["shards"]
        self.totals = {name: found[name] for name in self.totals}
        self._faults = [Fault(*fault) for fault in found["named_faults"]]
        self.finished = "resume" not in found
        manifest.remove_partial(folder, {file["name"] for shard in self._shards for file in shard["files"]})
        if self.finished:
            (folder / manifest.UNFINISHED).unlink(missing_ok=True)
        else:
            self.place = Place(*found["resume"])

    def _content(self) -> dict[str, Any]:
        return {**self._head, **self.totals, "named_faults": self._faults, "shards": self._shards}

    def _save(self) -> None:
        manifest.write(self._folder, manifest.UNFINISHED, {**self._content(), "resume": self.place})

    def _begun(self) -> None:
        """Wait for the first manifest; OSError where it cannot be written."""
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            beginning.result()

    def add(self, encoded: Encoded) -> None:
        """Write a block's ids."""
        self._begun()
        block, batch = encoded.block, encoded.batch
        if block.part is not None:
            self._add_part(block, batch, encoded.part_bytes)
            return
        done = 0
        while done < len(batch):
            room = self._shard_size - self._in_shard["tokens"] * self._id_type.itemsize
            ends = batch.offsets[done + 1 :]
            wanted = batch.offsets[done] + -(-room // self._id_type.itemsize)
            stop = min(done + int(np.searchsorted(ends, wanted)) + 1, len(batch))
            carried = None if block.carried is None else block.carried.slice(done, stop - done)
            documents = batch if stop - done == len(batch) else batch[done:stop]
            self._open().write(documents, carried)
            nulls = 0 if documents.validity is None else int((~documents.validity).sum())
            for fault in (fault for at, fault in block.faults if done <= at < stop):
                self._note(fault)
            size = int(block.texts.lengths[done:stop].sum())
            self._count(stop - done, len(documents.ids), size, nulls, block.places[stop - 1])
            done = stop
        for fault in (fault for at, fault in block.faults if at >= len(batch)):
            self._note(fault)

    def _add_part(self, block: Block, batch: TokenBatch, size: int) -> None:
        self._open().write_part(batch.ids)
        self._part_tokens += len(batch.ids)
        if block.more:
            return
        self._open().end_document(keep=not block.faults)
        for _, fault in block.faults:
            self._note(fault)
        if not block.faults:
            self._count(1, self._part_tokens, size, 0, block.places[0])
        self._part_tokens = 0

    def _open(self) -> Shard:
        if self._shard is None:
            self._shard = new_shard(self._folder, len(self._shards), self._id_type, self._format)
        return self._shard

    def _note(self, fault: Fault) -> None:
        """Count a fault, and name it in the log."""
        log.warning("left out: %s", fault)
        self.totals["faults"] += 1
        if len(self._faults) < NAMED_FAULTS:
            self._faults.append(fault)

    def _count(self, documents: int, tokens: int, size: int, nulls: int, place: npt.NDArray[np.int64]) -> None:
        """Enter documents into the account, and end the shard if it is large enough."""
        for name, count in (("documents", documents), ("tokens", tokens), ("bytes", size), ("nulls", nulls)):
            self.totals[name] += count
            self._in_shard[name] += count
        self.place = Place(*place.tolist())
        if self._in_shard["tokens"] * self._id_type.itemsize >= self._shard_size:
            self._end_shard()
            self._save()

    def _end_shard(self) -> None:
        assert self._shard is not None
        files = self._shard.finish()
        self._shard = None
        self._shards.append({**self._in_shard, "files": files})
        self._in_shard = dict.fromkeys(self._in_shard, 0)

    def finish(self) -> None:
        """End the last shard, and give the manifest its name."""
        self._begun()
        if self._shard is not None:
            if self._in_shard["documents"]:
                self._end_shard()
            else:  # begun by a document that turned out to be bad
                self._shard.discard()
                self._shard = None
        manifest.write(self._folder, manifest.NAME, self._content())
        (self._folder / manifest.UNFINISHED).unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what is not whole; the whole shards stay, for a run that goes on."""
        with suppress(OSError):
            self._begun()
        if self._shard is not None:
            self._shard.discard()

    def report(self, seconds: float, encoded_bytes: int) -> Report:
        """What there is now."""
        return Report(
            self._folder,
            **self.totals,
            named_faults=self._faults,
            shards=len(self._shards),
            seconds=seconds,
            encoded_bytes=encoded_bytes,
        )
