"""From files to shards of ids: every input by every output, resuming, and what is wrong with inputs and disks."""

import bz2
import errno
import gzip
import io
import json
import logging
import lzma
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
import small
from numbatok import cli
from numbatok.pipelines import InputError, encode_files, manifest, overlap, readers, sink, writers
from numbatok.pipelines import run as run_module
from numbatok.pipelines.blocks import Block, Fault, resized
from numbatok.pipelines.manifest import digest_of
from numbatok.pipelines.overlap import SPARE, Crew
from support import output_of


def pyarrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def needs_pyarrow(kind):
    if kind in ("parquet", "arrow", "ipc", "feather", "text.zst", ".zst"):
        pyarrow()


def zstandard(data):
    return pyarrow().compress(data, "zstd", asbytes=True)


TEXTS = [
    "Hello world",
    "naïve ☃ 日本",
    "",
    "the quick brown fox " * 40,
    'quotes " and \\ and <|endoftext|> inside',
    *(f"document {number} of many\ttab" for number in range(60)),
]
END = small.ADDED[small.END]
FORMATS = ("bin", "npy", "megatron", "parquet", "arrow")
COMPRESSIONS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstandard, "": bytes}
INPUTS = (
    "text",
    "text.gz",
    "text.bz2",
    "text.xz",
    "text.zst",
    "jsonl",
    "jsonl.gz",
    "parquet",
    "arrow",
    "ipc",
    "feather",
)


def write_input(folder, kind, texts, name="input"):
    """A file of a kind with these texts; nulls where that can be. An ``.ipc`` file is a stream."""
    kind, dot, compression = kind.partition(".")
    if dot:
        plain = write_input(folder, kind, texts, name)
        path = plain.with_name(plain.name + dot + compression)
        path.write_bytes(COMPRESSIONS[dot + compression](plain.read_bytes()))
        plain.unlink()
        return path
    if kind == "text":
        path = folder / f"{name}.txt"
        path.write_bytes("\n".join(texts).encode() + b"\n")
        return path
    path = folder / f"{name}.{kind}"
    if kind == "jsonl":
        lines = [json.dumps({"id": n, "text": text, "url": f"u{n}"}) for n, text in enumerate(texts)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path
    pa = pyarrow()
    table = pa.table({"id": list(range(len(texts))), "text": texts, "url": [f"u{n}" for n in range(len(texts))]})
    rows = max(len(texts) // 3, 1)
    if kind == "parquet":
        from pyarrow import parquet

        parquet.write_table(table, path, row_group_size=rows)
    elif kind == "feather":
        from pyarrow import feather

        feather.write_feather(table, path, chunksize=rows)  # compressed
    else:
        new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


def contents(folder):
    """The bytes of all files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


def listed(tokens):
    return [ids.tolist() for ids in tokens]


def check(tokens, tokenizer, texts, end=None):
    """What is read back is what encoding in memory gives."""
    expected = [[*tokenizer.encode(text).tolist(), *([] if end is None else [end])] for text in texts]
    assert listed(tokens) == expected
    assert len(tokens) == len(texts)
    assert tokens.tokens == sum(map(len, expected))
    assert tokens[:].tolist() == expected
    assert tokens[1::3].tolist() == expected[1::3]
    assert tokens[::-2].tolist() == expected[::-2]
    assert tokens[-1].tolist() == expected[-1]
    tokens.verify()


# --- every input by every output ---


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_by_every_output(tmp_path, small_ranks, kind, output_format):
    needs_pyarrow(kind)
    needs_pyarrow(output_format)
    path = write_input(tmp_path, kind, TEXTS)
    out = tmp_path / "out"
    report = encode_files(
        small_ranks, path, out, separator="\n", output_format=output_format, shard_size=500, append_eos=True
    )
    tokens = numbatok.open_tokens(out)
    check(tokens, small_ranks, TEXTS, END)
    assert report.documents == len(TEXTS)
    assert report.tokens == tokens.tokens
    assert report.bytes == report.encoded_bytes == sum(len(text.encode()) for text in TEXTS)
    assert report.shards == tokens.shards > 3
    assert (report.faults, report.nulls) == (0, 0)
    assert tokens.decode(1, small_ranks) == TEXTS[1] + small.END
    assert not [name for name in os.listdir(out) if "partial" in name or "unfinished" in name]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_compressed_inputs(tmp_path, small_ranks, kind, suffix):
    needs_pyarrow(suffix)
    plain = write_input(tmp_path, kind, TEXTS)
    packed = tmp_path / (plain.name + suffix)
    data = plain.read_bytes()
    cut = len(data) // 2
    plain.unlink()
    compress = COMPRESSIONS[suffix]
    packed.write_bytes(compress(data[:cut]) + compress(data[cut:]))  # two members
    encode_files(small_ranks, packed, tmp_path / "out", separator="\n")
    check(numbatok.open_tokens(tmp_path / "out"), small_ranks, TEXTS)


def test_standard_input(tmp_path, small_ranks, monkeypatch):
    for number, data in enumerate(("\n".join(TEXTS).encode(), gzip.compress("\n".join(TEXTS).encode()))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        out = tmp_path / str(number)
        encode_files(small_ranks, "-", out, separator="\n")
        check(numbatok.open_tokens(out), small_ranks, TEXTS)


def test_directories_and_patterns(tmp_path, small_ranks):
    corpus = tmp_path / "corpus"
    for name in ("b.txt", "a.txt", "deeper/c.txt", "_hidden.txt", ".hidden/d.txt"):
        path = corpus / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    encode_files(small_ranks, corpus, tmp_path / "all")
    check(numbatok.open_tokens(tmp_path / "all"), small_ranks, ["a.txt", "b.txt", "deeper/c.txt"])
    encode_files(small_ranks, [corpus / "**" / "*.txt"], tmp_path / "some")
    check(numbatok.open_tokens(tmp_path / "some"), small_ranks, ["_hidden.txt", "a.txt", "b.txt", "deeper/c.txt"])
    with pytest.raises(FileNotFoundError, match="missing"):
        encode_files(small_ranks, corpus / "missing*", tmp_path / "none")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode on this system")
def test_names_that_are_not_utf8(tmp_path, small_ranks):
    name = os.fsencode(tmp_path) + b"/bad\xff.txt"
    Path(os.fsdecode(name)).write_bytes(b"fine\n\xff\n")
    for _ in range(2):
        report = encode_files(small_ranks, tmp_path, tmp_path / "out", separator="\n", on_error="skip")
        assert (report.documents, report.faults) == (1, 1)
        assert os.fsencode(report.named_faults[0].file) == name
    assert "all was there already" in str(report)
    assert numbatok.open_tokens(tmp_path / "out").manifest["inputs"][0]["path"] == os.fsdecode(name)


def test_output_below_the_input_is_not_read(tmp_path, small_ranks):
    write_input(tmp_path, "text", TEXTS)
    for _ in range(2):
        report = encode_files(small_ranks, tmp_path, tmp_path / "out", separator="\n")
        assert report.documents == len(TEXTS)


def test_a_pipe_that_is_still_open_does_not_keep_a_run_from_ending(tmp_path):
    """Ctrl-C while standard input has nothing to say."""
    environment = {**os.environ, "PYTHONPATH": str(Path(numbatok.__file__).parent.parent)}
    # Python sets no handler in a job of the background, as tests may be.
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from numbatok.cli import main"
    arguments = [sys.executable, "-c", f"{code}; sys.exit(main())", "encode", "-", "-o", f"{tmp_path}/out/", "--lines"]
    run = subprocess.Popen(
        arguments, env=environment, cwd=Path(__file__).parent, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        while not (tmp_path / "out").exists():
            time.sleep(0.05)
            assert run.poll() is None
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
        assert b"Fatal" not in run.stderr.read()
    finally:
        run.kill()
        run.wait()
        run.stdin.close()
        run.stderr.close()


@pytest.mark.parametrize("block", [7, 16, 64, 1000])
@pytest.mark.parametrize("separator", ["\n", "<sep>", "aa", None])
def test_documents_across_blocks_and_in_parts(tmp_path, small_ranks, monkeypatch, separator, block):
    monkeypatch.setattr(run_module, "_within", lambda *_: (2, block))
    data = {
        None: "one file, ☃ one document\n" * 9,
        "\n": "\n".join(TEXTS[:8]),
        "<sep>": "<sep>".join(["a<se", "", "p>b", "x" * 100, "<", "☃☃☃☃☃☃☃☃", "sep>", ""]),
        "aa": "aaaaab" * 9 + "a",
    }[separator]
    texts = [data] if separator is None else data.split(separator)
    if separator is not None and not texts[-1]:
        texts.pop()
    path = tmp_path / "input.txt"
    path.write_bytes(data.encode())
    other = tmp_path / "input.txt.gz"
    other.write_bytes(gzip.compress(data.encode()))
    for output_format in ("bin", "megatron"):
        out = tmp_path / output_format
        encode_files(small_ranks, [path, other], out, separator=separator, output_format=output_format, append_eos=END)
        check(numbatok.open_tokens(out), small_ranks, texts * 2, END)


def test_documents_in_parts_in_a_table(tmp_path, small_ranks, monkeypatch):
    pyarrow()
    monkeypatch.setattr(run_module, "_within", lambda *_: (2, 16))
    monkeypatch.setattr(writers, "_GROUP_IDS", 10)
    path = write_input(tmp_path, "text", TEXTS)
    encode_files(small_ranks, path, tmp_path / "out", separator="\n", output_format="parquet")
    check(numbatok.open_tokens(tmp_path / "out"), small_ranks, TEXTS)


def found_by_python(data, separator, searched):
    """Where separators begin that do not lie within the first ``searched`` bytes, none overlapping one before."""
    places = []
    begin = max(0, searched - len(separator) + 1)
    while (begin := data.find(separator, begin)) >= 0:
        places.append(begin)
        begin += len(separator)
    return places


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([b"a", b"b", b"ab", b"aa" * 40, b"b" * 63, b"a" * 64 + b"b", b"\xff"]), max_size=30),
    st.sampled_from([b"a", b"ab", b"aa", b"aab", b"aaaaaaaaab", b"a" * 19 + b"b", b"\xff", b"b" * 70]),
    st.integers(0, 70),
)
def test_separators_are_found_as_python_finds_them(parts, separator, searched):
    data = b"".join(parts)
    searched = min(searched, len(data))
    finder = readers._Separators(separator)
    finder._room = np.empty(3, np.int64)
    for filled in (len(data), max(searched, len(data) - 5)):
        found = finder.find(bytearray(data), searched, filled)
        assert found.tolist() == found_by_python(data[:filled], separator, searched)


def test_blocks_are_cut_and_joined():
    from numbatok.columns import Column

    def block(sizes):
        places = np.array([[0, number, number] for number in range(len(sizes))], np.int64).reshape(-1, 3)
        return Block(Column(np.zeros(len(sizes), np.int64), np.array(sizes, np.int64), None), places)

    for size in (1, 100, 200, 1000, 10_000):
        blocks = [block([]), block([500, 1, 2, 3]), block([5] * 10), block([0]), block([2000, 3, 90])]
        made = list(resized(blocks, size))
        given = [length for each in blocks for length in each.texts.lengths.tolist()]
        assert [length for each in made for length in each.texts.lengths.tolist()] == given
        assert all(len(each) <= 1 or sum(each.texts.lengths) <= size for each in made)
        assert [at for each in made for at in each.places[:, 2].tolist()] == [
            number for each in blocks for number in range(len(each))
        ]


def test_blocks_are_cut_evenly():
    """What is a little more than a block is not one and a very small one: each costs as much as a whole one."""
    from numbatok.columns import Column

    texts = Column(np.zeros(21, np.int64), np.full(21, 100, np.int64), None)
    fault = Fault("file", "", "bad")
    faults = [(0, fault), (11, fault), (21, fault)]
    given = Block(texts, np.zeros((21, 3), np.int64), faults=faults)
    made = list(resized([given, given], 2000))
    assert [len(each) for each in made] == [10, 11, 10, 11]
    assert [[at for at, _ in each.faults] for each in made] == 2 * [[0], [1, 11]]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("bad", "bad_before", "bad_after", "error", "done"),
    [
        (None, None, None, None, 20),
        (7, None, None, ValueError, 7),
        (0, None, None, ValueError, 0),
        (None, 8, None, InputError, 8),
        (None, None, 9, OSError, 9),
        (7, 8, None, ValueError, 7),
        (8, None, 7, OSError, 7),
    ],
)
def test_work_side_by_side_is_in_order(threads, bad, bad_before, bad_after, error, done):
    def prepare(number):
        prepared.append(number)
        if number == bad_before:
            raise InputError(number)
        return number

    def work(number):
        time.sleep(0.01 * (number % 3 == 0))
        if number == bad:
            raise ValueError(number)
        return number

    def finish(number):
        assert finishing.acquire(blocking=False)
        time.sleep(0.005 * (number % 4 == 0))
        finishing.release()
        if number == bad_after:
            raise OSError(number)
        found.append(number)
        ahead.append(len(prepared) - len(found))

    prepared, found, ahead = [], [], []
    finishing = threading.Lock()
    before = threading.active_count()
    with nullcontext() if error is None else pytest.raises(error):
        Crew(iter(range(20)), prepare, work, finish, threads).run()
    assert found == list(range(done))
    assert prepared == list(range(len(prepared)))
    assert max(ahead, default=0) <= threads + SPARE
    assert threading.active_count() == before


def test_items_that_end_in_an_error_come_before_it():
    def items():
        yield from range(5)
        raise OSError("gone")

    found = []
    with pytest.raises(OSError, match="gone"):
        Crew(items(), int, int, found.append, 3).run()
    assert found == list(range(5))
    Crew(iter(()), int, int, found.append, 3).run()


def test_a_crew_is_left_alone_by_who_is_interrupted(monkeypatch):
    """Though one of its threads waits for what never comes, and the others for that one."""
    monkeypatch.setattr(overlap, "_LEAVE", 0.1)
    waiting = threading.Event()

    def items():
        yield 1
        waiting.wait()
        yield 2

    found = []

    def finish(number):
        found.append(number)
        signal.raise_signal(signal.SIGINT)

    crew = Crew(items(), int, int, finish, 3)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            crew.run()
    finally:
        signal.signal(signal.SIGINT, handler)
        waiting.set()
    for thread in crew._threads:
        if thread.ident is not None:  # the signal may come before it is started
            thread.join(30)
    assert found == [1]


@pytest.mark.parametrize("threads", [1, 2, 7, 64, 300])
@pytest.mark.parametrize("memory", [None, 640 << 20, 1 << 30, 8 << 30])
def test_threads_and_blocks_stay_within_memory(memory, threads):
    share = (256 << 20) // min(threads, 8)  # of the budget of caches, or 32 MiB for each
    found, block = run_module._within(memory, threads, share)
    assert 1 <= found <= threads
    assert run_module.LEAST_BLOCK <= block <= run_module.MOST_BLOCK
    stages = (found + run_module.BLOCKS_BESIDES) * block * run_module.MEMORY_PER_BYTE
    if memory is None:
        assert (found, block) == (threads, run_module.MOST_BLOCK)
    else:
        assert run_module.FIXED_MEMORY + found * share + stages <= memory


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("output_format", FORMATS)
def test_nulls(tmp_path, small_ranks, kind, output_format):
    needs_pyarrow(kind)
    needs_pyarrow(output_format)
    texts = ["a", None, "", None, "the end"]
    path = write_input(tmp_path, kind, texts)
    out = tmp_path / "out"
    report = encode_files(small_ranks, path, out, output_format=output_format, append_eos=END)
    assert (report.documents, report.nulls) == (5, 2)
    tokens = numbatok.open_tokens(out)
    assert listed(tokens) == [[] if text is None else [*small_ranks.encode(text).tolist(), END] for text in texts]
    if output_format in ("parquet", "arrow"):
        assert tokens[:].validity.tolist() == [text is not None for text in texts]


@pytest.mark.parametrize("output_format", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_columns_are_carried_along(tmp_path, small_ranks, kind, output_format):
    pa = pyarrow()
    path = write_input(tmp_path, kind, TEXTS)
    out = tmp_path / "out"
    encode_files(small_ranks, [path, path], out, output_format=output_format, columns=["url", "id"], shard_size=400)
    tables = []
    for shard in numbatok.open_tokens(out).manifest["shards"]:
        name = out / shard["files"][0]["name"]
        if output_format == "parquet":
            from pyarrow import parquet

            tables.append(parquet.read_table(name))
        else:
            tables.append(pa.ipc.open_file(pa.OSFile(str(name))).read_all())
    table = pa.concat_tables(tables)
    assert table["ids"].type == pa.list_(pa.uint32())
    numbers = [*range(len(TEXTS))] * 2
    assert table["url"].to_pylist() == [f"u{n}" for n in numbers]
    assert table["id"].to_pylist() == [str(n) if kind == "jsonl" else n for n in numbers]


@pytest.mark.parametrize("is_first", [True, False])
def test_columns_beside_a_file_that_cannot_be_read(tmp_path, small_ranks, is_first):
    """A block of nothing but its fault has none, and takes none from the others."""
    pyarrow()
    from pyarrow import parquet

    bad, good = tmp_path / "bad.parquet", write_input(tmp_path, "parquet", TEXTS)
    bad.write_bytes(b"no Parquet")
    inputs = [bad, good] if is_first else [good, bad]
    options = {"output_format": "parquet", "columns": ["url"], "on_error": "skip"}
    report = encode_files(small_ranks, inputs, tmp_path / "out", **options)
    assert (report.documents, report.faults) == (len(TEXTS), 1)
    table = parquet.read_table(tmp_path / "out" / "tokens-00000.parquet")
    assert table["url"].to_pylist() == [f"u{n}" for n in range(len(TEXTS))]
    check(numbatok.open_tokens(tmp_path / "out"), small_ranks, TEXTS)


def test_columns_of_differing_types_are_refused_before_anything_is_written(tmp_path, small_ranks):
    """By file and column; what files say besides the type does not matter."""
    pa = pyarrow()
    from pyarrow import parquet

    def written(name, kind, **about):
        schema = pa.schema([pa.field("text", pa.string()), pa.field("n", kind, **about)])
        parquet.write_table(pa.table([["a", "b"], pa.array([1, 2]).cast(kind)], schema=schema), tmp_path / name)
        return tmp_path / name

    wide, narrow = written("wide.parquet", pa.int64()), written("narrow.parquet", pa.int32())
    strings = tmp_path / "strings.jsonl"
    strings.write_text('{"text": "a", "n": 1}\n')
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"no Parquet")
    for inputs, kinds in (([damaged, wide, narrow], ("int32", "int64")), ([narrow, strings], ("string", "int32"))):
        for on_error in ("raise", "skip"):
            options = {"output_format": "parquet", "columns": ["n"], "on_error": on_error}
            with pytest.raises(InputError) as found:
                encode_files(small_ranks, inputs, tmp_path / "out", **options)
            told = f"{inputs[-1]}: the column 'n' is of {kinds[0]}, but of {kinds[1]} in {inputs[-2]}"
            assert str(found.value).startswith(told)
            assert not (tmp_path / "out").exists()
    full = written("full.parquet", pa.int64(), nullable=False, metadata={"of": "somebody"})
    for number, inputs in enumerate(([wide, full], [full, wide])):
        options = {"output_format": "parquet", "columns": ["n"]}
        encode_files(small_ranks, inputs, tmp_path / str(number), **options)
        table = parquet.read_table(tmp_path / str(number) / "tokens-00000.parquet")
        assert table["n"].to_pylist() == [1, 2, 1, 2]
    assert (tmp_path / "0/tokens-00000.parquet").read_bytes() == (tmp_path / "1/tokens-00000.parquet").read_bytes()


def test_types_of_ids(tmp_path, small_ranks, gpt2):
    path = write_input(tmp_path, "text", TEXTS)
    for dtype, size in ((None, 2), ("uint16", 2), (np.uint32, 4)):
        encode_files(small_ranks, path, tmp_path / f"{dtype}", dtype=dtype)
        tokens = numbatok.open_tokens(tmp_path / f"{dtype}")
        assert tokens[0].itemsize == size
        assert (tmp_path / f"{dtype}" / "tokens-00000.bin").stat().st_size == size * tokens.tokens
    with pytest.raises(ValueError, match="uint16"):
        encode_files(numbatok.get_encoding("cl100k_base"), path, tmp_path / "large", dtype="uint16")


def test_megatron_index_is_as_megatron_reads_it(tmp_path, small_ranks):
    path = write_input(tmp_path, "text", TEXTS)
    encode_files(small_ranks, path, tmp_path / "out", separator="\n", output_format="megatron")
    data = (tmp_path / "out" / "tokens-00000.idx").read_bytes()
    assert data[:9] == b"MMIDIDX\x00\x00"
    assert int.from_bytes(data[9:17], "little") == 1
    assert data[17] == 8  # uint16
    sequences, documents = np.frombuffer(data, "<u8", 2, 18).tolist()
    assert (sequences, documents) == (len(TEXTS), len(TEXTS) + 1)
    lengths = np.frombuffer(data, "<i4", sequences, 34)
    pointers = np.frombuffer(data, "<i8", sequences, 34 + 4 * sequences)
    assert lengths.tolist() == [len(small_ranks.encode(text)) for text in TEXTS]
    assert pointers.tolist() == [0, *(2 * np.cumsum(lengths))[:-1].tolist()]
    assert np.frombuffer(data, "<i8", documents, 34 + 12 * sequences).tolist() == list(range(documents))
    assert len(data) == 34 + 12 * sequences + 8 * documents


def test_offsets_and_npy_are_as_numpy_reads_them(tmp_path, small_ranks):
    path = write_input(tmp_path, "text", TEXTS)
    encode_files(small_ranks, path, tmp_path / "out", separator="\n", output_format="npy")
    batch = small_ranks.encode_batch(TEXTS)
    assert np.load(tmp_path / "out" / "tokens-00000.npy").tolist() == batch.ids.tolist()
    assert np.load(tmp_path / "out" / "tokens-00000.offsets.npy").tolist() == batch.offsets.tolist()


def test_manifest(tmp_path, small_ranks, small_merges):
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    encode_files(small_ranks, path, out, separator="\n", shard_size=300)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["numbatok"] == numbatok.__version__
    assert manifest["tokenizer"]["sha256"] == digest_of(small.by_ranks()._parts) != digest_of(small_merges._parts)
    assert manifest["inputs"] == [{"path": str(path), "bytes": path.stat().st_size}]
    for name in ("documents", "tokens", "bytes", "nulls"):
        assert manifest[name] == sum(shard[name] for shard in manifest["shards"])
    for shard in manifest["shards"]:
        for file in shard["files"]:
            data = (out / file["name"]).read_bytes()
            assert (file["bytes"], file["crc32"]) == (len(data), f"{zlib.crc32(data):08x}")
    full = [shard["tokens"] * 2 >= 300 for shard in manifest["shards"]]
    assert all(full[:-1])


def test_digest_tells_tokenizers_apart():
    gpt2 = numbatok.get_encoding("gpt2")
    others = [
        numbatok.get_encoding("cl100k_base"),
        gpt2.add_special_tokens(["<x>"]),
        gpt2.add_tokens(["<x>"]),
        gpt2.with_dropout(0.5),
        small.by_merges(),
    ]
    digests = {digest_of(tokenizer._content()) for tokenizer in (gpt2, *others)}
    assert len(digests) == 6


# --- arguments ---


def test_arguments_are_checked(tmp_path, small_ranks):
    path = write_input(tmp_path, "text", TEXTS)

    def refused(match, error=ValueError, inputs=path, output=None, **options):
        with pytest.raises(error, match=match):
            encode_files(small_ranks, inputs, output or tmp_path / "out", **options)

    refused("'bin' or", output_format="csv")
    refused("'text' or", input_format="csv")
    refused("'raise' or", on_error="ignore")
    refused("at least", memory=1)
    refused("at least 1", shard_size=0)
    refused("must not be empty", separator="")
    refused("at most 4096 bytes, not 5000", separator=b"x" * 5000)
    refused("separator must be a str, bytes or None, not int", TypeError, separator=5)
    refused("no place for columns", columns=["id"])
    refused("one str", TypeError, columns="id", output_format="parquet")
    refused("no columns to carry", columns=["id"], output_format="parquet")
    refused("'ids'", columns=["ids"], output_format="parquet")
    refused("no token", append_eos="<nothing>")
    refused("no id", append_eos=10**6)
    refused("special token", allowed_special=["<nothing>"])
    refused("once", inputs=["-", "-"])
    refused("name another folder", output=tmp_path)
    refused("such file", FileNotFoundError, inputs=tmp_path, output=tmp_path)
    refused("this is a file", NotADirectoryError, output=path)
    with pytest.raises(TypeError, match=r"numbatok\.Tokenizer"):
        encode_files("gpt2", path, tmp_path / "out")
    two = small_ranks.add_special_tokens(["</s>"])
    with pytest.raises(ValueError, match="not certain"):
        encode_files(two, path, tmp_path / "out", append_eos=True)


def test_open_tokens_tells_what_is_wrong(tmp_path, small_ranks, small_merges):
    with pytest.raises(FileNotFoundError, match="no manifest"):
        numbatok.open_tokens(tmp_path)
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    encode_files(small_ranks, path, out, separator="\n")
    tokens = numbatok.open_tokens(out / "manifest.json")
    with pytest.raises(IndexError, match="document 65"):
        tokens[len(TEXTS)]
    with pytest.raises(IndexError, match="shard 1 is out of range for 1 shard"):
        tokens.shard(1)
    with pytest.raises(TypeError, match="integer or a slice"):
        tokens["a"]
    with pytest.raises(TypeError, match="the index must be an integer or a slice, not bool"):
        tokens[True]
    with pytest.raises(IndexError, match=r"shard 9 is out of range for 1 shard$"):
        tokens.shard(9)
    for number in (True, "a", 0.0, None, slice(1), np.arange(2), np.True_):
        with pytest.raises(TypeError, match=f"number must be an integer, not {type(number).__name__}"):
            tokens.shard(number)
    assert tokens.shard(-1) is tokens.shard(np.int64(0))
    for tokenizer in (None, "gpt2"):
        with pytest.raises(TypeError, match=rf"must be a numbatok\.Tokenizer, not {type(tokenizer).__name__}"):
            tokens.decode(0, tokenizer)
    with pytest.raises(ValueError, match="another tokenizer"):
        tokens.decode(0, small_merges)
    assert "65 documents" in repr(tokens)
    data = (out / "tokens-00000.bin").read_bytes()
    (out / "tokens-00000.bin").write_bytes(data[:-1] + b"\x01")
    with pytest.raises(ValueError, match=r"tokens-00000\.bin: is not what was written"):
        tokens.verify()
    before = numbatok.open_tokens(out)
    (out / "tokens-00000.bin").write_bytes(data[:-2])
    with pytest.raises(ValueError, match="were written"):
        before[0]
    for written in (data[:-2], data + b"xx", b""):
        (out / "tokens-00000.bin").write_bytes(written)
        with pytest.raises(ValueError, match=rf"00000\.bin: has {len(written)} bytes, but {len(data)} were written"):
            numbatok.open_tokens(out)
    (out / "tokens-00000.bin").write_bytes(data)
    assert len(numbatok.open_tokens(out)) == len(TEXTS)
    (out / "tokens-00000.offsets.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"is missing, but was written.*tokens-00000\.offsets\.npy"):
        numbatok.open_tokens(out)
    content = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**content, "version": 1}))
    for use in (numbatok.open_tokens, lambda out: encode_files(small_ranks, path, out, separator="\n")):
        with pytest.raises(ValueError, match=r"manifest of version 1, and this numbatok reads version 2; .*overwrite"):
            use(out)
    (out / "manifest.json").write_text("{}")
    with pytest.raises(ValueError, match="not a manifest"):
        numbatok.open_tokens(out)


def test_nothing_to_encode(tmp_path, small_ranks):
    path = tmp_path / "empty.txt"
    path.write_bytes(b"")
    assert encode_files(small_ranks, path, tmp_path / "a", separator="\n").documents == 0
    tokens = numbatok.open_tokens(tmp_path / "a")
    assert (len(tokens), tokens.tokens, tokens[:].tolist(), list(tokens)) == (0, 0, [], [])
    assert encode_files(small_ranks, path, tmp_path / "b").documents == 1
    assert listed(numbatok.open_tokens(tmp_path / "b")) == [[]]


# --- faults ---


def faulty(tmp_path, small_ranks, path, texts, named, **options):
    """Check that a fault ends a run and is named, or is left out and named."""
    with pytest.raises(InputError) as found:
        encode_files(small_ranks, path, tmp_path / "raise", shard_size=100, **options)
    assert named[0] in str(found.value)
    assert not [name for name in os.listdir(tmp_path / "raise") if name.endswith(".partial")]
    report = encode_files(small_ranks, path, tmp_path / "skip", shard_size=100, on_error="skip", **options)
    assert listed(numbatok.open_tokens(tmp_path / "skip")) == [small_ranks.encode(text).tolist() for text in texts]
    assert [str(fault) for fault in report.named_faults] == named
    assert report.faults == len(named)


def test_invalid_utf8(tmp_path, small_ranks, caplog):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine\n\xc3\nalso fine\nbad \xff\n")
    named = [f"{path}: line 2: not UTF-8 at byte 0 of the text", f"{path}: line 4: not UTF-8 at byte 4 of the text"]
    with caplog.at_level(logging.WARNING, "numbatok"):
        faulty(tmp_path, small_ranks, path, ["fine", "also fine"], named, separator="\n")
    assert [record.getMessage() for record in caplog.records] == [f"left out: {name}" for name in named]
    encode_files(small_ranks, path, tmp_path / "replace", separator="\n", errors="replace")
    texts = path.read_bytes().decode("utf-8", "replace").splitlines()
    check(numbatok.open_tokens(tmp_path / "replace"), small_ranks, texts)


@pytest.mark.parametrize("output_format", ["bin", "npy", "megatron", "parquet"])
def test_invalid_utf8_in_parts(tmp_path, small_ranks, monkeypatch, output_format):
    needs_pyarrow(output_format)
    monkeypatch.setattr(run_module, "_within", lambda *_: (2, 16))
    path = tmp_path / "bad.txt"
    path.write_bytes(b"x" * 50 + b"\n" + b"y" * 50 + b"\xff" + b"z" * 50 + b"\nafter\n" + b"w" * 40 + b"\xff")
    named = [f"{path}: line 2: not UTF-8", f"{path}: line 4: not UTF-8"]
    faulty(tmp_path, small_ranks, path, ["x" * 50, "after"], named, separator="\n", output_format=output_format)
    numbatok.open_tokens(tmp_path / "skip").verify()


def test_byte_order_marks_and_line_ends(tmp_path, small_ranks):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n\r\n{"text": "two"}\r\n')
    encode_files(small_ranks, path, tmp_path / "jsonl")
    check(numbatok.open_tokens(tmp_path / "jsonl"), small_ranks, ["one", "two"])
    path = tmp_path / "bom.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    for separator, texts in (("\n", ["\ufeffone\r", "two\r"]), ("\r\n", ["\ufeffone", "two"])):
        out = tmp_path / str(len(separator))
        encode_files(small_ranks, path, out, separator=separator)
        check(numbatok.open_tokens(out), small_ranks, texts)


def test_broken_json_lines(tmp_path, small_ranks):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(
        b'{"text": "one"}\n\n{"text": "two"\n["text"]\n{"other": 1}\n{"text": 5}\n  \n{"text": "\xff"}\n'
        b'{"text": "\\ud800 lone", "n": NaN}\n{"text": "last"} x\n' + b"[" * 100_000 + b"\n" + b'{"text": "end"}'
    )
    with pytest.raises(InputError, match=r"bad\.jsonl: line 3: not JSON"):
        encode_files(small_ranks, path, tmp_path / "raise")
    report = encode_files(small_ranks, path, tmp_path / "skip", on_error="skip")
    check(numbatok.open_tokens(tmp_path / "skip"), small_ranks, ["one", "� lone", "end"])
    assert [fault.where for fault in report.named_faults] == [f"line {n}" for n in (3, 4, 5, 6, 8, 10, 11)]
    reasons = [fault.reason for fault in report.named_faults]
    assert "object" in reasons[1]
    assert "no field 'text', but 'other'" in reasons[2]
    assert "must be a string, not int" in reasons[3]
    assert "not UTF-8" in reasons[4]


@pytest.mark.parametrize("block", [7, 64, 1 << 20])
def test_lines_that_memory_does_not_hold_are_named(tmp_path, small_ranks, monkeypatch, block):
    """Wherever they stand among blocks, and to the byte."""
    monkeypatch.setattr(run_module, "_within", lambda *_: (2, block))
    monkeypatch.setattr(run_module, "_longest", lambda *_: 101)
    monkeypatch.setattr(readers, "_GROWTH", 10)
    longest = max(block, 101)

    def line(number, size):
        return json.dumps({"text": str(number) + "x" * (size - 13 - len(str(number)))}).encode() + b"\n"

    sizes = [20, longest, longest + 1, 30, 5 * longest, 3 * longest + 1, longest - 1, 20, longest + 2, longest]
    lines = [line(number, size) for number, size in enumerate(sizes)]
    assert [len(each) for each in lines] == sizes
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"".join(lines))
    texts = [json.loads(each)["text"] for each in lines if len(each) <= longest]
    reason = f"has more than {longest} bytes, the most that memory holds whole; allow it more"
    named = [f"{path}: line {n + 1}: {reason}" for n, each in enumerate(lines) if len(each) > longest]
    faulty(tmp_path, small_ranks, path, texts, named)


LONGEST_LINES = """
import json, sys
import numbatok
from numbatok.pipelines import encode_files, run

tokenizer = numbatok.get_encoding("gpt2")
memory = 640 << 20
share = tokenizer._start().scratches.cache_share
threads, block = run._within(memory, 2, share)
longest = run._longest(memory, threads, share)
with open(sys.argv[1], "wb") as file:
    for number in range(20):
        # A character that CPython keeps in four bytes, and all others then, too.
        begin = json.dumps({"text": chr(0x1F600)}, ensure_ascii=False)[:-2].encode()
        middle = b" ".join(b"%d" % (number + n) ** 3 for n in range(longest // 12))
        file.write(begin + middle[: longest - len(begin) - 3].ljust(longest - len(begin) - 3) + b'"}\\n')
report = encode_files(tokenizer, sys.argv[1], sys.argv[2], memory=memory, num_threads=2)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(report.documents, longest > block, peak << 10 <= memory, peak)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="this system does not tell a process's memory")
def test_memory_holds_the_longest_lines(tmp_path):
    told = output_of(LONGEST_LINES, str(tmp_path / "long.jsonl"), str(tmp_path / "out")).split()
    assert told[:3] == ["20", "True", "True"], told


def test_many_files_of_lines_with_faults(tmp_path, small_ranks):
    """Whose lines come together in blocks: each fault is named with its own file, in order."""
    texts, named = [], []
    for number in range(40):
        path = tmp_path / f"{number:02}.{'txt' if number % 7 == 3 else 'jsonl'}"
        lines = [f"text {number}", "", f"more {number}"]
        if path.suffix == ".jsonl":
            lines = [json.dumps({"text": text}) for text in lines]
            lines.insert(number % 4, "{")
            lines.insert(number % 3, "  ")
            named.append(f"{path}: line {lines.index('{') + 1}")
        path.write_text("\n".join(lines) + "\n")
        texts += [f"text {number}", "", f"more {number}"]
    inputs = sorted(tmp_path.glob("*.*"))
    report = encode_files(small_ranks, inputs, tmp_path / "out", separator="\n", on_error="skip")
    check(numbatok.open_tokens(tmp_path / "out"), small_ranks, texts)
    assert [str(fault).partition(": not JSON")[0] for fault in report.named_faults] == named


def test_the_first_of_two_faults_is_the_one_that_is_raised(tmp_path, small_ranks):
    """Though the second, in a file's reading, is come upon before the first, in a line of one before it."""
    broken, cut = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    broken.write_bytes(b'{"text": "one"}\nx\n{"text": "three"}\n')
    cut.write_bytes(COMPRESSIONS[".gz"](b'{"text": "four"}\n' * 1000)[:40])
    with pytest.raises(InputError, match=r"a\.jsonl: line 2: not JSON"):
        encode_files(small_ranks, [broken, cut], tmp_path / "raise")
    report = encode_files(small_ranks, [broken, cut], tmp_path / "skip", on_error="skip")
    assert [Path(fault.file).name for fault in report.named_faults] == ["a.jsonl", "b.jsonl.gz"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_truncated_and_damaged_compressed_files(tmp_path, small_ranks, suffix):
    randomness = random.Random(5)
    texts = [f"{number} {randomness.random()}" for number in range(20_000)]
    data = "\n".join(texts).encode()
    packed = COMPRESSIONS[suffix](data)
    path = tmp_path / f"input.txt{suffix}"
    good = write_input(tmp_path, "text", ["after"], "later")
    path.write_bytes(packed[: len(packed) * 2 // 3])
    with pytest.raises(InputError, match=rf"input\.txt{suffix}"):
        encode_files(small_ranks, [path, good], tmp_path / "raise", separator="\n")
    report = encode_files(
        small_ranks, [path, good], tmp_path / "skip", separator="\n", on_error="skip", shard_size=9999
    )
    assert report.faults == 1
    assert report.named_faults[0].where == f"line {report.documents}"
    check(numbatok.open_tokens(tmp_path / "skip"), small_ranks, [*texts[: report.documents - 1], "after"])


def test_unreadable_files(tmp_path, small_ranks):
    gone = tmp_path / "gone.txt"
    gone.symlink_to(tmp_path / "nowhere")
    good = write_input(tmp_path, "text", ["good"])
    faulty(tmp_path, small_ranks, [gone, good], ["good"], [f"{gone}: No such file or directory"], separator="\n")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no file here that opens and cannot be read")
@pytest.mark.parametrize("input_format", ["text", "jsonl", "parquet", "arrow"])
def test_a_file_that_opens_and_cannot_be_read(tmp_path, small_ranks, input_format):
    needs_pyarrow(input_format)
    good = write_input(tmp_path, "text" if input_format == "text" else input_format, ["good"])
    with pytest.raises(InputError, match="/proc/self/mem"):
        encode_files(small_ranks, ["/proc/self/mem", good], tmp_path / "raise", input_format=input_format)
    inputs = ["/proc/self/mem", good]
    report = encode_files(
        small_ranks, inputs, tmp_path / "skip", input_format=input_format, separator="\n", on_error="skip"
    )
    assert (report.documents, report.faults) == (1, 1)
    assert report.named_faults[0].file == "/proc/self/mem"


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_bad_columnar_files(tmp_path, small_ranks, kind):
    pyarrow()
    good = write_input(tmp_path, kind, ["good"], "z")
    whole = write_input(tmp_path, kind, TEXTS, "whole")
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="whole"):
        encode_files(small_ranks, [whole, good], tmp_path / "raise")
    report = encode_files(small_ranks, [whole, good], tmp_path / "skip", on_error="skip")
    assert report.faults == 1
    assert listed(numbatok.open_tokens(tmp_path / "skip"))[-1] == small_ranks.encode("good").tolist()
    for field, match in (("missing", "no column 'missing', but 'id', 'text', 'url'"), ("id", "strings")):
        with pytest.raises(InputError, match=match):
            encode_files(small_ranks, good, tmp_path / field, field=field)


def test_mutated_files_end_in_errors_that_name_them(tmp_path, small_ranks):
    pyarrow()
    randomness = random.Random(3)
    for kind in ("parquet", "arrow", "jsonl"):
        data = bytearray(write_input(tmp_path, kind, TEXTS).read_bytes())
        for turn in range(8):
            mutated = bytearray(data)
            for _ in range(3):
                mutated[randomness.randrange(len(mutated))] ^= 1 << randomness.randrange(8)
            path = tmp_path / f"mutated.{kind}"
            path.write_bytes(mutated)
            report = encode_files(small_ranks, path, tmp_path / f"{kind}{turn}", on_error="skip")
            assert all(fault.file == str(path) for fault in report.named_faults)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_mutated_compressed_files(tmp_path, small_ranks, suffix):
    """What is read of a damaged file is named, or what was written: these formats have checksums, but for Zstandard."""
    randomness = random.Random(7)
    texts = [f"{number} {randomness.random()}" for number in range(500)]
    whole = [small_ranks.encode(text).tolist() for text in texts]
    for kind in ("text", "jsonl"):
        data = write_input(tmp_path, kind, texts).read_bytes()
        packed = COMPRESSIONS[suffix](data)
        for turn in range(12):
            mutated = bytearray(packed)
            for _ in range(1 + turn % 3):
                mutated[randomness.randrange(len(mutated))] ^= 1 << randomness.randrange(8)
            if turn % 4 == 3:
                del mutated[randomness.randrange(len(mutated)) :]
            path = tmp_path / f"mutated.{kind}{suffix}"
            path.write_bytes(mutated)
            out = tmp_path / f"{kind}{turn}"
            report = encode_files(small_ranks, path, out, separator="\n", on_error="skip", errors="strict")
            assert all(fault.file == str(path) for fault in report.named_faults)
            if report.faults == 0 and suffix != ".zst":
                assert listed(numbatok.open_tokens(out)) == whole


def test_disallowed_tokens(tmp_path, small_ranks):
    path = tmp_path / "input.txt"
    path.write_text(f"fine\nnot {small.END}\nfine too\n")
    named = [f"{path}: line 2: the text has the disallowed special token '<|endoftext|>' at byte 4"]
    options = {"separator": "\n", "allowed_special": (), "disallowed_special": "all"}
    faulty(tmp_path, small_ranks, path, ["fine", "fine too"], named, **options)


def test_full_disk(tmp_path, small_ranks, monkeypatch):
    path = write_input(tmp_path, "text", TEXTS)
    encode_files(small_ranks, path, tmp_path / "whole", separator="\n", shard_size=200)
    room = 900
    written = 0
    write = writers.File.write

    def limited(self, data):
        nonlocal written
        written += len(memoryview(data).cast("B"))
        if written > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        return write(self, data)

    monkeypatch.setattr(writers.File, "write", limited)
    with pytest.raises(OSError, match="No space left") as found:
        encode_files(small_ranks, path, tmp_path / "out", separator="\n", shard_size=200)
    assert "tokens-" in found.value.filename
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith(".partial")]
    with pytest.raises(FileNotFoundError, match="the same call again"):
        numbatok.open_tokens(tmp_path / "out")
    monkeypatch.undo()
    report = encode_files(small_ranks, path, tmp_path / "out", separator="\n", shard_size=200)
    assert 0 < report.encoded_bytes < report.bytes
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("output_format", FORMATS)
def test_what_goes_to_the_disk_meanwhile(tmp_path, small_ranks, monkeypatch, output_format):
    """Is all there, and is named where the disk does not take it, by whoever waits for that."""
    needs_pyarrow(output_format)
    path = write_input(tmp_path, "text", [f"{number} {number**9}" for number in range(9000)])
    options = {"separator": "\n", "output_format": output_format, "shard_size": 40_000}
    encode_files(small_ranks, path, tmp_path / "whole", **options)
    sent = []
    to_disk = writers._to_disk

    def counted(descriptor, begin, end):
        if len(sent) == 10:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sent.append((begin, end))
        time.sleep(0.002)
        to_disk(descriptor, begin, end)

    monkeypatch.setattr(run_module, "_within", lambda *_: (2, 5000))
    monkeypatch.setattr(writers, "_SYNC_BYTES", 1000)
    monkeypatch.setattr(writers, "_GROUP_ROWS", 100)
    monkeypatch.setattr(writers, "_to_disk", counted)
    before = threading.active_count()
    with pytest.raises(OSError, match="put/output error") as found:
        encode_files(small_ranks, path, tmp_path / "out", **options)
    assert "tokens-" in found.value.filename
    assert len(sent) == 10
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith(".partial")]
    monkeypatch.setattr(writers, "_to_disk", to_disk)
    encode_files(small_ranks, path, tmp_path / "out", **options)
    assert threading.active_count() == before
    numbatok.open_tokens(tmp_path / "out").verify()
    if output_format not in ("parquet", "arrow"):  # whose groups are others
        assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_no_shard_begins_before_the_first_manifest(tmp_path, small_ranks, monkeypatch):
    """That goes to the disk while blocks are encoded; where it cannot be written, its error is the run's."""
    path = write_input(tmp_path, "text", ["the first", "and the other"])
    write = manifest.write
    names = []

    def slow(folder, name, content):
        time.sleep(0.05)
        names.append(sorted(os.listdir(folder)))
        write(folder, name, content)

    monkeypatch.setattr(manifest, "write", slow)
    encode_files(small_ranks, path, tmp_path / "out", separator="\n")
    assert names[0] == []
    assert names[-1] == [manifest.UNFINISHED, "tokens-00000.bin", "tokens-00000.offsets.npy"]

    def refused(folder, name, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / name))

    monkeypatch.setattr(manifest, "write", refused)
    with pytest.raises(OSError, match="No space left"):
        encode_files(small_ranks, path, tmp_path / "other", separator="\n")
    assert os.listdir(tmp_path / "other") == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount a small file system")
@pytest.mark.parametrize("output_format", FORMATS)
def test_full_file_system(tmp_path, small_ranks, output_format):
    """Nothing half-written stays; with more room the same call goes on to the same as if there had been."""
    needs_pyarrow(output_format)
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        path = write_input(tmp_path, "text", [f"{number} {number**9}" for number in range(9000)])
        options = {"separator": "\n", "output_format": output_format, "shard_size": 20_000}
        with pytest.raises(OSError, match="No space left"):
            encode_files(small_ranks, path, disk / "out", **options)
        left = os.listdir(disk / "out")
        assert not [name for name in left if name.endswith(".partial")]
        assert "manifest.json" not in left
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        report = encode_files(small_ranks, path, disk / "out", **options)
        assert 0 < report.encoded_bytes < report.bytes
        encode_files(small_ranks, path, tmp_path / "whole", **options)
        assert contents(disk / "out") == contents(tmp_path / "whole")
    finally:
        subprocess.run(["umount", disk], check=True)


# --- resuming ---


def interrupted(small_ranks, monkeypatch, after, *arguments, **options):
    """Run until so many blocks are written, and then raise."""
    add = sink.Sink.add
    count = 0

    def counted(self, encoded):
        nonlocal count
        count += 1
        if count > after:
            raise KeyboardInterrupt
        add(self, encoded)

    monkeypatch.setattr(sink.Sink, "add", counted)
    with pytest.raises(KeyboardInterrupt):
        encode_files(small_ranks, *arguments, **options)
    monkeypatch.undo()


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("kind", ["text", "gz", "jsonl", "parquet", "arrow"])
def test_a_run_that_goes_on_makes_the_same(tmp_path, small_ranks, monkeypatch, kind, output_format):
    needs_pyarrow(kind)
    needs_pyarrow(output_format)
    texts = [text for text in TEXTS if "\n" not in text] * 3
    if kind == "gz":
        path = tmp_path / "input.txt.gz"
        path.write_bytes(gzip.compress("\n".join(texts).encode()))
    else:
        path = write_input(tmp_path, kind, texts)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\nfine\n" * 10)
    inputs = [path, bad, path] if kind in ("text", "gz") else [path, path]
    options = {"separator": "\n", "output_format": output_format, "shard_size": 300, "on_error": "skip"}
    monkeypatch.setattr(run_module, "_within", lambda *_: (2, 1000))
    encode_files(small_ranks, inputs, tmp_path / "whole", **options)
    for after in (1, 3, 6, 9):
        monkeypatch.setattr(run_module, "_within", lambda *_: (2, 1000))
        out = tmp_path / f"out{after}"
        interrupted(small_ranks, monkeypatch, after, inputs, out, **options)
        (out / "tokens-00099.bin.partial").write_bytes(b"left behind")
        monkeypatch.setattr(run_module, "_within", lambda *_: (2, 777))
        report = encode_files(small_ranks, inputs, out, **options)
        assert report.encoded_bytes < report.bytes or after == 1
        assert contents(out) == contents(tmp_path / "whole")


def test_a_finished_run_is_left_alone(tmp_path, small_ranks):
    path = write_input(tmp_path, "text", TEXTS)
    first = encode_files(small_ranks, path, tmp_path / "out", separator="\n")
    times = {name: os.stat(tmp_path / "out" / name).st_mtime_ns for name in os.listdir(tmp_path / "out")}
    again = encode_files(small_ranks, path, tmp_path / "out", separator="\n")
    assert (again.tokens, again.encoded_bytes) == (first.tokens, 0)
    assert times == {name: os.stat(tmp_path / "out" / name).st_mtime_ns for name in os.listdir(tmp_path / "out")}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_folder_that_has_lost_something_is_refused(tmp_path, small_ranks, output_format, is_finished):
    needs_pyarrow(output_format)
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    options = {"separator": "\n", "output_format": output_format, "shard_size": 500}
    encode_files(small_ranks, path, out, **options)
    whole = contents(out)
    if not is_finished:
        content = {**json.loads(whole["manifest.json"]), "resume": [0, 0, 0]}
        (out / "manifest.unfinished.json").write_text(json.dumps(content))
        (out / "manifest.json").unlink()
    there = contents(out)
    for name in (name for name in whole if name.startswith("tokens-")):
        for error, match, damage in (
            (FileNotFoundError, "is missing, but was written; .* overwrite=True.*" + name, Path.unlink),
            (
                ValueError,
                f"{name}: has 2 bytes, but .* were written; .* overwrite=True",
                lambda at: at.write_text("x\n"),
            ),
        ):
            damage(out / name)
            damaged = contents(out)
            with pytest.raises(error, match=match):
                encode_files(small_ranks, path, out, **options)
            assert contents(out) == damaged
            (out / name).write_bytes(there[name])
    (out / name).unlink()
    encode_files(small_ranks, path, out, **options, overwrite=True)
    assert contents(out) == whole


@pytest.mark.parametrize("output_format", ["bin", "parquet"])
def test_a_run_goes_on_by_the_version_that_began_it(tmp_path, small_ranks, output_format):
    """Another one might write other bytes; what is whole is left alone."""
    needs_pyarrow(output_format)
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    options = {"separator": "\n", "output_format": output_format, "shard_size": 500}
    encode_files(small_ranks, path, out, **options)
    content = json.loads((out / "manifest.json").read_text())
    for name in ("numbatok", "pyarrow"):
        assert (name in content) == (name == "numbatok" or output_format == "parquet")
        if name in content:
            (out / "manifest.json").write_text(json.dumps({**content, name: "0.0.1"}))
            assert encode_files(small_ranks, path, out, **options).encoded_bytes == 0
            (out / "manifest.json").unlink()
            unfinished = {**content, name: "0.0.1", "resume": [0, 0, 0]}
            (out / "manifest.unfinished.json").write_text(json.dumps(unfinished))
            with pytest.raises(ValueError, match=rf"differs in: {name} \(0\.0\.1, now {content[name]}\)"):
                encode_files(small_ranks, path, out, **options)
            encode_files(small_ranks, path, out, **options, overwrite=True)
            assert json.loads((out / "manifest.json").read_text()) == content


def test_another_run_in_the_same_folder_is_refused(tmp_path, small_ranks, small_merges):
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    encode_files(small_ranks, path, out, separator="\n")
    with pytest.raises(ValueError, match="tokenizer"):
        encode_files(small_merges, path, out, separator="\n")
    with pytest.raises(ValueError, match=r"separator \('\\n', now None\)"):
        encode_files(small_ranks, path, out)
    path.write_text("other")
    with pytest.raises(ValueError, match="inputs, or their sizes"):
        encode_files(small_ranks, path, out, separator="\n")
    encode_files(small_ranks, path, out, separator="\n", overwrite=True)
    check(numbatok.open_tokens(out), small_ranks, ["other"])
    stranger = tmp_path / "other"
    stranger.mkdir()
    (stranger / "tokens-00000.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match="in the way"):
        encode_files(small_ranks, path, stranger)


def test_two_runs_at_once_are_refused(tmp_path, small_ranks):
    fcntl = pytest.importorskip("fcntl", reason="no locks on this system")
    path = write_input(tmp_path, "text", TEXTS)
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(ValueError, match="another run"):
            encode_files(small_ranks, path, out)
    finally:
        os.close(handle)


SCRIPT = """
import sys, numbatok
from numbatok.pipelines import encode_files, run
run._within = lambda *_: (2, 20_000)
encode_files(
    numbatok.get_encoding("gpt2"), sys.argv[1:-2], sys.argv[-2], separator="\\n", output_format=sys.argv[-1],
    shard_size=60_000, append_eos=True, on_error="skip",
)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("output_format", ["bin", "parquet"])
def test_killed_runs_go_on(tmp_path, gpt2, output_format):
    needs_pyarrow(output_format)
    randomness = random.Random(11)
    texts = [" ".join(str(randomness.random()) for _ in range(randomness.randrange(40))) for _ in range(6000)]
    data = "\n".join(texts).encode()
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_bytes(data + b"\n\xff bad\n")
    packed.write_bytes(gzip.compress(data, 1)[:-2000])
    inputs = [str(plain), str(packed), str(plain)]

    def start(out):
        environment = {**os.environ, "PYTHONPATH": str(Path(numbatok.__file__).parent.parent)}
        arguments = [sys.executable, "-c", SCRIPT, *inputs, str(out), output_format]
        return subprocess.Popen(arguments, env=environment, cwd=Path(__file__).parent)

    started = time.perf_counter()
    assert start(tmp_path / "whole").wait() == 0
    whole = time.perf_counter() - started
    kills = 0
    out = tmp_path / "out"
    while True:
        run = start(out)
        if kills == 4:
            assert run.wait() == 0
            break
        begun = len(contents(out)) if out.exists() else 0
        # Some time after the first new shard, so that there is progress; the process takes a while to begin.
        deadline = time.perf_counter() + 2 * whole + 10
        while run.poll() is None and time.perf_counter() < deadline:
            if out.exists() and len(list(out.iterdir())) > begun:
                break
            time.sleep(0.002)
        time.sleep(randomness.random() * 0.3)
        run.kill()
        if run.wait() == 0:
            break
        kills += 1
        manifests = [out / "manifest.json", out / "manifest.unfinished.json"]
        shards = next((json.loads(path.read_text())["shards"] for path in manifests if path.exists()), [])
        for shard in shards:
            for file in shard["files"]:
                assert f"{zlib.crc32((out / file['name']).read_bytes()):08x}" == file["crc32"]
    assert kills
    assert contents(out) == contents(tmp_path / "whole")


# --- the command line ---


def test_command_line(tmp_path, capsys, monkeypatch):
    path = write_input(tmp_path, "jsonl", ["Hello world", "again"])
    out = tmp_path / "out"
    options = ["--append-eos", "<|endoftext|>", "--dtype", "uint32", "--shard-size", "1MB", "--memory", "1GiB"]
    assert cli.main(["encode", str(path), "-o", str(out), "--format", "npy", *options]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "2 documents, 5 tokens" in captured.err
    assert listed(numbatok.open_tokens(out)) == [[15496, 995, 50256], [17776, 50256]]
    assert cli.main(["encode", str(path), "-o", f"{tmp_path}/bin/", "--append-eos"]) == 0
    assert listed(numbatok.open_tokens(tmp_path / "bin")) == [[15496, 995, 50256], [17776, 50256]]
    for name in (str(path), f"{tmp_path}/*.jsonl"):  # documents by its name, so without another word too
        folder = tmp_path / f"by-name{len(name)}"
        assert cli.main(["encode", name, "-o", str(folder)]) == 0
        assert listed(numbatok.open_tokens(folder)) == [[15496, 995], [17776]]
    assert cli.main(["encode", str(path), "-o", str(tmp_path / "one.npy")]) == 0  # as the text that the file is
    assert numbatok.get_encoding("gpt2").decode(np.load(tmp_path / "one.npy")) == path.read_text()
    text = tmp_path / "text.txt"
    text.write_bytes(b"a\tb\n\xff\tc")
    for separator, documents in ((["--lines"], 1), (["--separator", r"\t"], 2)):
        folder = tmp_path / separator[0]
        arguments = ["encode", str(text), "-o", str(folder), "--on-error", "skip", *separator]
        assert cli.main(arguments) == 0
        assert len(numbatok.open_tokens(folder)) == documents
        assert "left out" in capsys.readouterr().err


def test_command_line_says_what_is_wrong(tmp_path, capsys):
    path = write_input(tmp_path, "text", TEXTS)

    def refused(match, *arguments):
        assert cli.main(["encode", str(path), *map(str, arguments)]) != 0
        err = capsys.readouterr().err
        assert match in err
        assert "Traceback" not in err

    refused("name one with -o", "--lines")
    refused("go into a folder", "-o", "-", "--format", "npy")
    refused("--format bin", "-o", tmp_path / "tokens.bin")
    refused("--format megatron", "-o", tmp_path / "tokens.idx")
    refused("one of them", "-o", tmp_path / "out", "--lines", "--separator", "x")
    refused("not a size", "-o", tmp_path / "out", "--shard-size", "much")
    refused("no place for columns", "-o", tmp_path / "out", "--columns", "a,b")
    assert cli.main(["encode", str(path), "-o", str(tmp_path / "out"), "--format", "bin"]) == 0
    refused("--overwrite", "-o", tmp_path / "out", "--lines")
    assert cli.main(["encode", str(path), "-o", str(tmp_path / "out"), "--format", "bin"]) == 0
    assert "1 document, " in (err := capsys.readouterr().err)
    assert "in 1 shard; all was there already" in err
    (tmp_path / "out" / "tokens-00000.bin").write_bytes(b"x\n")
    refused("tokens-00000.bin: has 2 bytes, but", "-o", tmp_path / "out", "--format", "bin")
    refused("or encode again with --overwrite\n", "-o", tmp_path / "out", "--format", "bin")
    (tmp_path / "out" / "tokens-00000.bin").unlink()
    refused("tokens-00000.bin: is missing, but was written", "-o", tmp_path / "out", "--format", "bin")
    refused("or encode again with --overwrite\n", "-o", tmp_path / "out", "--format", "bin")
    missing = tmp_path / "missing.jsonl"
    assert cli.main(["encode", str(missing), "-o", str(tmp_path / "other"), "--format", "bin"]) == 1
    assert "missing.jsonl: no such file" in capsys.readouterr().err


def test_a_document_too_long_for_megatron() -> None:
    """Its index has int32 lengths: a longer document is refused, not written wrong."""
    lengths, offsets = np.array([5, 1 << 31]), np.array([0, 5, 5 + (1 << 31)])
    with pytest.raises(ValueError, match="2147483648 ids"):
        writers._megatron_index(lengths, offsets, np.dtype("<u2"))
