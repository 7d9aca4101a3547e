"""The compiler and the table walker: random patterns against ``regex``, steps in sequence, linear time, resuming."""

import random
import re

import numpy as np
import pytest
import regex

import texts
from cutting import Cutter, reference, reference_pieces
from numbatok.errors import VocabularyError
from numbatok.kernels import dtypes
from numbatok.patterns import compile, scanner
from numbatok.patterns.compile import compile_rule
from numbatok.patterns.rules import Behavior, Split
from test_patterns import CL100K, DEEPSEEK_V3, GPT2, LLAMA3, O200K, REAL, onig

ALPHABET = "abc1 é"
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


def random_pattern(rng: random.Random, depth: int = 3) -> str:
    """A pattern over a small alphabet, of every construct on which ``regex`` agrees."""
    kind = rng.randrange(10)
    if depth == 0 or kind < 3:
        return rng.choice(["a", "b", "c", "1", " ", "é", "[ab]", "[^a]", "[^b1]", ".", r"\d", r"\s", "[a-c]"])
    if kind < 6:
        return "".join(random_pattern(rng, depth - 1) for _ in range(rng.randint(1, 3)))
    if kind < 8:
        return "(?:" + "|".join(random_pattern(rng, depth - 1) for _ in range(rng.randint(2, 3))) + ")"
    if kind == 8:
        body = random_pattern(rng, depth - 1)
        sign = rng.choice(["?", "*", "+", "{2}", "{1,2}", "{0,3}", "{2,}"]) + rng.choice(["", "", "?"])
        return f"(?:{body}){sign}"
    simple = rng.choice(["a", "[ab]", "[^1]", r"\s"])
    return rng.choice(
        [
            f"{simple}{rng.choice(['+', '*', '?', '{1,2}'])}+",
            f"(?={simple})",
            f"(?!{simple})",
            r"\Z",
            f"(?>{simple}1)",
            f"(?={simple}|b)",
        ]
    ).replace(r"\Z", rng.choice([r"(?!.|\n)", "a"]))


def regex_pieces(pattern: regex.Pattern, text: str, split: Split) -> list[tuple[int, int]]:
    """What ``tokenizers`` makes of the matches of ``regex``: the pieces, in bytes."""
    edges = np.cumsum([0, *(len(character.encode()) for character in text)]).tolist()
    spans: list[tuple[int, int, bool]] = []
    last = 0
    for match in pattern.finditer(text):
        if match.start() > last:
            spans.append((last, match.start(), False))
        spans.append((match.start(), match.end(), True))
        last = match.end()
    if last < len(text):
        spans.append((last, len(text), False))
    pieces: list[list[int]] = []
    kinds = [kind != split.invert for *_, kind in spans]
    for number, (begin, end, _) in enumerate(spans):
        kind = kinds[number]
        before = kinds[number - 1] if number else None
        joined = {
            "merged_with_previous": kind and before is False,
            "merged_with_next": not kind and before is True,
            "contiguous": kind == before,
        }.get(split.behavior, False)
        if split.behavior == "removed" and kind:
            continue
        if joined and pieces:
            pieces[-1][1] = end
        else:
            pieces.append([begin, end])
    return [(edges[begin], edges[end]) for begin, end in pieces]


def agrees(pieces: list[tuple[int, int]], peer: "regex.Pattern[str]", split: Split, text: str) -> bool:
    """Whether the pieces are those of ``regex``; or of ``tokenizers``, since ``regex`` misses some matches.

    It does not find the space of ``(?:\\s|[^a]|(?=[^1]|b)(?![^1]))``, for one.
    """
    if pieces == regex_pieces(peer, text, split):
        return True
    return pieces == reference_pieces(reference(onig(split.pattern, split.behavior, split.invert)), text)


def check_random_patterns(seed: int, count: int) -> None:
    """Compare so many random patterns that compile with ``regex``."""
    rng = random.Random(seed)
    compiled = 0
    while compiled < count:
        pattern = random_pattern(rng)
        split = Split(pattern, rng.choice(BEHAVIORS), rng.random() < 0.3)
        try:
            cutter = Cutter(split)
        except VocabularyError:
            continue
        compiled += 1
        peer = regex.compile(pattern)
        for _ in range(25):
            text = "".join(rng.choices(ALPHABET, k=rng.randint(1, 14)))
            assert agrees(cutter.pieces(text), peer, split, text), (split, text)
        text = "".join(rng.choices(ALPHABET, k=150))
        assert agrees(cutter.pieces(text), peer, split, text), (split, text)
        assert cutter.pieces(text, 1) == cutter.pieces(text), (split, text)


def test_random_patterns() -> None:
    """Patterns of all constructs over few characters, each on short texts."""
    check_random_patterns(1, 400)


@pytest.mark.slow
def test_more_random_patterns() -> None:
    """Many more."""
    check_random_patterns(2, 6000)


@pytest.mark.parametrize("depth", scanner.DEPTHS)
def test_any_memory_cuts_alike(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many characters a state remembers, what is read again gives the same pieces."""
    monkeypatch.setattr(scanner, "DEPTHS", range(depth, -1, -1))
    compile_rule.cache_clear()
    try:
        check_random_patterns(3 + depth, 120)
        rng = random.Random(5)
        for pattern in (LLAMA3, O200K):
            cutter, steps = Cutter(onig(pattern)), reference(onig(pattern))
            for _ in range(100):
                text = texts.random_text(rng, 200)
                assert cutter.pieces(text) == reference_pieces(steps, text), text
    finally:
        compile_rule.cache_clear()


def one_step_at_a_time(monkeypatch: pytest.MonkeyPatch, *rule: Split) -> Cutter:
    """A cutter that runs each step over the pieces of the steps before, with a table of its own."""

    def compile_one(matchers, splits, *arguments, **options):
        return None if len(splits) > 1 else scanner.compile_scanner(matchers, splits, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(compile, "compile_scanner", compile_one)
        compile.compile_rule.cache_clear()
        cutter = Cutter(*rule)
    compile.compile_rule.cache_clear()
    assert cutter.compiled.program[compile.PROGRAM_GROUPS] == len(rule)
    return cutter


def test_steps_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rules of several steps cut alike whether their steps are in one table or in several."""
    rng = random.Random(11)
    compiled = together = 0
    while compiled < 100:
        rule = tuple(
            Split(random_pattern(rng), rng.choice(BEHAVIORS), rng.random() < 0.3) for _ in range(rng.randint(2, 4))
        )
        try:
            side_by_side = Cutter(*rule)
        except VocabularyError:
            continue
        compiled += 1
        together += side_by_side.compiled.program[compile.PROGRAM_GROUPS] < len(rule)
        apart = one_step_at_a_time(monkeypatch, *rule)
        for size in (*range(1, 20), 150, 400):
            text = "".join(rng.choices(ALPHABET, k=size))
            wanted = apart.pieces(text)
            assert side_by_side.pieces(text) == wanted, (rule, text)
            assert side_by_side.pieces(text, 1) == wanted, (rule, text)
            assert apart.pieces(text, 1) == wanted, (rule, text)
    assert together > 80


@pytest.mark.parametrize("name", [name for name, rule in REAL.items() if len(rule) > 1])
def test_real_steps_share_a_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they take no longer than one; and with less memory, or one after the other, they cut alike."""
    rule, rng = REAL[name], random.Random(name)
    cutter, steps = Cutter(*rule), reference(*rule)
    assert cutter.compiled.program[compile.PROGRAM_GROUPS] == 1
    others = [one_step_at_a_time(monkeypatch, *rule)]
    for depth in range(3):
        monkeypatch.setattr(scanner, "DEPTHS", range(depth, -1, -1))
        compile.compile_rule.cache_clear()
        others.append(Cutter(*rule))
    compile.compile_rule.cache_clear()
    for size in (5, 20, 70, 200, 1000):
        for _ in range(20):
            text = texts.random_text(rng, size)
            wanted = reference_pieces(steps, text)
            for other in (cutter, *others):
                assert other.pieces(text) == wanted, text
                assert other.pieces(text, 2) == wanted, text


@pytest.mark.parametrize(
    ("pattern", "behavior"),
    [
        (r"\p{L}+(?=\p{N})|\p{L}", "isolated"),
        (r"\p{L}+(?=\p{N})", "contiguous"),
        (r"\S+\n|\s", "merged_with_next"),
        (r"(?:\p{L}\p{L})+\n|\p{L}", "isolated"),
        (r"(?:\p{L}|\p{N})+!|\p{L}+\n|\p{N}", "removed"),
    ],
)
def test_long_overruns(pattern: str, behavior: Behavior) -> None:
    """Words of more characters than are remembered, of whom it is seen at their ends what they are."""
    rng = random.Random(pattern)
    rules = [
        (onig(pattern, behavior),),
        (onig(r"\p{N}"), onig(pattern, behavior)),
        (onig(pattern, behavior), onig("a+b")),
    ]
    cutters = [(Cutter(*rule), reference(*rule)) for rule in rules]
    for _ in range(60):
        words = []
        for _ in range(rng.choice((1, 3, 20))):
            letters = rng.choice(("ab", "ab", "aé", "я", "a中😀"))
            words.append("".join(rng.choices(letters, k=rng.randint(1, rng.choice((9, 30, 90))))) + rng.choice(" \n1!"))
        text = "".join(words)
        for cutter, steps in cutters:
            wanted = reference_pieces(steps, text)
            assert cutter.pieces(text) == wanted, text
            assert cutter.pieces(text, 1) == wanted, text


def test_random_sequences() -> None:
    """Rules of several steps, with every behaviour, against ``Sequence``."""
    rng = random.Random(6)
    patterns = [
        GPT2,
        LLAMA3,
        r"\p{N}",
        r"\p{N}{1,3}",
        r"\p{P}",
        "[\r\n]",
        r"\s?\p{L}+",
        "ab?",
        r"\s+(?!\S)",
        "[一-龥]+",
        "a+b|a",
        " ",
    ]
    for _ in range(60):
        rule = tuple(
            onig(rng.choice(patterns), rng.choice(BEHAVIORS), rng.random() < 0.3) for _ in range(rng.randint(2, 4))
        )
        cutter, steps = Cutter(*rule), reference(*rule)
        for _ in range(25):
            text = texts.random_text(rng, rng.choice([5, 20, 70, 200]))
            expected = reference_pieces(steps, text)
            assert cutter.pieces(text) == expected, (rule, text)
            assert cutter.pieces(text, rng.randint(1, 2)) == expected, (rule, text)


def test_no_steps() -> None:
    """A rule of no steps leaves the text whole."""
    assert Cutter().pieces("a b\n" * 100) == [(0, 400)]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a*b|a", "a"),
        ("a*b", "a"),
        ("(?:a*b|a)+?|c", "a"),
        ("(?:ab)*c|a|b", "ab"),
        (r"\s*[\r\n]+|\s+(?!\S)|\s+", "\n "),
        (r"\s*[\r\n]+|\s+(?!\S)|\s+", " "),
        (r"(?:\p{L}+ )+x|\p{L}+| ", "ab "),
        ("[^b]*b|a|é", "aé"),
        ("(?:a|b)*c(?:a|b)*d|a|b|c", "abc"),
    ],
)
def test_linear_time(pattern: str, text: str) -> None:
    """However far a scan overruns its last match, doubling the text doubles the work, over walks and in one walk.

    Work is counted where that can be done: the bytes of all blocks walked. A walk itself is held to be linear by the
    marks, whose absence would make this test take minutes.
    """
    cutter = Cutter(Split(pattern))
    peer = regex.compile(pattern.replace(r"\p{L}", "[ab]"))
    for behavior in BEHAVIORS:
        split = Split(pattern, behavior)
        short = text * 40
        assert Cutter(split).pieces(short) == regex_pieces(peer, short, split)
        assert Cutter(split).pieces(short, 1) == regex_pieces(peer, short, split)
    for size in (1 << 16, 1 << 18):
        long = (text * size)[:size]
        cutter.walked = 0
        cutter.pieces(long, 2)
        assert cutter.walked < 12 * size
    assert len(cutter.pieces((text * (1 << 20))[: 1 << 20])) > 0


def test_spellings_that_cut_alike() -> None:
    """The digest is that of what a rule does, not of how it is written."""
    tiktoken_gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    first_gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    digests = {compile_rule((Split(pattern),)).digest for pattern in (GPT2, tiktoken_gpt2, first_gpt2)}
    digests.add(compile_rule((onig(GPT2),)).digest)
    digests.add(compile_rule((onig(GPT2, "isolated", True),)).digest)
    assert len(digests) == 1
    others = [
        (Split(LLAMA3),),
        (Split(O200K),),
        (Split(GPT2, "contiguous"),),
        (Split(GPT2, "removed"),),
        (Split(GPT2), Split(GPT2)),
        tuple(map(Split, DEEPSEEK_V3)),
        (),
    ]
    assert len({compile_rule(rule).digest for rule in others} | digests) == len(others) + 1
    assert compile_rule((Split(CL100K),)).digest != compile_rule((Split(LLAMA3),)).digest


def test_tables_of_a_rule() -> None:
    """The shapes that the kernel relies on."""
    compiled = compile_rule((Split(O200K), Split(r"\p{N}", "removed")))
    assert compiled.classes.shape == (dtypes.CLASS_TABLE_SIZE,)
    assert compiled.classes.dtype == np.uint8
    assert compiled.program.dtype == np.uint32
    assert compiled.drops
    assert not compiled.classes.flags.writeable


def test_too_many_classes() -> None:
    """More kinds of characters than a byte can tell apart are refused by name."""
    pattern = "|".join(f"{chr(0x4E00 + i)}{i}" for i in range(300))
    with pytest.raises(VocabularyError, match="kinds of characters"):
        Cutter(Split(pattern))


@pytest.mark.parametrize(
    "pattern",
    ["a{900}", "(?:a?b){1,300}", "(?:a|b)*a(?:a|b){8}", "(?:(?:a|b)?c?){1,300}d", "|".join(map(str, range(400)))],
)
def test_large_automata(pattern: str) -> None:
    """Large ones compile, and cut as ``regex`` does."""
    cutter, peer = Cutter(Split(pattern)), regex.compile(pattern)
    rng = random.Random(10)
    for text in ["a" * 2000, "ab" * 400, "c" * 350, *("".join(rng.choices("abcd0123", k=200)) for _ in range(20))]:
        assert cutter.pieces(text) == regex_pieces(peer, text, Split(pattern)), text


@pytest.mark.parametrize("pattern", ["(?:a?){1,2000}", "{" * 100_000, "(a)|" * 9_000])
def test_long_patterns_that_are_refused(pattern: str) -> None:
    """Long ones with too many states, or that match nothing, in time that does not grow with their square."""
    with pytest.raises(VocabularyError, match=re.escape(pattern[:20])) as refused:
        Cutter(Split(pattern))
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("pattern", "ends"),
    [
        ("a|" * 100_000 + "a", [1, 2, 3, 6]),
        ("[" + "ab" * 100_000 + "]", [1, 2, 3, 5, 6]),
        ("(?i)" * 30_000 + "a", [1, 2, 3, 6]),
    ],
)
def test_long_patterns(pattern: str, ends: list[int]) -> None:
    """Others compile in such time, and cut as short ones do."""
    assert [end for _, end in Cutter(Split(pattern)).pieces("xaa{{b")] == ends


def test_text_after_the_stop_is_not_read() -> None:
    """A walk that ends at ``stop`` cuts as if the text ended there, and sets no bit from there on."""
    cutter = Cutter(Split(O200K))
    rng = random.Random(8)
    for _ in range(300):
        text = texts.random_text(rng, 90)
        kept = text[: rng.randint(1, len(text))].encode()
        data = np.frombuffer(text.encode(), np.uint8)
        blocks = -(-len(kept) // 64)
        assert cutter.walk(data, 0, len(kept), blocks) == len(kept)
        found = np.flatnonzero(cutter.bits(dtypes.WORK_STARTS, blocks)).tolist()
        assert found == [begin for begin, _ in cutter.pieces(kept)]


def test_bytes_that_are_no_text() -> None:
    """Text that another thread changes is read as something: no fault and no endless loop."""
    rng = np.random.default_rng(9)
    for rule in ((Split(O200K),), tuple(map(Split, DEEPSEEK_V3)), (Split("a*b|a"),)):
        cutter = Cutter(*rule)
        for _ in range(300):
            content = rng.integers(0, 256, int(rng.integers(1, 200)), np.uint8).tobytes()
            pieces = cutter.pieces(content)
            assert pieces[0][0] == 0
            assert pieces[-1][1] == len(content)
