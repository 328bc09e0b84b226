"""Kernels for a card run in Triton's interpreter, the examples in their docstrings too."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
