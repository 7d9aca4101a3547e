"""The interfaces of other libraries over numbatok, against those libraries: the same calls, results compared first.

    python bench/compat.py
    python bench/compat.py -t o200k_base --files code --rounds 5
    python bench/compat.py -t re_qwen2 --interfaces tokenizers transformers

tiktoken: `encode` and `encode_ordinary` of one text of 28 bytes, 256 bytes and 64 KiB, `decode` of few and many ids,
and `encode_batch` of 20,000 documents, with default arguments and results as lists. tokenizers: `encode` of the same
texts and `encode_batch_fast` of the same documents, with `ids` read of each encoding, and `decode`. transformers:
`__call__` of 1,000 documents, padded to NumPy arrays and as lists. Texts are cut at different characters of a sample.
Each library runs in fresh, pinned processes, which take turns over the rounds; the same calls are made over and over.
The figures are the median and the best, over all repeats of all rounds, of the mean of one sweep over the texts. Left
out are transformers where it is not installed, and tiktoken for a tokenizer that it can't be given. The result is 1
where results differ or a process failed.
"""

import functools
import hashlib
import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain, product
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import Figures, complain, short

INTERFACES = ("tiktoken", "tokenizers", "transformers")
SIZES = (28, 256, 64 << 10)
DECODED = (1, 8, 64, 1000)  # ids
FILES = ("english-web",)
SIDES = ("numbatok", "peer")
#: Its name, the call, what it is called with, and what makes a digest of the results.
Case = tuple[str, Callable[[Any], Any], list[Any], Callable[[list[Any]], str]]


def digest_of(results: list[list[int]]) -> str:
    """What tells results apart; exits with the reason where they are no lists of ints."""
    kinds = {type(ids) for ids in results} | set(map(type, chain.from_iterable(results)))
    if kinds - {list, int}:
        sys.exit(f"results hold {kinds - {list, int}}; wanted lists of ints")
    return hashlib.sha256(repr(results).encode()).hexdigest()


def digest_of_texts(results: list[str]) -> str:
    """What tells decoded texts apart."""
    return hashlib.sha256(repr(results).encode()).hexdigest()


def decode_cases(decode: Callable[[list[int]], str], ids: list[int]) -> Iterator[Case]:
    """`decode` of lists of ids from a text."""
    for count in DECODED:
        rows = [ids[at : at + count] for at in range(0, max(1, len(ids) - count), max(1, len(ids) // 64))]
        yield f"decode, {count} ids", decode, rows, digest_of_texts


def tiktoken_cases(task: dict[str, Any], texts: dict[int, list[str]], documents: list[str]) -> Iterator[Case]:
    """The cases of ``tiktoken``."""
    module = importlib.import_module("numbatok.compat.tiktoken" if task["side"] == "numbatok" else "tiktoken")
    load = importlib.import_module(f"{module.__name__}.load")
    vocabulary = task["vocabulary"]
    encoding = module.Encoding(
        "benchmark",
        pat_str=vocabulary["pattern"],
        mergeable_ranks=load.load_tiktoken_bpe(vocabulary["ranks"]),
        special_tokens=vocabulary["special_tokens"],
    )
    encoding.encode(_common.unrelated_text(1 << 12))
    for size, those in texts.items():
        for name, call in (("encode", encoding.encode), ("encode_ordinary", encoding.encode_ordinary)):
            yield f"{name}, {size} bytes", call, those, digest_of
    yield from decode_cases(encoding.decode, encoding.encode_ordinary(texts[max(texts)][0]))
    name = f"encode_batch, {len(documents)} documents of {task['document_bytes']} bytes"
    yield name, encoding.encode_batch, [documents], lambda results: digest_of(results[0])


def tokenizers_cases(task: dict[str, Any], texts: dict[int, list[str]], documents: list[str]) -> Iterator[Case]:
    """The cases of ``tokenizers``."""
    module = importlib.import_module("numbatok.compat.huggingface" if task["side"] == "numbatok" else "tokenizers")
    tokenizer = module.Tokenizer.from_file(task["vocabulary"]["json"])
    tokenizer.encode(_common.unrelated_text(1 << 12))

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text).ids
        return ids

    def encode_batch(given: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(given)]

    for size, those in texts.items():
        yield f"encode, .ids, {size} bytes", encode, those, digest_of
    yield from decode_cases(tokenizer.decode, tokenizer.encode(texts[max(texts)][0]).ids)
    name = f"encode_batch_fast, .ids, {len(documents)} documents of {task['document_bytes']} bytes"
    yield name, encode_batch, [documents], lambda results: digest_of(results[0])


def transformers_cases(task: dict[str, Any], texts: dict[int, list[str]], documents: list[str]) -> Iterator[Case]:
    """The cases of ``transformers``."""
    import transformers

    file = task["vocabulary"]["json"]
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file, model_max_length=1 << 30)
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    if task["side"] == "numbatok":
        tokenizer = importlib.import_module("numbatok.compat.huggingface").from_transformers(tokenizer)
    documents = documents[:1000]

    def digest(results: list[Any]) -> str:
        return digest_of([ids for key in results[0] for ids in map(list, results[0][key])])

    def digest_of_arrays(results: list[Any]) -> str:
        return digest_of([row for key in results[0] for row in results[0][key].tolist()])

    about = f"{len(documents)} documents of {task['document_bytes']} bytes"
    yield f"__call__, {about}, lists", tokenizer, [documents], digest
    padded = functools.partial(tokenizer, padding=True, return_tensors="np")
    yield f"__call__, {about}, padded to NumPy", padded, [documents], digest_of_arrays


CASES = {"tiktoken": tiktoken_cases, "tokenizers": tokenizers_cases, "transformers": transformers_cases}


def sweeps(sweep: Callable[[], Any], calls: int, seconds: float) -> list[float]:
    """Mean seconds a call of repeated sweeps, at least three."""
    means: list[float] = []
    begin = time.perf_counter()
    while len(means) < 3 or time.perf_counter() - begin < seconds:
        means.append(_common.timed(sweep)[0] / calls)
    return means


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Time one library on all cases; a report of the sweeps' mean seconds a call for each."""
    text = Path(task["path"]).read_bytes()
    share = _common.CoreShare()
    texts = {size: _common.cuts(text, size, max(4, min(256, (1 << 21) // size))) for size in task["sizes"]}
    documents = _common.cuts(text, task["document_bytes"], task["documents"])
    for case, call, given, digest in CASES[task["interface"]](task, texts, documents):

        def sweep(call: Callable[[Any], Any] = call, given: list[Any] = given) -> None:
            for one in given:
                call(one)

        made = digest([call(one) for one in given])
        means = sweeps(sweep, len(given), task["seconds"])
        yield {"case": case, "seconds": means, "digest": made, "share_of_core": share.so_far()}


def present(asked: list[str], vocabulary: dict[str, Any]) -> list[str]:
    """The interfaces that can be compared; says which are left out."""
    found = []
    for interface in asked:
        if importlib.util.find_spec(interface) is None:
            complain(f"{interface} is not installed, and is left out")
        elif interface == "tiktoken" and not vocabulary["ranks"]:
            complain("tiktoken is left out, as the tokenizer is no encoding of its own")
        else:
            found.append(interface)
    return found


def main() -> int:
    """Measure and print; 1 if a library failed or results differ."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help=f"bytes of a text (default: {SIZES})")
    parser.add_argument("--documents", type=int, default=20_000, help="documents of the batch (default: 20,000)")
    parser.add_argument("--document-bytes", type=int, default=512, help="bytes of a document (default: 512)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library (default: 3)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case in each process (default: 0.5)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    parser.add_argument(
        "--interfaces", nargs="+", choices=INTERFACES, default=list(INTERFACES), help="compare these (default: all)"
    )
    options = parser.parse_args()
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    seconds: dict[str, dict[str, list[float]]] = {}
    digests: dict[str, set[str]] = {}
    shares, failed = [], False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sample = _common.write_sample(name, 8_000_000, folder)
        vocabulary = _sides.prepare(options.tokenizer, folder)
        task = {
            "vocabulary": vocabulary,
            "path": str(sample.path),
            "sizes": list(options.sizes),
            "documents": options.documents,
            "document_bytes": options.document_bytes,
            "seconds": options.seconds,
        }
        for interface in present(options.interfaces, vocabulary):
            for _, side in product(range(options.rounds), ("numbatok", interface)):
                reports, error = _common.run_worker(
                    __file__,
                    {**task, "side": side, "interface": interface},
                    cores=options.cores,
                    timeout=options.timeout,
                )
                if error is not None:
                    complain(f"{side} failed on {interface}: {error}")
                    failed = True
                for told in reports:
                    shares.append(told["share_of_core"])
                    case = f"{interface}: {told['case']}"
                    which = "numbatok" if side == "numbatok" else "peer"
                    seconds.setdefault(case, {}).setdefault(which, []).extend(told["seconds"])
                    digests.setdefault(case, set()).add(told["digest"])
    for case, seen in digests.items():
        if len(seen) > 1:
            complain(f"results differ: {case}")
            failed = True
    versions = {interface: _common.version(interface) for interface in options.interfaces}
    listed = ", ".join(f"{interface} {version}" for interface, version in versions.items())
    print(f"\nmicroseconds a call on {name}, and numbatok's speed over the peer ({listed})")
    rows = []
    figures = {case: {side: Figures.of(means) for side, means in sides.items()} for case, sides in seconds.items()}
    for case, sides in figures.items():
        row = [case]
        for which in ("median", "best"):
            values = [getattr(sides[side], which, 0.0) if side in sides else 0.0 for side in SIDES]
            row += [*(short(value * 1e6) for value in values), f"{values[1] / values[0]:.2f}x" if all(values) else ""]
        rows.append(row)
    _common.print_table(["", *SIDES, "medians", *SIDES, "bests"], rows)
    _common.warn_of_others(shares, options.cores)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, text=name, versions=versions, seconds=figures)
    return int(failed)


if __name__ == "__main__":
    _common.run_script(worker, main)
