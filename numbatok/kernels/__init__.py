"""The compiled side: four stages, each with one data layout between it and the next.

1. ``starts``: walkers mark in a bitmap where pretokens begin; ``walk_automaton`` does so for any split rule.
2. ``spans``: the bitmap becomes positions, each pretoken a 16-byte key and a place in the cache.
3. ``cache``: the place is looked up; a hit gives the ids.
4. ``merge``: a miss is merged by byte pair encoding, and entered into the cache; many new ones are merged side by side,
   ``together``. Models with options merge ``units``.

``encode`` runs them over documents, ``streams`` over text that goes on; ``added`` finds the added tokens between,
``normal`` whether a text is normal, and ``cuts`` where a pretoken may be cut further. ``decode`` goes back, ``streams``
id by id, and ``offsets`` to the places in the text: ``offsets_by_length`` where tokens are its bytes, elsewhere
``offsets_by_pieces``, ``offsets_trimmed`` without blanks; ``offset_plan`` draws what they share. ``lists`` makes lists
of ids, ``rows`` copies them into rows for models, ``pieces`` lists pretokens, ``chunks`` cuts by a budget of tokens.
``text`` finds what Python keeps in memory, ``slices`` makes parts of it, ``packed`` compares it with an earlier text,
``separators`` finds where a file's documents end, ``utf8`` makes and checks UTF-8, ``json_lines`` finds fields of JSON,
``spelled`` reads the merges of a file, both by ``json_parts``, ``build`` makes a tokenizer's tables. ``tasks`` plans a
parallel call, and ``workers`` do it. ``inside`` is for kernels of other people's.

``dtypes`` draws the layouts, ``jit`` is where compiling happens, by ``compiler``, ``intrinsics`` where LLVM is spoken
to.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["count_in", "decode_into", "encode_into"]

if TYPE_CHECKING:
    from numbatok.kernels.inside import count_in, decode_into, encode_into


def __getattr__(name: str) -> Any:
    """The functions for other people's kernels; see ``inside``."""
    if name in __all__:
        from numbatok.kernels import inside

        return getattr(inside, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
