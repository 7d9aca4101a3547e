"""Rules through ``regex``: what no automaton can do, and the same rules as the table walker, against ``tokenizers``."""

import random

import pytest

import texts
from cutting import reference, reference_pieces
from numbatok.errors import VocabularyError
from numbatok.patterns.fallback import RegexRule, compile_with_regex, rewrite
from numbatok.patterns.rules import Split
from test_patterns import CONSTRUCTS, ONLY_ONIGURUMA, REAL, check_pieces_in_rust, inputs, onig


def pieces(rule: RegexRule, text: str) -> list[tuple[int, int]]:
    """The pieces (first byte, end) that are kept."""
    starts, dropped = rule.cut(text)
    edges = [*starts.tolist(), len(text.encode())]
    return [(begin, end) for begin, end, gone in zip(edges, edges[1:], dropped.tolist(), strict=False) if not gone]


#: Beyond an automaton, but the same in ``tokenizers``.
BEYOND = [
    r"(?<=a)b|\p{N}+",
    r"(?<!\p{L})\p{L}",
    r"(\p{L})\1",
    r"(?<twice>\p{N})\k<twice>|a",
    r"\p{L}+(?=\p{N}\p{L})|\p{N}",
    r"\b\p{L}+\b",
    r"\B.",
    r"^\p{L}|\s$",
    r"\A.|a\Z",
    r"(?>a|ab)c|b",
    r"(?:ab|a)++b|c",
    r"(?=\p{Lu})",
    r"(?<=\p{Ll})(?=\p{Lu})",
]


@pytest.mark.parametrize("behavior", ["isolated", "removed", "contiguous"])
@pytest.mark.parametrize("pattern", [*BEYOND, *CONSTRUCTS[::3], *ONLY_ONIGURUMA])
def test_one_step(pattern: str, behavior) -> None:
    """Each pattern cuts as in ``tokenizers``."""
    rule = (onig(pattern, behavior),)
    compiled, steps = compile_with_regex(rule), reference(*rule)
    for text in inputs(3, 60):
        assert pieces(compiled, text) == reference_pieces(steps, text), text


@pytest.mark.parametrize("name", ["llama3", "clip", "deepseek v3", "falcon", "gemma"])
def test_real_rules(name: str) -> None:
    """So do rules of several steps."""
    compiled, steps = compile_with_regex(REAL[name]), reference(*REAL[name])
    rng = random.Random(7)
    for _ in range(60):
        text = texts.random_text(rng, 80)
        assert pieces(compiled, text) == reference_pieces(steps, text), text


@pytest.mark.parametrize("pattern", [r"(?<=a)b|c", r"\p{N}{1,3}+|(?i:k\w)", r"(?s).\z|\s+$|[[:alpha:]--a]"])
def test_in_rust(pattern: str) -> None:
    """Patterns of tiktoken's dialect."""
    rule = compile_with_regex((Split(pattern, "removed", invert=True),))
    check_pieces_in_rust(pattern, lambda text: pieces(rule, text))


def test_empty_text() -> None:
    """No pieces."""
    assert pieces(compile_with_regex(REAL["llama3"]), "") == []


@pytest.mark.parametrize("pattern", ["(a", "a)", "[a", r"\p{Nothing}", r"\X", "*", r"(?i:(a)\1)"])
def test_refused(pattern: str) -> None:
    """A pattern that means nothing, or that depends on another Unicode, is named."""
    with pytest.raises(VocabularyError, match="split pattern"):
        compile_with_regex((Split(pattern),))


def test_rewrite() -> None:
    """Sets are explicit, so that the Unicode of ``regex`` has no say."""
    assert rewrite("(?i:k)", "rust") == r"(?:[\U0000004B-\U0000004B\U0000006B-\U0000006B\U0000212A-\U0000212A])"
    assert rewrite("a{2}+", "oniguruma") == r"(?:[\U00000061-\U00000061]{2,2})+"
    assert rewrite("a{2}+", "rust") == r"[\U00000061-\U00000061]{2,2}+"
