"""Measure CTC decoding and alignment on one thread: utterances per second, error rates.

    python benchmarks/ctc_decode.py
    python benchmarks/ctc_decode.py --quick --only align

Each utterance has 500 frames, 32 labels and about 104 characters. The beam has 100 hypotheses, and
labels with a probability below e^-5 are skipped.
The emissions come from ctc_emissions.py. With a language model all decoders have the same trigrams,
the weights 0.5 and 1.5, and the same words. Before the timing, our probabilities are checked
against ctc.loss. The character error rates of the texts are in the table.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ctc_decode_peers as peers
import numpy as np
from ctc_emissions import LABELS, LM, Utterance, entropy, error_rate, utterances
from sections import run_sections
from timing import Case, Table, Timing, WrongResultError, milliseconds, ratio, time_alternating

from trellis import CTCDecoder
from trellis.inference import ctc

COLUMNS = ("decoder", "utterances/s", "best", "CER %", "ours there", "ours / it", "at minima")
SHAPES = ((1500, 300), (15000, 3000))  # frames, labels of the alignments


def ours_beam(x: np.ndarray) -> str:
    """Return the text of prefix search without a language model."""
    hypotheses: Any = ctc.beam_search(x, beam_width=peers.BEAM, min_log_prob=peers.CUT, n_jobs=1)
    return peers.text_of(hypotheses[0].labels)


def decode_all(decode: peers.Decode, batch: list[Utterance]) -> list[str]:
    """Return the texts of some utterances."""
    return [decode(u.log_probs) for u in batch]


def check_probabilities(batch: list[Utterance], kind: str) -> None:
    """Check the probability that beam search gives to its best labelling.

    It is at most the sum over all paths, and close to it on peaky emissions.
    """
    tolerance = 0.5 if kind == "peaky" else np.inf
    for u in batch:
        best: Any = ctc.beam_search(u.log_probs, beam_width=peers.BEAM)[0]
        log_p = -float(ctc.loss(u.log_probs.astype(np.float64), best.labels))
        if not log_p - tolerance <= best.log_prob <= log_p + 1e-6:
            raise WrongResultError(f"log-probability {best.log_prob}, but all paths have {log_p}")


def time_decoders(
    title: str, decoders: dict[str, tuple[peers.Decode, int]], rows: list[Utterance], rounds: int
) -> Table:
    """Time each decoder on its number of utterances. The first decoder must be ours."""
    table = Table(title, COLUMNS)
    counts = {name: min(count, len(rows)) for name, (_, count) in decoders.items()}
    cases, errors, our_errors = [], {}, {}
    our_texts = decode_all(next(iter(decoders.values()))[0], rows)
    for name, (decode, _) in decoders.items():
        batch = rows[: counts[name]]
        errors[name] = 100 * error_rate(decode_all(decode, batch), batch)
        our_errors[name] = 100 * error_rate(our_texts[: counts[name]], batch)
        cases.append(Case(name, partial(decode_all, decode, batch)))
    times = time_alternating(cases, rounds, pause=0.02)
    per_utterance = {}
    for name, n in counts.items():
        seconds = times[name]
        per_utterance[name] = Timing(seconds.median / n, seconds.minimum / n, seconds.repeats)
    table.keep(title, times)
    first = next(iter(decoders))
    for name, seconds in per_utterance.items():
        rate = (1 / seconds.median, 1 / seconds.minimum)
        ours = per_utterance[first]
        faster = (ratio(seconds, ours), ratio(seconds, ours, "minimum"))
        table.add(name, *rate, errors[name], our_errors[name], *faster)
    table.notes = [
        f"entropy {entropy(rows):.2f} nat per frame; utterances: {counts}",
        "ours there: the character error rate of the first line on the same utterances",
    ]
    return table


def decode_section(kind: str, quick: bool) -> list[Table]:
    """Time decoders without and with a language model."""
    rows = utterances(60, kind)
    check_probabilities(rows[:5], kind)
    # numbers of utterances for slow, medium and fast decoders
    slow, medium, fast = (2, 10, 60) if kind == "peaky" else (1, 4, 20)
    rounds = 3 if quick else 5
    decoder = CTCDecoder(LABELS, n_jobs=1)
    plain: dict[str, tuple[peers.Decode, int]] = {
        "ours: ctc.beam_search": (ours_beam, fast),
        "ours: CTCDecoder": (decoder.decode, fast),
        "pyctcdecode": (peers.pyctcdecode_decoder(None), slow),
        "fast-ctc-decode, cut e^-5": (peers.fast_decoder(float(np.exp(peers.CUT))), medium),
        "flashlight-text, no lexicon": (peers.flashlight_free(), slow),
    }
    tables = [time_decoders(f"{kind}, no language model", plain, rows, rounds)]
    with peers.plain_arpa() as lm:
        model = CTCDecoder(LABELS, lm=LM, n_jobs=1)
        words: dict[str, tuple[peers.Decode, int]] = {
            "ours: decode": (model.decode, fast),
            "ours: decode_beams": (lambda x: model.decode_beams(x, k=1)[0].text, fast),
            "pyctcdecode + KenLM": (peers.pyctcdecode_decoder(lm), medium),
            "flashlight-text, lexicon + KenLM": (peers.flashlight_words(lm), medium),
        }
        tables.append(time_decoders(f"{kind}, trigram model", words, rows, rounds))
    return tables


def align_section(quick: bool) -> list[Table]:
    """Time alignments, after a check that the scores of the best paths are equal."""
    columns = ("T, S", "ours", "torchaudio", "ctc-forced-aligner", "ratio", "at minima")
    table = Table("Alignment, one thread, float32, V = 32, ms", columns)
    table.notes = ["ratio: to the faster peer; a peer that cannot be loaded is skipped"]
    aligners = {
        "torchaudio": peers.torchaudio_aligner(),
        "ctc-forced-aligner": peers.forced_aligner(),
    }
    for frames, labels in SHAPES:
        rng = np.random.default_rng(frames)
        x = np.log(rng.dirichlet(np.full(32, 0.3), frames) + 1e-8).astype(np.float32)
        y = rng.integers(1, 32, labels)
        alignment: Any = ctc.align(x, y, n_jobs=1)
        cases = [Case("ours", partial(ctc.align, x, y, n_jobs=1))]
        for name, align in aligners.items():
            if align is None:
                continue
            path = np.asarray(align(x, y))
            score = float(x[np.arange(frames), path].sum(dtype=np.float64))
            if abs(score - alignment.score) > 1e-5 * abs(score):
                raise WrongResultError(f"{name}: its path scores {score}, ours {alignment.score}")
            cases.append(Case(name, partial(align, x, y), max_repeats=5))
        times = time_alternating(cases, 5 if quick else 15, pause=0.02)
        table.keep(f"{frames}, {labels}", times)
        peer_times = [times[case.name] for case in cases[1:]]
        best = min(peer_times, key=lambda timing: timing.minimum, default=None)
        shown = (milliseconds(times.get(name)) for name in ("ours", *aligners))
        faster = (ratio(best, times["ours"]), ratio(best, times["ours"], "minimum"))
        table.add(f"{frames}, {labels}", *shown, *faster)
    return [table]


if __name__ == "__main__":
    run_sections(
        __doc__,
        ("trellis", "numpy", "pyctcdecode", "kenlm", "fast-ctc-decode", "flashlight-text"),
        {
            "peaky": partial(decode_section, "peaky"),
            "soft": partial(decode_section, "soft"),
            "align": align_section,
        },
    )
