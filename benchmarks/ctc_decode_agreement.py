"""The texts of CTCDecoder beside those of pyctcdecode: how many are the same, and why not the rest.

    python benchmarks/ctc_decode_agreement.py [--count 1000] [--lm wiki3g.arpa.gz]

Both have the same emissions, language model, words, weights, beam and cuts. pyctcdecode must be
told the words of the model: by itself it takes only those that have a back-off weight in the file.
It was installed with --no-deps, for it refuses NumPy 2, with which it works.
"""

from __future__ import annotations

import argparse
import gzip
import logging
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyctcdecode
from ctc_utterances import DATA, LABELS, Utterance, make

from trellis import CTCDecoder
from trellis.formats import arpa

WIDTH = 100


class Setting(NamedTuple):
    """What both decoders are told."""

    name: str
    lm: Path | None
    alpha: float = 0.5
    beta: float = 1.5


def peer(setting: Setting) -> Any:
    """Their decoder."""
    if setting.lm is None:
        return pyctcdecode.build_ctcdecoder(LABELS)
    return pyctcdecode.build_ctcdecoder(
        LABELS,
        str(setting.lm),
        unigrams=arpa.read(setting.lm).words(),
        alpha=setting.alpha,
        beta=setting.beta,
    )


def ours(setting: Setting) -> CTCDecoder:
    """Our decoder."""
    if setting.lm is None:
        return CTCDecoder(LABELS, beam_width=WIDTH)
    return CTCDecoder(
        LABELS, lm=setting.lm, alpha=setting.alpha, beta=setting.beta, beam_width=WIDTH
    )


def explain(decoder: CTCDecoder, theirs: Any, own: Utterance, text: str) -> str:
    """Why they found another text than ours."""
    beams = {beam.text: beam.score for beam in decoder.decode_beams(own.log_probs, k=WIDTH)}
    best = max(beams.values())
    their_beams = {
        beam[0]: beam[-1] for beam in theirs.decode_beams(np.exp(own.log_probs), beam_width=WIDTH)
    }
    mine = max(beams, key=lambda other: beams[other])
    if text not in beams:
        return "theirs is not among our beams"
    if best - beams[text] < 1e-4:
        return "a tie"
    if mine not in their_beams:
        return "ours scores better, and was cut from their beam"
    if their_beams[mine] > their_beams.get(text, -np.inf):
        return "ours is best among their own beams; decode() cut it (it drops like histories)"
    return "the two score a text differently"


def errors(wanted: list[str], found: list[str]) -> float:
    """Share of wrong characters."""
    wrong = sum(_distance(a, b) for a, b in zip(wanted, found, strict=True))
    return wrong / sum(map(len, wanted))


def _distance(a: str, b: str) -> int:
    row = np.arange(len(b) + 1)
    letters = np.frombuffer(b.encode("utf-32-le"), np.uint32)
    for n, letter in enumerate(a, 1):
        change = row[:-1] + (letters != ord(letter))
        best = np.concatenate([[n], np.minimum(change, row[1:] + 1)])
        row = np.minimum.accumulate(best - np.arange(len(best))) + np.arange(len(best))
    return int(row[-1])


def compare(setting: Setting, utterances: list[Utterance], limit: int) -> None:
    """Print agreement, error rates, and the first differences."""
    theirs, decoder = peer(setting), ours(setting)
    found = decoder.decode_batch([own.log_probs for own in utterances])
    # they take the logarithm themselves of what sums to one
    want = [theirs.decode(np.exp(own.log_probs), beam_width=WIDTH) for own in utterances]
    differ = [n for n in range(len(want)) if want[n] != found[n]]
    reasons = Counter(explain(decoder, theirs, utterances[n], want[n]) for n in differ)
    texts = [own.text for own in utterances]
    rates = f"CER {errors(texts, want):.2%} theirs, {errors(texts, found):.2%} ours"
    print(f"{setting.name}: {1 - len(differ) / len(want):.1%} of {len(want)} are the same; {rates}")
    for reason, count in reasons.most_common():
        print(f"  {count:4}  {reason}")
    for n in differ[:limit]:
        print(f"    said    {texts[n]}\n    theirs  {want[n]}\n    ours    {found[n]}")


def main() -> None:
    """Without a language model, then with one, with two pairs of weights."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=1000, help="utterances")
    options.add_argument("--lm", type=Path, default=DATA / "models" / "lm" / "wiki3g.arpa.gz")
    options.add_argument("--show", type=int, default=3, help="differences to print")
    given = options.parse_args()
    logging.disable(logging.WARNING)
    utterances = make(given.count)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "lm.arpa"  # KenLM's reader wants the suffix
        with gzip.open(given.lm) as file:
            plain.write_bytes(file.read())
        compare(Setting("no language model", None), utterances, given.show)
        compare(Setting("alpha 0.5, beta 1.5", plain), utterances, given.show)
        compare(Setting("alpha 0.9, beta 0.5", plain, 0.9, 0.5), utterances, given.show)


if __name__ == "__main__":
    main()
