"""Other libraries' interfaces, thin, over :class:`numbatok.Tokenizer`: change one import to become fast."""
