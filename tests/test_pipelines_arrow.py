"""Batches of other engines: record batches by themselves, Hugging Face's datasets, Dask, Ray with a killed actor."""

import gc
import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
import warnings

import pytest

import numbatok
import small
from numbatok.pipelines.arrow import encode_record_batch

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

TEXTS = ["Hello world", None, "", "naïve ☃", *(f"number {n}" for n in range(20))]
END = small.ADDED[small.END]


@pytest.fixture
def table():
    return pa.table({"id": range(len(TEXTS)), "text": TEXTS, "url": [f"u{n}" for n in range(len(TEXTS))]})


def rows(tokenizer, end=()):
    """What is expected of all texts."""
    return [None if text is None else [*tokenizer.encode(text).tolist(), *end] for text in TEXTS]


def test_tables_and_record_batches(small_ranks, table):
    made = encode_record_batch(table, small_ranks)
    assert made.schema.names == ["id", "url", "ids"]
    assert made["ids"].to_pylist() == rows(small_ranks)
    assert made["ids"].type == pa.list_(pa.uint32())
    batch = table.to_batches()[0].slice(1, 7)
    made = encode_record_batch(batch, small_ranks, append_eos=True, columns=["text"], output="tokens")
    assert isinstance(made, pa.RecordBatch)
    assert made.schema.names == ["text", "tokens"]
    assert made["tokens"].to_pylist() == rows(small_ranks, [END])[1:8]
    assert len(encode_record_batch(table.slice(0, 0), small_ranks)) == 0
    for dtype in ("int32", "uint16", "int64"):
        made = encode_record_batch(table, small_ranks, dtype=dtype)["ids"]
        assert made.type == pa.list_(getattr(pa, dtype)())
        assert made.to_pylist() == rows(small_ranks)


def template(*around):
    """A post-processor that puts the end token around a text, so often before and after it."""
    tokens = [{"SpecialToken": {"id": small.END, "type_id": kind}} for kind in (0, 1)]
    before, after = ([token] * count for token, count in zip(tokens, around, strict=True))
    return {
        "type": "TemplateProcessing",
        "single": [*before, {"Sequence": {"id": "A", "type_id": 1}}, *after],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {small.END: {"id": small.END, "ids": [END], "tokens": [small.END]}},
    }


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalizer": {"type": "Lowercase"}},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}, "post_processor": template(1, 1)},
        {"post_processor": template(2, 0)},
        {"post_processor": template(0, 1)},
    ],
)
def test_the_end_comes_last(changes, special):
    """Behind the template's tokens, whatever the text goes through, by one thread and by several."""
    tokenizer = numbatok.Tokenizer.from_str(json.dumps({**small.tokenizer_json(), **changes}))
    texts = [*TEXTS, f" With {small.END}inside ", "a<b " * 10_000, *(f"Many {n} " * 40 for n in range(1000)), None]
    expected = {
        text: [*tokenizer.encode(text, add_special_tokens=special).tolist(), 7] for text in texts if text is not None
    }
    for threads in (1, 2):
        options = {"append_eos": 7, "add_special_tokens": special, "num_threads": threads}
        for dtype in ("uint32", "int32"):
            made = encode_record_batch(pa.table({"text": texts}), tokenizer, dtype=dtype, **options)
            assert made["ids"].to_pylist() == [text if text is None else expected[text] for text in texts]
    options |= {"allowed_special": (), "disallowed_special": "all"}
    with pytest.raises(ValueError, match=f"at byte 6 of the text at index {len(TEXTS)} of the batch"):
        encode_record_batch(pa.table({"text": texts}), tokenizer, **options)


def test_types_of_ids(small_ranks, table):
    assert encode_record_batch(table, small_ranks, dtype=None)["ids"].type == pa.list_(pa.uint32())
    assert encode_record_batch(table, small_ranks, dtype=">i4")["ids"].type == pa.list_(pa.int32())
    for dtype, limit in (("int8", 128), ("uint8", 256)):
        with pytest.raises(ValueError, match=f"^{dtype} holds ids below {limit}, but this vocabulary has"):
            encode_record_batch(table, small_ranks, dtype=dtype)
    wide = numbatok.get_encoding("cl100k_base")
    with pytest.raises(ValueError, match=r"^int16 holds ids below 32768, but this vocabulary has 100277; use a wider"):
        encode_record_batch(table, wide, dtype="int16")
    for dtype in ("float32", bool, "datetime64[s]", str, object, "i4,i4"):
        with pytest.raises(ValueError, match=r"^ids can be of a type of integers, such as int32, not of"):
            encode_record_batch(table, small_ranks, dtype=dtype)
    for dtype in ("words", 7, pa.int32()):
        with pytest.raises(TypeError, match=r"^dtype must be a type of integers, such as 'int32', not"):
            encode_record_batch(table, small_ranks, dtype=dtype)


def test_what_is_wrong_with_a_batch(small_ranks, table):
    with pytest.raises(TypeError, match="not dict"):
        encode_record_batch({}, small_ranks)
    with pytest.raises(ValueError, match="no column 'words', but 'id', 'text', 'url'"):
        encode_record_batch(table, small_ranks, "words")
    with pytest.raises(ValueError, match="choose another name"):
        encode_record_batch(table, small_ranks, output="url")
    with pytest.raises(TypeError, match="strings"):
        encode_record_batch(table, small_ranks, "id")
    with pytest.raises(ValueError, match="no token"):
        encode_record_batch(table, small_ranks, append_eos="<nothing>")


def test_batches_as_spark_hands_them_out(small_ranks, table):
    def encode(batches):
        return (encode_record_batch(batch, small_ranks) for batch in batches)

    made = pa.Table.from_batches(list(encode(table.to_batches(max_chunksize=5))))
    assert made["ids"].to_pylist() == rows(small_ranks)


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_datasets(small_ranks, table):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    dataset = datasets.Dataset(table).with_format("arrow")
    made = dataset.map(lambda part: encode_record_batch(part, small_ranks), batched=True, batch_size=7)
    assert made.with_format(None)["ids"][:] == rows(small_ranks)


@pytest.mark.filterwarnings("ignore")
def test_dask(small_ranks, table):
    dask = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    frame = dask.from_pandas(table.to_pandas(), npartitions=3)
    made = frame.map_partitions(
        lambda part: encode_record_batch(pa.Table.from_pandas(part, preserve_index=False), small_ranks).to_pandas(),
        meta={"id": "int64", "url": "object", "ids": "object"},
    ).compute(scheduler="threads")
    assert [None if ids is None else ids.tolist() for ids in made["ids"]] == rows(small_ranks)


@pytest.mark.filterwarnings("ignore")
def test_spark(small_ranks, table):
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if not shutil.which("java"):
        pytest.skip("Spark needs Java, which is not installed")
    path = os.pathsep.join([os.path.dirname(os.path.dirname(numbatok.__file__)), os.path.dirname(__file__), *sys.path])
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.executorEnv.PYTHONPATH", path).getOrCreate()
    try:
        frame = session.createDataFrame(list(zip(range(len(TEXTS)), TEXTS, strict=True)), "id int, text string")
        made = frame.repartition(2).mapInArrow(
            lambda batches: (encode_record_batch(batch, small_ranks, dtype="int32") for batch in batches),
            "id int, ids array<int>",
        )
        found = {row.id: row.ids for row in made.collect()}
    finally:
        session.stop()
    assert [found[number] for number in range(len(TEXTS))] == rows(small_ranks)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    path = os.pathsep.join([os.path.dirname(os.path.dirname(numbatok.__file__)), os.path.dirname(__file__)])
    for attempt in range(3):
        try:
            ray.init(
                num_cpus=3,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=200 << 20,
                runtime_env={"env_vars": {"PYTHONPATH": path}},
            )
            break
        except Exception as error:  # it gives itself 30 s, which is little on a busy machine
            ray.shutdown()
            if "timed out" not in str(error) or attempt == 2:
                raise
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    yield ray
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of processes that it leaves to end by themselves
        ray.shutdown()
        gc.collect()


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_ray(ray, small_ranks, tmp_path):
    """A folder of Parquet to a folder of Parquet by two actors, one of which is killed meanwhile."""
    from pyarrow import parquet

    from numbatok.pipelines import ray as pipeline

    texts = [f"document {number} {'x' * (number % 50)}" for number in range(4000)]
    (tmp_path / "in").mkdir()
    for part in range(8):
        numbers = range(part, 4000, 8)
        part_of = pa.table({"id": list(numbers), "text": [texts[n] for n in numbers]})
        parquet.write_table(part_of, tmp_path / "in" / f"{part}.parquet")
    pids = tmp_path / "pids"
    pids.mkdir()

    def noted(table):
        """Say which process runs, wait until there are two, and be slow, so that each has work when one is killed."""
        (pids / str(os.getpid())).touch()
        deadline = time.monotonic() + 100
        while len(list(pids.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.1)
        return table

    class Slow(pipeline._Actor):
        def __call__(self, table):
            return noted(super().__call__(table))

    original, pipeline._Actor = pipeline._Actor, Slow
    try:
        dataset = ray.data.read_parquet(str(tmp_path / "in")).repartition(20)
        encoded = pipeline.encode(dataset, small_ranks, append_eos=True, actors=2, batch_size=100)
    finally:
        pipeline._Actor = original

    killed = []
    done = threading.Event()

    def kill():
        while not done.is_set() and not killed:
            found = list(pids.iterdir())
            if len(found) >= 2:
                time.sleep(0.3)
                os.kill(int(found[0].name), signal.SIGKILL)
                killed.append(found[0].name)
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        encoded.write_parquet(str(tmp_path / "out"))
    finally:
        done.set()
        killer.join()
    assert killed
    made = parquet.read_table(tmp_path / "out").sort_by("id")
    assert made["id"].to_pylist() == list(range(4000))
    assert made["ids"].to_pylist() == [[*small_ranks.encode(text).tolist(), END] for text in texts]


@pytest.mark.ray
def test_what_is_wrong_with_a_call_for_ray(small_ranks):
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    from numbatok.pipelines import ray as pipeline

    with pytest.raises(TypeError, match=r"numbatok\.Tokenizer"):
        pipeline.encode(None, "gpt2")
    with pytest.raises(ValueError, match="no token"):
        pipeline.encode(None, small_ranks, append_eos="<nothing>")
    with pytest.raises(TypeError, match="'error'"):
        pipeline.encode(None, small_ranks, error="replace")
    with pytest.raises(ValueError, match="int8 holds ids below 128"):
        pipeline.encode(None, small_ranks, dtype="int8")
