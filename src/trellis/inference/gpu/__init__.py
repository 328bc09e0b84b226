"""What every Triton engine shares: launching kernels and reading their status flags."""
