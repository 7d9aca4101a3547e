"""Stage 4 side by side: what is learned together is what each pretoken gives alone, and enters the cache as that."""

import random

import numpy as np
import pytest

import naive
import small
import texts
from numbatok import Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import cache, dtypes, spans, together
from numbatok.parts import Parts
from numbatok.scratch import Scratch
from numbatok.vocabulary import Vocabulary
from support import address_of, array_of, engine_of, new_scratch


class Group:
    """A group of pretokens that a scratch has keyed."""

    def __init__(self, tokenizer: Tokenizer, scratch: Scratch, pretokens: list[bytes]) -> None:
        self.view = engine_of(tokenizer)._view.address
        self.scratch, self.pretokens = scratch, pretokens
        self.text = array_of(b"".join(pretokens) + bytes(16))
        edges = np.zeros(len(pretokens) + 1 + dtypes.POSITION_SLACK, np.uint16)
        np.cumsum([len(pretoken) for pretoken in pretokens], out=edges[1 : len(pretokens) + 1])
        scratch.set_table(dtypes.WORK_POSITIONS, edges)
        spans.key_pretokens(scratch.address, address_of(self.text), len(self.text), 0, 0, len(pretokens))

    def learn(self) -> int:
        """What ``learn_together`` returns."""
        noted = self.note(0, len(self.pretokens), 0)
        return int(together.learn_together(self.view, self.scratch.address, address_of(self.text), 0, noted))

    def note(self, first: int, end: int, noted: int) -> int:
        """What ``note_new`` returns."""
        return int(together.note_new(self.view, self.scratch.address, first, end, noted))

    def look_up(self) -> list[int]:
        """The ids of all."""
        output = np.zeros(len(self.text) + dtypes.OUTPUT_SLACK, np.uint32)
        self.scratch.set_table(dtypes.WORK_OUTPUT, output)
        arguments = (address_of(self.text), len(self.text), 0, 0, len(self.pretokens), 0)
        used = cache.look_up(self.view, self.scratch.address, *arguments)
        assert used >= 0
        return output[:used].tolist()


def misses(scratch: Scratch) -> int:
    return int(scratch.record[dtypes.WORK_MISSES])


def random_pretokens(rng: random.Random, count: int, longest: int = 40) -> list[bytes]:
    """Pretokens in many scripts, some of them not UTF-8, of one byte and more, with some twice."""
    made = []
    for _ in range(count):
        if rng.random() < 0.2 and made:
            made.append(rng.choice(made))
        elif rng.random() < 0.1:
            made.append(rng.randbytes(rng.randint(1, longest)))
        else:
            size = rng.randint(1, longest)
            made.append((texts.random_text(rng, size).encode() or b"?")[:size])
    return made


@pytest.mark.parametrize("kind", ["ranks", "merges"])
def test_as_each_alone(kind: str, naive_ranks, naive_merges) -> None:
    """Random groups, a scratch each: those that fit a lane are learned, once, and every pretoken gives its ids."""
    tokenizer, oracle = {
        "ranks": (small.by_ranks(), naive_ranks),
        "merges": (small.by_merges(), naive_merges),
    }[kind]
    rng = random.Random(5)
    all_learned = all_fitting = 0
    for turn in range(40):
        count = rng.choice([1, 2, dtypes.LANES - 1, dtypes.LANES, dtypes.LANES + 1, dtypes.GROUP, 4 * dtypes.GROUP])
        pretokens = random_pretokens(rng, count, longest=rng.choice([3, 8, 15, 17, 18, 31, 40]))
        scratch = new_scratch(tokenizer)
        group = Group(tokenizer, scratch, pretokens)
        fitting = {pretoken for pretoken in pretokens if len(pretoken) <= dtypes.LANE_BYTES}
        group.learn()
        learned = misses(scratch)
        # A longer one that may be a token as it is is left, where the vocabulary asks for those.
        short = sum(len(pretoken) <= dtypes.SHORT_KEY for pretoken in fitting)
        assert short <= learned <= len(fitting) if kind == "ranks" else learned == len(fitting), turn
        all_learned += learned
        all_fitting += len(fitting)
        assert scratch.entries == learned
        expected = [id for pretoken in pretokens for id in oracle.encode_pretoken(pretoken)]
        assert group.look_up() == expected
        assert misses(scratch) == len(set(pretokens))
        assert group.learn() == 0
        assert group.look_up() == expected
    assert all_learned >= 0.9 * all_fitting


def test_noted_in_parts(small_ranks, naive_ranks) -> None:
    """Groups noted part by part: each pretoken that is new, seldom twice, whatever is left of the group before."""
    rng = random.Random(9)
    scratch = new_scratch(small_ranks)
    scratch.expect(10**7)
    known: set[bytes] = set()
    for _ in range(5):
        pretokens = random_pretokens(rng, dtypes.LARGE_GROUP, longest=6)
        group = Group(small_ranks, scratch, pretokens)
        noted = 0
        for first in range(0, len(pretokens), dtypes.GROUP):
            noted = group.note(first, first + dtypes.GROUP, noted)
        new = set(pretokens) - known
        assert len(new) <= noted <= 1.2 * len(new)
        together.learn_together(group.view, scratch.address, address_of(group.text), 0, noted)
        known |= new
        assert misses(scratch) == scratch.entries == len(known)
        assert group.look_up() == [id for pretoken in pretokens for id in naive_ranks.encode_pretoken(pretoken)]


def test_a_long_one_that_changes(small_ranks, naive_ranks) -> None:
    """Text that another thread changes after it was keyed: under its key are entered the bytes that were merged.

    Whoever has the key's bytes then finds others there, and gets the ids of its own.
    """
    pretoken = b"abcabcabcabcabcabcabc"
    scratch = new_scratch(small_ranks)
    group = Group(small_ranks, scratch, [pretoken])
    group.text[3] = ord("z")
    assert group.learn() == 1
    group.text[3] = pretoken[3]
    assert group.look_up() == naive_ranks.encode_pretoken(pretoken)
    assert misses(scratch) == 2


def test_merges_that_are_not_numbered_in_order() -> None:
    """Where symbols do not follow the order of the merges, what a merge makes is read from a table."""
    merges = [(b"c", b"d"), (b"a", b"b"), (b"ab", b"cd"), (b"b", b"c"), (b"e", b"e"), (b"ee", b"ee")]
    tokens = [bytes([byte]) for byte in range(256)] + [b"eeee", b"ab", b"bc", b"abcd", b"ee", b"cd"]
    ids = {token: 7 * number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(Parts(Vocabulary.from_merges(ids, merges), AddedTokens([]), small.RULE))
    oracle = naive.Tokenizer.from_merges(ids, merges)
    assert engine_of(tokenizer)._view[dtypes.VIEW_MERGED + 1] == len(merges)
    rng = random.Random(6)
    pretokens = [bytes(rng.choices(b"abcde", k=rng.randint(1, 15))) for _ in range(dtypes.GROUP)]
    group = Group(tokenizer, new_scratch(tokenizer), pretokens)
    assert group.learn() > 50
    assert group.look_up() == [id for pretoken in pretokens for id in oracle.encode_pretoken(pretoken)]


def test_no_merges_at_all() -> None:
    """A vocabulary of bytes alone."""
    ids = {bytes([byte]): 255 - byte for byte in range(256)}
    tokenizer = Tokenizer(Parts(Vocabulary.from_merges(ids, []), AddedTokens([]), small.RULE))
    pretokens = [b"a", b"abc", b"\xff" * 15, bytes(15), b"zz"]
    group = Group(tokenizer, new_scratch(tokenizer), pretokens)
    assert group.learn() == len(pretokens)
    assert group.look_up() == [255 - byte for pretoken in pretokens for byte in pretoken]


@pytest.mark.parametrize("field", [dtypes.WORK_NARROW_LIMIT, dtypes.WORK_WIDE_LIMIT, dtypes.WORK_ARENA + 1])
def test_no_room(field: int, small_ranks, naive_ranks) -> None:
    """Where an entry or the arena is full, what is left is learned one by one, after the caller has made room."""
    rng = random.Random(7)
    pretokens = list(dict.fromkeys(random_pretokens(rng, 100, longest=15)))
    scratch = new_scratch(small_ranks)
    group = Group(small_ranks, scratch, pretokens)
    before = int(scratch.record[field])
    scratch.record[field] = 60 if field == dtypes.WORK_ARENA + 1 else 5
    group.learn()
    assert 0 < misses(scratch) < len(pretokens)
    scratch.record[field] = before
    expected = [id for pretoken in pretokens for id in naive_ranks.encode_pretoken(pretoken)]
    assert group.look_up() == expected
    assert misses(scratch) == len(pretokens)


def test_dropped_pieces_are_left_alone(small_ranks) -> None:
    """The key of removed pieces has no bytes to merge."""
    scratch = new_scratch(small_ranks)
    group = Group(small_ranks, scratch, [b"one", b"gone", b"two"])
    keys = np.frombuffer(scratch.tables()[dtypes.WORK_KEYS], np.uint64)
    keys[2:4] = dtypes.DROPPED_KEY, 0
    assert group.learn() == 2
    assert misses(scratch) == 2


def test_whole_texts(naive_ranks) -> None:
    """A text of new words gives the same ids where its pretokens are learned together and where they never are."""
    rng = random.Random(8)
    text = " ".join(texts.random_text(rng, rng.randint(1, 14)) for _ in range(3000))
    alone = small.by_ranks()
    engine_of(alone)._view[dtypes.VIEW_TOGETHER] = 0
    expected = naive_ranks.encode(text)
    assert small.by_ranks().encode(text).tolist() == expected
    assert alone.encode(text).tolist() == expected
