"""The commands ``trellis ctc …``: what can be asked for. The work is in ctc.py."""

from pathlib import Path
from typing import Annotated

import typer

from trellis.app.cli.options import Jobs, Json

__all__ = ["ctc"]

ctc = typer.Typer(
    name="ctc",
    help="Decode and align what a network says at each frame of speech or of a line of text.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
)

Emissions = Annotated[
    list[Path],
    typer.Argument(
        help="Scores of labels as .npy, .npz or .safetensors: each array (frames, labels), or "
        "(utterances, frames, labels) with an array named lengths.",
        metavar="FILE",
    ),
]
Labels = Annotated[
    Path,
    typer.Option(
        "--labels", "-l", help="The labels: one a line, or .json with a list or labels and indices."
    ),
]
Blank = Annotated[
    int | None,
    typer.Option(help="Index of the blank; by default the label that is empty or named for it."),
]
Units = Annotated[str, typer.Option(help="auto, characters, bpe or words: what a label is.")]
Logits = Annotated[
    bool, typer.Option("--logits", help="Scores are from before the softmax, not log p.")
]
Frame = Annotated[
    float | None,
    typer.Option(help="What a frame lasts, in seconds; times are in frames otherwise."),
]


@ctc.command()
def decode(
    files: Emissions,
    labels: Labels,
    lm: Annotated[
        Path | None, typer.Option(help="A language model: ARPA, packed or not, or KenLM's binary.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Weight of the language model.")] = 0.5,
    beta: Annotated[float, typer.Option(help="What each word adds to the score.")] = 1.5,
    beam: Annotated[int, typer.Option(help="Hypotheses that are kept at each frame.")] = 100,
    lexicon: Annotated[
        Path | None, typer.Option(help="Words that may occur, and no others: one a line.")
    ] = None,
    hotwords: Annotated[
        Path | None, typer.Option(help="Words to prefer, one a line.", metavar="FILE")
    ] = None,
    hotword_weight: Annotated[float, typer.Option(help="How much to prefer them.")] = 10.0,
    blank: Blank = None,
    units: Units = "auto",
    logits: Logits = False,
    k: Annotated[int, typer.Option("-k", help="The K best texts of each.", min=1)] = 1,
    frame: Frame = None,
    reference: Annotated[
        Path | None,
        typer.Option(help="What was said, one line an utterance: word and character error rate."),
    ] = None,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Turn emissions into text by beam search.

    **Examples**

    `trellis ctc decode emissions.npz --labels labels.txt`

    `trellis ctc decode *.npy -l labels.txt --lm 3gram.arpa.gz --alpha 0.6 --reference said.txt`

    `trellis ctc decode a.npy -l vocab.json --logits -k 5 --frame 0.02 --json`
    """
    from trellis.app.ctc import Setting, run_decode

    setting = Setting(labels, blank, units, logits, frame, jobs)
    run_decode(
        files,
        setting,
        k=k,
        reference=reference,
        as_json=as_json,
        lexicon=lexicon,
        hotwords=hotwords,
        options={
            "lm": lm,
            "alpha": alpha,
            "beta": beta,
            "beam_width": beam,
            "hotword_weight": hotword_weight,
        },
    )


@ctc.command()
def align(
    files: Emissions,
    labels: Labels,
    text: Annotated[str | None, typer.Option(help="What was said in a single utterance.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="What was said, one line an utterance.")
    ] = None,
    characters: Annotated[
        bool, typer.Option("--characters", help="Times of labels, not of words.")
    ] = False,
    blank: Blank = None,
    units: Units = "auto",
    logits: Logits = False,
    frame: Frame = None,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Say when each word of a known text was said: the most probable path through the frames.

    **Examples**

    `trellis ctc align a.npy --labels labels.txt --text "seven three one" --frame 0.02`

    `trellis ctc align emissions.npz -l labels.txt --reference said.txt --json`
    """
    from trellis.app.ctc import Setting, run_align

    setting = Setting(labels, blank, units, logits, frame, jobs)
    run_align(
        files, setting, text=text, reference=reference, characters=characters, as_json=as_json
    )
