"""From a corpus to files of tokens: readers, writers, and the run that joins them.

>>> from numbatok.pipelines import encode_files
>>> report = encode_files(numbatok.get_encoding("gpt2"), ["corpus/*.jsonl.gz"], "tokens", append_eos=True)
>>> tokens = numbatok.open_tokens("tokens")

``inputs`` finds and opens files, ``readers`` makes ``blocks`` of documents of them, ``json_lines`` takes the texts out
of lines, ``encoder`` makes ids of them, which ``ends`` ends, and ``sink`` shards of the ids, by ``writers``, which a
``manifest`` lists; ``run`` lets several threads do so, by ``overlap``. ``tokens`` reads shards back. ``arrow`` and
``ray`` are for other engines, which hand out batches.
"""

from typing import TYPE_CHECKING, Any

_HOME = {
    "Fault": "numbatok.pipelines.blocks",
    "InputError": "numbatok.pipelines.blocks",
    "Report": "numbatok.pipelines.sink",
    "TokenFiles": "numbatok.pipelines.tokens",
    "encode_files": "numbatok.pipelines.run",
    "open_tokens": "numbatok.pipelines.tokens",
}

__all__ = ["Fault", "InputError", "Report", "TokenFiles", "encode_files", "open_tokens"]

if TYPE_CHECKING:
    from numbatok.pipelines.blocks import Fault, InputError
    from numbatok.pipelines.run import encode_files
    from numbatok.pipelines.sink import Report
    from numbatok.pipelines.tokens import TokenFiles, open_tokens


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'numbatok.pipelines' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
