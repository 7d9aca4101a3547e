"""Budgets by brute force: whether a text fits, its longest prefix and suffix that do, and its chunks."""

import random
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import numbatok.budgets
import small
import vocabularies
from conftest import TEST_DATA
from numbatok import Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.chunks import _LEVEL_NUMBERS
from numbatok.counting import Bytes, is_local, settle
from numbatok.kernels import chunks, dtypes
from numbatok.memory import address_of
from numbatok.normalizers import NFC, NFKD, Lowercase, Normalizer, Prepend, Strip
from numbatok.parts import Parts
from numbatok.patterns.known import WALKS
from numbatok.patterns.rules import Split
from numbatok.suffixes import Suffixes
from numbatok.templates import Special, Template, Text
from numbatok.truncation import Suffix
from numbatok.vocabulary import Vocabulary
from texts import ADVERSARIAL, random_text, well_formed

CHAT = ("<|im_start|>", "<|im_start|>user", "<|x")
TEMPLATE = Template((Special("<s>", (0,)), Text("A"), Special("</s>", (1, 2))))
LEVELS = ("piece", "sentence", "line", "paragraph")


def changed(**changes: object) -> Tokenizer:
    """The small vocabulary with other parts."""
    return Tokenizer(Parts(**{**vars(small.by_ranks()._parts), **changes}))


def by_characters() -> Tokenizer:
    """Characters, with byte tokens for others, as in Llama 2's file."""
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁helothrw", "he", "▁t", "he▁t", "▁th", "▁the"]
    ids = {token.encode(): number for number, token in enumerate(tokens)}
    merges = [("h", "e"), ("▁", "t"), ("▁t", "h"), ("▁", "the"), ("▁th", "e")]
    known = [
        (left.encode(), right.encode()) for left, right in merges if left.encode() in ids and right.encode() in ids
    ]
    model = Vocabulary.from_merges(ids, known, unit="character", unk=b"<unk>", fuse_unk=True, byte_fallback=True)
    return Tokenizer(Parts(model, AddedTokens([]), (), numbatok.normalizers.Replace(" ", "▁")))


def in_steps() -> Tokenizer:
    """GPT-2's vocabulary with a rule of two steps, of which the second cuts where a fresh walk does not."""
    rule = Split(r"[ab]{1,3}|[^ab]+"), Split(r"a|b+|[^ab]+")
    return Tokenizer(replace(numbatok.get_encoding("gpt2")._parts, rule=rule))


#: Tokenizers of every kind: counts that are local, and counts that are not.
MADE = {
    "ranks": lambda: small.by_ranks().add_special_tokens(CHAT),
    "merges": lambda: small.by_merges().add_tokens(["<tool>", " the cat"], normalized=False),
    "template": lambda: changed(template=TEMPLATE),
    "twice": lambda: changed(template=Template((Text("A"), Special("</s>", (1,)), Text("A")))),
    "nfc": lambda: changed(normalizer=NFC()),
    "lower": lambda: changed(normalizer=Lowercase()),
    "strip": lambda: changed(normalizer=Strip(True, True)),
    "prefix space": lambda: changed(prefix_space=True),
    "drops": lambda: changed(rule=(Split(r"\s+", "removed"),)),
    "far": lambda: changed(rule=(Split(r"a+b|a| ?\w+|\W"),)),
    "steps": in_steps,
    "inside characters": lambda: changed(rule=WALKS["falcon"].rules[0]),
    "no rule": lambda: changed(rule=()),
    "characters": by_characters,
    "bytes of UTF-8": lambda: small.without_bytes(bytes([0xC0, 0xC1, *range(0xF5, 0x100)])),
    "few bytes": lambda: small.without_bytes(b"=\x03\x04\x0b\xc0\xf2"),
    "gpt2": lambda: numbatok.get_encoding("gpt2"),
    "cl100k": lambda: numbatok.get_encoding("cl100k_base"),
    "o200k": lambda: numbatok.get_encoding("o200k_base"),
}
_FRAGMENTS = [
    *(
        " ",
        " " * 9,
        "\n",
        "\n\n",
        "   \n  ",
        "=",
        "1",
        "123456",
        "a",
        "ab",
        "abbb",
        "'s",
        "'ll",
        "'",
        "the",
        "The quick brown",
    ),
    *("中", "😀", "é", "e\u0301", " the cat", "Is it? ", 'Yes!" ', "No.\n", "。", "<|im_start|>", "<|im_start|>us"),
    *("<|endoftext|>", "<|end", "<tool>"),
    *("ة", "²³", "للمراقبة"),
]
fragments = st.sampled_from(_FRAGMENTS)
given_texts = st.one_of(
    well_formed,
    st.lists(fragments, max_size=25).map("".join),
    st.lists(st.tuples(fragments, st.integers(1, 30)), max_size=5).map(lambda runs: "".join(a * n for a, n in runs)),
)


@pytest.fixture(scope="module", params=MADE)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """One of each kind."""
    return MADE[request.param]()


def longest_prefix(tokenizer: Tokenizer, text: str, most: int) -> str | None:
    """By trying all, the longest first; None where nothing fits."""
    return next((text[:end] for end in range(len(text), -1, -1) if tokenizer.count(text[:end]) <= most), None)


def longest_suffix(tokenizer: Tokenizer, text: str, most: int) -> str | None:
    """By trying all."""
    return next((text[begin:] for begin in range(len(text) + 1) if tokenizer.count(text[begin:]) <= most), None)


@settings(max_examples=60)
@given(given_texts, st.data())
def test_by_brute_force(tokenizer: Tokenizer, text: str, data: st.DataObject) -> None:
    """The very longest, though counts rise and fall; and whether all fits."""
    text = text[:300]
    count, least = tokenizer.count(text), tokenizer.count("")
    most = data.draw(st.integers(least, max(count, least) + 1))
    assert tokenizer.fits(text, most) == (count <= most)
    assert tokenizer.fits(text.encode(), most) == (count <= most)
    assert tokenizer.truncate(text, most) == longest_prefix(tokenizer, text, most)
    assert tokenizer.truncate(text, most, "left") == longest_suffix(tokenizer, text, most)


def check_chunks(tokenizer: Tokenizer, text: str, most: int, overlap: int, at: str) -> None:
    """They cover the text, each is what it says, and each fits."""
    try:
        chunks = tokenizer.chunk(text, most, overlap, at)
    except ValueError as error:
        place = int(re.search(r"at index (\d+) alone has", str(error))[1])
        assert tokenizer.count(text[place]) > most
        return
    done = 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.n_tokens == tokenizer.count(chunk.text) <= most
        assert chunk.start <= done < chunk.end
        assert overlap > 0 or chunk.start == done
        done = chunk.end
    assert done == len(text)


@settings(max_examples=60)
@given(given_texts, st.integers(1, 30), st.integers(0, 9), st.sampled_from(LEVELS))
def test_chunks(tokenizer: Tokenizer, text: str, most: int, overlap: int, at: str) -> None:
    """Any text, any budget."""
    overhead = numbatok.budgets.overhead_of(tokenizer._start(), True)
    most = max(most, overhead.added + overhead.times)
    check_chunks(tokenizer, text, most, min(overlap, overhead.room(most) - 1), at)


INDENTED = (
    "def f(x):\n",
    "    return x\n",
    "\t\tif (a)\n",
    "\n",
    "\n\n",
    "  中文。\n",
    "Да, ну.\n",
    "x = 1;  \n",
    "   - it's\n",
)


@pytest.mark.parametrize("name", ["ranks", "merges", "far", "steps", "gpt2", "cl100k", "o200k"])
@pytest.mark.parametrize("at", LEVELS)
def test_chunks_of_indented_lines(name: str, at: str) -> None:
    """Chunks that begin and end inside of pieces of white space, and of added tokens."""
    tokenizer = MADE[name]()
    rng = random.Random(f"{name} {at}")
    added = next(iter(tokenizer.special_tokens), "")
    for most in (12, 40, 150):
        text = "".join(rng.choices([*INDENTED, *INDENTED, "abbbab", added, "<tool>\n", " the cat"], k=900))
        check_chunks(tokenizer, text, most, rng.choice([0, most // 6]), at)


def test_chunks_are_counted_at_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the text itself a few bytes a chunk are, also where lines begin inside of pieces."""
    counted: list[int] = []
    count = Bytes.count

    def note(self: Bytes, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        counted.append(int((ends - begins).sum()))
        return count(self, begins, ends)

    monkeypatch.setattr(Bytes, "count", note)
    text = "".join(random.Random(1).choices(INDENTED, k=30_000))
    for name in ("gpt2", "cl100k"):
        for at in ("piece", "line"):
            counted.clear()
            made = len(MADE[name]().chunk(text, 200, at=at))
            assert sum(counted) < 40 * made
            assert len(counted) > 0 or name == "cl100k"  # of which a piece ends with each line


@pytest.mark.parametrize("name", ["ranks", "merges", "far", "steps", "gpt2", "cl100k"])
def test_traced(name: str) -> None:
    """From each point on the ids are those of the rest by itself, and before it are as many as is said."""
    tokenizer = MADE[name]()
    engine = tokenizer._start()
    added = next(iter(tokenizer.special_tokens), "")
    text = "".join(
        random.Random(name).choices(["the ", "ab", "abbb", "a" * 999, "中文字", added, "\n\n", " 12 "], k=9_000)
    )
    data = np.frombuffer(text.encode(), np.uint8)
    ids = tokenizer.encode(text, add_special_tokens=False)
    with engine.scratch() as scratch:
        scratch.set_actions(engine.everything_allowed)
        local = Bytes(engine, tokenizer._parts, scratch, data)
        for begin in (0, len("the ")):
            whole = local.encode(begin, len(data))
            traced = local.traced(begin, len(data))
            assert (traced.is_done, traced.total) == (True, len(whole))
            assert np.array_equal(traced.ids, whole)
            assert begin > 0 or np.array_equal(whole, ids)
            points = traced.points_in_text
            assert len(points) > 10
            assert points[0].tolist() == [begin, 0]
            assert (np.diff(points[:, 0]) >= dtypes.TRACE_STEP).all()
            for place in points[:, 0].tolist():
                assert (traced.starts[place - begin >> 6] >> np.uint64(place - begin & 63)) & np.uint64(1)
            for place, before in points[:: len(points) // 9].tolist():
                assert np.array_equal(local.encode(place, len(data)), whole[before:])
            counted = local.traced(begin, len(data), counted=True)
            assert counted.total == len(whole)
            assert np.array_equal(counted.points_in_text, points)
            part = local.traced(begin, len(data), most_ids=2_000, counted=True)
            assert not part.is_done
            assert part.total > 2_000
            part = local.traced(begin, len(data), most_bytes=20_000)
            assert not part.is_done
            assert part.end >= begin + 20_000
            assert np.array_equal(part.ids, whole[: part.total])
            assert not part.starts[(part.end - begin >> 6) + 1 :].any()  # nothing of a longer one before
        settle(scratch)


def test_chunks_end_where_they_are_asked_to(gpt2: Tokenizer) -> None:
    """At the ends of pieces, sentences, lines and paragraphs, as late as the budget allows."""
    text = 'One is here. "Two!" And three?\nA line. Another\n \n\nA new paragraph\n\nThe last one'
    ends = {at: [chunk.text for chunk in gpt2.chunk(text, 12, at=at)] for at in LEVELS}
    assert all(part.endswith("\n") for part in ends["paragraph"][:-1])
    assert "A new paragraph\n\n" in {gpt2.chunk(text[-29:], most, at="paragraph")[0].text for most in range(4, 7)}
    assert all(part.endswith("\n") for part in ends["line"][:-1])
    assert all(part.rstrip(" ")[-1] in '.!?"\n' for part in ends["sentence"][:-1])
    whole = [gpt2.chunk(text, most, at="sentence")[0].text for most in range(4, 13)]
    assert {"One is here.", 'One is here. "Two!"'} <= set(whole)
    assert gpt2.chunk("今天。明天！后天？", 6, at="sentence")[0].text.endswith("。")
    assert [chunk[:2] for chunk in gpt2.chunk("Hello world again", 2)] == [(0, 11), (11, 17)]


def test_overlap(gpt2: Tokenizer) -> None:
    """Chunks begin with the last tokens of the one before."""
    text = " ".join(["word"] * 50)
    chunks = gpt2.chunk(text, 10, overlap=3)
    assert [chunk.n_tokens for chunk in chunks[:-1]] == [10] * (len(chunks) - 1)
    for before, after in pairwise(chunks):
        assert gpt2.count(text[after.start : before.end]) == 3


def test_template() -> None:
    """Special tokens of a template count, or not."""
    framed = MADE["template"]()
    first, both = (framed.count(text, add_special_tokens=False) for text in ("the", "the other"))
    assert framed.count("the other") == both + 3
    assert framed.fits("the other", both + 3)
    assert not framed.fits("the other", both + 2)
    assert framed.fits("the other", both, add_special_tokens=False)
    assert framed.truncate("the other", first + 3) == "the"
    assert framed.truncate("the other", 3) == ""
    assert framed.chunk("the other", first + 3)[0][2:] == ("the", first + 3)
    assert framed.chunk("the other", both, add_special_tokens=False)[0].n_tokens == both
    assert not framed.fits("", 2)
    with pytest.raises(ValueError, match="max_tokens is 2, and the template alone puts 3 special tokens around a text"):
        framed.truncate("the", 2)
    with pytest.raises(ValueError, match="max_tokens is 3, and the template alone"):
        framed.chunk("the", 3)


def test_template_without_a_text() -> None:
    """Its special tokens alone are counted, whatever the text is."""
    parts = small.by_merges()._parts
    alone = Tokenizer(replace(parts, template=Template((Special("[CLS]", (1, 2)),))))
    assert alone.count("the other") == 2
    assert alone.fits("the other", 2)
    assert not alone.fits("", 1)
    assert alone.truncate("the other", 2) == "the other"
    assert alone.chunk("the other", 2) == [(0, 9, "the other", 2)]
    for call in (alone.truncate, alone.chunk):
        with pytest.raises(ValueError, match="the template alone puts 2 special tokens around a text"):
            call("the other", 1)


@pytest.mark.parametrize("normalizer", [NFKD(), Prepend("<ab>")], ids=lambda each: type(each).__name__)
def test_texts_that_normalizing_makes_longer(normalizer: Normalizer) -> None:
    """A text can have more tokens than bytes, and still fit."""
    longer = changed(normalizer=normalizer)
    for text in ("\ufdfa" * 9, "a", "foo bar"):
        count = longer.count(text)
        for most in (count, count + 1, 10**30):
            assert longer.truncate(text, most) == longer.truncate(text, most, "left") == text
            assert longer.chunk(text, most) == [(0, len(text), text, count)]
        assert longer.truncate(text, count - 1) == text[:-1]


def test_numbers_of_numpy(gpt2: Tokenizer) -> None:
    """A budget of eight bits is a number like others."""
    text = "Some words of a text. " * 40
    for most in (np.uint8(3), np.uint8(200), np.int16(200)):
        assert gpt2.chunk(text, most, np.uint8(2)) == gpt2.chunk(text, int(most), 2)


def test_errors(gpt2: Tokenizer) -> None:
    """What is wrong, and what is wanted."""
    for call in (gpt2.fits, gpt2.truncate, gpt2.chunk):
        with pytest.raises(TypeError, match="max_tokens must be an integer, not float"):
            call("a", 2.0)
        with pytest.raises(ValueError, match="max_tokens must be at least"):
            call("a", -1)
        with pytest.raises(TypeError, match="text must be str"):
            call(3, 2)
        with pytest.raises(UnicodeDecodeError):
            call(b"\xff", 2)
        with pytest.raises(ValueError, match=r"disallowed special token .* at character 1"):
            call("é<|endoftext|>", 100, allowed_special=(), disallowed_special="all")
    with pytest.raises(ValueError, match="side must be 'left' or 'right'"):
        gpt2.truncate("a", 2, "top")
    with pytest.raises(ValueError, match="at must be 'piece'"):
        gpt2.chunk("a", 2, at="word")
    with pytest.raises(ValueError, match="overlap must be smaller than max_tokens leaves for the text, 2, not 2"):
        gpt2.chunk("a", 2, 2)
    with pytest.raises(ValueError, match=r"room for 1 tokens of text, and the character '文' at index 2 alone has 2"):
        gpt2.chunk("a中文", 1)
    assert gpt2.chunk("", 5) == []
    assert gpt2.truncate("", 0) == gpt2.truncate("abc", 0) == gpt2.truncate("abc", 0, "left") == ""
    assert gpt2.fits("", 0)


def test_other_kinds_of_text(gpt2: Tokenizer) -> None:
    """Bytes, invalid bytes, surrogates: what is returned is a str that encode takes."""
    assert gpt2.truncate(b"Hello world again", 2) == "Hello world"
    assert gpt2.truncate(bytearray(b"Hello \xff\xff"), 2, errors="replace").startswith("Hello")
    for text in ("a\ud83d\ude00b\ud800c" * 3, "\udc00"):
        repaired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert gpt2.truncate(text, 5) == gpt2.truncate(repaired, 5)
        assert gpt2.chunk(text, 5) == gpt2.chunk(repaired, 5)
        assert gpt2.fits(text, gpt2.count(text))


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
@pytest.mark.parametrize("text", ["a", "ab", "=", "1", "中", "😀", "\n", " x", "=-", "é"])
def test_long_pieces(name: str, text: str) -> None:
    """Runs of thousands of bytes: nothing longer fits among the next candidates."""
    tokenizer = MADE[name]()
    text = "x " + text * (6_000 // len(text.encode())) + " y"
    for part in (0.3, 0.9):
        most = int(tokenizer.count(text) * part)
        prefix = tokenizer.truncate(text, most)
        assert tokenizer.count(prefix) <= most
        longer = [tokenizer.count(text[:end]) for end in range(len(prefix) + 1, min(len(prefix) + 150, len(text)))]
        assert min(longer) > most
        suffix = tokenizer.truncate(text, most, "left")
        assert tokenizer.count(suffix) <= most
        assert text.endswith(suffix)
    check_chunks(tokenizer, text, 100, 0, "piece")


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k"])
def test_large_budgets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of which most is passed over, and that are chunked block by block, with added tokens within."""
    monkeypatch.setattr("numbatok.chunks.BLOCK", 1 << 17)
    tokenizer = MADE[name]()
    rng = random.Random(name)
    words = [
        "the",
        " quick",
        " brown",
        "\n\n",
        " it's",
        "12345",
        "   ",
        "<|endoftext|>",
        "中文",
        ", and",
        "()",
        " über",
    ]
    text = "".join(rng.choices(words, k=60_000)) + random_text(rng, 500)
    count = tokenizer.count(text)
    for most in (count - 1, count // 2, 17_000, 9_000):
        prefix, suffix = tokenizer.truncate(text, most), tokenizer.truncate(text, most, "left")
        assert tokenizer.count(prefix) <= most
        assert tokenizer.count(suffix) <= most
        ends = range(len(prefix) + 1, min(len(prefix) + 40, len(text) + 1))
        assert min(tokenizer.count(text[:end]) for end in ends) > most
        begins = range(max(len(text) - len(suffix) - 40, 0), len(text) - len(suffix))
        assert min(tokenizer.count(text[begin:]) for begin in begins) > most
    for most, at in ((64, "piece"), (500, "line"), (20_000, "paragraph")):
        check_chunks(tokenizer, text, most, most // 8, at)


@pytest.mark.parametrize("name", ["gpt2", "cl100k", "merges"])
def test_suffixes_found_in_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too little of the end was encoded more of it is, up to a place where both go on alike."""
    tokenizer = MADE[name]()
    added = next(iter(tokenizer.special_tokens))
    rng = random.Random(name)
    words = ["the ", "quick", " it's", "    ", "\n", "12345", "中文", "中文の", "== ", "é", added, "<tool>", " "]
    samples = [
        "".join(rng.choices(words, k=8_000)),
        (added + "x") * 3_000,
        "a" * 9_000 + "中" * 3_000,
        " " * 9_000 + "y" + added + " " * 5_000,
    ]
    for text in samples:
        count = tokenizer.count(text)
        budgets = [int(count * rng.random()) for _ in range(4)]
        wanted = [tokenizer.truncate(text, most, "left") for most in budgets]
        with monkeypatch.context() as patch:
            guess = rng.randint(50, 3_000)
            patch.setattr(Suffix, "_guess", lambda self, room, guess=guess: guess)
            patch.setattr(Suffix, "wider", lambda self, width, tokens, wanted: width + rng.randint(1, 4_000))
            assert [tokenizer.truncate(text, most, "left") for most in budgets] == wanted


@pytest.mark.parametrize("name", ["steps", "lower", "characters", "inside characters", "few bytes", "strip"])
def test_prefixes_found_by_streams(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where parts are counted whole, a stream finds the place near which the budget runs out, by parts of any size."""
    tokenizer = MADE[name]()
    rng = random.Random(name)
    fragments = [*_FRAGMENTS, "the ", "Quick ", "aab", "= ", "x" * 40]
    for _ in range(12):
        text = "".join(rng.choices(fragments, k=rng.randint(20, 400)))[:1_500]
        count = tokenizer.count(text)
        sizes = sorted(rng.choices((1, 7, 60, 300, 2_000), k=3), reverse=True)
        monkeypatch.setattr("numbatok.counting.PARTS", tuple(sizes))
        for most in {0, 1, count // 3, count - 1, count}:
            prefix = tokenizer.truncate(text, max(most, 0))
            assert tokenizer.count(prefix) <= max(most, 0)
            longer = range(len(prefix) + 1, min(len(prefix) + 60, len(text) + 1))
            assert all(tokenizer.count(text[:end]) > most for end in longer)


@pytest.mark.parametrize(
    "name", ["steps", "lower", "nfc", "characters", "inside characters", "few bytes", "strip", "drops", "prefix space"]
)
def test_suffixes_told_by_streams(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where parts are counted whole, a stream that comes to stand as the whole text's does tells a suffix's count."""
    monkeypatch.setattr("numbatok.counting.PARTS", (700, 60, 7))
    tokenizer = MADE[name]()
    rng = random.Random(name)
    fragments = [*_FRAGMENTS, "the ", "Quick ", "aab", "= ", "x" * 40]
    told = 0
    for _ in range(8):
        text = "".join(rng.choices(fragments, k=rng.randint(300, 900)))
        with monkeypatch.context() as patch:
            count_of = Suffixes.count

            def checked(self: Suffixes, begin: int, text: str = text, count_of: Any = count_of) -> int | None:
                nonlocal told
                count: int | None = count_of(self, begin)
                assert count in (None, tokenizer.count(text[begin:], add_special_tokens=False))
                told += count is not None and len(text) - begin > 2_000
                return count

            patch.setattr(Suffixes, "count", checked)
            count = tokenizer.count(text)
            for most in {0, 1, count // 3, 9 * count // 10, count - 1, count}:
                suffix = tokenizer.truncate(text, most, "left")
                assert tokenizer.count(suffix) <= most
                longer = range(len(suffix) + 1, min(len(suffix) + 60, len(text) + 1))
                assert all(tokenizer.count(text[len(text) - size :]) > most for size in longer)
    assert told > 100


def test_bytes_without_a_token() -> None:
    """A text is counted in parts unless it has such a byte, wherever that is."""
    engines = {name: MADE[name]() for name in ("bytes of UTF-8", "few bytes")}
    for name, tokenizer in engines.items():
        tokenizer.count("")
        for length in (1, 63, 64, 65, 200):
            for place in range(length):
                for letter in "ab=\x02\x03\x04\x05\x0b":
                    text = ("x" * place + letter).ljust(length, "y").encode()
                    wanted = name == "bytes of UTF-8" or letter in "ab\x02\x05"
                    data = np.frombuffer(text, np.uint8)
                    assert is_local(tokenizer._engine, tokenizer._parts, data) == wanted
    assert is_local(engines["bytes of UTF-8"]._engine, engines["bytes of UTF-8"]._parts, None)
    assert not is_local(engines["few bytes"]._engine, engines["few bytes"]._parts, None)


def naive_cuts(text: str, level: int) -> list[int]:
    """Byte offsets where sentences, lines or paragraphs end."""
    if level == chunks.LINES:
        ends = [match.end() for match in re.finditer("\n", text)]
    elif level == chunks.PARAGRAPHS:
        lines = text.split("\n")
        edges = [sum(len(line) + 1 for line in lines[: number + 1]) for number in range(len(lines) - 1)]
        is_empty = [not line.strip(" \t\r\v\f") for line in lines]
        ends = [
            edge
            for number, edge in enumerate(edges)
            if number and is_empty[number] and not (number + 1 < len(edges) and is_empty[number + 1])
        ]
    else:
        signs = r"""\n|[.!?](?:(?=[ \t-\r]|\Z)|["')\]](?=[ \t-\r]|\Z))|[。！？]"""
        ends = [match.end() for match in re.finditer(signs, text)]
    return [len(text[:end].encode()) for end in ends]


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from([*' \n\t\r.!?)"a', "\n\n", " \n", "。", "！", "中", "word", "x" * 70, " " * 130]), max_size=40
    ),
    st.sampled_from([chunks.SENTENCES, chunks.LINES, chunks.PARAGRAPHS]),
)
def test_cuts(parts: list[str], level: int) -> None:
    """Where sentences, lines and paragraphs end."""
    text = "".join(parts)
    data = np.frombuffer(text.encode(), np.uint8)
    found = np.empty(len(data), np.int64)
    count = chunks.list_cuts(address_of(data), len(data), level, address_of(found))
    assert found[:count].tolist() == naive_cuts(text, level)


@settings(max_examples=60)
@given(given_texts, st.integers(1, 30), st.sampled_from(LEVELS[1:]))
def test_chunks_end_as_late_as_they_can(gpt2: Tokenizer, text: str, most: int, at: str) -> None:
    """At the last place of their level up to which as many tokens as fit reach, or at one of the next finer."""
    text = ". ".join([text, "And\n\nthis. ", text])
    ends = np.cumsum([0, *map(len, map(gpt2.id_to_token, gpt2.encode(text).tolist()))])
    cuts = [naive_cuts(text, _LEVEL_NUMBERS[level]) for level in reversed(LEVELS[1 : LEVELS.index(at) + 1])]
    for chunk in gpt2.chunk(text, max(most, 4), at=at):
        begin, end = (len(text[:place].encode()) for place in chunk[:2])
        before = int(np.searchsorted(ends, begin, side="right")) - 1
        if ends[before] != begin or chunk.n_tokens != np.searchsorted(ends, end, side="right") - 1 - before:
            continue  # by itself it has other tokens than in the text
        limit = int(ends[min(before + max(most, 4), len(ends) - 1)])
        latest = [max((cut for cut in places if begin < cut <= limit), default=0) for places in cuts]
        wanted = next((cut for cut in latest if cut), end)
        if limit < ends[-1] and gpt2.count(text.encode()[begin:wanted]) <= max(most, 4):
            assert end == wanted


@pytest.mark.parametrize("row", [row for row in vocabularies.ROWS if not row.refused], ids=lambda row: row.name)
def test_real_vocabularies(row: vocabularies.Row) -> None:
    """All of them, over texts of the corpus: by brute force over a little, and chunks."""
    tokenizer = row.tokenizer()
    least = tokenizer.count("")
    for path in sorted((TEST_DATA / "corpus-small").rglob("*.txt"))[::3]:
        text = path.read_text(encoding="utf-8")[1_000:1_120]
        for part in (0.3, 0.8):
            most = least + int((tokenizer.count(text) - least) * part)
            assert tokenizer.truncate(text, most) == longest_prefix(tokenizer, text, most)
            assert tokenizer.truncate(text, most, "left") == longest_suffix(tokenizer, text, most)
        check_chunks(tokenizer, text * 3, least + 16, 2, "sentence")


@pytest.mark.parametrize("text", ADVERSARIAL)
def test_adversarial(text: str) -> None:
    """Every budget of texts that are easily got wrong."""
    for name in ("gpt2", "cl100k"):
        tokenizer = MADE[name]()
        for most in range(tokenizer.count(text) + 1):
            assert tokenizer.truncate(text, most) == longest_prefix(tokenizer, text, most)
            assert tokenizer.truncate(text, most, "left") == longest_suffix(tokenizer, text, most)


def test_scratches_are_left_in_order(gpt2: Tokenizer) -> None:
    """A call that was broken off leaves nothing behind for the next."""
    text = "The quick brown fox <|endoftext|> jumps. " * 3_000
    wanted = gpt2.encode(text).tolist()
    for _ in range(3):
        assert not gpt2.fits(text, 100)
        assert gpt2.encode(text).tolist() == wanted
        gpt2.truncate(text, 20_000)
        assert gpt2.encode("Hello world").tolist() == [15496, 995]
        gpt2.chunk(text, 100)
        assert gpt2.count(text) == len(wanted)


def test_refused_token_in_what_is_cut_off(gpt2: Tokenizer) -> None:
    """A sample of what is cut off may hold a token that the caller refuses: what is kept is found all the same."""
    text = " ".join(random.Random(1).choices(["hello", "supercalifragilistic", "é", "???", "12"], k=60_000))
    refusing = {"allowed_special": (), "disallowed_special": "all"}
    for before, most in (("", 6_000), ("a " * 2_000, int(0.9 * gpt2.count(text)))):
        kept = gpt2.truncate(before + "<|endoftext|>" + text, most, "left", **refusing)
        assert kept == gpt2.truncate(text, most, "left")
    with pytest.raises(ValueError, match="disallowed special token"):
        gpt2.truncate(text + "<|endoftext|>", 6_000, "left", **refusing)


def test_budgets_without_end(gpt2: Tokenizer) -> None:
    """A number that stands for no limit, as in some models' settings, is none."""
    for most in (10**10, 1 << 62, 10**30):
        assert gpt2.fits("Hello world", most)
        assert gpt2.truncate("Hello world", most) == "Hello world"
        assert gpt2.truncate("Hello world", most, "left") == "Hello world"
        assert [chunk.text for chunk in gpt2.chunk("Hello world", most)] == ["Hello world"]
        assert gpt2.encode_windows(["Hello world"], max_length=most)[0].tolist() == [[15496, 995]]


@pytest.mark.parametrize("text", ["ˈ踸", "版臘x", "ˈ跆ˈ跆", "a版臘版臘"])
def test_a_first_token_that_is_part_of_a_character(gpt2: Tokenizer, text: str) -> None:
    """A prefix of one character can have fewer tokens than its bytes have in a longer one: it is found all the same."""
    counts = [gpt2.count(text[:end]) for end in range(len(text) + 1)]
    for budget in range(1, counts[-1] + 1):
        longest = max(end for end, count in enumerate(counts) if count <= budget)
        assert gpt2.truncate(text, budget) == text[:longest]
