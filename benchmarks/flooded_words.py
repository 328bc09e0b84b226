"""Words with equal hashes under a plain multiplicative hash without secret numbers."""

import itertools
import random

_A, _B, _WORD = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, (1 << 64) - 1
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _mix(a: int, b: int) -> int:
    return (a * b & _WORD) ^ (a * b >> 64)


def plain_hash(text: bytes) -> int:
    """Return the hash without secret numbers that the words below are chosen for."""
    h = _A ^ len(text)
    full_blocks = len(text) // 8 * 8
    for k in range(0, full_blocks, 8):
        h = _mix(h ^ int.from_bytes(text[k : k + 8], "little"), _B)
    return _mix(h ^ int.from_bytes(text[full_blocks:], "little"), _B ^ h)


def flooded_words(count: int) -> list[str]:
    """Return words of 20 letters whose plain hash is 0, because it is _B after 16 bytes."""
    draw = random.Random(5)
    while True:
        head = "".join(draw.choices(_LETTERS, k=8)).encode()
        h = _mix(_A ^ 20 ^ int.from_bytes(head, "little"), _B)
        second = (h ^ 1).to_bytes(8, "little")
        if all(0x21 <= byte < 0x7F for byte in second):
            break
    tails = itertools.product(_LETTERS, repeat=4)
    return [(head + second).decode() + "".join(t) for t in itertools.islice(tails, count)]


def plain_words(count: int) -> list[str]:
    """Return different words of the same size without a common beginning."""
    draw = random.Random(6)
    return [f"{k:06d}" + "".join(draw.choices(_LETTERS, k=14)) for k in range(count)]
