"""What is shown of a text: the right tokens at the right bytes, and nothing that a terminal would obey."""

import io
import itertools
import re

import pytest

import numbatok
from numbatok.displays.escapes import printable, token_text
from numbatok.displays.terminal import color_wanted


@pytest.fixture(scope="module")
def gpt2():
    return numbatok.get_encoding("gpt2")


def show_terminal(tokenizer, text, *, color=False, width=80, **options):
    """What a terminal of so many columns, or a pipe, gets."""
    return tokenizer.show(text, **options).to_text(color=color, width=width)


def rows(table):
    """(pretoken, begin, end, id, quoted token) of each line of a table."""
    head, *lines = table.splitlines()
    assert head.split() == ["pretoken", "bytes", "id", "token"]
    found = [re.fullmatch(r' *(\d+)  (\d+)-(\d+) +(\d+)  (".*")', line) for line in lines]
    return [(*map(int, match.groups()[:4]), match[5]) for match in found]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("plain é 日本.txt", "plain é 日本.txt"),
        ("a\x1b[2Jb\nc\td\r\x7f", r"a\x1b[2Jb\nc\td\r\x7f"),
        ("\u202eevil\u200b\u2066\ufeff", r"\u202eevil\u200b\u2066\ufeff"),
        ("\x9b31m\u0085\u00a0\u2028", r"\u009b31m\u0085\u00a0\u2028"),
        ("\udcff\U000e0001\ud800", r"\xff\U000e0001\ud800"),
        ("C:\\new", "C:\\new"),
    ],
)
def test_printable(given, wanted):
    assert printable(given) == wanted


@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        (b" world", " world"),
        (b"\n\n", r"\n\n"),
        (b"\\n", r"\\n"),
        ("é".encode(), "é"),
        ("é".encode()[:1], r"\xc3"),
        ("x\u0301".encode(), "x\u0301"),
        ("\u0301x".encode(), r"\u0301x"),
        (b"", ""),
    ],
)
def test_token_text(token, wanted):
    assert token_text(token) == wanted


def test_every_character_is_shown_harmless():
    everything = "".join(map(chr, range(0x110000)))
    assert printable(everything).isprintable()


def test_table(gpt2):
    assert show_terminal(gpt2, "Hello tokenizer") == (
        "pretoken  bytes     id  token\n"
        '       0  0-5    15496  "Hello"\n'
        '       1  5-11   11241  " token"\n'
        '       1  11-15   7509  "izer"\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<|endoftext|>",
        "a<|endoftext|><|endoftext|> b antidisestablishmentarianism",
        "  two spaces<|endoftext|>  three   ",
        "日本語 שלום 👩‍👩‍👧 \x1b[31m \ufffd",
        "a" * 1000,
        "lone \ud800 surrogate",
    ],
)
@pytest.mark.parametrize("special", ["all", ()])
def test_table_holds_the_tokens(gpt2, text, special):
    ids = gpt2.encode(text, allowed_special=special).tolist()
    found = rows(show_terminal(gpt2, text, limit=None, allowed_special=special))
    assert [row[3] for row in found] == ids
    # Bytes follow each other, each token where it stands.
    data = gpt2.decode_bytes(ids)
    edges = [0, *(row[2] for row in found)]
    assert [row[1] for row in found] == edges[:-1]
    assert edges[-1] == len(data)
    assert [row[4] for row in found] == [f'"{token_text(data[row[1] : row[2]])}"' for row in found]
    # Pretokens begin where the split rule begins them, in each part between special tokens.
    starts, begin = [], 0
    parts = re.split(rb"(<\|endoftext\|>)", data) if special == "all" else [data]
    for part in parts:
        whole = part == b"<|endoftext|>" and special == "all"
        starts += [begin] if whole else (begin + gpt2.pretokenize(part)[:-1]).tolist()
        begin += len(part)
    seen = {}
    for row in found:
        seen.setdefault(row[0], row[1])
    assert list(seen) == list(range(len(starts)))
    assert list(seen.values()) == starts


def test_str_and_bytes_are_shown_alike(gpt2):
    text = "naïve <|endoftext|> text"
    wanted = show_terminal(gpt2, text)
    assert show_terminal(gpt2, text.encode()) == wanted
    assert show_terminal(gpt2, memoryview(text.encode())) == wanted
    assert show_terminal(gpt2, text, color=True) == show_terminal(gpt2, text.encode(), color=True)


@pytest.mark.parametrize("color", [False, True])
def test_limit(gpt2, color):
    text = "one two three<|endoftext|> four five"
    all_of_it = show_terminal(gpt2, text, color=color, limit=None)
    assert "more" not in all_of_it
    assert show_terminal(gpt2, text, color=color, limit=6) == all_of_it
    cut = show_terminal(gpt2, text, color=color, limit=2)
    assert cut.splitlines()[-1] == f"... 4 more tokens, {len(text) - 7} bytes (limit 2)"
    assert show_terminal(gpt2, text, color=color, limit=5).splitlines()[-1] == "... 1 more token, 5 bytes (limit 5)"
    if not color:
        assert rows("\n".join(cut.splitlines()[:-1])) == rows(all_of_it)[:2]


def test_limit_cuts_long_pretokens_and_numbers(gpt2):
    shown = show_terminal(gpt2, "a" * 400_000, limit=10)
    assert len(shown.splitlines()) == 12
    assert shown.splitlines()[-1] == "... 99,990 more tokens, 399,960 bytes (limit 10)"


def without_codes(shown):
    return re.sub("\x1b\\[[0-9;]*m", "", shown)


def test_color_lines(gpt2):
    shown = show_terminal(gpt2, "Hello tokenizer\nagain", color=True)
    assert without_codes(shown).splitlines() == [
        "Hello    token izer   \\n ",
        "15496   11241  7509   198",
        "again",
        "17776",
    ]
    # Neighbouring tokens differ in background, and every colour is reset.
    backgrounds = re.findall("48;5;(\\d+)m", shown)
    assert len(backgrounds) == 5
    assert all(a != b for a, b in itertools.pairwise(backgrounds))
    for line in shown.splitlines():
        assert line.count("\x1b[0m") * 2 == line.count("\x1b[")


def test_color_lines_keep_to_the_width(gpt2):
    shown = without_codes(show_terminal(gpt2, "some words in a row " * 20, color=True, width=40))
    assert all(len(line) <= 40 for line in shown.splitlines())
    assert len(shown.splitlines()) > 10
    # A token that is wider than the terminal stands alone.
    narrow = without_codes(show_terminal(gpt2, "Hello tokenizer", color=True, width=1))
    assert narrow.split() == ["Hello", "15496", "token", "11241", "izer", "7509"]


def test_wide_characters_take_two_columns(gpt2):
    above, below = without_codes(show_terminal(gpt2, "スト end", color=True)).splitlines()
    assert above == "スト     end"  # 4 columns of 5, a gap of 3
    assert below.split() == [str(id) for id in gpt2.encode("スト end")]


def test_right_to_left_tokens_keep_their_places(gpt2):
    above = show_terminal(gpt2, "של", color=True).splitlines()[0]
    assert above.count("\u200e") == 2


def test_hostile_text_cannot_reach_the_terminal(gpt2):
    hostile = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA1), *range(0x200B, 0x2070), 0xFEFF, 0xE0001]))
    for color in (False, True):
        shown = without_codes(show_terminal(gpt2, hostile, color=color, limit=None)).replace("\n", "")
        assert shown.isprintable()


def test_errors_are_those_of_encode(gpt2):
    with pytest.raises(UnicodeDecodeError):
        show_terminal(gpt2, b"\xff")
    with pytest.raises(ValueError, match="disallowed"):
        show_terminal(gpt2, "<|endoftext|>", allowed_special=(), disallowed_special="all")
    with pytest.raises(TypeError):
        show_terminal(gpt2, 5)


@pytest.mark.parametrize(
    ("environment", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_color_wanted(monkeypatch, environment, terminal, wanted):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert color_wanted(stream) is wanted
