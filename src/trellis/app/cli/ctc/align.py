"""``trellis ctc align``: print the time of each word of a known text."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from trellis.app.cli.ctc.emissions import (
    EmissionFiles,
    EmissionOptions,
    LabelFile,
    build_decoder,
    frame_time,
    read_emissions,
    read_labels,
    read_texts,
)
from trellis.app.cli.declarations import Option
from trellis.app.cli.options import Json
from trellis.app.terminal import show_json
from trellis.errors import InfeasibleError, InputError

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis ctc align``."""

    files: EmissionFiles
    labels: LabelFile
    text: Annotated[str | None, Option(help="Text to align, if there is one utterance.")] = None
    reference: Annotated[
        Path | None, Option(help="File with the texts of the utterances, one per line.")
    ] = None
    characters: Annotated[
        bool, Option("--characters", help="Print the times of labels instead of words.")
    ] = False
    reading: EmissionOptions = field(default_factory=EmissionOptions)
    as_json: Json = False


class Aligned(NamedTuple):
    """The alignment of one utterance with its text."""

    name: str
    text: str
    parts: list[Any]
    """The words or labels; each has a first frame, an end (exclusive) and a confidence."""
    score: float


def run(options: Options) -> None:
    """Find the time of each word of a known text: the most probable path through the frames.

    **Examples**

    `trellis ctc align a.npy --labels labels.txt --text "seven three one" --frame 0.02`

    `trellis ctc align emissions.npz -l labels.txt --reference said.txt --json`
    """
    alignments = _align(options)
    seconds = options.reading.frame
    if options.as_json:
        show_json({"utterances": [_make_record(aligned, seconds) for aligned in alignments]})
        return
    for aligned in alignments:
        for part in aligned.parts:
            times = f"{frame_time(part.start, seconds):g}\t{frame_time(part.end, seconds):g}"
            print(f"{aligned.name}\t{times}\t{part.confidence:.4f}\t{part.text}")


def _align(options: Options) -> list[Aligned]:
    if (options.text is None) == (options.reference is None):
        raise InputError("pass the text to align with either --text or --reference")
    labels = read_labels(options.labels)
    decoder = build_decoder(labels, options.reading)
    utterances = read_emissions(options.files, len(labels))
    if options.reference is None:
        texts = [options.text or ""]
    else:
        texts = read_texts(options.reference, len(utterances))
    if len(texts) != len(utterances):
        raise InputError(
            f"--text is for one utterance, but there are {len(utterances)}: use --reference"
        )
    alignments = []
    for (name, emissions), text in zip(utterances, texts, strict=True):
        try:
            alignment = decoder.align(emissions, text, logits=options.reading.logits)
        except (InputError, InfeasibleError) as error:
            raise type(error)(f"{name}: {error}") from None
        parts = alignment.units if options.characters else alignment.words
        alignments.append(Aligned(name, text, parts, alignment.score))
    return alignments


def _make_record(aligned: Aligned, seconds: float | None) -> dict[str, Any]:
    parts = [
        {
            "text": part.text,
            "start": frame_time(part.start, seconds),
            "end": frame_time(part.end, seconds),
            "confidence": round(float(part.confidence), 6),
        }
        for part in aligned.parts
    ]
    score = float(aligned.score)
    return {"name": aligned.name, "text": aligned.text, "score": score, "parts": parts}
