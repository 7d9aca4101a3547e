"""Stage 4: merging one pretoken, against merging by hand, for both kinds of vocabulary."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
import small
from numbatok import Tokenizer, get_encoding
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import dtypes, merge
from numbatok.parts import Parts
from numbatok.vocabulary import Vocabulary
from support import address_of, array_of, engine_of, new_scratch

BYTES = [bytes([byte]) for byte in range(256)]


def merge_kernel(tokenizer: Tokenizer, pretoken: bytes, symbols: int = 1 << 12) -> list[int] | int:
    """Ids that ``merge_pretoken`` leaves with buffers for so many symbols, or its status."""
    scratch = new_scratch(tokenizer)
    scratch._set_merge_symbols(symbols)
    text = array_of(pretoken)
    view = engine_of(tokenizer)._view.address
    count = merge.merge_pretoken(view, scratch.address, address_of(text), len(text))
    assert text.tobytes() == pretoken, "the text was written to"
    return count if count < 0 else scratch._arrays[dtypes.WORK_SYMBOLS][:count].tolist()


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[Tokenizer, naive.Tokenizer]:
    """A tokenizer and its oracle: up to 40 tokens made of others over a small alphabet, ids and ranks in any order."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    alphabet = [bytes([byte]) for byte in rng.sample(range(256), rng.choice([1, 2, 3]))]
    made: list[bytes] = []
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(rng.randint(1, 40)):
        pair = (rng.choice(alphabet + made), rng.choice(alphabet + made))
        if len(pair[0] + pair[1]) <= 40:
            merges.append(pair)
            if pair[0] + pair[1] not in made:
                made.append(pair[0] + pair[1])
    tokens = BYTES + made
    rng.shuffle(tokens)
    if rng.random() < 0.5:
        if rng.random() < 0.3:  # tokens that no merge reaches
            tokens.append(b"".join(rng.choices(alphabet, k=41)))
        return _tokenizer(Vocabulary.from_ranks(tokens)), naive.Tokenizer.from_ranks(tokens)
    if rng.random() < 0.5:
        rng.shuffle(merges)
    ids = dict(zip(tokens, rng.sample(range(1 << 20), len(tokens)), strict=True))
    whole_first = rng.random() < 0.3
    return (
        _tokenizer(Vocabulary.from_merges(ids, merges, whole_first=whole_first)),
        naive.Tokenizer.from_merges(ids, merges, whole_first=whole_first),
    )


def _tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    return Tokenizer(Parts(vocabulary, AddedTokens([]), small.RULE))


def merged(oracle: naive.Tokenizer, pretoken: bytes) -> list[int]:
    """Ids of one pretoken: itself where the vocabulary takes whole tokens first, else what merging gives."""
    if oracle.whole_first and pretoken in oracle.id_of:
        return [oracle.id_of[pretoken]]
    return [oracle.id_of[token] for token in naive.merge(pretoken, oracle.rank_of)]


@given(vocabularies(), st.data())
def test_random_vocabularies(both: tuple[Tokenizer, naive.Tokenizer], data: st.DataObject) -> None:
    """Any vocabulary, any pretoken over its alphabet, shorter and longer than the scan for the minimum takes."""
    tokenizer, oracle = both
    alphabet = sorted(set(b"".join(token for token in oracle.id_of if len(token) > 1))) or [97]
    for longest in (10, 64, 200):
        pretoken = bytes(data.draw(st.lists(st.sampled_from(alphabet), min_size=1, max_size=longest)))
        assert merge_kernel(tokenizer, pretoken) == merged(oracle, pretoken)
        letters = pretoken.decode("latin-1").translate({byte: 97 + byte % 3 for byte in alphabet})
        assert tokenizer.encode(letters).tolist() == oracle.encode(letters)


@pytest.mark.parametrize("kind", ["ranks", "merges"])
def test_every_length(kind: str, request: pytest.FixtureRequest) -> None:
    """1 to 200 bytes of words, with the step from scan to heap at 64 and the blocks of 16 ranks on the way."""
    tokenizer, oracle = (request.getfixturevalue(f"{owner}_{kind}") for owner in ("small", "naive"))
    rng = random.Random(8)
    source = small.TEXT.encode()
    for length in range(1, 201):
        for begin in (0, rng.randrange(len(source) - length), rng.randrange(len(source) - length)):
            pretoken = source[begin : begin + length]
            assert merge_kernel(tokenizer, pretoken) == merged(oracle, pretoken), pretoken


@pytest.mark.parametrize("length", [1, 2, 3, 16, 17, 63, 64, 65, 66, 127, 128, 129, 1000, 2047, 2048])
@pytest.mark.parametrize("unit", [b"a", b"ab", b"\xf0\x9f\x98\x80", b"\x00", b"\xff", b"=-"])
def test_repetition(length: int, unit: bytes) -> None:
    """The same pair over and over: the leftmost of equals first, for powers of two of a unit as tokens."""
    powers = [unit * (1 << n) for n in range(7) if len(unit) << n > 1]
    merges = [(power[: len(power) // 2], power[len(power) // 2 :]) for power in powers if len(power) > len(unit)]
    merges = [(unit[:n], unit[n : n + 1]) for n in range(1, len(unit))] + merges
    tokens = list(dict.fromkeys(BYTES + [left + right for left, right in merges]))
    ids = {token: id for id, token in enumerate(tokens)}
    pretoken = (unit * length)[:length]
    by_merges = _tokenizer(Vocabulary.from_merges(ids, merges))
    assert merge_kernel(by_merges, pretoken) == merged(naive.Tokenizer.from_merges(ids, merges), pretoken)
    by_ranks = _tokenizer(Vocabulary.from_ranks(tokens))
    assert merge_kernel(by_ranks, pretoken) == merged(naive.Tokenizer.from_ranks(tokens), pretoken)


def test_a_repeated_merge_has_its_last_rank() -> None:
    """``a b`` given first and last comes after ``b c``."""
    merges = [(b"a", b"b"), (b"b", b"c"), (b"a", b"b")]
    ids = {token: id for id, token in enumerate([*BYTES, b"ab", b"bc"])}
    tokenizer = _tokenizer(Vocabulary.from_merges(ids, merges))
    for padding in (b"", b"." * 70):
        expected = [ids[b"a"], ids[b"bc"]] + [ids[b"."]] * len(padding)
        assert merge_kernel(tokenizer, b"abc" + padding) == expected


@pytest.mark.parametrize("size", [3, 7, 8, 15, 16, 17, 90, 255, 256, 257, 300, 9000])
def test_whole_pretoken_first(size: int) -> None:
    """A token that no merge reaches is found as a whole pretoken by ranks and ``ignore_merges``, else never."""
    whole = (b"xyz" * size)[:size]
    ids = {token: id for id, token in enumerate([*BYTES, b"ab", whole])}
    merges = [(b"a", b"b")]
    for vocabulary, expected in (
        (Vocabulary.from_ranks(list(ids)), [ids[whole]]),
        (Vocabulary.from_merges(ids, merges, whole_first=True), [ids[whole]]),
        (Vocabulary.from_merges(ids, merges), list(whole)),
    ):
        tokenizer = _tokenizer(vocabulary)
        for _ in range(2):
            assert tokenizer.encode(whole).tolist() == expected
            assert tokenizer.encode(b"." + whole + b" ").tolist() == [ord("."), *expected, ord(" ")]
        assert tokenizer.encode(whole + b"ab").tolist() == [*whole, ids[b"ab"]]


def test_rank_of_the_concatenation_not_of_its_making() -> None:
    """By ranks, any two tokens whose bytes make a token merge, not only those it was trained from."""
    tokens = [*BYTES, b"bc", b"ab", b"abc"]
    assert merge_kernel(_tokenizer(Vocabulary.from_ranks(tokens)), b"zabc") == [ord("z"), 258]
    merges = [(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")]
    ids = {token: id for id, token in enumerate(tokens)}
    assert merge_kernel(_tokenizer(Vocabulary.from_merges(ids, merges)), b"zabc") == [ord("z"), ord("a"), 256]


@pytest.mark.parametrize("length", [33, 64, 65, 500])
def test_buffers_too_small(small_ranks, naive_ranks, length: int) -> None:
    """Fewer symbols than bytes: NEED_MERGE; exactly as many are enough."""
    pretoken = ("the others " * 50).encode()[:length]
    assert merge_kernel(small_ranks, pretoken, symbols=length - 1) == dtypes.NEED_MERGE
    enough = -(-length // 16) * 16  # the scan reads ranks by sixteens
    assert merge_kernel(small_ranks, pretoken, symbols=enough) == merged(naive_ranks, pretoken)


def test_a_pretoken_far_longer_than_the_buffers(small_ranks, naive_ranks) -> None:
    """Through the tokenizer: buffers grow for a long pretoken, and shrink after a very long one."""
    word = "thethere" * 2000
    assert small_ranks.encode(word).tolist() == naive_ranks.encode(word)
    ids = small_ranks.encode("z" * 600_000)
    assert small_ranks.decode(ids) == "z" * 600_000
    for scratch in engine_of(small_ranks).scratches.idle:
        assert len(scratch._arrays[dtypes.WORK_SYMBOLS]) <= 1 << 18


def test_every_token_is_itself(gpt2) -> None:
    """Each of GPT-2's tokens, as a whole pretoken, is one id."""
    engine = engine_of(gpt2)
    scratch = new_scratch(gpt2)
    view = engine._view.address
    for id, token in enumerate(gpt2._vocabulary.tokens):
        text = array_of(token)
        assert merge.merge_pretoken(view, scratch.address, address_of(text), len(text)) == 1
        assert scratch._arrays[dtypes.WORK_SYMBOLS][0] == id


def test_gpt2_words(gpt2, naive_gpt2) -> None:
    """Random letters and real words under GPT-2's 50,000 ranks."""
    rng = random.Random(10)
    for _ in range(300):
        letters = "".join(rng.choices("etaoinshrdlucmfwypvbgkqjxz", k=rng.randint(1, 100)))
        assert merge_kernel(gpt2, letters.encode()) == merged(naive_gpt2, letters.encode())
        junk = rng.randbytes(rng.randint(1, 100))
        assert merge_kernel(gpt2, junk) == merged(naive_gpt2, junk)
    assert np.array_equal(
        gpt2.encode("antidisestablishmentarianism"), naive_gpt2.encode("antidisestablishmentarianism")
    )


def test_one_pair_a_token() -> None:
    """Of all ways to cut a token in two only the one that merging comes to is in the table of pairs."""
    tokenizer = get_encoding("gpt2")
    pairs = engine_of(tokenizer)._view._arrays[dtypes.VIEW_PAIRS]
    assert np.count_nonzero(pairs != dtypes.ALL_ONES) == 50_000
    # Merging "abcd" comes to "a" and "bcd": its other cut, of two tokens as well, never comes up.
    tokens = [*BYTES, b"cd", b"ab", b"bcd", b"abcd"]
    for order in ([0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        ranked = BYTES + [tokens[256 + place] for place in order]
        oracle = naive.Tokenizer.from_ranks(ranked)
        for pretoken in (b"abcd", b"abcdabcd", b"aabcd", b"abcdd", b"cdabcd"):
            assert merge_kernel(_tokenizer(Vocabulary.from_ranks(ranked)), pretoken) == merged(oracle, pretoken)


@pytest.mark.parametrize("longest", [1024, 1025, 4000])
@pytest.mark.parametrize("in_order", [True, False])
def test_long_tokens_with_several_merges(longest: int, in_order: bool) -> None:
    """Tokens that are longer than what a scratch has room for at first lose none of the merges that make them."""
    sizes = [1 << k for k in range(1, longest.bit_length())]
    made = [b"a" * size for size in dict.fromkeys([*sizes, longest - 1, longest])]
    merges = [(token[: len(token) // 2], token[len(token) // 2 :]) for token in made if len(token) in sizes]
    merges += [(b"a" * (longest - 1 - sizes[-1]), b"a" * sizes[-1])] if longest - 1 - sizes[-1] in sizes else []
    merges += [(b"a", b"a" * (longest - 1)), (b"a" * (longest - 1), b"a")]
    known = {*BYTES, *made}
    merges = [pair for pair in merges if known.issuperset(pair)]
    tokens = [*BYTES, *(made if in_order else reversed(made))]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer, oracle = _tokenizer(Vocabulary.from_merges(ids, merges)), naive.Tokenizer.from_merges(ids, merges)
    for size in (longest - 1, longest, longest + 1, 2 * longest):
        assert merge_kernel(tokenizer, b"a" * size, 1 << 14) == merged(oracle, b"a" * size)


def test_a_token_of_a_megabyte() -> None:
    """Of a rank file's tokens those cuts are tried that leave lengths which tokens have: loading stays linear."""
    long = b"ab" * (1 << 19)
    tokens = [*BYTES, b"ab", long]
    assert merge_kernel(_tokenizer(Vocabulary.from_ranks(tokens)), b"abab") == [256, 256]


@pytest.mark.parametrize("seed", range(40))
def test_all_cuts_of_a_token_in_a_row(seed: int) -> None:
    """Files made of ranks, like Llama 3's, list each way to cut a token as a merge: of these one is needed, or none.

    Then each token has one rank, which is its symbol. Tokens come in any order here, so that some are made of later
    ones, and some by nothing.
    """
    rng = random.Random(seed)
    alphabet = [b"a", b"b", b"c"][: rng.choice([1, 2, 3])]
    made: list[bytes] = []
    while len(made) < 30:
        token = rng.choice(alphabet + made) + rng.choice(alphabet + made)
        made.append(token if len(token) <= 24 else b"".join(rng.choices(alphabet, k=20)))
        made = list(dict.fromkeys(made))
        if len(alphabet) == 1 and len(made) == 15:
            break
    if seed % 2:
        rng.shuffle(made)
    known = {*BYTES, *made}
    merges = []
    for token in made:
        cuts = [(token[:n], token[n:]) for n in range(1, len(token)) if {token[:n], token[n:]} <= known]
        rng.shuffle(cuts)
        merges += cuts
    ids = {token: 7 * number for number, token in enumerate([*BYTES, *made])}
    tokenizer, oracle = _tokenizer(Vocabulary.from_merges(ids, merges)), naive.Tokenizer.from_merges(ids, merges)
    for _ in range(200):
        pretoken = b"".join(rng.choices(alphabet, k=rng.randint(1, 70)))
        assert merge_kernel(tokenizer, pretoken) == merged(oracle, pretoken), pretoken
    view = engine_of(tokenizer)._view
    assert view[dtypes.VIEW_MERGED + 1] == 0
    assert np.count_nonzero(view._arrays[dtypes.VIEW_PAIRS] != dtypes.ALL_ONES) <= len(made)
