"""What the workers of a process pool run: it must be importable, so it is a module of its own."""

import small
from numbatok import Tokenizer


def encode_small(tokenizer: Tokenizer) -> list[int]:
    """Ids of the small training text."""
    return tokenizer.encode(small.TEXT).tolist()
