"""Fields of lines of JSON as the kernel finds them, against ``json``."""

import json
import random
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numbatok.columns import Column
from numbatok.memory import address_of
from numbatok.pipelines.blocks import Block
from numbatok.pipelines.inputs import Input
from numbatok.pipelines.json_lines import _values, parsed
from numbatok.text import repair_surrogates
from support import output_of

NAMES = ["text", "", "url", "tex", "naïve", "b\\n", "a"]
STRINGS = [
    "",
    "text",
    "a\nb",
    'say "x"',
    "tab\t\x7f",
    "naïve ☃",
    "日本",
    "😀",
    "\\",
    "\ud800",
    "x" * 70,
    "é" * 40 + '"',
]


def block_of(lines: list[bytes]) -> Block:
    """The lines as a reader hands them out."""
    data = np.frombuffer(bytearray(b"\n".join(lines) + b"\n"), np.uint8)
    lengths = np.array([len(line) for line in lines], np.int64)
    begins = np.append(0, np.cumsum(lengths + 1)[:-1])
    places = np.stack([np.zeros(len(lines), np.int64), begins + lengths + 1, 1 + np.arange(len(lines))], axis=1)
    return Block(Column(address_of(data) + begins, lengths, data), places, is_json=True)


def by_json(line: bytes, field: str) -> tuple[str, object]:
    """("text", the text), ("fault", ...) or ("empty", ...) of a line."""
    if not line.strip():
        return "empty", None
    try:
        text = json.loads(line.decode().removeprefix("\ufeff"))[field]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "fault", None
    if text is not None and not isinstance(text, str):
        return "fault", None
    return "text", None if text is None else repair_surrogates(text).encode()


def check(lines: list[bytes], field: str = "text") -> None:
    """What comes of lines is what comes of each by ``json``."""
    expected = [by_json(line, field) for line in lines]
    found = parsed(block_of(lines), [Input("lines", "jsonl", "line", None)], field, (), "strict")
    texts = found.texts
    got = [None if texts.valid is not None and not texts.valid[n] else texts[n] for n in range(len(texts))]
    assert got == [text for kind, text in expected if kind == "text"]
    assert found.places[:, 2].tolist() == [n for n, (kind, _) in enumerate(expected, 1) if kind == "text"]
    faults = [f"line {n}" for n, (kind, _) in enumerate(expected, 1) if kind == "fault"]
    assert [fault.where for _, fault in found.faults] == faults
    # Each stands before the document that comes next.
    numbers = found.places[:, 2]
    assert [at for at, _ in found.faults] == [int((numbers < int(where[5:])).sum()) for where in faults]


def values(strings: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    plain = st.one_of(
        strings, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
    )
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        max_leaves=6,
    )


def spelled(value: object, rng: random.Random) -> str:
    """A value as JSON, with white space and escapes here and there."""
    space = rng.choice(["", "", " ", "\t \r"])
    if isinstance(value, str):
        content = json.dumps(value, ensure_ascii=rng.random() < 0.3 or not value.isprintable())[1:-1]
        return f'{space}"{content.replace("/", rng.choice(["/", chr(92) + "/"]))}"{space}'
    if isinstance(value, list):
        return f"{space}[{','.join(spelled(item, rng) for item in value) or space}]{space}"
    if isinstance(value, dict):
        members = ",".join(f"{spelled(name, rng)}:{spelled(item, rng)}" for name, item in value.items())
        return f"{space}{{{members or space}}}{space}"
    return f"{space}{json.dumps(value)}{space}"


@settings(max_examples=400)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(NAMES), values(st.sampled_from(STRINGS) | st.text(max_size=100)), max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(NAMES),
    st.integers(0, 1 << 30),
)
def test_lines_are_as_json_reads_them(records, field, seed):
    """Well-formed ones, and others: with bytes that are missing, doubled, changed or from elsewhere."""
    rng = random.Random(seed)
    lines = [spelled(record, rng).encode("utf-8", "surrogatepass").replace(b"\n", b"\r") for record in records]
    check(lines, field)
    for _ in range(8):
        damaged = []
        for line in lines:
            at = rng.randrange(len(line) + 1)
            size = rng.choice([0, 0, 1, 1, 4])
            new = rng.choice(
                [b"", b"", b'"', b"\\", b",", b"{", b"]", b"}", b":", b"0", b"-1.e", b"\x01", b"\xff", line]
            )
            damaged.append(line[:at] + new + line[at + size :])
        check(damaged, field)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"text": "a", "text": "b"}',
        '{"text": "a\\n", "text": null}',
        '{"text": null, "text": "last"}',
        '{"text": "first", "text": {}}',
        '{"te\\u0078t": "escaped name"}',
        '{"text": "before", "te\\u0078t": "escaped name"}',
        '{"other": {"text": "inside"}, "text": "outside"}',
        '{"other": [{"text": 1}, ["text"]], "text": "outside"}',
        '{"text": "\\ud83d\\ude00 \\uD83D\\uDE00"}',
        '{"text": "\\ud83d"}',
        '{"text": "\\ude00\\ud83d"}',
        '{"text": "\\ud83d\\u0041"}',
        '{"text": "\\u00e9\\u4e2d\\/\\b\\f\\r\\t\\"\\\\"}',
        '{"text": "\\u12"}',
        '{"text": "\\u12g4"}',
        '{"text": "\\x41"}',
        '{"text": "ends in \\',
        '{"text": "ends',
        '{"text"',
        '{"text":',
        "{",
        '{"text": "a"',
        '{"text": "a",}',
        '{"text": "a"} {}',
        '{"text": "a"}}',
        '{"text": "a", "n": [1,]}',
        '{"text": "a", "n": [,1]}',
        '{"text": "a", "n": [1 2]}',
        '{"text": "a", "n": [}',
        '{"text": "a", "n": {]}',
        '{"text": "a", "n": {"m"}}',
        '{"text": "a", "n": {"m":}}',
        '{"text": "a", 5: 6}',
        '{"text": "a", null: 6}',
        '{,"text": "a"}',
        '["text"]',
        '"text"',
        "5",
        "null",
        "﻿" + '{"text": "behind a byte order mark"}',
        *(f'{{"n": {word}, "text": "a"}}' for word in ("true", "false", "null", "tru", "nulll", "True", "n", "t", "")),
        *(
            f'{{"n": {n}, "text": "a"}}'
            for n in ("0", "-0", "-", "01", "1.", ".5", "1.5e", "1e+5", "1E-05", "1e5.5", "+1")
        ),
        *(f'{{"n": {n}, "text": "a"}}' for n in ("NaN", "-Infinity", "1_000", "0x1", "9" * 100, "1e999", "1 ", "\v1")),
        *(f'{{"n": {"[" * depth}{"]" * depth}, "text": "a"}}' for depth in (1, 61, 62, 63, 64, 65, 200)),
        *(f'{{"n": {"[" * 62}{"]" * depth}, "text": "a"}}' for depth in (61, 63)),
        *(
            f'{{"text": "{"x" * size}{end}'
            for size in (*range(50, 70), *range(115, 130))
            for end in ('"}', '\\n"}', '"', "")
        ),
    ],
)
def test_a_line(line):
    check([line.encode()])
    check([b"", b'{"text": "before"}', line.encode(), b" \t\r", line.encode(), b'{"text": "after"}'])


def test_what_is_left_to_python_is_rare():
    lines = [
        {
            "text": 'a "quoted" line\nwith ☃ \\ and 😀' * 9,
            "n": [1, -2.5e-7, {"deep": [[None, True, False]]}],
            "id": "x",
        },
        {"meta": {"text": 5}, "text": None},
        {"text": ""},
    ]
    for is_ascii in (True, False):
        block = block_of([json.dumps(line, ensure_ascii=is_ascii).encode() for line in lines])
        assert (_values(block.texts, ["text", "n"])[0][:, 0, 0] >= 0).all()


def test_fields_that_are_carried_along():
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    lines = [
        b'{"text": "one\\n", "url": "a\\tb", "n": 1.10, "more": {"x": [1,  "\\u00e9"]}}',
        b'{"n": "again", "n": null, "text": null}',
        b'{"text": "broken", "url": }',
        b'{"text": 5, "url": "\\n"}',
        b"",
        b'{"text": "by Python", "n": NaN, "url": "\\ud800", "more": {"x": [1,  "\\u00e9"]}}',
        b'{"url": "last", "text": "\\u00e9", "n": 123456789012345678901234567890}',
    ]
    columns = ["url", "text", "n", "more", "none"]
    found = parsed(block_of(lines), [Input("lines", "jsonl", "line", None)], "text", columns, "strict")
    assert found.carried.to_pydict() == {
        "url": ["a\tb", None, "�", "last"],
        "text": ["one\n", None, "by Python", "é"],
        "n": ["1.10", None, "NaN", "123456789012345678901234567890"],
        "more": ['{"x": [1,  "\\u00e9"]}', None, '{"x": [1, "é"]}', None],
        "none": [None] * 4,
    }
    assert [(at, fault.where) for at, fault in found.faults] == [(2, "line 3"), (2, "line 4")]


GUARDED = """
    import ctypes, json, mmap
    import numpy as np
    from numbatok.columns import Column
    from numbatok.pipelines.json_lines import _values

    PAGE = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    region = mmap.mmap(-1, 3 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    memory = np.frombuffer(region, np.uint8)[PAGE : 2 * PAGE]
    for guard in (address, address + 2 * PAGE):
        if libc.mprotect(ctypes.c_void_p(guard), PAGE, mmap.PROT_READ & 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    checked = 0
    for size in range(260):
        whole = json.dumps({"text": "x" * (size % 131) + chr(10) * (size > 130), "n": [size]}).encode()
        for line in (whole, whole[: size % len(whole)]):
            for begin in (0, PAGE - len(line)):
                memory[begin : begin + len(line)] = np.frombuffer(line, np.uint8)
                column = Column(np.array([address + PAGE + begin]), np.array([len(line)]), memory)
                (place,) = _values(column, ["text"])[0][:, 0].tolist()
                assert (place[0] == 2) == (line == whole), line
                checked += 1
    print(checked)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_nothing_outside_a_line_is_read():
    """A line between two pages that may not be read, in a process of its own, so that a fault is a failed test."""
    assert int(output_of(GUARDED)) == 1040
