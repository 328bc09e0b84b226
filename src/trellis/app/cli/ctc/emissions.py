"""Shared by ``trellis ctc decode`` and ``align``: options, and files of emissions and labels."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import Jobs
from trellis.data import files
from trellis.errors import FormatError, InputError
from trellis.formats import arrays
from trellis.models.ctc.decoder import CTCDecoder

__all__ = [
    "EmissionFiles",
    "EmissionOptions",
    "LabelFile",
    "Utterance",
    "build_decoder",
    "frame_time",
    "read_emissions",
    "read_labels",
    "read_texts",
]

EmissionFiles = Annotated[
    list[Path],
    Argument(
        help="Scores of labels as .npy, .npz or .safetensors: arrays of shape (frames, labels), "
        "or (utterances, frames, labels) with an array named lengths.",
        metavar="FILE",
    ),
]
LabelFile = Annotated[
    Path,
    Option(
        "--labels",
        "-l",
        help="Labels: a text file with one per line, or a JSON file with a list or with indices "
        "by label.",
    ),
]


@dataclass
class EmissionOptions:
    """What the emissions mean."""

    blank: Annotated[
        int | None,
        Option(help="Index of the blank; default: the label that is empty or named so."),
    ] = None
    units: Annotated[
        str, Option(help="What a label stands for: auto, characters, bpe or words.")
    ] = "auto"
    logits: Annotated[
        bool, Option("--logits", help="The scores are logits, not log-probabilities.")
    ] = False
    frame: Annotated[
        float | None,
        Option(help="Duration of a frame in seconds; default: times are frame numbers."),
    ] = None
    jobs: Jobs = None


class Utterance(NamedTuple):
    """An array of emissions and its name."""

    name: str
    emissions: NDArray[Any]
    """(frames, labels)."""


def build_decoder(labels: Path, options: EmissionOptions, **parameters: Any) -> CTCDecoder:
    """Return the decoder for these emissions."""
    if options.frame is not None and not 0 < options.frame < np.inf:
        raise InputError(f"--frame is {options.frame}: must be above 0")
    return CTCDecoder(
        read_labels(labels),
        blank=options.blank,
        units=options.units,
        n_jobs=options.jobs,
        **parameters,
    )


def frame_time(frame: int, seconds: float | None) -> float:
    """Return the time at which a frame begins; the frame number if its duration is None."""
    return int(frame) if seconds is None else round(int(frame) * seconds, 6)


def read_labels(path: Path) -> list[str]:
    """Read one label per line, empty ones included, or a ``.json`` file of labels."""
    if path.suffix.lower() != ".json":
        return list(files.lines(path))
    try:
        labels = json.loads("\n".join(files.lines(path)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON: {error}") from None
    if isinstance(labels, dict):
        indices = list(labels.values())
        if any(type(n) is not int for n in indices) or sorted(indices) != list(range(len(labels))):
            raise FormatError(f"{path}: the indices of the labels are not 0 to {len(labels) - 1}")
        labels = sorted(labels, key=labels.__getitem__)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise FormatError(f"{path}: neither a list of labels nor an object of labels and indices")
    return labels


def read_emissions(paths: list[Path], labels: int) -> list[Utterance]:
    """Read the utterances of all files: matrices, or stacks of matrices with ``lengths``."""
    utterances: list[Utterance] = []
    for path in paths:
        named_arrays = arrays.read(path)
        lengths = named_arrays.pop("lengths", None)
        parts = [
            part for name, array in named_arrays.items() for part in _split(name, array, lengths)
        ]
        if not parts:
            raise FormatError(f"{path}: there is no utterance in it")
        # A single array is named by its file alone.
        names = [str(path)] if len(parts) == 1 else [f"{path}:{part.name}" for part in parts]
        utterances += [
            Utterance(name, _validate(name, part.emissions, labels))
            for name, part in zip(names, parts, strict=True)
        ]
    return utterances


def _split(name: str, array: NDArray[Any], lengths: NDArray[Any] | None) -> Iterator[Utterance]:
    """Yield the utterances of an array of shape (utterances, frames, labels), without padding."""
    if array.ndim != 3:
        yield Utterance(name, array)
        return
    count, frames = array.shape[:2]
    ends = np.full(count, frames) if lengths is None else lengths
    if ends.shape != (count,) or ends.dtype.kind not in "iu" or not (ends <= frames).all():
        raise FormatError(
            f"{name}: lengths must be {count} integers of at most {frames}, one per utterance"
        )
    # A negative length gives no frames, which is refused later with the name of the utterance.
    for n, end in enumerate(ends.tolist()):
        yield Utterance(f"{name}[{n}]", array[n, : max(0, end)])


def _validate(name: str, array: NDArray[Any], labels: int) -> NDArray[Any]:
    """Return contiguous emissions in native byte order; NaN and +∞ are errors, −∞ is allowed."""
    if array.ndim != 2 or array.shape[1] != labels or not len(array):
        raise FormatError(
            f"{name}: has shape {array.shape}, must be (frames, {labels}) for {labels} labels"
        )
    if array.dtype.kind != "f":
        raise FormatError(f"{name}: has dtype {array.dtype}, must be floats")
    invalid = ~(array < np.inf)
    if invalid.any():
        t, v = np.argwhere(invalid)[0].tolist()
        raise FormatError(f"{name}: frame {t}, label {v} is {array[t, v]}")
    # The core has float32 and float64 kernels; float16 becomes float32.
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, np.float64 if native == np.float64 else np.float32)


def read_texts(path: Path, count: int) -> list[str]:
    """Read one text per utterance and line, with single spaces between words."""
    texts = [" ".join(line.split()) for line in files.lines(path)]
    if len(texts) != count:
        raise FormatError(f"{path}: {len(texts)} lines, but {count} utterances")
    return texts
