"""Where tokenizers come from: files of other libraries, and vocabularies inside the package."""
