"""What is shown of a text: the right tokens at the right bytes, and nothing that a terminal or browser would obey."""

import io
import itertools
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok
import numbatok.text
import small
import vocabularies
from numbatok import AddedToken, TokenBatch, Tokenizer, streams
from numbatok.added_tokens import AddedTokens
from numbatok.displays import shown
from numbatok.displays.escapes import printable, token_text
from numbatok.displays.terminal import color_wanted
from numbatok.engine import Engine
from numbatok.loading.embedded import ENCODINGS
from numbatok.parts import Parts
from numbatok.patterns.rules import Split
from numbatok.vocabulary import Vocabulary
from texts import ADVERSARIAL

# With normalizers, prefix spaces, byte tokens, unknown ones, suffixes, several steps of splitting.
VARIED = (
    "chatglm claude2 clip_hf falcon lenml_gemma3 phi3_mini re_llama2 re_mistral_v3 roberta_base deepseek_v4".split()
)
ROWS = [row for row in vocabularies.ROWS if row.name in VARIED]
SAMPLES = [
    "It's the  naïve Über-test, 中国人 ½ and 1000 more 🎉!\n It ends here\t",
    " two  spaces, שלום \u202e<b>&\"'\x1b[31m e\u0301\u0301 \ud800",
    "\U000f1234é\x01",
]


@pytest.fixture(scope="module")
def cl100k():
    return numbatok.get_encoding("cl100k_base")


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
        ("\u0301\u0302x".encode(), r"\u0301\u0302x"),  # neither may stand on the escape
        ("\u200b\u0301".encode(), r"\u200b\u0301"),
        (("x" + "\u0301" * 6).encode(), "x" + "\u0301" * 4 + r"\u0301\u0301"),
        ("\u3164\u2800".encode(), r"\u3164\u2800"),
        (b"a" * 200, "a" * 120 + "...80 more bytes"),
        ("日".encode() * 100, "日" * 40 + "...180 more bytes"),
        (b"aa" + "日".encode() * 100, "aa" + "日" * 39 + "...183 more bytes"),
        (b"\x80" * 200, r"\x80" * 117 + "...83 more bytes"),
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


# --- what is shown ---


def shown_ids(display):
    return [token.id for token in display.tokens if token.id is not None]


def check_places(display, text):
    """Tokens and what lies between them are the text's, in order, each at its place."""
    data = numbatok.text.repair_surrogates(text).encode()
    done = 0
    for token in display.tokens:
        assert 0 <= token.begin <= token.end <= len(data)
        assert data[token.begin : token.end] == (token.content if token.source is None else token.source)
        if token.id is None:
            assert (token.pretoken, token.begin) == (-1, done)
            assert token.content
        assert token.begin <= done  # nothing is passed over
        done = max(done, token.end)
    assert done == len(data)


def check_pretokens(display, explanation):
    """The pretokens are those of an explanation."""
    kept = [piece for piece in explanation if piece.kind != "dropped"]
    wanted = [number for number, piece in enumerate(kept) for _ in piece.ids]
    found = [token.pretoken for token in display.tokens if token.id is not None]
    # Pretokens that have no ids need no number.
    groups = [[sum(1 for _ in group) for _, group in itertools.groupby(numbers)] for numbers in (found, wanted)]
    assert groups[0] == groups[1]
    assert found == sorted(found)


@pytest.mark.parametrize("name", sorted(ENCODINGS))
def test_embedded_encodings(name):
    tokenizer = numbatok.get_encoding(name)
    for text in [*SAMPLES, *ADVERSARIAL, "<|endoftext|> x<|endoftext|>"]:
        display = tokenizer.show(text, limit=None)
        assert shown_ids(display) == tokenizer.encode(text).tolist()
        check_places(display, text)
        assert all(token.source is None for token in display.tokens)
        check_pretokens(display, tokenizer.explain(text))
        check_html(display)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_real_vocabularies(row):
    tokenizer = row.tokenizer()
    for text in [*SAMPLES, "x ".join(list(tokenizer.special_tokens)[:3])]:
        display = tokenizer.show(text, limit=None)
        assert shown_ids(display) == tokenizer.encode(text, add_special_tokens=False).tolist()
        check_places(display, text)
        check_pretokens(display, tokenizer.explain(text))
        check_html(display)
        display.to_text(color=True, width=40)
    check_balanced(tokenizer._repr_html_())


def test_what_a_normalizer_changed_stands_beside_the_token():
    tokenizer = Tokenizer.from_str(small_json(normalizer={"type": "Lowercase"}))
    tokens = tokenizer.show("THE end").tokens
    assert (tokens[0].content, tokens[0].source) == (b"th", b"TH")
    assert tokens[-1].source is None
    assert "of &quot;TH&quot;" in tokenizer.show("THE end")._repr_html_()


def small_json(**sections):
    import json

    return json.dumps(small.tokenizer_json() | sections)


def test_what_no_token_stands_for():
    rule = (Split(r"\s+", "removed"),)
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([]), rule))
    display = tokenizer.show("the  other\n")
    assert [(token.content, token.id is None) for token in display.tokens if token.content in (b"  ", b"\n")] == [
        (b"  ", True),
        (b"\n", True),
    ]
    check_places(display, "the  other\n")
    assert '       -  3-5      -  "  "' in display.to_text(color=False)
    assert '       -  10-11    -  "\\n"' in display.to_text(color=False)
    assert "line-through" in display._repr_html_()
    assert without_codes(display.to_text(color=True, width=80)).splitlines()[0].split() == [
        *("th", "e", "o", "th", "er", "\\n")
    ]


def test_added_tokens_with_white_space():
    tokenizer = small.by_ranks(AddedToken("<m>", 600, lstrip=True, rstrip=True))
    display = tokenizer.show("the  <m>  end")
    mask = next(token for token in display.tokens if token.id == 600)
    assert (mask.content, mask.source, mask.begin, mask.end) == (b"<m>", b"  <m>  ", 3, 10)
    check_places(display, "the  <m>  end")


def test_bytes_that_are_replaced(gpt2):
    display = gpt2.show(b"a\xff\xfeb", errors="replace")
    assert shown_ids(display) == gpt2.encode(b"a\xff\xfeb", errors="replace").tolist()
    assert "".join(token_text(token.content) for token in display.tokens).startswith("a")


def test_dropout(small_merges):
    tokenizer = small_merges.with_dropout(0.5, seed=1)
    for _ in range(20):
        display = tokenizer.show("the other thing")
        check_places(display, "the other thing")


# --- long texts ---


@pytest.fixture
def encoded_sizes(monkeypatch):
    """The lengths of all texts that are encoded."""
    sizes = []
    encode_batch = Engine.encode_batch

    def spy(self, texts, seconds, call):
        sizes.extend(map(len, texts))
        return encode_batch(self, texts, seconds, call)

    monkeypatch.setattr(Engine, "encode_batch", spy)
    return sizes


@pytest.mark.parametrize("text", ["some words here " * 4_000_000, "a" * 64_000_000, "слова " * 8_000_000])
def test_of_a_huge_text_a_beginning_is_encoded(gpt2, encoded_sizes, text):
    display = gpt2.show(text)
    assert len(display.tokens) == 200
    assert encoded_sizes == [1 << 20]
    note = f"... of a text of {len(text):,} characters (limit 200)"
    if text[0] == "a":  # one pretoken: what follows might change all
        note += "; its first 1,048,576 characters were encoded by themselves"
    assert display.to_text(color=False).splitlines()[-1] == note
    assert note in display._repr_html_()


def test_of_huge_bytes_a_beginning_is_encoded(gpt2, encoded_sizes):
    data = np.frombuffer(bytes(10_000_000) + b"\xff", np.uint8)
    assert len(gpt2.show(data).tokens) == 200
    assert encoded_sizes == [1 << 20]
    with pytest.raises(UnicodeDecodeError):
        gpt2.show(data, limit=None)


def test_a_beginning_grows_until_it_holds_the_tokens(gpt2, encoded_sizes, monkeypatch):
    monkeypatch.setattr(shown, "_BEGINNING", 100)
    assert len(gpt2.show(b"a b " * 1000, limit=500).tokens) == 500
    assert encoded_sizes == [100, 400, 1600]


long_texts = st.lists(
    st.text() | st.sampled_from(["  ", " the", "\n", "\ud83d", "\ude00", "<|endoftext|>", "'ll", "日本", "a" * 40])
).map("".join)


@settings(max_examples=300)
@given(text=long_texts, limit=st.integers(0, 30), size=st.integers(4, 40), as_bytes=st.booleans())
def test_tokens_of_a_beginning_are_those_of_the_text(gpt2, small_merges, text, limit, size, as_bytes):
    """Unless the note says otherwise."""
    given_text = numbatok.text.repair_surrogates(text).encode() if as_bytes else text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown, "_BEGINNING", size)
        patch.setattr(streams, "_PART", 1)
        for tokenizer in (gpt2, small_merges):
            display = tokenizer.show(given_text, limit=limit)
            ids = tokenizer.encode(text).tolist()
            if "by themselves" not in repr(display):
                assert shown_ids(display) == ids[:limit]
                assert (f"(limit {limit})" in repr(display)) == (len(ids) > limit)
            else:
                assert len(given_text) > size


# --- HTML ---


class Page(HTMLParser):
    """Reads HTML: the text of each element with a title, and nothing but elements without effects."""

    def __init__(self, html):
        super().__init__()
        self.open, self.chips, self.titles, self.text = [], [], [], ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):  # noqa: D102
        assert tag in {"div", "span", "table", "tr", "td", "th", "i"}
        assert {name for name, _ in attrs} <= {"style", "title", "dir"}
        title = dict(attrs).get("title")
        self.open.append((tag, title))
        if title is not None:
            self.titles.append(title)
            self.chips.append("")

    def handle_endtag(self, tag):  # noqa: D102
        assert self.open.pop()[0] == tag

    def handle_data(self, data):  # noqa: D102
        self.text += data
        if any(title is not None for _, title in self.open):
            self.chips[-1] += data

    def handle_comment(self, data):  # noqa: D102
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def check_balanced(html):
    """HTML that neither browsers nor terminals are moved by."""
    assert html.replace("\n", "").isprintable()
    return Page(html)


def check_html(display):
    """The elements with a title are the tokens, in order, with their text and ids."""
    page = check_balanced(display._repr_html_())
    assert page.chips == [token_text(token.content) for token in display.tokens]
    for token, title in zip(display.tokens, page.titles, strict=True):
        first, spelled, *_ = title.splitlines()
        assert first == ("no token" if token.id is None else f"id {token.id}")
        assert bytes.fromhex(spelled.removeprefix("bytes ").removesuffix(" ...")) == token.content[:24]


hostile = st.lists(
    st.text()
    | st.sampled_from(
        [
            *(
                "<script>alert(1)</script>",
                "</span></div>",
                "<!--",
                "-->",
                "&lt;",
                "&#x3c;",
                '"',
                "'",
                " title=",
                "]]>",
            ),
            *("<|endoftext|>", "\0", "\u202e", "\u2066", "\x1b]0;x\x07", "\x9b2J", "\ud800", "\r", "\u2028"),
            "z" + "\u0336" * 50,
        ]
    )
).map("".join)


@settings(max_examples=300)
@given(text=hostile)
def test_html_holds_the_text_of_the_tokens(gpt2, small_merges, text):
    for tokenizer in (gpt2, small_merges):
        display = tokenizer.show(text, limit=None)
        assert shown_ids(display) == tokenizer.encode(text).tolist()
        check_places(display, text)
        check_html(display)
        assert without_codes(repr(display)).replace("\n", "").replace("\u200e", "").isprintable()


@given(data=st.binary())
def test_html_of_bytes(gpt2, data):
    check_html(gpt2.show(data, errors="replace"))


@given(ids=st.lists(st.integers(0, 60_000) | st.integers(100_250, 100_276)))
def test_html_of_any_ids(cl100k, ids):
    """Lone bytes, in any order, and ids in gaps, which no token has."""
    display = cl100k.show(ids)
    page = check_balanced(display._repr_html_())
    wanted = [f"<{id}>" if (token := cl100k.id_to_token(id)) is None else token_text(token) for id in ids[:200]]
    assert page.chips == wanted


def test_html_of_an_empty_text(gpt2):
    assert Page(gpt2.show("")._repr_html_()).text == "0 tokens in 0 pretokens, 0 bytes"
    assert gpt2.show("").to_text(color=False) == "pretoken  bytes  id  token\n"
    assert gpt2.show("").to_text(color=True) == ""


def test_html_says_what_is_cut(gpt2):
    page = Page(gpt2.show("one two three four", limit=2)._repr_html_())
    assert page.chips == ["one", " two"]
    assert page.text == "4 tokens in 4 pretokens, 18 bytesone two... 2 more tokens, 11 bytes (limit 2)"


def test_html_has_a_block_for_each_line(gpt2):
    html = gpt2.show("שלום\nHello")._repr_html_()
    assert html.count('dir="auto"') == 2


def test_styles_are_those_that_jupyterlab_leaves_in_untrusted_notebooks(gpt2):
    """Colours by numbers with a digit before the point, and no property that its list does not have."""
    html = gpt2.show("Hello\xff \n")._repr_html_() + gpt2._repr_html_() + gpt2.explain("the end")._repr_html_()
    known = {
        "background-color", "border-collapse", "display", "border-left", "border-right", "font-family", "line-height",
        "margin", "opacity", "overflow", "padding", "padding-left", "text-align", "text-decoration", "vertical-align",
        "white-space", "word-wrap",
    }  # fmt: skip
    for style in re.findall('style="([^"]*)"', html):
        for name, value in (item.split(": ") for item in style.split("; ") if item):
            assert name in known
            assert not re.search(r"(^|[ (])\.\d|var\(|url\(", value)


# --- batches and ids ---


def test_batch_in_html(gpt2):
    batch = gpt2.encode_batch(["Hello world", "", "<b>"])
    page = check_balanced(batch._repr_html_())
    assert page.text == "3 documents, 5 idsdocumentlengthids0215496 995102327 65 29"
    page = check_balanced(gpt2.show(batch)._repr_html_())
    assert page.chips == ["Hello", " world", "<", "b", ">"]
    assert repr(gpt2.show(batch)).splitlines() == [
        "document  length  tokens",
        '       0       2  "Hello" " world"',
        "       1       0",
        '       2       3  "<" "b" ">"',
    ]
    assert without_codes(gpt2.show(batch).to_text(color=True)).splitlines() == [
        "[0] 2 ids",
        "Hello  world",
        "15496 995   ",
        "[1] 0 ids",
        "[2] 3 ids",
        "<  b  > ",
        "27 65 29",
    ]


def test_large_batch_is_cut(gpt2):
    batch = gpt2.encode_batch(["x " * 100] * 1000)
    page = check_balanced(batch._repr_html_())
    assert page.text.endswith("... 980 more documents, the first 10 tokens of each (limit 200)")
    assert len(batch._repr_html_()) < 10_000
    assert len(check_balanced(gpt2.show(batch, limit=1000)._repr_html_()).chips) == 1000
    assert len(gpt2.show(batch, limit=None).to_text(color=False).splitlines()) == 1001
    assert len(check_balanced(gpt2.show(batch, limit=3)._repr_html_()).chips) == 3
    assert repr(gpt2.show(batch, limit=0)).splitlines()[1:] == ["... 1,000 more documents (limit 0)"]
    assert repr(gpt2.show(batch)).splitlines()[-1] == "... 980 more documents, the first 10 tokens of each (limit 200)"


def test_batches_without_documents_and_with_nulls(gpt2):
    empty = gpt2.encode_batch([])
    assert check_balanced(empty._repr_html_()).text == "0 documents, 0 idsdocumentlengthids"
    assert check_balanced(gpt2.show(empty)._repr_html_()).chips == []
    ids, offsets = np.array([995], np.uint32), np.array([0, 0, 1])
    batch = TokenBatch(ids, offsets, validity=np.array([False, True]))
    assert "null" in check_balanced(batch._repr_html_()).text
    assert repr(gpt2.show(batch)).splitlines()[1:] == ["       0       0  null", '       1       1  " world"']
    assert "[0] null" in gpt2.show(batch).to_text(color=True)


@pytest.mark.parametrize(
    "given_ids", [[15496, 995], (15496, 995), np.array([15496, 995]), np.array([15496, 995], "u2")]
)
def test_ids(gpt2, given_ids):
    assert repr(gpt2.show(given_ids)).splitlines()[1:] == ['       0       2  "Hello" " world"']


def test_ids_of_no_token(cl100k):
    """Those of a gap are shown as such; what is out of range is the error that decoding it is."""
    assert repr(cl100k.show([100_256, 1917, 100_275])).splitlines()[1:] == [
        '       0       3  <100256> " world" <100275>'
    ]
    for wrong in (100_277, 2**32 - 1, 2**40, 2**70, -1):
        message = f"^id {wrong} at position 1 is not in this vocabulary of 100277 tokens$"
        for function, given_ids in itertools.product((cl100k.show, cl100k.decode), ([1917, wrong], (1917, wrong))):
            with pytest.raises(ValueError, match=message):
                function(given_ids)
    for kind in (np.uint32, np.uint16):  # documents that are not shown as well, but not what no document has
        ids, offsets = np.array([65535, 1, 2, 65535, 3, 65535], kind), np.array([1, 2, 2, 5])
        batch = TokenBatch(ids, offsets)
        other = small.by_merges()
        with pytest.raises(
            ValueError, match=r"^id 65535 at position 1 of the document at index 2 is not in this"
        ) as raised:
            other.show(batch, limit=1)
        with pytest.raises(ValueError, match="id 65535") as decoded:
            other.decode_batch(batch)
        assert str(raised.value) == str(decoded.value)
        assert len(repr(other.show(batch[:2])).splitlines()) == 3


def test_wrong_arguments(gpt2):
    with pytest.raises(TypeError, match="ids must be integers, not str"):
        gpt2.show(["Hello", "world"])
    with pytest.raises(ValueError, match="id -1 at position 1"):
        gpt2.show([1, -1])
    with pytest.raises(ValueError, match="limit must be at least 0, not -1"):
        gpt2.show("x", limit=-1)
    with pytest.raises(TypeError, match="limit must be an integer, not str"):
        gpt2.show("x", limit="5")
    with pytest.raises(ValueError, match="names 'x', which is not a special token"):
        gpt2.show("x", allowed_special={"x"})


# --- print ---


class Terminal(io.StringIO):
    """A stream that is one."""

    def isatty(self):  # noqa: D102
        return True


def test_print_looks_at_standard_output(gpt2, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    display = gpt2.show("Hello world")
    for stream, colored in ((Terminal(), True), (io.StringIO(), False), (None, False)):
        monkeypatch.setattr(sys, "stdout", stream)
        assert ("\x1b" in str(display)) == ("\x1b" in repr(display)) == colored
        assert not str(display).endswith("\n")
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "10")
    assert len(without_codes(str(display)).splitlines()) == 4
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(display)
    assert str(display).startswith("pretoken")


# --- summaries ---


def test_a_tokenizer_is_shown_without_its_kernels():
    tokenizer = numbatok.get_encoding("o200k_base")
    text = check_balanced(tokenizer._repr_html_()).text
    assert tokenizer._engine is None
    assert text.startswith("numbatok.Tokenizer o200k_base")
    assert "200,019" in text
    assert "<|endofprompt|>" in text
    assert r"\p{N}{1,3}" in text


def test_hostile_names_and_tokens(gpt2):
    hostile = gpt2.add_special_tokens(["<script>", "\u202e", "x" * 10_000, *(f"<{n}>" for n in range(100))])
    html = hostile._repr_html_()
    page = check_balanced(html)
    assert "<script>" in page.chips
    assert r"\u202e" in page.chips
    assert "x" * 120 + "...9,880 more bytes" in page.chips
    assert "80 more" in page.text
    assert len(html) < 20_000


def test_template_in_html():
    section = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    tokenizer = Tokenizer.from_str(small_json(post_processor=section, normalizer={"type": "NFC"}))
    page = check_balanced(tokenizer._repr_html_())
    assert page.text.endswith("template<s> text")
    assert "<s>" in page.chips


def test_vocabulary_in_html(gpt2, small_ranks):
    page = check_balanced(gpt2.vocabulary()._repr_html_())
    assert page.text.startswith("50,257 tokens: 256 unit, 50,000 merged, 1 special")
    assert page.text.endswith("50256<|endoftext|>3c 7c 65 6e 64 6f 66 74 65 78 74 7c 3especial50,237 rows left out")
    check_balanced(small_ranks.vocabulary()._repr_html_())


def test_explanation_in_html(gpt2):
    page = check_balanced(gpt2.explain("the<|endoftext|>")._repr_html_())
    assert page.text == "the merged: 1169thethe   rank 258the   rank 1169<|endoftext|> added: 50256"
    assert check_balanced(gpt2.explain("")._repr_html_()).text == "no pieces"
    assert check_balanced(gpt2.explain("x")[0]._repr_html_()).text == "x merged: 87x"
    long = gpt2.explain("antidisestablishmentarianism " * 100 + "=" * 3000)
    html = long._repr_html_()
    assert check_balanced(html).text.endswith("more pieces")
    assert len(html) < 1_000_000
    assert "more merges" in check_balanced(long[-1]._repr_html_()).text
