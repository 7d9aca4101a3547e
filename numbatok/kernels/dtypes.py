"""Named constants and the memory layouts that kernels and Python share.

Two records of int64 fields stand for all that a kernel needs, so that a kernel takes their addresses and no arrays
(twenty array arguments cost 2.9 us a call, an integer 0.01):

* the **view**: the immutable tables of one tokenizer, shared by all threads;
* the **scratch**: buffers, cache table and position of one caller; never shared.

A table takes two fields of a record, its address and its length in elements (``FIELD`` and ``FIELD + 1``).

A cache entry is 32 bytes, two to a cache line::

    byte 0        8                16               24       28
    +-------------+----------------+-------+--------+--------+--------+
    | key, low    | key, high      | id 0  | id 1   | id 2   | count  |   count 1..3
    +-------------+----------------+-------+--------+--------+--------+
    | key, low    | key, high      | arena position | -      | count  |   count | IN_ARENA
    +-------------+----------------+----------------+--------+--------+

A pretoken of at most 15 bytes *is* its key: the bytes, zeros, and its length in the top byte, so a key is never zero
and zero marks an empty entry. A longer one has a 64-bit hash as the low half, and LONG_KEY plus its length as the high
half; its bytes stand in the arena before its ids, and a match is only a match when they are equal too.
"""

import numpy as np

U64 = np.uint64
ZERO = np.uint64(0)
ONE = np.uint64(1)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)

# Status of a kernel: zero or above is a result.
NEED_OUTPUT = -1  # the ids buffer is too small
NEED_TABLE = -2  # the cache table is fuller than its limit
NEED_ARENA = -3  # the arena is full
NEED_BITMAP = -4  # one pretoken is longer than the bitmap reaches
NEED_MERGE = -5  # one pretoken is longer than the merge buffers
DISALLOWED = -6  # an added token that the caller does not allow is in the text

# Hashing: odd multipliers with well-mixed bits (the golden ratio of 2^64, and one found by the SplitMix64 search).
HASH_LOW = np.uint64(0x9E3779B97F4A7C15)
HASH_HIGH = np.uint64(0xD6E8FEB86659FD93)

# Stage 1: a walk of one call covers at most this many 64-byte blocks, so that its bitmap, positions and keys stay in
# the first-level cache.
CHUNK_BLOCKS = 128
CHUNK_BYTES = 64 * CHUNK_BLOCKS

# Classes of characters in a tokenizer's class table (one byte a code point).
OTHER, LETTER, NUMBER, SPACE = range(4)
CLASS_TABLE_SIZE = 1 << 21  # every value that four bytes can spell, valid or not

# Stage 2: pretokens are keyed, prefetched and probed in groups of this many.
GROUP = 64
SHORT_KEY = 15  # longest pretoken that is its own key
LONG_KEY = np.uint64(0xFF << 56)
LONGEST_CACHED = 256  # a longer pretoken is merged anew each time: it hardly ever recurs

# Stage 3.
ENTRY_WORDS = 4  # uint64 an entry
INLINE_IDS = 3
IN_ARENA = np.uint32(0x80000000)

# Stage 4: a pair slot is left << 43 | right << 22 | rank, symbols below 2^21, ranks below 2^22.
SYMBOL_BITS = 21
RANK_BITS = 22
NO_RANK = np.uint32(0xFFFFFFFF)
SHORT_MERGE = 40  # up to this many symbols a scan for the minimum beats a heap

# Fields of the view.
VIEW_CLASSES = 0  # uint8[CLASS_TABLE_SIZE]
VIEW_BYTE_SYMBOLS = 2  # uint32[256]: symbol of each byte
VIEW_BYTE_PAIRS = 4  # uint32[65536]: rank of the pair of the bytes (b0 << 8 | b1), or NO_RANK
VIEW_PAIRS = 6  # uint64[2^k]: open addressing, ALL_ONES is empty
VIEW_PAIR_SHIFT = 8  # 64 - k
VIEW_MERGED = 9  # uint32[ranks]: symbol that a merge makes
VIEW_IDS = 11  # uint32[symbols]: id of a symbol
VIEW_TOKENS = 13  # uint8: the bytes of all symbols, one after the other
VIEW_TOKEN_STARTS = 15  # int64[symbols + 1]
VIEW_TOKEN_SLOTS = 17  # uint32[2^k]: open addressing by bytes, symbol + 1, 0 is empty
VIEW_TOKEN_SHIFT = 19  # 64 - k
VIEW_WHOLE_FIRST = 20  # 1: a pretoken that is a token is that token, whatever merging gives
VIEW_ADDED_FIRST = 21  # uint8[256]: 1 where an added token begins with the byte
VIEW_ADDED_LEADS = 23  # number of distinct first bytes, MANY_LEADS for more than vector compares pay for
VIEW_ADDED_LEAD = 24  # the first of three fields: the distinct first bytes
VIEW_ADDED_EDGES = 27  # uint64[2^k]: (node << 8 | byte) << 24 | next node, ALL_ONES is empty
VIEW_ADDED_SHIFT = 29  # 64 - k
VIEW_ADDED_AT_NODE = 30  # int32[nodes]: index of the added token that ends at the node, or -1
VIEW_ADDED_IDS = 32  # uint32[added tokens]
VIEW_WALKER = 34  # native address of the walker of the split rule
VIEW_MERGER = 35  # native address of the kernel that merges one pretoken
VIEW_FIELDS = 36

# Fields of the scratch.
WORK_VIEW = 0  # address of the view
WORK_STARTS = 1  # uint64[blocks + 1]: bitmap of pretoken starts
WORK_POSITIONS = 3  # uint16[CHUNK_BYTES + 16]: the same as offsets from the walk's base
WORK_KEYS = 5  # uint64[3 * GROUP]: low halves, high halves, entry numbers
WORK_TAIL = 7  # uint8[TAIL_BYTES]: the text's last bytes, then zeros
WORK_PIECE = 9  # uint8[LONGEST_CACHED + 16]: a copy of the pretoken at hand
WORK_TABLE = 11  # uint64[ENTRY_WORDS * 2^k]: the cache
WORK_TABLE_SHIFT = 13  # 64 - k
WORK_TABLE_USED = 14
WORK_TABLE_LIMIT = 15  # entries in use at which NEED_TABLE is returned
WORK_ARENA = 16  # uint32: ids of entries with more than three, bytes of long pretokens
WORK_ARENA_USED = 18
WORK_SYMBOLS = 19  # uint32[longest]: symbols of the pretoken being merged
WORK_RANKS = 21  # uint32[longest]: rank of the pair that begins at each symbol
WORK_NEXT = 23  # int32[longest]
WORK_PREVIOUS = 25  # int32[longest]
WORK_HEAP = 27  # uint64[2 * longest]
WORK_OUTPUT = 29  # uint32: where ids go
WORK_OUTPUT_USED = 31
WORK_COUNT_ONLY = 32  # 1: ids are counted and forgotten
WORK_ACTIONS = 33  # uint8[added tokens]: ADDED_AS_TEXT, ADDED_AS_TOKEN or ADDED_REFUSED
WORK_DOCUMENT = 35  # resume here: document ...
WORK_POSITION = 36  # ... and byte offset in it, always a pretoken start
WORK_NEEDED = 37  # with a NEED_ status: how many elements would do; with DISALLOWED: the added token's index
WORK_PIECES = 38  # statistics, since the scratch was made: pretokens seen ...
WORK_MISSES = 39  # ... those not found in the cache ...
WORK_MERGED_BYTES = 40  # ... and the bytes that were merged for them
WORK_TEXT = 41  # address and length of the one document of a call
WORK_FIELDS = 44

TAIL_BYTES = 192
TAIL_KEPT = 64  # bytes of the text's end that the tail holds

MANY_LEADS = 4
ADDED_AS_TEXT, ADDED_AS_TOKEN, ADDED_REFUSED = range(3)
