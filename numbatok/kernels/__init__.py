"""The compiled side: four stages, each with one data layout between it and the next.

1. ``starts``: walkers mark in a bitmap where pretokens begin; ``walk_automaton`` does so for any split rule.
2. ``spans``: the bitmap becomes positions, each pretoken a 16-byte key and a place in the cache.
3. ``cache``: the place is looked up; a hit gives the ids.
4. ``merge``: a miss is merged by byte pair encoding, and entered into the cache.

``encode`` runs them over documents; ``added`` finds the added tokens between, ``normal`` whether a text is normal, and
``cuts`` where a pretoken may be cut further. ``decode`` goes back, ``rows`` copies ids into rows for models; ``pieces``
lists pretokens, and the places where a text may be cut into chunks. ``text`` finds and checks what Python keeps in
memory; ``spelled`` reads the merges of a file, ``build`` makes a tokenizer's tables.
``dtypes`` draws the layouts, ``jit`` is where compiling happens, ``intrinsics`` where LLVM is spoken to.
"""
