"""``trellis ctc decode``: decode emissions into texts."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trellis.app.cli.ctc.emissions import (
    EmissionFiles,
    EmissionOptions,
    LabelFile,
    Utterance,
    build_decoder,
    frame_time,
    read_emissions,
    read_labels,
    read_texts,
)
from trellis.app.cli.declarations import Option
from trellis.app.cli.options import Json, read_default
from trellis.app.terminal import print_status, show_json
from trellis.data import files
from trellis.errors import InputError
from trellis.models.ctc.decoder import CTCDecoder

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis ctc decode``."""

    files: EmissionFiles
    labels: LabelFile
    lm: Annotated[
        Path | None,
        Option(help="Language model: an ARPA file (possibly compressed), or a KenLM binary file."),
    ] = None
    alpha: Annotated[float, Option(help="Weight of the language model.")] = read_default(
        CTCDecoder, "alpha"
    )
    beta: Annotated[float, Option(help="Number added to the score for each word.")] = read_default(
        CTCDecoder, "beta"
    )
    beam: Annotated[int, Option(help="Number of hypotheses kept at each frame.")] = read_default(
        CTCDecoder, "beam_width"
    )
    lexicon: Annotated[
        Path | None, Option(help="File with the words allowed in the text, one per line.")
    ] = None
    hotwords: Annotated[
        Path | None, Option(help="File with words to prefer, one per line.", metavar="FILE")
    ] = None
    hotword_weight: Annotated[
        float, Option(help="Number added to the score for each preferred word.")
    ] = read_default(CTCDecoder, "hotword_weight")
    k: Annotated[int, Option("-k", help="Print the K best texts.", metavar="K", min=1)] = 1
    reference: Annotated[
        Path | None,
        Option(help="File with the true texts, one per line: also print the error rates."),
    ] = None
    reading: EmissionOptions = field(default_factory=EmissionOptions)
    as_json: Json = False


def run(options: Options) -> None:
    """Decode emissions into text by beam search.

    **Examples**

    `trellis ctc decode emissions.npz --labels labels.txt`

    `trellis ctc decode *.npy -l labels.txt --lm 3gram.arpa.gz --alpha 0.6 --reference said.txt`

    `trellis ctc decode a.npy -l vocab.json --logits -k 5 --frame 0.02 --json`
    """
    if options.reference is not None:
        _import_jiwer()  # raises before decoding if jiwer is not installed
    labels = read_labels(options.labels)
    decoder = build_decoder(
        labels,
        options.reading,
        lexicon=options.lexicon,
        hotwords=_read_words(options.hotwords),
        lm=options.lm,
        alpha=options.alpha,
        beta=options.beta,
        beam_width=options.beam,
        hotword_weight=options.hotword_weight,
    )
    utterances = read_emissions(options.files, len(labels))
    references = None
    if options.reference is not None:
        references = read_texts(options.reference, len(utterances))
    emissions = [utterance.emissions for utterance in utterances]
    beams = decoder.decode_beams_batch(emissions, k=options.k, logits=options.reading.logits)
    rates = {}
    if references is not None:
        rates = _compute_error_rates(references, [beams_of_one[0].text for beams_of_one in beams])
    _show(utterances, beams, rates, options)


def _show(
    utterances: list[Utterance], beams: list[Any], rates: dict[str, float], options: Options
) -> None:
    pairs = list(zip(utterances, beams, strict=True))
    if options.as_json:
        rows = [
            {
                "name": utterance.name,
                "beams": [_make_record(beam, options.reading.frame) for beam in beams_of_one],
            }
            for utterance, beams_of_one in pairs
        ]
        show_json({"utterances": rows, **rates})
        return
    for utterance, beams_of_one in pairs:
        for beam in beams_of_one:
            line = f"{utterance.name}\t{beam.score:.4f}\t{beam.text}"
            print(beam.text if options.k == 1 else line)
    if rates:
        print_status(f"WER {rates['wer']:.2%}, CER {rates['cer']:.2%} of {len(pairs)} utterances")


def _make_record(beam: Any, seconds: float | None) -> dict[str, Any]:
    words = [
        {
            "text": word.text,
            "start": frame_time(word.start, seconds),
            "end": frame_time(word.end, seconds),
        }
        for word in beam.words
    ]
    scores = {"score": beam.score, "acoustic": beam.acoustic, "lm": beam.lm}
    return {"text": beam.text, **scores, "words": words}


def _read_words(path: Path | None) -> list[str] | None:
    return None if path is None else [line for line in files.lines(path) if line.strip()]


def _import_jiwer() -> Any:
    try:
        import jiwer
    except ImportError:
        raise InputError("--reference needs jiwer: pip install 'trellis[speech]'") from None
    return jiwer


def _compute_error_rates(references: list[str], texts: list[str]) -> dict[str, float]:
    """Return the word and the character error rate: edits / length of the reference."""
    if not any(references):
        raise InputError("the file of --reference has no words, so the error rate is undefined")
    jiwer = _import_jiwer()
    return {"wer": float(jiwer.wer(references, texts)), "cer": float(jiwer.cer(references, texts))}
