"""Compare the texts of CTCDecoder and of pyctcdecode, and explain the differences.

    python benchmarks/ctc_decode_agreement.py [--count 1000]

Both have the same emissions, language model, words, weights, beam and thresholds. pyctcdecode needs
the list of words: by itself it reads only words that have a back-off weight in the file. Install it
with --no-deps, because its requirements exclude NumPy 2, although it works.

One difference is known. If a text may end with a space, pyctcdecode merges "the" and "the " at the
end. If the second comes last, it scores an additional empty word, which no model knows: the best
text then loses 10 orders of magnitude. So the texts are compared with the unchanged emissions, and
again without the space in the frames after the last letter.
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
from ctc_emissions import LABELS, LM, Utterance, error_rate, utterances

from trellis import CTCDecoder
from trellis.formats import arpa

WIDTH = 100


class Setting(NamedTuple):
    """The settings of both decoders."""

    name: str
    lm: Path | None
    alpha: float = 0.5
    beta: float = 1.5


def build_peer(setting: Setting) -> Any:
    """Return the decoder of pyctcdecode."""
    if setting.lm is None:
        return pyctcdecode.build_ctcdecoder(LABELS)
    return pyctcdecode.build_ctcdecoder(
        LABELS,
        str(setting.lm),
        unigrams=arpa.read(setting.lm).words(),
        alpha=setting.alpha,
        beta=setting.beta,
    )


def build_ours(setting: Setting) -> CTCDecoder:
    """Return the decoder of trellis."""
    if setting.lm is None:
        return CTCDecoder(LABELS, beam_width=WIDTH)
    return CTCDecoder(
        LABELS, lm=setting.lm, alpha=setting.alpha, beta=setting.beta, beam_width=WIDTH
    )


def explain_difference(decoder: CTCDecoder, theirs: Any, utterance: Utterance, text: str) -> str:
    """Return the reason why pyctcdecode found a different text."""
    beams = {beam.text: beam for beam in decoder.decode_beams(utterance.log_probs, k=WIDTH)}
    our_text = next(iter(beams))
    their_beams = theirs.decode_beams(utterance.log_probs, beam_width=WIDTH)
    their_lm = {beam[0]: beam[4] - beam[3] for beam in their_beams}
    scores = {beam[0]: beam[4] for beam in their_beams}
    for candidate in (our_text, text):
        in_both = candidate in beams and candidate in their_lm
        if in_both and abs(their_lm[candidate] - beams[candidate].lm) > 0.01:
            return "pyctcdecode scores a space at the end as an additional unknown word"
    our_score, their_score = beams[our_text].score, scores.get(text, -np.inf)
    if abs(our_score - their_score) < 1e-3:
        return "both texts have the same score"
    if scores.get(our_text, -np.inf) > their_score:
        return "our text is best in their beams too, but their decode() prunes similar histories"
    if their_score > our_score:
        return "their text has a better score, but our beam dropped it"
    return "our text has a better score, but their beam dropped it or some of its paths"


def without_last_space(utterance: Utterance) -> Utterance:
    """Return the utterance without a space after the last letter."""
    x = utterance.log_probs.copy()
    space, last = LABELS.index(" "), LABELS.index(utterance.text[-1])
    end = int(np.flatnonzero(x[:, last] > np.log(0.05))[-1])
    x[end:, space] = -30.0
    return Utterance(utterance.text, x)


def compare(setting: Setting, rows: list[Utterance], limit: int) -> None:
    """Print agreement, error rates, and the first differences."""
    theirs, decoder = build_peer(setting), build_ours(setting)
    texts = decoder.decode_batch([utterance.log_probs for utterance in rows])
    their_texts = [theirs.decode(utterance.log_probs, beam_width=WIDTH) for utterance in rows]
    differ = [n for n in range(len(texts)) if their_texts[n] != texts[n]]
    reasons = Counter(explain_difference(decoder, theirs, rows[n], their_texts[n]) for n in differ)
    rates = f"CER {error_rate(their_texts, rows):.2%} theirs, {error_rate(texts, rows):.2%} ours"
    same = 1 - len(differ) / len(texts)
    print(f"{setting.name}: {same:.1%} of {len(texts)} are the same; {rates}", flush=True)
    for reason, count in reasons.most_common():
        print(f"  {count:4}  {reason}")
    for n in differ[:limit]:
        said = rows[n].text
        print(
            f"    said    {said}\n    theirs  {their_texts[n]}\n    ours    {texts[n]}", flush=True
        )


def main() -> None:
    """Compare with a language model and two pairs of weights, then without a language model."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--count", type=int, default=1000, help="utterances")
    options.add_argument("--show", type=int, default=2, help="differences to print")
    arguments = options.parse_args()
    logging.disable(logging.WARNING)
    complete = utterances(arguments.count, "peaky")
    cut = [without_last_space(utterance) for utterance in complete]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "lm.arpa"  # KenLM cannot read compressed files
        plain.write_bytes(gzip.decompress(LM.read_bytes()))
        weights = [(0.5, 1.5), (0.9, 0.5)]
        for name, rows in (("no space after the last letter", cut), ("unchanged", complete)):
            print(f"\n{name}")
            for alpha, beta in weights:
                setting = Setting(f"alpha {alpha}, beta {beta}", plain, alpha, beta)
                compare(setting, rows, arguments.show)
        # a fifth of the utterances, because this is slower
        no_model = Setting("no language model", None)
        compare(no_model, complete[: max(1, arguments.count // 5)], arguments.show)


if __name__ == "__main__":
    main()
