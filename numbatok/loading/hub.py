"""Tokenizers by the name of a repository on the Hugging Face Hub, through ``huggingface_hub`` and its cache."""

import functools
import os
from dataclasses import replace
from pathlib import Path

from numbatok.errors import VocabularyError
from numbatok.loading import directory, files
from numbatok.parts import Parts


class Repository:
    """The files of a repository, in the cache or downloaded into it.

    Attributes
    ----------
    absent : why a file could not be looked for, as there was no network; None if there was no such file
    """

    def __init__(
        self, name: str | os.PathLike[str], *, revision: str | None, token: str | bool | None, local_files_only: bool
    ) -> None:
        try:
            import huggingface_hub
            from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
        except ImportError:
            raise ImportError(
                f"{os.fspath(name)!r} is no directory, so it is looked for on the Hugging Face Hub, which needs "
                "huggingface_hub: pip install numbatok[hub]"
            ) from None
        self._download = functools.partial(
            huggingface_hub.hf_hub_download, revision=revision, token=token, local_files_only=local_files_only
        )
        self._name = os.fspath(name)
        self._local_only, self._not_there = LocalEntryNotFoundError, EntryNotFoundError
        self.absent: Exception | None = None

    def fetch(self, file: str) -> Path | None:
        """The file in the cache, downloaded if it is new; None where the repository has none."""
        try:
            return Path(self._download(self._name, file))
        except self._local_only as error:  # offline: it may be there and was never downloaded
            self.absent = error
        except self._not_there:
            pass
        return None


def load(
    name: str | os.PathLike[str], *, revision: str | None, token: str | bool | None, local_files_only: bool
) -> Parts:
    """The parts of the tokenizer in a repository, or in the local directory of that name."""
    if os.path.isdir(name):
        return files.load(name)
    repository = Repository(name, revision=revision, token=token, local_files_only=local_files_only)
    for file in directory.WHOLE:
        path = repository.fetch(file)
        if path is not None:
            return replace(files.load(path), name=os.fspath(name))
    for group in (directory.PAIR, *((file,) for file in directory.RANKS)):
        paths = [repository.fetch(file) for file in group]
        if paths[0] is not None and None not in paths:
            for file in directory.BESIDE:
                repository.fetch(file)
            return replace(files.load(paths[0].parent), name=os.fspath(name))
    if repository.absent is not None:
        raise OSError(
            f"no tokenizer of {os.fspath(name)!r} is in the local cache of the Hugging Face Hub, and the Hub was not "
            f"asked or not reached ({repository.absent})"
        )
    raise VocabularyError(
        f"the repository {os.fspath(name)!r} has no tokenizer: wanted {', '.join(directory.WHOLE)}, vocab.json with "
        f"merges.txt, or {' or '.join(directory.RANKS)}"
    )
