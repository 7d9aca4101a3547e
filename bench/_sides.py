"""The tokenizers that are compared, behind one interface, and the vocabulary files that they load.

A *side* is one library with one tokenizer loaded. A script of the benchmarks makes the vocabulary's files with
:func:`prepare`, finds out with :func:`present` which sides can run, and its worker loads one with :func:`load`.
Only the library of the side that is loaded is imported.
"""

import base64
import importlib.util
import itertools
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import _common


class Side:
    """One library with one tokenizer loaded.

    What ``encode`` (of one text) and ``encode_batch`` (of a list of them) return is the library's own; ``ids_of`` and
    ``batch_of`` make arrays of it, outside what is timed.
    """

    label = ""
    module = ""
    distribution = ""
    requirements: tuple[str, ...] = ()  # of an environment of its own, if it needs one
    slow = False  # measured on a part of the text

    encode: Callable[[str], Any]
    encode_batch: Callable[[list[str]], Any]

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        raise NotImplementedError

    def ids_of(self, result: Any) -> Any:
        """The ids of a text as an array."""
        import numpy as np

        return np.asarray(result, dtype=np.uint32)

    def batch_of(self, result: Any) -> tuple[Any, Any]:
        """(ids of all texts, number of ids of each) as arrays."""
        import numpy as np

        ids = np.fromiter(itertools.chain.from_iterable(result), np.uint32)
        return ids, np.array([len(one) for one in result])

    def version(self) -> str | None:
        """The version of the library in use."""
        return _common.version(self.distribution)


class Numbatok(Side):
    """The project itself."""

    label = module = distribution = "numbatok"

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        import numbatok

        if vocabulary["encoding"]:
            self.tokenizer = numbatok.get_encoding(vocabulary["encoding"])
        else:
            self.tokenizer = numbatok.Tokenizer.from_file(vocabulary["json"])
        options: dict[str, Any] = {"add_special_tokens": False}
        if threads > 1:
            options["num_threads"] = threads  # the default is one a physical core
        self.encode = partial(self.tokenizer.encode, **options)
        self.encode_batch = partial(self.tokenizer.encode_batch, **options)

    def batch_of(self, result: Any) -> tuple[Any, Any]:
        """A TokenBatch has both."""
        return result.ids, result.lengths

    def statistics(self) -> dict[str, int]:
        """Pretokens looked up and missed so far, and bytes merged for the missed ones, by all workers."""
        from numbatok.kernels import dtypes

        engine = self.tokenizer._engine
        assert engine is not None  # something was encoded
        records = [scratch.record for scratch in engine.scratches.idle]
        fields = {"pretokens": "WORK_PIECES", "missed": "WORK_MISSES", "merged_bytes": "WORK_MERGED_BYTES"}
        return {name: sum(int(one[getattr(dtypes, field)]) for one in records) for name, field in fields.items()}

    def version(self) -> str | None:
        """The version in the source, which need not be installed."""
        import numbatok

        return numbatok.__version__


class Gigatoken(Side):
    """gigatoken: a NumPy array for a text, an awkward array for a batch; its thread pool only for several threads."""

    label = module = distribution = "gigatoken"

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        import gigatoken

        tokenizer = gigatoken.Tokenizer(vocabulary["json"])
        self.encode = tokenizer.encode
        self.encode_batch = partial(tokenizer.encode_batch, parallel=threads > 1)

    def batch_of(self, result: Any) -> tuple[Any, Any]:
        """The awkward array's content and the lengths of its lists."""
        import awkward
        import numpy as np

        return np.asarray(awkward.flatten(result), np.uint32), np.asarray(awkward.num(result))


class Fastokens(Side):
    """fastokens: its bulk interface, which makes no Python object for each token; a text is a batch of one."""

    label = module = distribution = "fastokens"

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        import fastokens

        flat = fastokens.Tokenizer.from_file(vocabulary["json"]).encode_batch_flat
        self.encode = lambda text: flat([text], False)
        self.encode_batch = lambda texts: flat(texts, False)

    def ids_of(self, result: Any) -> Any:
        """The first of the two buffers."""
        return self.batch_of(result)[0]

    def batch_of(self, result: Any) -> tuple[Any, Any]:
        """The two buffers: uint32 ids, uint64 offsets."""
        import numpy as np

        return np.frombuffer(result[0], "<u4"), np.diff(np.frombuffer(result[1], "<u8"))


class Tiktoken(Side):
    """tiktoken: made from a rank file, so that it needs no network; special tokens are not searched for."""

    label = module = distribution = "tiktoken"
    slow = True

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        import tiktoken

        lines = map(bytes.split, Path(vocabulary["ranks"]).read_bytes().splitlines())
        tokenizer = tiktoken.Encoding(
            "benchmark",
            pat_str=vocabulary["pattern"],
            mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
            special_tokens=vocabulary["special_tokens"],
        )
        self.encode = partial(tokenizer.encode_to_numpy, disallowed_special=())
        if threads == 1:
            self.encode_batch = lambda texts: list(map(tokenizer.encode_ordinary, texts))
        else:
            self.encode_batch = partial(tokenizer.encode_ordinary_batch, num_threads=threads)


class Tokenizers(Side):
    """Hugging Face tokenizers: 0.23 has ``encode_batch_fast``, which leaves offsets out, and only for a batch."""

    label = module = distribution = "tokenizers"
    slow = True

    def __init__(self, vocabulary: dict[str, Any], threads: int) -> None:
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(vocabulary["json"])
        batch = getattr(tokenizer, "encode_batch_fast", None) or tokenizer.encode_batch
        self.encode = lambda text: batch([text], add_special_tokens=False)
        self.encode_batch = partial(batch, add_special_tokens=False)

    def ids_of(self, result: Any) -> Any:
        """Those of the one encoding."""
        return super().ids_of(result[0].ids)

    def batch_of(self, result: Any) -> tuple[Any, Any]:
        """Those of all encodings."""
        return super().batch_of([encoding.ids for encoding in result])


class TokenizersCandidate(Tokenizers):
    """The release candidate of Hugging Face tokenizers 1.0."""

    label = "tokenizers-rc"
    requirements = ("tokenizers==1.0.0rc3", "numpy")
    slow = False


SIDES: dict[str, type[Side]] = {
    side.label: side for side in (Numbatok, Gigatoken, Fastokens, TokenizersCandidate, Tiktoken, Tokenizers)
}
PEERS = [label for label in SIDES if label != "numbatok"]


def load(task: dict[str, Any]) -> Side:
    """The side that a worker's task names, loaded."""
    return SIDES[task["side"]](task["vocabulary"], len(task["cores"]))


def add_options(parser: Any, peers: Sequence[str] = PEERS) -> None:
    """Options that choose sides."""
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=list(peers),
        help=f"compare with these (default: {' '.join(peers)})",
    )
    parser.add_argument(
        "--no-install", action="store_true", help="leave tokenizers-rc out unless its environment was made before"
    )


def present(peers: Sequence[str], install: bool = True) -> dict[str, Path | str]:
    """The sides that can run, numbatok first, each with its Python; says which are left out."""
    found: dict[str, Path | str] = {"numbatok": sys.executable}
    for label in peers:
        side = SIDES[label]
        if side.requirements:
            python = _common.environment_with(side.requirements, install)
            if python is not None:
                found[label] = python
            elif not install:
                _common.complain(f"{label} is left out: its environment was not made yet")
        elif importlib.util.find_spec(side.module) is None:
            _common.complain(f"{label} is not installed, and is left out (pip install numbatok[bench])")
        else:
            found[label] = sys.executable
    return found


# --- vocabulary files ---


def prepare(name: str, folder: Path) -> dict[str, Any]:
    """Write what the sides load of a tokenizer to ``folder``: a ``tokenizer.json`` and, for an encoding, a rank file.

    ``name`` is that of an encoding inside numbatok, of a folder of the test data's vocabularies, or the path of a
    ``tokenizer.json``. GPT-2's file is the test data's where it is there; those of other encodings numbatok saves.
    Exits with status 2 for an unknown tokenizer.
    """
    import numbatok
    from numbatok.loading.embedded import ENCODINGS, load_ranks
    from numbatok.loading.rank_file import rank_file

    path = folder / "tokenizer.json"
    if name not in ENCODINGS:
        source = Path(name) if Path(name).is_file() else _common.find_data(f"vocab/{name}/tokenizer.json")
        if source is None:
            _common.complain(f"no tokenizer {name!r}: neither a file, nor in the test data, nor {', '.join(ENCODINGS)}")
            sys.exit(2)
        path.write_bytes(_common.read_data(source))
        return {"encoding": "", "json": str(path), "ranks": ""}
    source = _common.find_data("vocab/gpt2_hf/tokenizer.json") if name == "gpt2" else None
    if source is not None:
        path.write_bytes(_common.read_data(source))
    else:
        numbatok.get_encoding(name).save(path)
    encoding = ENCODINGS[name]
    (folder / "ranks.tiktoken").write_bytes(rank_file(*load_ranks(encoding.ranks)))
    return {
        "encoding": name,
        "json": str(path),
        "ranks": str(folder / "ranks.tiktoken"),
        "pattern": encoding.pattern,
        "special_tokens": encoding.special_tokens,
    }
