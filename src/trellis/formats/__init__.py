"""Readers and writers of model files: native, CRFsuite, CRF++, Wapiti, fastText, word2vec, …."""
