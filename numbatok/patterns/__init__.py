"""Split rules: the known patterns, and the Unicode classes that they speak of."""
