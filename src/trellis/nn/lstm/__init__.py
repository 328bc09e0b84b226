"""The bidirectional LSTM: native CPU kernels, Triton kernels, and PyTorch as the fallback."""
