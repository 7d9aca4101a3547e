"""Texts to test with: pieces of every script, a seeded generator, and strategies for Hypothesis."""

import random

from hypothesis import strategies as st

#: Characters of each kind and script, by name: a generated text is made of runs from these.
ALPHABETS = {
    "latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "contractions": ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'l", "'v", "'r", "'S", "'", "’s"],
    "digits": "0123456789",
    "blanks": " ",
    "white space": "\t\n\v\f\r \x1c\x1f\x85\xa0\u1680\u2000\u2028\u202f\u205f\u3000",
    "line ends": ["\n", "\r\n", "\n\n", " \n", "\n "],
    "punctuation": '.,;:!?"#$%&()*+-/<=>@[\\]^_`{|}~',
    "accents": "éàèùâêîôûçßäöüñøåĳŉſǅ",
    "greek": "αβγδεζηθικλμνξοπρστυφχψωΆ",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي٠١٢٣",
    "devanagari": "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह\u093e\u093f\u094d०१२",
    "thai": "กขคงจฉชซญดตถทธนบปผฝพฟมยรลวศษสหอฮ\u0e31\u0e34\u0e48๑๒๓",
    "chinese": "的一是不了人我在有他这为之大来以个中上们",
    "japanese": "あいうえおかきくけこアイウエオー々〆",
    "korean": "가나다라마바사아자차카타파하ㄱㅏ",
    "marks": "\u0300\u0301\u0308\u20dd\ufe0f\u200d\u0903",
    "numbers": "½٣Ⅷ²①〇𝟘𐄇",
    "supplementary": "𝔸𝒷𐍈𠀀𪚥🜁",
    "emoji": ["😀", "🎉", "👩\u200d🚀", "🇩🇪", "☃\ufe0f"],
    "odd": "\x00\x01\x7f\xad\u200b\ufeff\ufffd\ufffe\ue000\U000f0000\U0010ffff\u0378\U0001f9ff",
}

#: Texts that a tokenizer has reason to get wrong.
ADVERSARIAL = [
    "",
    " ",
    "  ",
    "'",
    "''",
    "'s",
    " 's",
    "''s",
    "'s's't'll'llx'",
    "'l",
    "'v 're've'er",
    "I'LL we'Ve",
    "a  b   c\n\n\nd \n e\t\tf",
    "  \u00a0 x\u3000\u3000y\u00a0z \u00a0 ",
    "\u3000",
    "x\u3000",
    "\u00a0\u00a0'll",
    "\r\n\r\n x",
    "0½1٣",
    "\ufeffBOM",
    "e\u0301e\u0301 \u0301",
    "a" * 15,
    "a" * 16,
    " " * 64 + "x",
    "=" * 63,
    "-" * 257,
    "<|endoftext|>",
    "<|endoftext|><|endoftext|>",
    "<|endoftext",
    "<<|endoftext|>|>",
    "a <|endoftext|> b",
    "\x00\x00a\x00",
]


def random_text(rng: random.Random, characters: int) -> str:
    """Runs of one to nine characters from random alphabets, about ``characters`` in all."""
    alphabets = list(ALPHABETS.values())
    parts: list[str] = []
    length = 0
    while length < characters:
        run = rng.choices(rng.choice(alphabets), k=min(rng.randint(1, 9), characters - length))
        parts += run
        length += len(run)
    return "".join(parts)


_FRAGMENTS = st.one_of(
    *(st.lists(st.sampled_from(alphabet), min_size=1, max_size=9).map("".join) for alphabet in ALPHABETS.values()),
    st.sampled_from(ADVERSARIAL),
)

#: Well-formed text: runs from the alphabets, adversarial pieces, and now and then any characters at all.
well_formed = st.one_of(
    st.lists(_FRAGMENTS, max_size=40).map("".join),
    st.text(st.characters(exclude_categories=["Cs"])),
)
