"""Chain models: CRF, MEMM and HMM, and their parts."""
