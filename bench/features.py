"""What numbatok and other tokenizers can do, each tried on the libraries that are installed here, as a Markdown table.

    python bench/features.py

Every cell is the outcome of a call, or of a look for a method; a call that raises is a "no". GPT-2 is what all load.
Times are of one call, on whatever else the machine does meanwhile: they tell seconds from milliseconds.
"""

import importlib
import importlib.util
import json
import pickle
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import _common

TOOLS = ("numbatok", "tiktoken", "tokenizers", "gigatoken", "fastokens")
Try = Callable[[Any], object]
NO: Try = lambda tok: False  # noqa: E731  # it has no such method


class Loaded:
    """The libraries that are installed, each with GPT-2, and its ``tokenizer.json`` with other parts."""

    def __init__(self, folder: Path) -> None:
        import numbatok

        self.file = folder / "tokenizer.json"
        gpt2 = numbatok.get_encoding("gpt2")
        gpt2.save(self.file)
        content = json.loads(self.file.read_text(encoding="utf-8"))
        split = {"type": "Split", "pattern": {"Regex": r"\p{L}+(?:-\p{L}+)*|\s+|[^\p{L}\s]"}, "behavior": "Isolated"}
        content["pre_tokenizer"] = {
            "type": "Sequence",
            "pretokenizers": [
                {**split, "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
            ],
        }
        self.other_rule = folder / "other.json"
        self.other_rule.write_text(json.dumps(content), encoding="utf-8")
        vocabulary = {"[UNK]": 0, "hello": 1, "##s": 2}
        model = {"type": "WordPiece", "vocab": vocabulary, "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
        self.word_piece = folder / "word_piece.json"
        parts = {"model": {**model, "max_input_chars_per_word": 100}, "pre_tokenizer": {"type": "Whitespace"}}
        self.word_piece.write_text(json.dumps({"version": "1.0", "added_tokens": [], **parts}), encoding="utf-8")
        self.ranks = {token: rank for rank, token in enumerate(gpt2.vocabulary().bytes[:50256])}

    def of(self, tool: str, file: Path | None = None) -> Any:
        """A library's tokenizer of a file, by default GPT-2's."""
        file = file or self.file
        if tool == "tiktoken":
            import tiktoken

            if file == self.word_piece:
                raise ValueError("tiktoken has ranks only")
            pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
            if file == self.other_rule:
                pattern = r"\p{L}+(?:-\p{L}+)*|\s+|[^\p{L}\s]"
            return tiktoken.Encoding(
                "own", pat_str=pattern, mergeable_ranks=self.ranks, special_tokens={"<|endoftext|>": 50256}
            )
        library = importlib.import_module(tool)
        return library.Tokenizer(str(file)) if tool == "gigatoken" else library.Tokenizer.from_file(str(file))


def has(*names: str) -> Try:
    """A probe: whether the tokenizer has one of these methods."""
    return lambda tok: any(hasattr(tok, name) for name in names)


def ids_of(result: Any) -> list[int]:
    """A result's ids."""
    return [int(number) for number in getattr(result, "ids", result)]


def seconds_for(text: Callable[[int], str]) -> Try:
    """A probe: how long a text takes, the best of three that differ."""

    def probe(tok: Any) -> object:
        return f"{1e3 * min(_common.timed(partial(tok.encode, text(i)))[0] for i in range(3)):.0f} ms"

    return probe


def unknown_id(tok: Any) -> str:
    """What becomes of an id that is not in the vocabulary."""
    try:
        return "is left out" if tok.decode([50300]) in ("", b"") else "?"
    except BaseException as error:  # a panic of Rust's is no Exception
        return type(error).__name__


def pure_wheel(tool: str) -> bool:
    """Whether what is installed holds no compiled code, so that any machine with Python and Numba can have it."""
    spec = importlib.util.find_spec(tool)
    places = spec.submodule_search_locations if spec else None
    return not any(file.suffix in (".so", ".pyd") for place in places or () for file in Path(place).rglob("*"))


def trains(tool: str) -> bool:
    """Whether a library makes vocabularies."""
    library = importlib.import_module(tool)
    return hasattr(library, "train_bpe") or hasattr(getattr(library, "Tokenizer", None), "train")


def character_offsets(tok: Any) -> bool:
    """Whether an encoding of tokenizers' interface has the characters of each id."""
    return list(tok.encode("naïve ☃").offsets)[-1] == (6, 7)


def stream_decoder_of(module: str) -> Try:
    """A probe: whether a module has a DecodeStream."""
    return lambda tok: hasattr(importlib.import_module(module), "DecodeStream")


#: What is tried, and how on each library, in the order of TOOLS.
PROBES: list[tuple[str, tuple[Try, ...]]] = [
    ("takes bytes of UTF-8", (lambda tok: len(tok.encode(b"Hello world")) == 2,) * 5),
    ("takes any `str` (lone surrogates)", (lambda tok: len(ids_of(tok.encode("a\ud800b"))) == 3,) * 5),
    (
        "ids of a batch as flat arrays",
        (
            lambda tok: tok.encode_batch(["a", "b"]).ids.dtype.name,
            NO,
            NO,
            lambda tok: str(tok.encode_batch(["a", "b"]).type.content.content) + ", awkward",
            lambda tok: type(tok.encode_batch_flat(["a", "b"])[0]).__name__,
        ),
    ),
    (
        "offsets of ids in characters",
        (
            lambda tok: tok.encode_with_offsets("naïve ☃")[1].tolist()[-1] == [6, 7],
            lambda tok: tok.decode_with_offsets(tok.encode("naïve ☃"))[1][-1] == 6 and "begins, by decoding",
            character_offsets,
            lambda tok: "offset_mapping" in tok.as_hf()("naïve ☃", return_offsets_mapping=True),
            character_offsets,
        ),
    ),
    ("... in bytes", (lambda tok: tok.encode_with_offsets("☃", unit="byte")[1][0].tolist() == [0, 3], NO, NO, NO, NO)),
    (
        "special tokens: each allowed, refused, or plain text",
        (
            has("special_tokens"),
            has("special_tokens_set"),
            NO,
            lambda tok: len(tok.as_tiktoken().encode("<|endoftext|>", disallowed_special=())) > 1,
            NO,
        ),
    ),
    ("prompts in trusted and untrusted segments", (has("encode_segments"),) * 5),
    ("text that comes in parts", (has("stream_encoder"), NO, NO, NO, NO)),
    (
        "ids that come one by one",
        (
            has("stream_decoder"),
            NO,
            stream_decoder_of("tokenizers.decoders"),
            NO,
            stream_decoder_of("fastokens._native"),
        ),
    ),
    ("texts counted, cut and chunked by tokens", (has("chunk"), NO, NO, NO, NO)),
    (
        "files to files of tokens",
        (
            lambda tok: importlib.util.find_spec("numbatok.pipelines") is not None,
            NO,
            NO,
            lambda tok: hasattr(tok, "encode_files") and "into memory",
            NO,
        ),
    ),
    ("from inside `numba.njit`", (has("kernel_view"), NO, NO, NO, NO)),
    ("pickles", (lambda tok: bool(pickle.dumps(tok)),) * 5),
    ('`"a" * 1_000_000`', (seconds_for(lambda i: "abc"[i] * 1_000_000),) * 5),
    ('`" " * 1_000_000 + "x"`', (seconds_for(lambda i: " " * (1_000_000 + i) + "x"),) * 5),
    ("an unknown id, decoding", (unknown_id,) * 5),
]


def outcome(probe: Callable[..., object], *arguments: object) -> str:
    """A cell of the table."""
    try:
        found = probe(*arguments)
    except BaseException:
        found = False
    return ("yes" if found else "no") if isinstance(found, bool) else str(found)


def main() -> int:
    """Print the table."""
    tools = [tool for tool in TOOLS if importlib.util.find_spec(tool)]
    for tool in TOOLS:
        if tool not in tools:
            print(f"{tool} is not installed: pip install 'numbatok[bench]'", file=sys.stderr)
    print("| | " + " | ".join(f"{tool} {_common.version(tool) or ''}".strip() for tool in tools) + " |")
    print("|---" * (len(tools) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        loaded = Loaded(Path(folder))

        def row(label: str, cells: list[str]) -> None:
            print(f"| {label} | {' | '.join(cells)} |")

        def other_rule(tool: str) -> bool:
            return len(ids_of(loaded.of(tool, loaded.other_rule).encode("well-known"))) > 0

        def word_piece(tool: str) -> bool:
            return ids_of(loaded.of(tool, loaded.word_piece).encode("hellos")) == [1, 2]

        row("its own wheel is without compiled code", [outcome(pure_wheel, tool) for tool in tools])
        row("any split rule", [outcome(other_rule, tool) for tool in tools])
        for label, probes in PROBES:
            row(label, [outcome(probes[TOOLS.index(tool)], loaded.of(tool)) for tool in tools])
        row("WordPiece", [outcome(word_piece, tool) for tool in tools])
        row("trains vocabularies", [outcome(trains, tool) for tool in tools])
    return 0


if __name__ == "__main__":
    sys.exit(main())
