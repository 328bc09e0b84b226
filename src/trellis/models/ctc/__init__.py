"""CTC decoding with a lexicon and a language model."""
