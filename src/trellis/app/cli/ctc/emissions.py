"""`trellis ctc`: emissions in, texts or times out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.terminal import say, show_json
from trellis.data import files
from trellis.errors import FormatError, InfeasibleError, InputError
from trellis.formats import arrays
from trellis.models.ctc.decoder import CTCDecoder

__all__ = ["Setting", "read_emissions", "read_labels", "run_align", "run_decode"]


class Setting(NamedTuple):
    """What both commands are told about the emissions."""

    labels: Path
    blank: int | None
    units: str
    logits: bool
    frame: float | None
    """Seconds; None leaves times in frames."""
    jobs: int | None

    def decoder(self, **options: Any) -> CTCDecoder:
        """What turns such emissions into text."""
        if self.frame is not None and not 0 < self.frame < np.inf:
            raise InputError(f"--frame is {self.frame}: must be above 0")
        return CTCDecoder(
            read_labels(self.labels),
            blank=self.blank,
            units=self.units,
            n_jobs=self.jobs,
            **options,
        )

    def time(self, frame: int) -> float:
        """When a frame begins."""
        return int(frame) if self.frame is None else round(int(frame) * self.frame, 6)


class Utterance(NamedTuple):
    """An array with the place that it came from."""

    name: str
    emissions: NDArray[Any]


def run_decode(
    inputs: list[Path],
    setting: Setting,
    *,
    k: int,
    reference: Path | None,
    as_json: bool,
    lexicon: Path | None,
    hotwords: Path | None,
    options: dict[str, Any],
) -> None:
    """Print the best texts of each utterance, and how wrong they are if that is known."""
    if reference is not None:
        _jiwer()
    preferred = None if hotwords is None else [w for w in files.lines(hotwords) if w.strip()]
    decoder = setting.decoder(lexicon=lexicon, hotwords=preferred, **options)
    utterances = read_emissions(inputs, len(read_labels(setting.labels)))
    said = None if reference is None else _texts(reference, len(utterances))
    emissions = [own.emissions for own in utterances]
    found = decoder.decode_beams_batch(emissions, k=k, logits=setting.logits)
    rates = {} if said is None else _rates(said, [beams[0].text for beams in found])
    if as_json:
        rows = [
            _texts_of(own, beams, setting) for own, beams in zip(utterances, found, strict=True)
        ]
        show_json({"utterances": rows, **rates})
        return
    for own, beams in zip(utterances, found, strict=True):
        for beam in beams:
            print(beam.text if k == 1 else f"{own.name}\t{beam.score:.4f}\t{beam.text}")
    if rates:
        say(f"WER {rates['wer']:.2%}, CER {rates['cer']:.2%} of {len(found)} utterances")


def run_align(
    inputs: list[Path],
    setting: Setting,
    *,
    text: str | None,
    reference: Path | None,
    characters: bool,
    as_json: bool,
) -> None:
    """Print when each word, or each label, was said."""
    if (text is None) == (reference is None):
        raise InputError("say what to align by one of --text and --reference")
    decoder = setting.decoder()
    utterances = read_emissions(inputs, len(read_labels(setting.labels)))
    said = [text or ""] if reference is None else _texts(reference, len(utterances))
    if len(said) != len(utterances):
        raise InputError(f"--text is for one utterance, not {len(utterances)}: use --reference")
    rows = []
    for own, words in zip(utterances, said, strict=True):
        try:
            found = decoder.align(own.emissions, words, logits=setting.logits)
        except (InputError, InfeasibleError) as error:
            raise type(error)(f"{own.name}: {error}") from None
        rows.append((own.name, words, found.units if characters else found.words, found.score))
    if as_json:
        show_json({"utterances": [_times_of(*row, setting=setting) for row in rows]})
        return
    for name, _, parts, _ in rows:
        for part in parts:
            times = f"{setting.time(part.start):g}\t{setting.time(part.end):g}"
            print(f"{name}\t{times}\t{part.confidence:.4f}\t{part.text}")


def read_labels(path: Path) -> list[str]:
    """One label a line, empty lines included; a ``.json`` file has a list, or labels to indices."""
    if path.suffix.lower() != ".json":
        return list(files.lines(path))
    try:
        found = json.loads("\n".join(files.lines(path)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON: {error}") from None
    if isinstance(found, dict):
        indices = list(found.values())
        if any(type(n) is not int for n in indices) or sorted(indices) != list(range(len(found))):
            raise FormatError(f"{path}: the indices of the labels are not 0 to {len(found) - 1}")
        found = sorted(found, key=found.__getitem__)
    if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
        raise FormatError(f"{path}: neither a list of labels nor an object of labels and indices")
    return found


def read_emissions(paths: list[Path], labels: int) -> list[Utterance]:
    """The utterances of all files: matrices, or stacks of them with their ``lengths``."""
    found: list[Utterance] = []
    for path in paths:
        named = arrays.read(path)
        lengths = named.pop("lengths", None)
        own = [each for name, array in named.items() for each in _split(name, array, lengths)]
        if not own:
            raise FormatError(f"{path}: there is no utterance in it")
        # a lone array needs no name but its file's
        where = [str(path)] if len(own) == 1 else [f"{path}:{each.name}" for each in own]
        found += [
            Utterance(name, _checked(name, each.emissions, labels))
            for name, each in zip(where, own, strict=True)
        ]
    return found


def _split(name: str, array: NDArray[Any], lengths: NDArray[Any] | None) -> Iterator[Utterance]:
    if array.ndim != 3:
        yield Utterance(name, array)
        return
    count, frames = array.shape[:2]
    ends = np.full(count, frames) if lengths is None else lengths
    if ends.shape != (count,) or ends.dtype.kind not in "iu" or not (ends <= frames).all():
        raise FormatError(
            f"{name}: lengths must be {count} integers of at most {frames}, one an utterance"
        )
    for n, end in enumerate(ends.tolist()):
        yield Utterance(f"{name}[{n}]", array[n, : max(0, end)])


def _checked(name: str, array: NDArray[Any], labels: int) -> NDArray[Any]:
    if array.ndim != 2 or array.shape[1] != labels or not len(array):
        raise FormatError(
            f"{name}: has shape {array.shape}, must be (frames, {labels}) for {labels} labels"
        )
    if array.dtype.kind != "f":
        raise FormatError(f"{name}: has dtype {array.dtype}, must be floats")
    bad = ~(array < np.inf)
    if bad.any():
        t, v = np.argwhere(bad)[0].tolist()
        raise FormatError(f"{name}: frame {t}, label {v} is {array[t, v]}")
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, np.float64 if native == np.float64 else np.float32)


def _texts(path: Path, count: int) -> list[str]:
    """One text a line, its blanks made single."""
    texts = [" ".join(line.split()) for line in files.lines(path)]
    if len(texts) != count:
        raise FormatError(f"{path}: {len(texts)} lines, but {count} utterances")
    return texts


def _jiwer() -> Any:
    try:
        import jiwer
    except ImportError:
        raise InputError("--reference needs jiwer: pip install 'trellis[speech]'") from None
    return jiwer


def _rates(said: list[str], found: list[str]) -> dict[str, float]:
    """How many edits lead to what was said, for each of its words and of its characters."""
    if not any(said):
        raise InputError("--reference has no word: there is no error rate")
    return {"wer": float(_jiwer().wer(said, found)), "cer": float(_jiwer().cer(said, found))}


def _texts_of(own: Utterance, beams: list[Any], setting: Setting) -> dict[str, Any]:
    def entry(beam: Any) -> dict[str, Any]:
        words = [
            {"text": word.text, "start": setting.time(word.start), "end": setting.time(word.end)}
            for word in beam.words
        ]
        scores = {"score": beam.score, "acoustic": beam.acoustic, "lm": beam.lm}
        return {"text": beam.text, **scores, "words": words}

    return {"name": own.name, "beams": [entry(beam) for beam in beams]}


def _times_of(
    name: str, text: str, parts: list[Any], score: float, setting: Setting
) -> dict[str, Any]:
    found = [
        {
            "text": part.text,
            "start": setting.time(part.start),
            "end": setting.time(part.end),
            "confidence": round(float(part.confidence), 6),
        }
        for part in parts
    ]
    return {"name": name, "text": text, "score": float(score), "parts": found}
