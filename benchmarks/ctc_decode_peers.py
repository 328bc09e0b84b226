"""Build the peers of CTC decoding: functions from emissions to text, with our settings."""

from __future__ import annotations

import ctypes
import gzip
import importlib.util
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ctc_emissions import LABELS, LM

from trellis.formats import arpa

Decode = Callable[[np.ndarray], str]
Align = Callable[[np.ndarray, np.ndarray], np.ndarray]
BEAM, CUT, PRUNE = 100, -5.0, -10.0
ALPHA, BETA = 0.5, 1.5
_LN10 = float(np.log(10.0))


@contextmanager
def plain_arpa() -> Iterator[str]:
    """Yield the path of the decompressed language model, for KenLM."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wiki3g.arpa")
        path.write_bytes(gzip.decompress(LM.read_bytes()))
        yield str(path)


def text_of(labels: Any) -> str:
    """Return the text of a labelling."""
    return " ".join("".join(LABELS[i] for i in labels).split())


def pyctcdecode_decoder(lm: str | None) -> Decode:
    """Return pyctcdecode. It gets all words; alone it would use only those with a back-off."""
    from pyctcdecode import build_ctcdecoder

    logging.getLogger("pyctcdecode").setLevel(logging.ERROR)
    words = arpa.read(lm).words() if lm else None
    decoder = build_ctcdecoder(LABELS, lm, unigrams=words, alpha=ALPHA, beta=BETA)
    return lambda x: decoder.decode(x, beam_width=BEAM, token_min_logp=CUT, beam_prune_logp=PRUNE)


def fast_decoder(cut: float) -> Decode:
    """Return fast-ctc-decode. It needs probabilities, and labels of exactly one character."""
    from fast_ctc_decode import beam_search

    alphabet = "".join(["~", *LABELS[1:]])
    return lambda x: " ".join(
        beam_search(np.exp(x), alphabet, beam_size=BEAM, beam_cut_threshold=cut)[0].split()
    )


def flashlight_free() -> Decode:
    """Return flashlight-text without a lexicon. It sums over paths, like ours."""
    from flashlight.lib.text import decoder as fl

    options = fl.LexiconFreeDecoderOptions(
        beam_size=BEAM,
        beam_size_token=len(LABELS),
        beam_threshold=-PRUNE,
        lm_weight=0.0,
        sil_score=0.0,
        log_add=True,
        criterion_type=fl.CriterionType.CTC,
    )
    decoder = fl.LexiconFreeDecoder(options, fl.ZeroLM(), 1, 0, [])
    return lambda x: text_of(_collapse(decoder.decode(x.ctypes.data, *x.shape)[0].tokens))


def flashlight_words(lm: str) -> Decode:
    """Return flashlight-text with a lexicon and KenLM.

    The weight of its language model multiplies log10, ours multiplies ln.
    """
    from flashlight.lib.text import decoder as fl
    from flashlight.lib.text.decoder.kenlm import KenLM
    from flashlight.lib.text.dictionary import Dictionary

    words = [w for w in arpa.read(lm).words() if set(w) <= set(LABELS)]
    numbers = Dictionary()
    for word in [*words, "<unk>"]:
        numbers.add_entry(word)
    model = KenLM(lm, numbers)
    start = model.start(False)
    trie = fl.Trie(len(LABELS), 1)
    for word in words:
        spelling = [LABELS.index(c) for c in word] + [1]
        _, score = model.score(start, numbers.get_index(word))
        trie.insert(spelling, numbers.get_index(word), score)
    trie.smear(fl.SmearingMode.MAX)
    options = fl.LexiconDecoderOptions(
        beam_size=BEAM,
        beam_size_token=len(LABELS),
        beam_threshold=-PRUNE,
        lm_weight=ALPHA * _LN10,
        word_score=BETA,
        unk_score=-float("inf"),
        sil_score=0.0,
        log_add=True,
        criterion_type=fl.CriterionType.CTC,
    )
    unknown = numbers.get_index("<unk>")
    decoder = fl.LexiconDecoder(options, trie, model, 1, 0, unknown, [], False)
    names = [*words, "<unk>"]

    def decode(x: np.ndarray) -> str:
        best = decoder.decode(x.ctypes.data, *x.shape)[0]
        return " ".join(names[i] for i in best.words if i >= 0)

    return decode


def forced_aligner() -> Align | None:
    """Return the kernel of ctc-forced-aligner, or None if it is not installed.

    The package itself is not imported, because it needs librosa.
    """
    module_spec = importlib.util.find_spec("ctc_forced_aligner")
    if module_spec is None or module_spec.origin is None:
        return None
    (binary,) = Path(module_spec.origin).parent.glob("align_ops*.so")
    kernel = ctypes.CDLL(str(binary)).align_sequences
    pointers = [ctypes.c_void_p] * 4
    kernel.argtypes = [*pointers, *[ctypes.c_int] * 4, ctypes.c_int64]

    def align(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        path, scores = np.zeros(len(x), np.int64), np.zeros(len(x), np.float32)
        arrays = (a.ctypes.data for a in (x, y, path, scores))
        kernel(*arrays, 1, len(x), x.shape[1], len(y), 0)
        return path

    return align


def torchaudio_aligner() -> Align | None:
    """Return forced_align of torchaudio, or None if its library cannot be loaded."""
    try:
        import torch
        from torchaudio.functional import forced_align
    except (ImportError, OSError):
        return None

    def align(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        labels, _ = forced_align(torch.from_numpy(x)[None], torch.from_numpy(y)[None], blank=0)
        return labels[0].numpy()

    return align


def _collapse(path: Any) -> list[int]:
    """Merge equal neighbours of a path, then remove blanks."""
    merged = [v for t, v in enumerate(path) if t == 0 or v != path[t - 1]]
    return [v for v in merged if v != 0]
