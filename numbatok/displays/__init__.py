"""What people see of texts, tokens and tokenizers, on a terminal and in a notebook.

    escapes      what stands for characters and bytes that cannot be shown as they are
    shown        which tokens of a text, or of documents, are shown, and what is said of the rest
    terminal     these as lines, coloured or plain
    html         these as HTML without scripts or style sheets
    texts        what :meth:`numbatok.Tokenizer.show` returns
    summaries    what a notebook shows of a tokenizer, a batch, a vocabulary, an explanation

A text can hold anything, so nothing of it reaches a terminal or a browser that these could obey.
"""

#: Tokens that are shown unless the caller says otherwise.
LIMIT = 200
