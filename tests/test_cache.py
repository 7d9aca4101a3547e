"""Stage 3: the cache never changes an id, however small its tables, however often they grow, are wiped and collide."""

import random

import numpy as np
import pytest

import small
import texts
from numbatok import scratch as scratch_module
from numbatok.kernels import cache, dtypes
from numbatok.scratch import Moves, Scratch, move_arguments
from support import address_of, array_of, engine_of, new_scratch

TINY = {"NARROW_ENTRIES": 2, "WIDE_ENTRIES": 2}
#: Sizes of the tables: what they are at first, and the most that they may become.
SIZES = {
    "grow from two entries": TINY,
    "wiped at two entries": {**TINY, "MOST_NARROW_ENTRIES": 2, "MOST_WIDE_ENTRIES": 2},
    "narrow wiped at four": {**TINY, "MOST_NARROW_ENTRIES": 4},
    "wide wiped at eight": {**TINY, "MOST_WIDE_ENTRIES": 8},
    "nearly full": {
        **dict.fromkeys(["NARROW_ENTRIES", "MOST_NARROW_ENTRIES"], 64),
        "WIDE_ENTRIES": 8,
        "MOST_LOAD": 0.99,
    },
    "arena grows": {"ARENA_WORDS": 8},
    "arena wiped": {"ARENA_WORDS": 1 << 9, "MOST_ARENA_WORDS": 1 << 9},
    "arena smaller than a pretoken": {"MOST_ARENA_WORDS": 64},
    "all at once": {**TINY, **dict.fromkeys(["MOST_NARROW_ENTRIES", "MOST_WIDE_ENTRIES"], 16), "MOST_ARENA_WORDS": 400},
}


def set_sizes(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, float]) -> None:
    """Let the scratches made from now on have these sizes."""
    if "MOST_ARENA_WORDS" in sizes:
        sizes = {"ARENA_WORDS": sizes["MOST_ARENA_WORDS"], **sizes}
    for name, value in sizes.items():
        assert hasattr(scratch_module, name)
        monkeypatch.setattr(scratch_module, name, value)


def mixed_text(seed: int) -> str:
    """Pretokens that are narrow, wide and long, recurring and not, with few and many ids."""
    rng = random.Random(seed)
    words = [texts.random_text(rng, rng.choice([1, 3, 7, 8, 15, 16, 30])) for _ in range(60)]
    runs = [c * n for c in "=aЖ中" for n in (7, 8, 15, 16, 17, 64, 65, 256, 257)]
    chosen = rng.choices(words, k=800) + rng.choices(runs, k=60)
    rng.shuffle(chosen)
    return " ".join(chosen)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_table_sizes_change_no_id(monkeypatch, sizes, naive_ranks, naive_merges) -> None:
    """Texts twice over, so that entries are found again after whatever befell them; alone, in a batch, and counted."""
    set_sizes(monkeypatch, sizes)
    batch = [mixed_text(seed) for seed in range(3)]
    for tokenizer, oracle in ((small.by_ranks(), naive_ranks), (small.by_merges(), naive_merges)):
        expected = [oracle.encode(text) for text in batch]
        for _ in range(2):
            assert [tokenizer.encode(text).tolist() for text in batch] == expected
            assert tokenizer.encode_batch(batch).tolist() == expected
            assert tokenizer.count_batch(batch).tolist() == [len(ids) for ids in expected]


def test_growth_keeps_what_is_known(monkeypatch) -> None:
    """After growing from two entries, a text that was seen is found: nothing is merged anew."""
    set_sizes(monkeypatch, TINY)
    tokenizer = small.by_ranks()
    text = mixed_text(9).replace("=" * 257, "").replace("a" * 257, "").replace("中" * 257, "").replace("Ж" * 257, "")
    text = " ".join(word for word in text.split(" ") if len(word.encode()) < dtypes.LONGEST_CACHED)
    tokenizer.encode(text)
    (scratch,) = engine_of(tokenizer).scratches.idle
    misses = int(scratch.record[dtypes.WORK_MISSES])
    tokenizer.encode(text)
    assert misses > 100
    assert int(scratch.record[dtypes.WORK_MISSES]) == misses
    assert int(scratch.record[dtypes.WORK_PIECES]) > 2 * misses


def test_each_kind_of_entry_is_found_again(naive_ranks) -> None:
    """Pretokens of every length to beyond the longest cached: the first use merges, the second gives the same ids."""
    rng = random.Random(7)
    tokenizer = small.by_ranks()
    for size in range(1, dtypes.LONGEST_CACHED + 20):
        word = "".join(rng.choices("etaoinsh", k=size))
        expected = naive_ranks.encode(word)
        assert tokenizer.encode(word).tolist() == expected
        assert tokenizer.encode(word).tolist() == expected
        assert tokenizer.encode("." + word + "!").tolist() == naive_ranks.encode("." + word + "!")


def test_ids_too_large_for_an_entry() -> None:
    """Ids from 2^28 on do not fit beside a key; they come back whole from the arena."""
    from numbatok import Tokenizer
    from numbatok.added_tokens import AddedTokens
    from numbatok.parts import Parts
    from numbatok.vocabulary import Vocabulary

    spread = [id * 5_000_000 for id in range(len(small.TOKENS))]
    tokenizer = Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS, spread), AddedTokens([]), small.RULE))
    assert spread[-1] > 1 << 28
    text = mixed_text(11)
    expected = [spread[id] for id in small.naive_by_ranks().encode(text)]
    for _ in range(2):
        ids = tokenizer.encode(text)
        assert ids.tolist() == expected
        assert tokenizer.decode(ids) == text


def look_further(tokenizer, scratch: Scratch, pretoken: bytes, key: tuple[int, int], place: int) -> list[int]:
    """Ids of a pretoken under a key and from a place of the caller's choosing."""
    text, output = array_of(pretoken), np.zeros(1000, np.uint32)
    scratch.set_table(dtypes.WORK_KEYS, np.array(key, np.uint64))
    scratch.set_table(dtypes.WORK_PLACES, np.array([place]))
    scratch.set_table(dtypes.WORK_OUTPUT, output)
    view = engine_of(tokenizer)._view.address
    used = cache.look_further(view, scratch.address, address_of(text), 0, len(text), 0, 0)
    return output[:used].tolist()


@pytest.mark.parametrize("size", [16, 17, 64, 255])
def test_equal_hashes_of_different_pretokens(small_ranks, naive_ranks, size: int) -> None:
    """Long pretokens with one and the same key are told apart by their bytes, before and after both are known."""
    scratch = new_scratch(small_ranks)
    wide_base = dtypes.NARROW_BASE + dtypes.NARROW_WORDS * scratch_module.NARROW_ENTRIES
    last_entry = wide_base + dtypes.WIDE_WORDS * (scratch_module.WIDE_ENTRIES - 1)
    key = (0x123456789ABCDEF0, int(dtypes.LONG_KEY) | size)
    rng = random.Random(size)
    words = ["".join(rng.choices("etaoins", k=size - 1)) + end for end in "abcdefg"]
    words.append("b" + words[0][1:])
    for word in [*words, *words, *reversed(words)]:
        assert look_further(small_ranks, scratch, word.encode(), key, last_entry) == naive_ranks.encode(word)
    assert scratch.record[dtypes.WORK_WIDE_USED] == len(words)


def test_entries_that_begin_at_one_place(small_ranks, naive_ranks) -> None:
    """Narrow and wide pretokens that all begin their search at the table's last entry, and go on at its first."""
    scratch = new_scratch(small_ranks)
    wide_base = dtypes.NARROW_BASE + dtypes.NARROW_WORDS * scratch_module.NARROW_ENTRIES
    words_of_table = int(scratch.record[dtypes.WORK_TABLE + 1])
    narrow = [f"ab{i}" for i in range(20)]
    wide = [f"theretheth{i}" for i in range(20)]
    for _ in range(3):
        for word in narrow:
            key = (int.from_bytes(word.encode(), "little") | len(word) << 56, 0)
            ids = look_further(small_ranks, scratch, word.encode(), key, wide_base - dtypes.NARROW_WORDS)
            assert ids == naive_ranks.encode_pretoken(word.encode())
        for word in wide:
            whole = int.from_bytes(word.encode(), "little") | len(word) << 120
            key = (whole & (1 << 64) - 1, whole >> 64)
            ids = look_further(small_ranks, scratch, word.encode(), key, words_of_table - dtypes.WIDE_WORDS)
            assert ids == naive_ranks.encode_pretoken(word.encode())
    assert scratch.record[dtypes.WORK_NARROW_USED] == len(narrow)
    assert scratch.record[dtypes.WORK_WIDE_USED] == len(wide)
    assert scratch.record[dtypes.WORK_MISSES] == len(narrow) + len(wide)


@pytest.mark.parametrize(("narrow_times", "wide_times"), [(4, 2), (1, 2), (2, 1)])
def test_moving_entries_moves_all(narrow_times: int, wide_times: int) -> None:
    """``move_entries`` returns how many entries were in use, and the new table, cleared by it, has as many."""
    tokenizer = small.by_ranks()
    tokenizer.encode(mixed_text(12))
    (scratch,) = engine_of(tokenizer).scratches.idle
    old, parts = scratch._arrays[dtypes.WORK_TABLE], scratch._parts()
    in_use = int(scratch.record[dtypes.WORK_NARROW_USED] + scratch.record[dtypes.WORK_WIDE_USED])
    scratch._make_table(narrow_times * scratch._narrow, wide_times * scratch._wide)
    assert sum(cache.move_entries(*part, 0) for part in parts) == in_use
    del old
    fresh = scratch._arrays[dtypes.WORK_TABLE]
    narrow = fresh[dtypes.NARROW_BASE : scratch._wide_base()].reshape(-1, dtypes.NARROW_WORDS)
    wide = fresh[scratch._wide_base() :].reshape(-1, dtypes.WIDE_WORDS)
    assert np.count_nonzero(narrow[:, 0]) + np.count_nonzero(wide[:, 3]) == in_use > 50


def test_a_table_that_grows_twice_at_one_stop_keeps_its_entries() -> None:
    """The caller moves them once, from the table that holds them to the last one that was made."""
    tokenizer = small.by_ranks()
    text = mixed_text(12)
    tokenizer.encode(text)
    (scratch,) = engine_of(tokenizer).scratches.idle
    before = scratch.misses
    ids = tokenizer.encode(text)
    in_use, misses = scratch.entries, scratch.misses
    uncached = misses - before  # what is too long for it
    moves: Moves = {}
    assert scratch._grow(narrow=2, moves=moves)
    assert scratch._grow(wide=2, moves=moves)
    moved = [cache.move_entries(*arguments) for arguments in move_arguments(moves)]
    assert sum(moved) == in_use > 50
    assert np.array_equal(tokenizer.encode(text), ids)
    assert (scratch.entries, scratch.misses) == (in_use, misses + uncached)


def test_room_is_made_ahead_for_what_a_text_will_bring() -> None:
    """Half full with a tenth of the text behind is more than full at its end; with nine tenths behind it is not."""
    scratch = new_scratch(small.by_ranks())
    before = scratch.cache_bytes
    for part in ("NARROW", "WIDE"):
        limit = scratch.record[getattr(dtypes, f"WORK_{part}_LIMIT")]
        scratch.record[getattr(dtypes, f"WORK_{part}_USED")] = limit // 2
    for part_done in (0.9, 1.0):
        scratch.make_room(part_done)
        assert scratch.cache_bytes == before
    scratch.make_room(0.1)
    assert (scratch._narrow, scratch._wide) == (2 * scratch_module.NARROW_ENTRIES, 2 * scratch_module.WIDE_ENTRIES)
    assert len(scratch.tables()[dtypes.WORK_ARENA]) == scratch_module.ARENA_WORDS


def test_room_is_made_for_what_a_call_adds() -> None:
    """One of many calls over the same kind of text adds little to what the earlier ones have left."""
    scratch = new_scratch(small.by_ranks())
    limit = int(scratch.record[dtypes.WORK_NARROW_LIMIT])
    scratch.record[dtypes.WORK_NARROW_USED] = limit - 10
    scratch.expect(1000)
    scratch.record[dtypes.WORK_NARROW_USED] = limit
    scratch.mend(dtypes.NEED_NARROW, 0.01)
    assert scratch._narrow == 2 * scratch_module.NARROW_ENTRIES
    fresh = new_scratch(small.by_ranks())
    fresh.record[dtypes.WORK_NARROW_USED] = limit
    fresh.mend(dtypes.NEED_NARROW, 0.01)
    assert fresh._narrow == 32 * scratch_module.NARROW_ENTRIES
