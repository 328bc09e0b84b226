"""Sparse values of joint features at positions and pairs of labels."""
