"""Chain models: CRF, MEMM and HMM. README.md says in which order to read the files."""
