"""Options and files (emissions, labels, texts) of ``trellis ctc decode`` and ``align``."""

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
from trellis.inference.ctc.inputs import refuse_probabilities
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
        help="Emissions (label scores) in .npy, .npz or .safetensors: arrays of shape "
        "(frames, labels), "
        "or (utterances, frames, labels) with an array named lengths.",
        metavar="FILE",
    ),
]
LabelFile = Annotated[
    Path,
    Option(
        "--labels",
        "-l",
        help="File of labels: text with one label per line, or JSON with a list of labels or an "
        "object that maps each label to its index.",
    ),
]


@dataclass
class EmissionOptions:
    """Meaning of the emissions: blank, units, logits or log-probabilities, duration of a frame."""

    blank: Annotated[
        int | None,
        Option(help="Index of the blank; default: an empty label, <pad>, <blank> or _."),
    ] = None
    units: Annotated[
        str, Option(help="Unit of text of a label: auto, characters, bpe or words.")
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


def build_decoder(labels: list[str], options: EmissionOptions, **parameters: Any) -> CTCDecoder:
    """Return the decoder with these labels, options and parameters of `CTCDecoder`."""
    if options.frame is not None and not 0 < options.frame < np.inf:
        raise InputError(f"--frame is {options.frame}: must be finite and above 0")
    return CTCDecoder(
        labels,
        blank=options.blank,
        units=options.units,
        n_jobs=options.jobs,
        **parameters,
    )


def frame_time(frame: int, seconds: float | None) -> float:
    """Return the time at which a frame begins, or its number if ``seconds`` is None."""
    return int(frame) if seconds is None else round(int(frame) * seconds, 6)


def read_labels(path: Path) -> list[str]:
    """Read a JSON file of labels, or a text with one label per line (empty lines included).

    JSON is recognised by its contents, because a pipe such as ``<(…)`` has no suffix.
    """
    lines = list(files.lines(path))
    is_json = path.suffix.lower() == ".json"
    try:
        labels = json.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        if is_json:
            raise FormatError(f"{path}: not JSON: {error}") from None
        return lines
    if not is_json and not isinstance(labels, list | dict):
        return lines  # a text file whose only label is also valid JSON, such as 7
    if isinstance(labels, dict):
        indices = list(labels.values())
        if any(type(i) is not int for i in indices) or sorted(indices) != list(range(len(labels))):
            raise FormatError(
                f"{path}: the indices of the labels must be 0 to {len(labels) - 1}, each of them "
                f"once: {_find_wrong_index(labels)}"
            )
        labels = sorted(labels, key=labels.__getitem__)
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise FormatError(
            f"{path}: must contain a list of labels, or an object of labels and indices"
        )
    return labels


def _find_wrong_index(labels: dict[str, Any]) -> str:
    """Return the first label whose index is not an integer, too large, or used before."""
    used: set[int] = set()
    for label, index in labels.items():
        if type(index) is not int or not 0 <= index < len(labels):
            return f"{label!r} has {index!r}"
        if index in used:
            return f"{label!r} has {index} again"
        used.add(index)
    raise AssertionError("the indices are correct")


def read_emissions(paths: list[Path], labels: int) -> list[Utterance]:
    """Read the utterances of all files; ``labels`` is the number of labels."""
    utterances: list[Utterance] = []
    for path in paths:
        named_arrays = arrays.read(path)
        lengths = named_arrays.pop("lengths", None)
        parts = [
            part
            for name, array in named_arrays.items()
            for part in _split_utterances(name, array, lengths)
        ]
        if not parts:
            raise FormatError(f"{path}: the file contains no utterance")
        # If the file has a single utterance, the name of the file is sufficient.
        names = [str(path)] if len(parts) == 1 else [f"{path}:{part.name}" for part in parts]
        utterances += [
            Utterance(name, _validate_emissions(name, part.emissions, labels))
            for name, part in zip(names, parts, strict=True)
        ]
    return utterances


def _split_utterances(
    name: str, array: NDArray[Any], lengths: NDArray[Any] | None
) -> Iterator[Utterance]:
    """Yield the utterances of an array, without their padding.

    An array of shape (utterances, frames, labels) has several; any other array is one utterance.
    """
    if array.ndim != 3:
        yield Utterance(name, array)
        return
    count, frames = array.shape[:2]
    ends = np.full(count, frames) if lengths is None else lengths
    if ends.shape != (count,) or ends.dtype.kind not in "iu" or not (ends <= frames).all():
        raise FormatError(
            f"{name}: lengths must be {count} integers of at most {frames}, one per utterance"
        )
    # A negative length gives an empty utterance; `_validate_emissions` then names it in its error.
    for n, end in enumerate(ends.tolist()):
        yield Utterance(f"{name}[{n}]", array[n, : max(0, end)])


def _validate_emissions(name: str, array: NDArray[Any], labels: int) -> NDArray[Any]:
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
        raise FormatError(
            f"{name}: frame {t}, label {v} is {array[t, v]}: must be a number or -inf"
        )
    try:
        refuse_probabilities(array, "the scores")
    except InputError:
        raise FormatError(
            f"{name}: the scores are probabilities, every frame sums to 1: save their logarithms, "
            "np.log(scores)"
        ) from None
    # The core has float32 and float64 kernels; float16 becomes float32.
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, np.float64 if native == np.float64 else np.float32)


def read_texts(path: Path, count: int) -> list[str]:
    """Read one text per line, with single spaces between words; there must be ``count`` texts."""
    texts = [" ".join(line.split()) for line in files.lines(path)]
    if len(texts) != count:
        raise FormatError(
            f"{path}: the file has {len(texts)} lines, but there are {count} utterances"
        )
    return texts
