"""The view of a tokenizer: its immutable tables, behind one record of addresses for the kernels.

:func:`view_of` builds it from the parts, table by table, in the order in which a text meets them backwards: what merges
tokens first, what finds added tokens last. The fields are drawn in :mod:`numbatok.kernels.dtypes`.
"""

import functools
import importlib
import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from numbatok import numpy_functions
from numbatok.added_tokens import Trie
from numbatok.kernels import added, build, cache, cuts, dtypes, encode, merge, spans, together
from numbatok.loading import byte_level
from numbatok.memory import address_of, in_lines
from numbatok.parts import Parts
from numbatok.patterns import unicode
from numbatok.patterns.known import WALKS, character_classes, walk_of
from numbatok.patterns.rules import SplitRule
from numbatok.scratch import Scratch
from numbatok.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numbatok.patterns.fallback import RegexRule

TOKEN_SLACK = 16  # bytes after the tokens' that may be read


def slots_for(count: int) -> int:
    """A power of two that leaves at least a quarter of a table of ``count`` entries empty.

    A half cost more, in cache misses, than it saved in steps.
    """
    return 1 << max(4, (4 * count // 3).bit_length())


def buckets_for(count: int) -> int:
    """Buckets that ``count`` pairs fill by half: two thirds cost 2 to 5 % of a first pass, in steps to the next one."""
    return 2 * count // dtypes.BUCKET + 1


@functools.cache
def _space_and_word() -> npt.NDArray[np.uint8]:
    """uint8[CLASS_TABLE_SIZE]: IS_SPACE and IS_WORD of each code point, for the flags of added tokens."""
    table = np.zeros(dtypes.CLASS_TABLE_SIZE, np.uint8)
    points = table[: unicode.CODE_POINTS]
    points[unicode.white_space()] = dtypes.IS_SPACE
    points[unicode.in_named_set("word")] |= dtypes.IS_WORD
    return table


def _walker(name: str) -> int:
    """The address of a walker, the kernel by which its module is named; other walkers are not imported."""
    module = importlib.import_module(f"numbatok.kernels.{name}")
    address: int = getattr(module, name).address
    return address


class View:
    """A record of int64 fields, and what its addresses point into.

    Attributes
    ----------
    record : int64[VIEW_FIELDS]
    address : of the record
    """

    def __init__(self) -> None:
        self.record = np.zeros(dtypes.VIEW_FIELDS, np.int64)
        self.address = address_of(self.record)
        self._arrays: dict[int, npt.NDArray[np.generic]] = {}

    def __setitem__(self, field: int, value: int) -> None:
        self.record[field] = value

    def __getitem__(self, field: int) -> int:
        return int(self.record[field])

    def set_table(self, field: int, array: npt.NDArray[np.generic]) -> None:
        """Make ``array`` the table of ``field``; the view keeps it alive."""
        self._arrays[field] = array
        self.record[field] = address_of(array)
        self.record[field + 1] = len(array)

    @property
    def longest_token(self) -> int:
        """Bytes of the longest token."""
        return int(np.diff(self._arrays[dtypes.VIEW_TOKEN_STARTS]).max(initial=0))

    def set_tokens(self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> None:
        """Set tokens, followed by TOKEN_SLACK bytes, and an empty index for :func:`build.index_tokens` to fill."""
        count = len(starts) - 1
        slots = np.zeros(slots_for(count), np.uint32)
        filter_bits = 8 * len(slots)
        self.set_table(dtypes.VIEW_TOKENS, data)
        self.set_table(dtypes.VIEW_TOKEN_STARTS, starts)
        self.set_table(dtypes.VIEW_TOKEN_SLOTS, slots)
        self.set_table(dtypes.VIEW_TOKEN_KEYS, np.zeros(2 * count, np.uint64))
        self.set_table(dtypes.VIEW_TOKEN_FILTER, np.zeros(filter_bits // 64, np.uint64))
        self.record[dtypes.VIEW_TOKEN_SHIFT] = 65 - len(slots).bit_length()
        self.record[dtypes.VIEW_TOKEN_FILTER_SHIFT] = 65 - filter_bits.bit_length()


def view_of(parts: Parts, regex_rule: "RegexRule | None" = None) -> View:
    """The view of a tokenizer; where ``regex_rule`` runs its split rule, what is left of a text is cut no more."""
    view = View()
    view[dtypes.VIEW_KEYER] = spans.key_pretokens.address
    view[dtypes.VIEW_LOOKER] = cache.look_up.address
    view[dtypes.VIEW_FURTHER] = cache.look_further.address
    view[dtypes.VIEW_FINDER] = added.next_added_token.address
    view[dtypes.VIEW_ENCODER] = encode.encode_documents.address
    view[dtypes.VIEW_NEW_ARRAY] = numpy_functions.address_of_function(numpy_functions.NEW_ARRAY)
    view[dtypes.VIEW_ARRAY_KIND] = id(np.ndarray)
    view[dtypes.VIEW_ID_TYPE] = np.dtype(np.uint32).num
    view[dtypes.VIEW_OFFSET_TYPE] = np.dtype(np.int64).num
    view[dtypes.VIEW_ARRAY_DATA] = numpy_functions.ARRAY_DATA
    _fill_vocabulary(view, parts.vocabulary)
    _fill_options(view, parts.vocabulary)
    _fill_rule(view, parts.rule if regex_rule is None else ())
    _fill_cuts(view, parts.vocabulary)
    _fill_added(view, parts)
    return view


def _fill_vocabulary(view: View, vocabulary: Vocabulary) -> None:
    """Token slots, pair slots and what is read from them."""
    count = len(vocabulary)
    lengths = np.diff(vocabulary.starts)
    view.set_tokens(np.concatenate([vocabulary.data, np.zeros(TOKEN_SLACK, np.uint8)]), vocabulary.starts)
    build.index_tokens(view.address)
    if vocabulary.merges is None:
        capacity = max(len(vocabulary.data) - count, 1)
        rows = np.empty((capacity, 3), np.uint32)
        has_length = np.zeros(view.longest_token + 1, np.uint8)
        has_length[lengths] = 1
        rows = rows[: build.split_tokens(view.address, address_of(rows), capacity, address_of(has_length))]
    else:
        rows = vocabulary.merges
    single = np.flatnonzero(lengths == 1)
    byte_symbols = np.zeros(256, np.uint32)
    byte_symbols[vocabulary.data[vocabulary.starts[single]]] = single
    view.set_table(dtypes.VIEW_BYTE_SYMBOLS, byte_symbols)
    by_token = vocabulary.merges is None or _follow(rows[:, 2])
    pairs = _enter_pairs(view, rows, count, vocabulary.is_plain, by_token)
    if pairs is None:
        # A pair stands twice, of which the last counts; or nearly every pair is needed.
        both = rows[::-1, 0].astype(np.uint64) << np.uint64(32) | rows[::-1, 1]
        rows = rows[np.sort(len(rows) - 1 - np.unique(both, return_index=True)[1])]
        pairs = _enter_pairs(view, rows, len(rows), vocabulary.is_plain, by_token)
    if pairs is not None and vocabulary.is_plain and not by_token:
        # As in Llama 3's file, of 280,147 merges: after this one a token, and tokens in order.
        scratch = _scratch_of_tokens(view)
        pairs = pairs[: build.drop_unused(view.address, scratch.address, address_of(pairs), len(pairs))]
        if _follow(pairs[:, 2]):
            _enter_pairs(view, pairs, len(pairs), False, True)
    first = int(vocabulary.ids[0]) if count else 0
    in_order = np.array_equal(vocabulary.ids, np.arange(first, first + count))
    view.set_table(dtypes.VIEW_IDS, np.empty(0, np.uint32) if in_order else vocabulary.ids)
    view[dtypes.VIEW_FIRST_ID] = first if in_order else 0
    view[dtypes.VIEW_WHOLE_LIMIT] = int(lengths.max()) if vocabulary.whole_first else 0


def _scratch_of_tokens(view: View) -> Scratch:
    """A scratch in which all tokens can be merged but those of a length that no text has."""
    return Scratch(view.record, longest=view.longest_token)


def _follow(symbols: npt.NDArray[np.uint32]) -> bool:
    """Whether each symbol is greater than the one before."""
    return bool(np.all(symbols[1:] > symbols[:-1]))


def _enter_pairs(
    view: View, rows: npt.NDArray[np.uint32], room: int, plain: bool, by_token: bool
) -> npt.NDArray[np.uint32] | None:
    """Fill the tables of pairs with what is needed of the rows, in tables for ``room``.

    ``by_token`` says that the token which a pair makes is its rank. Returns the rows that are needed, or None where
    there was no room, or the same pair twice.
    """
    rows = rows.copy()
    buckets = buckets_for(min(room, len(rows)))
    pairs = in_lines(dtypes.BUCKET * buckets, np.uint64)
    pairs[:] = dtypes.ALL_ONES
    view.set_table(dtypes.VIEW_PAIRS, pairs)
    view[dtypes.VIEW_BUCKETS] = buckets
    view.set_table(dtypes.VIEW_BYTE_PAIRS, np.full(1 << 16, dtypes.NO_RANK, np.uint32))
    view.set_table(dtypes.VIEW_MERGED, np.empty(0, np.uint32) if by_token else rows[:, 2].copy())
    view.set_table(dtypes.VIEW_IDS, np.empty(0, np.uint32))  # symbols are their own ids meanwhile
    view[dtypes.VIEW_MERGER] = merge.merge_pretoken.address
    scratch = _scratch_of_tokens(view)
    most = 3 * len(pairs) // 4
    entered = build.enter_pairs(view.address, scratch.address, address_of(rows), len(rows), most, plain)
    return None if entered < 0 else rows[:entered]


def _fill_options(view: View, vocabulary: Vocabulary) -> None:
    """The merger, and what a vocabulary's options change for it."""
    options = vocabulary.options
    dropout = math.ceil(float(np.float32(options.dropout)) * (1 << 24))
    view[dtypes.VIEW_DROPOUT] = dropout
    view[dtypes.VIEW_LONGEST_CACHED] = 0 if dropout else dtypes.LONGEST_CACHED
    view[dtypes.VIEW_IDS_PER_BYTE] = 1
    merger = merge.merge_pretoken if vocabulary.is_plain else merge.merge_pretoken_by_options
    view[dtypes.VIEW_MERGER] = merger.address
    if vocabulary.is_plain:
        view[dtypes.VIEW_NOTER] = together.note_new.address
        view[dtypes.VIEW_TOGETHER] = together.learn_together.address
        return
    if dropout:
        view[dtypes.VIEW_WHOLE_LIMIT] = 0
    # A merge that makes its own left part can leave an entry of the heap that looks fresh but is not, and which
    # the reference follows: the scan knows no such thing.
    as_by_scan = vocabulary.merges is None or not np.any(vocabulary.merges[:, 2] == vocabulary.merges[:, 0])
    view[dtypes.VIEW_SCAN_LIMIT] = dtypes.SHORT_MERGE if as_by_scan and not dropout else 0
    unknown = None if options.unk is None else vocabulary.symbol_of(options.unk)
    view[dtypes.VIEW_UNKNOWN] = 0 if unknown is None else unknown + 1
    view[dtypes.VIEW_FUSE_UNKNOWN] = options.fuse_unk

    parts = [
        [vocabulary.units(prefix, suffix) for prefix in dict.fromkeys((b"", options.prefix))]
        for suffix in dict.fromkeys((b"", options.suffix))
    ]
    limit = 1 + max((int(points.max()) for row in parts for points, _ in row if len(points)), default=0)
    units = np.zeros((len(parts), len(parts[0]), limit), np.uint32)
    for last, row in enumerate(parts):
        for later, (points, symbols) in enumerate(row):
            units[last, later, points] = symbols + 1
    view.set_table(dtypes.VIEW_UNITS, units.reshape(-1))
    view[dtypes.VIEW_UNIT_LIMIT] = limit
    view[dtypes.VIEW_UNIT_LATER] = limit if options.prefix else 0
    view[dtypes.VIEW_UNIT_LAST] = limit * len(parts[0]) if options.suffix else 0

    by_byte = options.unit == "byte"
    alphabet = [ord(character) for character in byte_level.spell(bytes(range(256)))] if by_byte else []
    prefix, suffix = options.prefix, options.suffix
    if by_byte:
        prefix, suffix = byte_level.spell(prefix).encode(), byte_level.spell(suffix).encode()
    fallback: list[int] = []
    if options.byte_fallback:
        byte_tokens = vocabulary.byte_tokens()
        fallback = [byte_tokens.get(byte, -1) + 1 for byte in range(256)]
        view[dtypes.VIEW_IDS_PER_BYTE] = 1 + by_byte + len(prefix) + len(suffix)
    view.set_table(dtypes.VIEW_ALPHABET, np.array(alphabet, np.uint16))
    view.set_table(dtypes.VIEW_FALLBACK, np.array(fallback, np.uint32))
    view.set_table(dtypes.VIEW_PREFIX, np.frombuffer(prefix, np.uint8))
    view.set_table(dtypes.VIEW_SUFFIX, np.frombuffer(suffix, np.uint8))


def _fill_cuts(view: View, vocabulary: Vocabulary) -> None:
    """Which pairs of characters a token spans, where all others may be cut."""
    if not vocabulary.is_plain or view[dtypes.VIEW_DROPS]:
        return
    edges = np.zeros(dtypes.EDGE_WORDS, np.uint64)
    # Sixteen bits a pair: of twenty pairs that no token spans one is not cut.
    bits = 1 << max(12, (16 * cuts.mark_spanned(view.address)).bit_length())
    view.set_table(dtypes.VIEW_SPANNED, np.zeros(bits // 64, np.uint64))
    view.set_table(dtypes.VIEW_SPANNED_EDGES, edges)
    view[dtypes.VIEW_SPANNED_SHIFT] = 65 - bits.bit_length()
    cuts.mark_spanned(view.address)
    if vocabulary.whole_first:
        whole_limit, view[dtypes.VIEW_WHOLE_LIMIT] = view[dtypes.VIEW_WHOLE_LIMIT], 0
        scratch = _scratch_of_tokens(view)
        view[dtypes.VIEW_UNMERGED] = cuts.mark_unmerged(view.address, scratch.address) > 0
        view[dtypes.VIEW_WHOLE_LIMIT] = whole_limit
    view[dtypes.VIEW_CUTTER] = cuts.cut_unspanned.address


def _fill_rule(view: View, rule: SplitRule) -> None:
    """The walker of the split rule, and the tables that it runs on."""
    name = walk_of(rule)
    if name is None:
        from numbatok.patterns.compile import compile_rule

        compiled = compile_rule(rule)
        view[dtypes.VIEW_WALKER] = _walker("walk_automaton")
        view[dtypes.VIEW_DROPS] = compiled.drops
        view[dtypes.VIEW_COARSE] = len(rule) > 1
        view.set_table(dtypes.VIEW_CLASSES, compiled.classes)
        view.set_table(dtypes.VIEW_PROGRAM, compiled.program)
        return
    view[dtypes.VIEW_WALKER] = _walker(WALKS[name].kernel)
    view[dtypes.VIEW_DROPS] = WALKS[name].drops
    view.set_table(dtypes.VIEW_CLASSES, character_classes(name))
    for field, value in WALKS[name].parameters.items():
        view[field] = value
    view[dtypes.VIEW_COARSE] = view[dtypes.VIEW_OPTIONS] & dtypes.CUT_TOKENS != 0


def _fill_added(view: View, parts: Parts) -> None:
    """The two tries of added tokens, their ids and their flags."""
    tokens, normalizer = parts.added_tokens, parts.normalizer
    contents: list[dict[bytes, int]] = [{}, {}]  # raw and normalized, to the token's index
    # Of two that normalize to the same string the special one counts, then the one with the lower id.
    for index, token in sorted(enumerate(tokens), key=lambda numbered: not numbered[1].special):
        content = normalizer.normalize(token.content) if normalizer and token.normalized else token.content
        contents[token.normalized].setdefault(content.encode(), index)
    for first, wanted in zip((dtypes.VIEW_RAW_TRIE, dtypes.VIEW_NORMALIZED_TRIE), contents, strict=True):
        _fill_trie(view, first, Trie(wanted))
    view[dtypes.VIEW_LONGEST_ADDED] = max(map(len, [*contents[0], *contents[1]]), default=0)
    flags = np.array([token.flags for token in tokens] or [0], np.uint8)
    any_flag = bool(flags.any())
    view.set_table(dtypes.VIEW_ADDED_IDS, np.array([token.id for token in tokens] or [0], np.uint32))
    view.set_table(dtypes.VIEW_ADDED_FLAGS, flags)
    view.set_table(dtypes.VIEW_CHARACTERS, _space_and_word() if any_flag else np.zeros(0, np.uint8))
    view[dtypes.VIEW_ADDED_ANY_FLAG] = any_flag


def _fill_trie(view: View, first: int, trie: Trie) -> None:
    """A trie's fields, from field ``first`` of the view on."""
    edges = np.full(slots_for(len(trie.edges)), dtypes.ALL_ONES, np.uint64)
    build.enter_edges(address_of(trie.edges), len(trie.edges), address_of(edges), len(edges))
    leads = trie.leads()
    begins = np.zeros(256, np.uint8)
    begins[[lead & 0xFF for lead in leads]] = 1
    view.set_table(first + dtypes.TRIE_FIRST, begins)
    view.set_table(first + dtypes.TRIE_EDGES, edges)
    view.set_table(first + dtypes.TRIE_AT_NODE, trie.token_at_node)
    view[first + dtypes.TRIE_SHIFT] = 65 - len(edges).bit_length()
    view[first + dtypes.TRIE_LEADS] = min(len(leads), dtypes.MANY_LEADS + 1)
    for place, lead in enumerate(leads[: dtypes.MANY_LEADS]):
        view[first + dtypes.TRIE_LEAD + place] = lead
