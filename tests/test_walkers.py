"""Stage 1, every walker: its bitmap against the pieces of the reference libraries, wherever blocks and texts end."""

import functools
import itertools
import os
import random

import numpy as np
import pytest
import tiktoken
import tokenizers
from tiktoken_ext import openai_public
from tokenizers import pre_tokenizers

import naive
import numbatok.engine  # noqa: F401  makes all kernels known
import texts
from numbatok.kernels import dtypes
from numbatok.kernels.jit import kernels
from numbatok.memory import address_of
from numbatok.patterns import known
from numbatok.patterns.rules import Split, SplitRule

BLOCK = 64
NAMES = list(known.WALKS)

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
    *("'s", "'S", "'ſ", "'t", "'ll", "'Ll", "'ve", "'RE", "'l", "'m", "'d", "<|endoftext|>", "<|startoftext|>"),
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
        for place, value in known.parameters(name).items():
            self._view[place] = value
        self._kernel = kernels[known.WALKS[name].kernel]

    def _set(self, record: np.ndarray, place: int, array: np.ndarray) -> None:
        self._arrays[id(record) + place] = array
        record[place] = address_of(array)
        record[place + 1] = len(array)

    def __call__(
        self, text: bytes, base: int = 0, stop: int | None = None, blocks: int | None = None
    ) -> tuple[list[int], int, list[int]]:
        """(starts below ``decided``, ``decided``, those of dropped pieces) of one call; blocks reach ``stop``."""
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
        return starts[starts < decided].tolist(), decided, dropped[dropped < decided].tolist()


@functools.cache
def walker(name: str) -> Walker:
    return Walker(name)


@functools.cache
def reference(rule: SplitRule) -> pre_tokenizers.PreTokenizer:
    """The rule as ``tokenizers`` runs it."""
    steps = []
    for split in rule:
        if split.pattern == r"\p{is_numeric}":
            steps.append(pre_tokenizers.Digits(individual_digits=split.behavior == "isolated"))
        elif split.pattern == r"\p{is_punctuation}":
            steps.append(pre_tokenizers.Punctuation(split.behavior))
        else:
            steps.append(pre_tokenizers.Split(tokenizers.Regex(split.pattern), split.behavior, split.invert))
    return pre_tokenizers.Sequence(steps)


def reference_pieces(rule: SplitRule, text: str) -> list[tuple[int, int]]:
    """(start, end) of the pieces that the reference keeps, in bytes of UTF-8."""
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


SCALE = float(os.environ.get("WSCALE", "1"))
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
def test_borders_of_classes(name: str) -> None:
    """Generated text, short and of several blocks."""
    rng = random.Random(name)
    for turn in range(int(300*SCALE)):
        check(name, border_text(rng, rng.randint(1, 10 if turn % 2 else 150)))


@pytest.mark.parametrize("name", NAMES)
def test_every_pair_and_triple(name: str) -> None:
    """All atoms after all others; and some after that."""
    rng = random.Random(name)
    for left, right in rng.sample(list(itertools.product(ATOMS, repeat=2)), int(len(ATOMS)**2*min(1,SCALE/5))):
        check(name, left + right + rng.choice(ATOMS) + rng.choice(ATOMS))


@pytest.mark.parametrize("name", NAMES)
def test_block_edges(name: str) -> None:
    """Each class on each side of the edge between two blocks, and characters and contractions across it."""
    rng = random.Random(name)
    for left, right in itertools.product(EDGES, repeat=2):
        for before in rng.sample(range(BLOCK - 7, BLOCK + 2), max(1,int(SCALE))):
            check(name, "b" * (before % 2) + " a" * (before // 2) + left + right + rng.choice(EDGES) + "x b")


@pytest.mark.parametrize("name", NAMES)
def test_runs_across_blocks(name: str) -> None:
    """Runs of one class of every length, between others."""
    rng = random.Random(name)
    for length in range(1, 201):
        for character in rng.sample(EDGES, 6):
            run = character * length
            check(name, run)
            check(name, rng.choice(EDGES) + rng.choice(EDGES) + run + rng.choice(EDGES) + rng.choice(EDGES))


@pytest.mark.parametrize("name", NAMES)
def test_any_start_continues_the_cut(name: str) -> None:
    """From any start on, with any number of blocks, and to any stop."""
    rng = random.Random(name)
    for _ in range(250):
        text = border_text(rng, rng.randint(1, 100))
        data = text.encode()
        starts, dropped = expected(name, text)
        for base in rng.sample(starts, min(len(starts), 12)):
            found, decided, _ = walker(name)(data, base)
            assert found == [start for start in starts if start >= base], (name, text, base)
            blocks = rng.randint(1, -(-(len(data) - base) // BLOCK))
            found, decided, gone = walker(name)(data, base, blocks=blocks)
            assert found[0] == base
            assert found == [start for start in starts if base <= start <= found[-1]], (name, text, base, blocks)
            assert found[-1] < decided <= len(data)
        kept = text[: rng.randint(1, len(text))]
        assert walker(name)(data, stop=len(kept.encode()))[0] == expected(name, kept)[0], (name, kept)


@pytest.mark.parametrize("name", NAMES)
def test_random_text_of_every_script(name: str) -> None:
    rng = random.Random(name)
    for _ in range(10):
        check(name, texts.random_text(rng, 3000))


@pytest.mark.parametrize("name", NAMES)
def test_corpus(name: str, corpus_text: str) -> None:
    """Text as people write it."""
    check(name, corpus_text[:60_000])


def test_spellings_cut_alike() -> None:
    """Every spelling of a rule, as ``tokenizers`` reads it, gives the pieces of the first."""
    rng = random.Random(7)
    sample = [border_text(rng, rng.randint(1, 60)) for _ in range(100)]
    for walk in known.WALKS.values():
        first = [reference_pieces(walk.rules[0], text) for text in sample]
        for rule in walk.rules[1:]:
            if all(split.syntax == "oniguruma" for split in rule):
                assert [reference_pieces(rule, text) for text in sample] == first, rule


def openai_pattern(encoding: str) -> str:
    """The pattern of an encoding in the installed tiktoken, asked without fetching its ranks."""
    with pytest.MonkeyPatch.context() as patch:
        for loader in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
            patch.setattr(openai_public, loader, lambda *_, **__: {})
        return openai_public.ENCODING_CONSTRUCTORS[encoding]()["pat_str"]


#: The walks of tiktoken's own patterns.
OPENAI = {"r50k": "gpt2", "cl100k_whole_end": "cl100k_base", "o200k": "o200k_base"}


@pytest.mark.parametrize("name", OPENAI)
def test_tiktoken_cuts_alike(name: str) -> None:
    """tiktoken's own pattern is a spelling of the rule, and tiktoken cuts as ``tokenizers`` does.

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
    for _ in range(700):
        text = border_text(rng, rng.randint(1, 60))
        data = text.encode()
        starts = walker(name)(data)[0]
        tokens = [naive.merge(data[begin:end], rank_of) for begin, end in itertools.pairwise([*starts, len(data)])]
        assert encoding.encode_ordinary(text) == [ranks[token] for piece in tokens for token in piece], text
