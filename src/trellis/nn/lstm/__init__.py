"""The bidirectional LSTM: native CPU kernels, Triton kernels, PyTorch as the fallback."""
