"""Named constants and the memory layouts that kernels and Python share.

Two records of int64 fields stand for all that a kernel needs, so that a kernel takes their addresses and no arrays
(twenty array arguments cost 2.9 us a call, an integer 0.01):

* the **view**: the immutable tables of one tokenizer, shared by all threads;
* the **scratch**: buffers, cache table and position of one caller; never shared.

A table takes two fields of a record, its address and its length in elements (``FIELD`` and ``FIELD + 1``).

The cache is one uint64 array with two tables of entries, open addressing each. A *narrow* entry, for a pretoken of at
most 7 bytes, takes 16 bytes, a *wide* one 32, so that the frequent pretokens of a text take few cache lines::

    narrow  | key            | ids            |
    wide    | key, low       | ids            | more ids       | key, high      |

A pretoken of at most 15 bytes *is* its key: its bytes, zeros, and its length in the top byte (of the one word, or of
the high one), so that a zero there marks an empty entry. A longer one has a 64-bit hash as its low word and LONG_KEY
plus its length as the high one; its bytes stand in the arena, before its ids, and a match is only a match when they are
equal too. The word of ids is::

    bits 0..27  id 0           | 32..59  id 1  | 60..62  count                    1 or 2; 3 or 4 with "more ids"
    bits 0..31  arena position |               | 60..62  count     63  IN_ARENA   3 or 4 of a narrow entry
    bits 0..31  arena position | 32..59  count | 60..62  MANY_IDS  63  IN_ARENA   more ids, an id above 2^28, a long key
"""

import numpy as np

U64 = np.uint64
ZERO = np.uint64(0)
ONE = np.uint64(1)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)

# Status of a kernel: zero or above is a result. Some modules have more, from -50 on.
NEED_OUTPUT = -1  # the ids buffer is too small
NEED_NARROW = -2  # the narrow entries are fuller than their limit
NEED_WIDE = -3  # the wide entries are
NEED_ARENA = -4  # the arena is full
NEED_BITMAP = -5  # one pretoken is longer than the bitmap reaches
NEED_MERGE = -6  # one pretoken is longer than the merge buffers
DISALLOWED = -7  # an added token that the caller does not allow is in the text
NEED_MARKS = -8  # the marks of failed overruns need more room
PAUSED = -9  # WORK_LEFT bytes are done: the caller may look whether it is interrupted, and calls again
MISSED = -10  # the scan does not come by the place where the next worker begins: WORK_POSITION is the last before
NEED_ROOM = -11  # where ids go in the end is too small: what is in the output is still to go there

# Hashing: odd constants with well-mixed bits (2^64 over the golden ratio, and the second one of xxHash).
HASH_LOW = np.uint64(0x9E3779B97F4A7C15)
HASH_HIGH = np.uint64(0xC2B2AE3D27D4EB4F)

# Stage 1: a walk of one call covers at most this many 64-byte blocks, so that its bitmap, positions and keys stay in
# the first-level cache.
CHUNK_BLOCKS = 128
CHUNK_BYTES = 64 * CHUNK_BLOCKS
POSITION_SLACK = 72  # positions after those of a chunk that may be written or read

# Classes of characters in a tokenizer's class table (one byte a code point): a bit each, OTHER has none. Every walker
# uses the bits that its rule speaks of, and says which.
OTHER = 0
LETTER = 1
NUMBER = 2
SPACE = 4
MARK = 8
UPPER = 16  # letters that only a capital can be, and ...
LOWER = 32  # ... that only a small letter can be
SCRIPT = 64  # of the script whose runs are cut out
PUNCTUATION = 8  # and symbols, where nothing is a MARK
DIGIT = 16  # where nothing is UPPER
# Options of walkers.
WHOLE_END = 1  # cl100k: white space that ends the text is one pretoken, whatever line ends are in it (`\s+$`)
SUFFIX = 2  # o200k: a contraction goes with the word before it
SLASHES = 4  # o200k: slashes go with line ends after others, as in `[\r\n/]*`
SCRIPT_FIRST = 8  # o200k: runs of SCRIPT are cut out first
CUT_DIGITS = 16  # GPT-2: each DIGIT is cut out before ...
CUT_PUNCTUATION = 32  # ... or runs of PUNCTUATION are, and DIGIT, and each three of 0 to 9, after
CUT_TOKENS = 64  # CLIP: GPT-2's rule cuts the pieces again
CLASS_TABLE_SIZE = 1 << 21  # every value that four bytes can spell, valid or not
# Characters of two or three bytes that differ in the last alone: for each beginning a uint64 with the longest runs of
# those of one class, ALIKE_RUNS of them, in ALIKE_BITS each: the last byte less 0x80 of the first, in six bits, how
# many they are, in seven, and the class.
ALIKE_RUNS = 3
ALIKE_BITS = 20
ALIKE_PAIRS = 32  # beginnings of one byte, 0xC0 to 0xDF; then those of two, of which the first is 0xE0 to 0xEF
ALIKE_BYTES = 8 * (ALIKE_PAIRS + 16 * 64)

# In a table of restless characters (one byte a code point): may change in normalizing.
RESTLESS = 255

# Stage 2: pretokens are keyed, prefetched and probed in groups of this many.
GROUP = 128
# Where at least one of so many was new the next ones are looked through by groups of LARGE_GROUP: then up to LANES are
# merged side by side. English with GPT-2 takes 4 to 7 % less in a first pass than by groups of 512 while any is new,
# with Llama 3 8 to 9; code, of which one of a hundred is new, takes 2 % more without the threshold.
MANY_NEW = 64
LARGE_GROUP = 2048
NARROW_KEY = 7  # longest pretoken in a narrow entry
SHORT_KEY = 15  # longest pretoken that is its own key
LONG_KEY = np.uint64(0xFF << 56)
DROPPED_KEY = np.uint64(0xFE << 56)  # low word of the key of all removed pieces, which have no ids; its high word is 0
LONGEST_CACHED = 256  # a longer pretoken is merged anew each time: it hardly ever recurs

# Stage 3, in uint64 words: ids beside a narrow entry's key; high key and more ids of a wide one.
NARROW_BASE = 4  # the narrow entries begin after four words of zeros
NARROW_WORDS = 2
WIDE_WORDS = 4
INLINE_IDS = 2  # ids in one word
FEW_IDS = 4  # ids that are put out at once, whatever their number
LARGEST_INLINE = (1 << 28) - 1
MANY_IDS = 7
IN_ARENA = np.uint64(1 << 63)
OUTPUT_SLACK = 4  # elements that storing an entry's ids may write past their count

# Stage 4: a pair slot is left << 43 | right << 22 | rank, symbols below 2^21, ranks below 2^22.
BUCKET = 8
SYMBOL_BITS = 21
RANK_BITS = 22
NO_RANK = np.uint32(0xFFFFFFFF)
NO_SYMBOL = np.uint32((1 << SYMBOL_BITS) - 1)  # no pair with it has a rank
LANES = 32  # pretokens that are merged side by side, ...
LANE_BYTES = 30  # ... the longest of them, ...
LANE = 32  # ... and positions of each: of its bytes, of one before and one after
NOTED_SLOTS = 1024
LANES_BYTES = (11 * LANE + 24) * LANES + 4 * LARGE_GROUP + 2 * NOTED_SLOTS
SHORT_MERGE = 64  # up to this many symbols a scan for the minimum beats a heap

# Fields of the view.
VIEW_CLASSES = 0  # uint8[CLASS_TABLE_SIZE], and of mask walkers ALIKE_BYTES more
VIEW_BYTE_SYMBOLS = 2  # uint32[256]: symbol of each byte
VIEW_BYTE_PAIRS = 4  # uint32[65536]: rank of the pair of the bytes (b0 << 8 | b1), or NO_RANK
VIEW_PAIRS = 6  # uint64[buckets * BUCKET], each a cache line: the slots in use first, ALL_ONES is empty
VIEW_BUCKETS = 8
VIEW_MERGED = 12  # uint32[ranks]: symbol that a merge makes; empty where it is the rank
VIEW_IDS = 14  # uint32[symbols]: id of a symbol; empty where it is the symbol and VIEW_FIRST_ID
VIEW_TOKENS = 16  # uint8: the bytes of all symbols, one after the other, and 16 more
VIEW_TOKEN_STARTS = 18  # int64[symbols + 1]
VIEW_TOKEN_SLOTS = 20  # uint32[2^k]: open addressing by key, symbol + 1, 0 is empty
VIEW_TOKEN_SHIFT = 22  # 64 - k
VIEW_TOKEN_KEYS = 23  # uint64[2 * symbols]: low and high word of each token's key
VIEW_TOKEN_FILTER = 25  # uint64[2^k / 64]: a bit for each hash of a key
VIEW_TOKEN_FILTER_SHIFT = 27  # 64 - k
VIEW_WHOLE_LIMIT = 28  # a pretoken of at most so many bytes that is a token is that token, whatever merging gives
VIEW_ADDED_IDS = 29  # uint32[added tokens]
VIEW_ADDED_FLAGS = 31  # uint8[added tokens]: ADDED_LSTRIP, ADDED_RSTRIP, ADDED_SINGLE_WORD
VIEW_ADDED_ANY_FLAG = 33  # 1 where a token has a flag
VIEW_CHARACTERS = 34  # uint8[CLASS_TABLE_SIZE]: IS_SPACE, IS_WORD; empty where no token has a flag
VIEW_RAW_TRIE = 36  # TRIE_FIELDS fields: the added tokens that are looked for in the text as it is ...
VIEW_NORMALIZED_TRIE = 52  # ... and those looked for in what is left, normalized
VIEW_WALKER = 68  # native addresses of kernels: the walker of the split rule ...
VIEW_FINDER = 69  # ... next_added_token ...
VIEW_CUTTER = 70  # ... cut_unspanned, or 0 where pretokens are not cut ...
VIEW_KEYER = 71  # ... key_pretokens ...
VIEW_LOOKER = 72  # ... look_up ...
VIEW_FURTHER = 73  # ... look_further ...
VIEW_MERGER = 74  # ... merge_pretoken ...
VIEW_ENCODER = 75  # ... and encode_documents
VIEW_PROGRAM = 76  # uint32: header and tables of a compiled split rule, see walk_automaton.py
VIEW_GROUP = 78  # numbers are cut into groups of so many: 1, 3, or 0 for any number
VIEW_OPTIONS = 79  # what else the spellings of a walker's rule differ in: WHOLE_END, SUFFIX, ...
VIEW_DROPS = 80  # 1 where the split rule removes pieces of the text
VIEW_SPANNED = 81  # uint64[2^k / 64]: a bit for each hash of a pair of characters that a token spans
VIEW_SPANNED_SHIFT = 83  # 64 - k
VIEW_SPANNED_EDGES = 84  # uint64[EDGE_WORDS]: a bit for the bytes at an edge that a token spans in part
VIEW_UNMERGED = 86  # 1 where some tokens are made of whole pretokens only, not by merging
VIEW_CHANGES = 87  # texts that may have to be normalized first: NO_TEXT, ANY_NON_ASCII or ANY_TEXT
VIEW_LONGEST_CACHED = 88  # LONGEST_CACHED, or 0 where a pretoken's ids are not always the same
VIEW_IDS_PER_BYTE = 89  # a pretoken has at most so many ids a byte

# Fields of the view that only merge_pretoken_by_options reads: a *unit* is a byte or a character.
VIEW_UNITS = 90  # uint32[up to 4 * limit]: symbol + 1 of each unit, 0 where it has none; a part for each place
VIEW_UNIT_LIMIT = 92  # bytes, or code points, below this are in the table
VIEW_UNIT_LATER = 93  # where the part begins for units that are not the first of their pretoken ...
VIEW_UNIT_LAST = 94  # ... and how much further the one for the last
VIEW_ALPHABET = 95  # uint16[256] where the unit is a byte: the character that stands for it; else empty
VIEW_FALLBACK = 97  # uint32[256]: symbol + 1 of each byte's "<0xXX>", or empty
VIEW_PREFIX = 99  # uint8: what the units after the first begin with, in UTF-8 ...
VIEW_SUFFIX = 101  # ... and what the last one ends with
VIEW_UNKNOWN = 103  # symbol + 1 of the unknown token, or 0
VIEW_FUSE_UNKNOWN = 104  # 1: neighbouring unknown units are one unknown token
VIEW_DROPOUT = 105  # of 2^24: how often a merge that is due is put off; 0 for never
VIEW_SCAN_LIMIT = 106  # up to this many symbols are merged by the scan
VIEW_COARSE = 107  # 1 where a fresh walk goes on alike only from starts that a walk with WORK_COARSE marks
VIEW_LONGEST_ADDED = 108  # bytes of the longest added token
VIEW_FIRST_ID = 109  # what a symbol's id is more than its number, where VIEW_IDS is empty
VIEW_NEW_ARRAY = 110  # address of NumPy's PyArray_New ...
VIEW_ARRAY_KIND = 111  # ... of its type of arrays ...
VIEW_ID_TYPE = 112  # ... its number for uint32 ...
VIEW_ARRAY_DATA = 113  # ... and where in an array object the address of its items stands
VIEW_OFFSET_TYPE = 114  # its number for int64
VIEW_TOGETHER = 115  # native address of learn_together, or 0 where its way of merging is not the vocabulary's, ...
VIEW_NOTER = 116  # ... and of note_new
VIEW_FIELDS = 117

EDGE_WORDS = 16

NO_TEXT, ANY_NON_ASCII, ANY_TEXT = range(3)

# Fields of a trie of added tokens, from the field where it begins.
TRIE_FIRST = 0  # uint8[256]: 1 where a token begins with the byte
TRIE_EDGES = 2  # uint64[2^k]: (node << 8 | byte) << 24 | next node, ALL_ONES is empty
TRIE_SHIFT = 4  # 64 - k
TRIE_AT_NODE = 5  # int32[nodes]: index of the added token that ends at the node, or -1
TRIE_LEADS = 7  # number of leads; MANY_LEADS + 1 for more than vector compares pay for
TRIE_LEAD = 8  # a first byte of tokens, and another byte that all of them have: byte | offset << 8 | other byte << 16
TRIE_FIELDS = 16

# Fields of the scratch.
WORK_VIEW = 0  # address of the view
WORK_STARTS = 1  # uint64[blocks + 1]: bitmap of pretoken starts
WORK_POSITIONS = 3  # uint16[CHUNK_BYTES + POSITION_SLACK]: the same as offsets from the walk's base
WORK_KEYS = 5  # uint64[2 * LARGE_GROUP]: low and high word of each pretoken's key
WORK_PLACES = 7  # int64[LARGE_GROUP]: where in the table the search for each begins
WORK_TAIL = 9  # uint8[TAIL_BYTES]: the text's last bytes, then zeros
WORK_PIECE = 11  # uint8[16]: the bytes of a short pretoken
WORK_TABLE = 13  # uint64: four zeros, the narrow entries, then the wide ones
WORK_NARROW_SHIFT = 15  # 64 - k for 2^k narrow entries
WORK_NARROW_USED = 16
WORK_NARROW_LIMIT = 17  # entries in use at which NEED_NARROW is returned
WORK_WIDE_SHIFT = 18  # the same for wide entries
WORK_WIDE_USED = 19
WORK_WIDE_LIMIT = 20
WORK_ARENA = 21  # uint32: ids that fit no entry, bytes of long pretokens
WORK_ARENA_USED = 23
WORK_SYMBOLS = 24  # uint32[longest]: symbols of the pretoken being merged
WORK_RANKS = 26  # uint32[longest]: rank of the pair that begins at each symbol
WORK_NEXT = 28  # int32[longest]
WORK_PREVIOUS = 30  # int32[longest]
WORK_HEAP = 32  # uint64[2 * longest]
WORK_OUTPUT = 34  # uint32: where ids go
WORK_OUTPUT_USED = 36
WORK_COUNT_ONLY = 37  # 1: ids are counted and forgotten
WORK_ACTIONS = 38  # uint8[added tokens]: ADDED_AS_TEXT, ADDED_AS_TOKEN or ADDED_REFUSED
WORK_DOCUMENT = 40  # resume here: document ...
WORK_POSITION = 41  # ... byte offset in it where a scan of the split rule stands, or AT_BEGINNING ...
WORK_NEEDED = 42  # with a NEED_ status: how many elements would do; with DISALLOWED: the added token's index
WORK_DONE = 43  # pretokens of a group looked up before a NEED_ status
WORK_PIECES = 44  # statistics, since the scratch was made: pretokens seen ...
WORK_MISSES = 45  # ... those not found in the cache ...
WORK_MERGED_BYTES = 46  # ... and the bytes that were merged for them
WORK_FROM_ARENA = 47  # 1 where a quarter of the last group, or of GROUP, had more ids than their entries hold
WORK_RESUME = 48  # ... and the start of the first pretoken from there on that is not yet put out
WORK_SEGMENT = 49  # where the text between two raw added tokens begins that holds WORK_POSITION
WORK_TRIES_OFF = 50  # 1: raw added tokens are not looked for, 2: no added tokens are
WORK_DROPPED = 51  # uint64[blocks + 1]: bitmap of the starts of removed pieces; used where VIEW_DROPS is 1
WORK_LIST = 53  # addresses, lengths and ends of the LIST documents of one text: prefix, text, suffix
WORK_LIST_FIRST = 62  # which of them a call encodes: the first ...
WORK_LIST_COUNT = 63  # ... and how many
WORK_RAW_MATCH = 64  # the next raw added token, or -1; its start, its stop, and where the search goes on
WORK_MATCH = 68  # the same for the other added tokens, before that one
WORK_RANDOM = 72  # state of the generator that dropout draws from
WORK_MARKS = 73  # uint64: bitmap of (far row, position) from which an overrun is known to fail
WORK_LEFT = 75  # bytes that a call still goes through before it returns PAUSED
WORK_UNTIL = 76  # byte offset in the document where a call ends that encodes a part of it, or NO_UNTIL
WORK_COARSE = 77  # 1: walk only as far as the starts from which a fresh walk gives the same pieces
WORK_TASK = 78  # of a worker in a parallel call: the task that is not yet done, or -1 ...
WORK_STATUS = 79  # ... and what it needs for that
WORK_STOP = 80  # address of an int64 that is not 0 where a call is to return PAUSED soon
WORK_LISTING = 81  # what kernels.lists makes lists of: see there
WORK_PLAN = 83  # address of the fields by which the ids of a short text are located
WORK_LANES = 84  # uint64: what learn_together works in
WORK_MANY_NEW = 86  # 1 where at least one of MANY_NEW of the last group was new
WORK_TRACE = 87  # address of a trace, or 0
WORK_GROUP_TEXT = 88  # the group that is looked up: address that its positions count from, ...
WORK_GROUP_BEGIN = 89  # ... its first pretoken, ...
WORK_GROUP_COUNT = 90  # ... and how many; 0 where what is new is not to be learned together, or was
WORK_FIELDS = 91

# A trace of a call of one document: which pieces, and how many ids before them, made the result.
TRACE_STARTS = 0  # uint64[bytes / 64 + 2]: a bit for each byte, set where a piece or an added token begins; or empty
TRACE_POINTS = 2  # int64[2 * (bytes / TRACE_STEP + 2)]: byte offsets where pieces begin, and the ids before each ...
TRACE_USED = 4  # ... and how many there are; the first is always (0, 0)
TRACE_BEFORE = 5  # ids before those in the output, where they are only counted
TRACE_LIMIT = 6  # with more ids than this the call returns PAUSED
TRACE_SETTLED = 7  # the last place met that surely is a piece's first byte, whatever follows the document ...
TRACE_SETTLED_IDS = 8  # ... and the ids before it
TRACE_FIELDS = 9
TRACE_STEP = 256  # bytes from one point to the next, at least

# Bytes of the text's end that the tail holds. With 64, documents of 175 bytes took a tenth longer: their pretokens were
# keyed in two groups, and part of them was searched for added tokens byte by byte.
TAIL_KEPT = 256
TAIL_BYTES = TAIL_KEPT + 128

LIST = 3  # documents of a call of one text: what is put before it, the text, what is put after
WORK_TEXT = WORK_LIST + 1  # the address of a call's one text; its length and its end are LIST fields further each

NO_UNTIL = 1 << 62
NO_SEAM = -2  # instead of where a part begins: nowhere

# A parallel call: fields of the record that its workers share.
JOB_SCRATCHES = 0  # int64[workers]: address of each worker's scratch record
JOB_ORDER = 2  # int64: the numbers of the tasks to do, in the order in which they are taken
JOB_SHARES = 4  # int64[SHARE_FIELDS * shares]: which places of the order are each worker's to begin with
JOB_TASKS = 6  # int64[TASK_FIELDS * tasks]
JOB_ADDRESSES = 8  # int64[documents], as encode_documents takes them ...
JOB_LENGTHS = 10
JOB_ENDS = 12
JOB_OUTPUT = 14  # where the ids of all tasks are gathered ...
JOB_ITEM_BYTES = 16  # ... as uint32 or uint16
JOB_STARTS = 17  # int64: where pretokens begin, with room for one at each byte of the text
JOB_CALLEE = 19  # native address of a kernel that the job calls
JOB_WARM_UP = 20  # bytes before a guess where the walk that looks for a seam begins
JOB_ARGUMENTS = 21  # of that kernel: how many
JOB_STOP = 22  # 1: a worker needs something; stop soon, and take no more tasks
JOB_FIELDS = 23

# Where the ids of a call go by groups of documents.
GROUPS_OUTPUT = 0  # uint32 or uint16 ...
GROUPS_ITEM_BYTES = 2  # ... so many bytes each, or 0 where ids are only counted
GROUPS_DONE = 3  # how many have gone there
GROUPS_FIELDS = 4
GROUP_TEXT = 1 << 16  # bytes of documents in a group

# A share: the place of its next task, and where it ends. Each has a cache line of its own.
SHARE_NEXT = 0
SHARE_END = 1
SHARE_FIELDS = 8

# Fields of a task: some documents, or a part of one.
TASK_FIRST = 0  # number of the first document ...
TASK_COUNT = 1  # ... and how many
TASK_BEGIN = 2  # byte offset in the one document where the part begins, or AT_BEGINNING for whole documents
TASK_UNTIL = 3  # where the part ends, or NO_UNTIL
TASK_TRIES_OFF = 4  # as WORK_TRIES_OFF
TASK_STATUS = 5  # set when it is done: 0, MISSED or DISALLOWED ...
TASK_REACHED = 6  # ... and the position that was reached, the document ...
TASK_DOCUMENT = 7
TASK_TOKEN = 8  # ... and the added token
TASK_WORKER = 9  # who has done it, where its ids begin in that worker's output, how many ...
TASK_PLACE = 10
TASK_IDS = 11
TASK_FLAT = 12  # ... and where they belong among all
TASK_BYTES = 13  # about how much there is to do
TASK_FIELDS = 14

# A row of arguments of a kernel, and what it returns: those of decode_documents, which has the most.
CALL_IDS, CALL_OFFSETS, CALL_DOCUMENTS, CALL_TABLES = range(4)
CALL_OUTPUT, CALL_CAPACITY, CALL_ENDS, CALL_RESULT = range(9, 13)
CALL_FIELDS = 13

# A row of a text whose UTF-8 is to be made: its characters, their number and the bytes of each; bytes, and where to.
TEXT_CHARACTERS, TEXT_COUNT, TEXT_WIDTH, TEXT_SIZE, TEXT_PLACE = range(5)
TEXT_FIELDS = 5

AT_BEGINNING = -1
MOST_POSITION = (1 << 16) - 1  # farthest that a position reaches from its window's begin

MANY_LEADS = 8
MOST_LEAD_OFFSET = 31
ADDED_LSTRIP, ADDED_RSTRIP, ADDED_SINGLE_WORD = 1, 2, 4
IS_SPACE, IS_WORD = 1, 2
ADDED_AS_TEXT, ADDED_AS_TOKEN, ADDED_REFUSED = range(3)
