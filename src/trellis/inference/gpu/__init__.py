"""Launch Triton kernels and read their status flags. All Triton engines share this code."""
