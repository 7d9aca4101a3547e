"""Stage 1, every walker: its bitmap against the pieces of the reference libraries, wherever blocks and texts end."""

import functools
import itertools
import random
import sys

import numpy as np
import pytest
import tiktoken
import tokenizers
from tiktoken_ext import openai_public
from tokenizers import pre_tokenizers

import naive
import texts
from numbatok.kernels import dtypes
from numbatok.kernels.jit import all_kernels
from numbatok.memory import address_of
from numbatok.patterns import known
from numbatok.patterns.compile import compile_rule
from numbatok.patterns.rules import Split, SplitRule
from support import output_of

BLOCK = 64
NAMES = list(known.WALKS)
KERNELS = {kernel.name: kernel for kernel in all_kernels()}

#: Characters and strings on either side of a border of some rule's classes.
ATOMS = [
    *("a", "b", "é", "я", "ſ", "ß", "z"),  # small letters
    *("A", "B", "É", "Я", "Ω", "K"),  # capitals
    *("ǅ", "ᾈ"),  # title case
    *("ʰ", "ˮ", "々", "ー"),  # modifiers
    *("中", "龥", "龦", "一", "㐀", "あ", "ア", "゛", "・", "゠", "\u3040", "\u3099", "한", "ª", "ع", "𝔸", "𠀀"),
    *("\u0301", "\u0903", "\u20dd", "\u093f"),  # marks
    *("1", "2", "7", "٣", "½", "Ⅷ", "〇", "〡", "𝟘", "３", "𐄇"),
    *(" ", "  ", "\n", "\r", "\r\n", "\t", "\v", "\x1c", "\x85", "\u00a0", "\u3000", "\u2028", "\u1680"),
    *(".", "!", "-", "/", "//", "'", "’", '"', "$", "+", "<", "|", "(", ",", "…", "。", "،", "€", "⺀", "☃", "😀"),
    *(
        "'s",
        "'S",
        "'ſ",
        "'t",
        "'ll",
        "'Ll",
        "'ve",
        "'RE",
        "'l",
        "'m",
        "'d",
        "<|endoftext|>",
        "<|startoftext|>",
        "<s",
        "<|end",
    ),
    *("\x00", "\x7f", "\u00ad", "\u200d", "\ufeff", "\ue000", "\U0010ffff", "\u0378", "\ua7f1", "\U0001e5f1"),
    *("\n/", "\n//", ".\u0301", " \u0301", "..\u0301", "\u0301.", "/\n/"),
]
#: One of each class and number of bytes, for the borders between blocks.
EDGES = [
    *("a", "é", "A", "Я", "ǅ", "ʰ", "中", "ア", "・", "𝔸", "\u0301", "\u0903", "1", "½", "〇", "𐄇"),
    *(" ", "\n", "\u00a0", "\u3000", ".", "'", "/", "’", "😀", "⺀", "'s", "'ſ", "'ll", "\x00", "\u200d", "\U0010ffff"),
    *("  ", "\n ", ".\u0301", "\n/", "<|endoftext|>"),
]


class Walker:
    """A walk's kernel with a view and a scratch that have no more than walkers read."""

    def __init__(self, name: str) -> None:
        self._view = np.zeros(dtypes.VIEW_FIELDS, np.int64)
        self._work = np.zeros(dtypes.WORK_FIELDS, np.int64)
        self._arrays: dict[int, np.ndarray] = {}
        self._set(self._view, dtypes.VIEW_CLASSES, known.character_classes(name))
        for place, value in known.WALKS[name].parameters.items():
            self._view[place] = value
        self._kernel = KERNELS[known.WALKS[name].kernel]

    def _set(self, record: np.ndarray, place: int, array: np.ndarray) -> None:
        self._arrays[id(record) + place] = array
        record[place] = address_of(array)
        record[place + 1] = len(array)

    def __call__(
        self, text: bytes | np.ndarray, base: int = 0, stop: int | None = None, blocks: int | None = None
    ) -> tuple[list[int], int, list[int]]:
        """(starts up to ``decided``, ``decided``, those of dropped pieces) of one call; blocks reach ``stop``."""
        stop = len(text) if stop is None else stop
        blocks = -(-(stop - base) // BLOCK) if blocks is None else blocks
        data = np.frombuffer(text, np.uint8)
        tail = np.zeros(dtypes.TAIL_BYTES, np.uint8)
        kept = min(len(text), dtypes.TAIL_KEPT)
        tail[:kept] = data[len(text) - kept :]
        bitmaps = np.full((2, blocks + 1), dtypes.ALL_ONES, np.uint64)
        self._set(self._work, dtypes.WORK_TAIL, tail)
        self._set(self._work, dtypes.WORK_STARTS, bitmaps[0])
        self._set(self._work, dtypes.WORK_DROPPED, bitmaps[1])
        decided = self._kernel(
            address_of(self._view), address_of(self._work), address_of(data), len(text), base, stop, blocks
        )
        starts, dropped = (
            base + np.flatnonzero(np.unpackbits(bitmap[:blocks].astype("<u8").view(np.uint8), bitorder="little"))
            for bitmap in bitmaps
        )
        assert (starts < stop).all(), "a bit is set at or after the place where the text ends"
        return starts[starts <= decided].tolist(), decided, dropped[dropped <= decided].tolist()


@pytest.fixture(params=[1, pytest.param(8, marks=pytest.mark.slow)])
def rounds(request: pytest.FixtureRequest) -> int:
    """How many times over a test is done."""
    return int(request.param)


@functools.cache
def walker(name: str) -> Walker:
    return Walker(name)


@functools.cache
def reference(rule: SplitRule) -> pre_tokenizers.PreTokenizer:
    """The rule as ``tokenizers`` runs it."""
    steps = []
    for split in rule:
        if split.spelled:
            steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        if split.pattern == r"\p{is_numeric}":
            steps.append(pre_tokenizers.Digits(individual_digits=split.behavior == "isolated"))
        elif split.pattern == r"\p{is_punctuation}":
            steps.append(pre_tokenizers.Punctuation(split.behavior))
        else:
            steps.append(pre_tokenizers.Split(tokenizers.Regex(split.pattern), split.behavior, split.invert))
    return pre_tokenizers.Sequence(steps)


def reference_pieces(rule: SplitRule, text: str) -> list[tuple[int, int]]:
    """(start, end) of the pieces that the reference keeps, in bytes of UTF-8."""
    if any(split.spelled for split in rule):  # the pieces are spelled, a character for each byte
        sizes = [len(piece) for piece, _ in reference(rule).pre_tokenize_str(text)]
        return list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))
    places = np.cumsum([0, *(len(character.encode()) for character in text)])
    return [(int(places[begin]), int(places[end])) for _, (begin, end) in reference(rule).pre_tokenize_str(text)]


def expected(name: str, text: str) -> tuple[list[int], list[int]]:
    """(starts of all pieces, those of dropped ones) of the walk's first rule."""
    starts, dropped, last = [], [], 0
    for begin, end in reference_pieces(known.WALKS[name].rules[0], text):
        if begin > last:
            dropped.append(last)
            starts.append(last)
        starts.append(begin)
        last = end
    size = len(text.encode())
    if last < size:
        dropped.append(last)
        starts.append(last)
    return starts, dropped


def check(name: str, text: str) -> None:
    """The whole text in one call."""
    starts, dropped = expected(name, text)
    found, decided, gone = walker(name)(text.encode())
    assert found == starts, (name, text)
    assert decided == len(text.encode())
    if known.WALKS[name].drops:
        assert gone == dropped, (name, text)
    else:
        assert not dropped


def border_text(rng: random.Random, count: int) -> str:
    """So many atoms, now and then several of the same few in a row."""
    atoms: list[str] = []
    while len(atoms) < count:
        few = rng.sample(ATOMS, rng.choice((1, 2, 3, 5, 12)))
        atoms += rng.choices(few, k=rng.randint(1, 3 * len(few)))
    return "".join(atoms)


@pytest.mark.parametrize("name", NAMES)
def test_borders_of_classes(name: str, rounds: int) -> None:
    """Generated text, short and of several blocks."""
    rng = random.Random(name)
    for _ in range(60 * rounds):
        check(name, border_text(rng, rng.randint(1, 10)))
        check(name, border_text(rng, 150))


@pytest.mark.parametrize("name", NAMES)
def test_every_pair(name: str) -> None:
    """All atoms after all others, and something after that, many in a text."""
    rng = random.Random(name)
    pairs = list(itertools.product(ATOMS, repeat=2))
    rng.shuffle(pairs)
    for begin in range(0, len(pairs), 50):
        ends = ("", "\n", "x", " ", "7", *ATOMS)
        check(name, "".join(left + right + rng.choice(ends) for left, right in pairs[begin : begin + 50]))


@pytest.mark.parametrize("name", NAMES)
def test_block_edges(name: str, rounds: int) -> None:
    """Each class on each side of the edge between two blocks, and characters and contractions across it."""
    rng = random.Random(name)
    for left, right in itertools.product(EDGES, repeat=2):
        for before in rng.sample(range(BLOCK - 7, BLOCK + 2), min(rounds, 9)):
            check(name, "b" * (before % 2) + " a" * (before // 2) + left + right + rng.choice(EDGES) + "x b")


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_every_length(name: str, rounds: int) -> None:
    """Runs of one class of 1 to 200 characters, between others."""
    rng = random.Random(name)
    for length in range(1, 201):
        for character in rng.sample(EDGES, 2 * rounds):
            check(name, "".join([*rng.choices(EDGES, k=2), character * length, *rng.choices(EDGES, k=2)]))
            check(name, character * length)


HEADS = ["中", "\n ", "\n", "!\n", "a", "'", ".", " ", "aʰ", "A中", "12", "", "1\t"]
RUNS = ["A", "É", "ǅ", " ", "\u3000", "\t", "\n", "1", "½", "\u0301", "〇", "⺀", "/", "中", "ʰ", "\x01", ".", "\u200d"]
TAILS = ["", "b", "\n", "A", ".", " ", "1", "中", "\u0301", "'s", "é", "\x01"]


@pytest.mark.parametrize("name", NAMES)
def test_runs_that_decide_what_was_before(name: str) -> None:
    """Runs over one or two blocks, after each other class and before each other class."""
    rng = random.Random(name)
    for head, run, tail in itertools.product(HEADS, RUNS, TAILS):
        size = rng.choice((rng.randint(1, 4), rng.randint(120, 135), *(rng.randint(50, 70) for _ in range(3))))
        check(name, head + run * (size // len(run.encode())) + tail)


@pytest.mark.parametrize("name", NAMES)
def test_any_start_continues_the_cut(name: str, rounds: int) -> None:
    """From any start on, with any number of blocks, and to any stop."""
    rng = random.Random(name)
    rule = known.WALKS[name].rules[0]
    for _ in range(60 * rounds):
        text = border_text(rng, rng.randint(1, 100))
        data = text.encode()
        starts, _ = expected(name, text)
        # Inside a token that CLIP's second step cuts, no walk begins: see `walk_clip`.
        bases = [begin for begin, _ in reference_pieces(rule[:1], text)] if name == "clip_cut_again" else starts
        bases = [base for base in bases if data[base] & 0xC0 != 0x80]  # nor inside a character, which Falcon's cuts
        for base in rng.sample(bases, min(len(bases), 12)):
            assert walker(name)(data, base)[0] == [start for start in starts if start >= base], (name, text, base)
        kept = text[: rng.randint(1, len(text))]
        assert walker(name)(data, stop=len(kept.encode()))[0] == expected(name, kept)[0], (name, kept)


@pytest.mark.parametrize("name", NAMES)
def test_a_few_blocks_at_a_time(name: str, rounds: int) -> None:
    """As the encoder walks: on from the last start, over more blocks where there was none but the first."""
    rng = random.Random(name)
    for _ in range(50 * rounds):
        text = border_text(rng, rng.randint(1, 300))
        data = text.encode()
        starts, dropped = expected(name, text)
        found, gone = [0], []
        while found[-1] >= 0:
            base = found.pop()
            blocks = 0
            more, decided = [base], base
            while len(more) == 1 and decided < len(data):
                blocks += rng.randint(1, 3)
                more, decided, dropped_here = walker(name)(data, base, blocks=min(blocks, -(-(len(data) - base) // 64)))
            assert base < decided <= len(data)
            found += more
            gone += [start for start in dropped_here if start < found[-1] or decided == len(data)]
            found += [-1] if decided == len(data) else []
        assert found[:-1] == starts, (name, text)
        if known.WALKS[name].drops:
            assert gone == dropped, (name, text)


@pytest.mark.parametrize("name", NAMES)
def test_random_text_of_every_script(name: str, rounds: int) -> None:
    rng = random.Random(name)
    for _ in range(5 * rounds):
        check(name, texts.random_text(rng, 3000))


@pytest.mark.parametrize("name", NAMES)
def test_corpus(name: str, corpus_text: str, rounds: int) -> None:
    """Text as people write it."""
    check(name, corpus_text[: 10_000 * rounds])


def test_every_rule_has_one_walk() -> None:
    """No rule is in two walks, and the first of each stands for all."""
    assert len(known.WALKERS) == sum(len(walk.rules) for walk in known.WALKS.values())
    for rule, name in known.WALKERS.items():
        assert known.canonical(rule) == known.WALKS[name].rules[0]
    unknown = (Split(r"\w+"),)
    assert known.canonical(unknown) == unknown


def test_spellings_cut_alike() -> None:
    """Every spelling of a rule, as ``tokenizers`` reads it, gives the pieces of the first."""
    rng = random.Random(7)
    sample = [border_text(rng, rng.randint(1, 60)) for _ in range(100)]
    for walk in known.WALKS.values():
        first = [reference_pieces(walk.rules[0], text) for text in sample]
        for rule in walk.rules[1:]:
            if all(split.dialect == "oniguruma" for split in rule):
                assert [reference_pieces(rule, text) for text in sample] == first, rule


def openai_pattern(encoding: str) -> str:
    """The pattern of an encoding in the installed tiktoken, asked without fetching its ranks."""
    with pytest.MonkeyPatch.context() as patch:
        for loader in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
            patch.setattr(openai_public, loader, lambda *_, **__: {})
        return openai_public.ENCODING_CONSTRUCTORS[encoding]()["pat_str"]


GUARDED = """
    import ctypes, mmap, random
    import numpy as np
    import test_walkers
    from numbatok.kernels import dtypes

    PAGE = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    region = mmap.mmap(-1, 3 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    memory = np.frombuffer(region, np.uint8)[PAGE : 2 * PAGE]
    for guard in (address, address + 2 * PAGE):
        if libc.mprotect(ctypes.c_void_p(guard), PAGE, mmap.PROT_READ & 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    rng = random.Random(3)
    for name in test_walkers.NAMES:
        walker = test_walkers.walker(name)
        for length in [*range(1, 200), PAGE]:
            text = test_walkers.border_text(rng, length) + rng.choice(("", "'", "\u3000", "\u4e00"))
            content = text.encode()[:length].decode("utf-8", "ignore").encode()
            if content:
                expected = walker(content)
                for place in (slice(PAGE - len(content), PAGE), slice(0, len(content))):
                    memory[place] = np.frombuffer(content, np.uint8)
                    assert walker(memory[place]) == expected, (name, content)
    print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")
def test_nothing_outside_the_text_is_read() -> None:
    """Text between two pages that may not be read, at the last and the first bytes: no fault, and the same starts."""
    assert output_of(GUARDED) == "done\n"


def test_text_that_is_no_utf8() -> None:
    """Whatever another thread writes into the text meanwhile, walks come to an end and stay inside their tables."""
    rng = random.Random(5)
    for name, _ in itertools.product(NAMES, range(60)):
        data = bytes(
            rng.choices((0x20, 0x27, 0x61, 0x80, 0xBF, 0xC5, 0xE4, 0xE9, 0xF0, 0xFF, 0x0A), k=rng.randint(1, 300))
        )
        starts, decided, _ = walker(name)(data)
        assert starts[0] == 0
        assert decided == len(data)


#: The walks of tiktoken's own patterns.
OPENAI = {"r50k": "gpt2", "cl100k_whole_end": "cl100k_base", "o200k": "o200k_base"}


@pytest.mark.parametrize("name", OPENAI)
def test_tiktoken_cuts_alike(name: str) -> None:
    """The pattern of tiktoken is a spelling of the rule, and tiktoken cuts as ``tokenizers`` does.

    It does not tell where it cuts, but with a token for every pair of bytes, in a random order, ids tell it.
    """
    pattern = openai_pattern(OPENAI[name])
    assert known.WALKERS[(Split(pattern),)] == name
    rng = random.Random(name)
    pairs = [bytes(pair) for pair in itertools.product(range(256), repeat=2)]
    rng.shuffle(pairs)
    ranks = {token: rank for rank, token in enumerate([*(bytes([i]) for i in range(256)), *pairs])}
    encoding = tiktoken.Encoding("pairs", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    rank_of = naive.rank_of_concatenation(ranks)
    for _ in range(300):
        text = border_text(rng, rng.randint(1, 60))
        data = text.encode()
        starts = walker(name)(data)[0]
        tokens = [naive.merge(data[begin:end], rank_of) for begin, end in itertools.pairwise([*starts, len(data)])]
        assert encoding.encode_ordinary(text) == [ranks[token] for piece in tokens for token in piece], text


@pytest.mark.parametrize("name", NAMES)
def test_automata_of_spellings(name: str) -> None:
    """All spellings of a rule have the automaton by which others are recognised."""
    for rule in known.WALKS[name].rules:
        assert known.DIGESTS[compile_rule(rule).digest.hex()[:16]] == name


def test_other_spellings() -> None:
    """Patterns that are written otherwise, and rules that cut otherwise."""
    assert (
        known.walk_of((Split(r"'(?:s|d|m|t|ll|ve|re)|[ ]?\p{L}+| {0,1}\p{N}+| ?[^\s\p{N}\p{L}]+|\s+(?!\S)|\s+"),))
        == "r50k"
    )
    assert known.walk_of((Split(known.cl100k_pattern(r"\p{N}\p{N}?\p{N}?")),)) == "cl100k"
    assert known.walk_of((Split(known.cl100k_pattern(r"\p{N}{1,4}")),)) is None
    assert known.walk_of(()) is None
