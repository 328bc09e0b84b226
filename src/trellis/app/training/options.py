"""Declaration and validation of the options of ``trellis train``.

A default of None means the default value of the model. Help texts read this value from the model,
so that it is written in one place only.
"""

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import DataOptions, EngineOptions, Jobs, Quiet, read_default
from trellis.app.training.partial import LabelOptions
from trellis.checks import one_of
from trellis.errors import InputError
from trellis.models.chain.crf import CRF
from trellis.models.chain.solvers import ONLINE_SOLVERS, SOLVERS

__all__ = ["DEV_EVERY", "FEATURES", "MODELS", "NetworkOptions", "Options", "check_options"]

MODELS = ("crf", "memm", "hmm", "neural", *ONLINE_SOLVERS)
FEATURES = ("auto", "words", "chunking", "chunking-rich", "ner", "pos")
DEV_EVERY = (
    5  # iterations; on small data, scoring after each iteration would take longer than training
)

_NO_PENALTY = ("l1", "l2", "tune", "solver")
_NO_WEIGHTS = ("max_iter", "min_count", "order", "states", "transitions")
_INAPPLICABLE = {
    **dict.fromkeys(ONLINE_SOLVERS, _NO_PENALTY),
    "sgd": ("l1", "solver"),
    "memm": ("order",),
    "hmm": (
        *_NO_PENALTY,
        *_NO_WEIGHTS,
        *("constraints", "patience", "checkpoint_every", "resume"),
    ),
    "neural": (*_NO_PENALTY, *_NO_WEIGHTS, "dev_every", "template"),
}
"""Options that do not apply to a model, by ``--model``."""


def _make_network_option(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option that ``--help`` lists in the panel of neural networks."""
    panel = "Options of --model neural"
    return Option(*names, help=help, metavar=metavar, panel=panel)


@dataclass
class FeatureOptions:
    """Options that define the features of a token."""

    template: Annotated[
        Path | None,
        Option(help="File that defines the features: CRF++ templates or Wapiti patterns."),
    ] = None
    features: Annotated[str, Option(help=f"Feature set: {', '.join(FEATURES)}.")] = "auto"
    gazetteer: Annotated[
        list[str] | None,
        Option(
            help="Name of a feature, and its file with one phrase per line; can be repeated.",
            metavar="NAME=FILE",
        ),
    ] = None

    clusters: Annotated[
        list[Path] | None,
        Option(
            help="Clusters of words as features: a file of lines word<TAB>cluster, of Brown "
            "clusters, or of word vectors, which are clustered by k-means; can be repeated.",
            metavar="FILE",
        ),
    ] = None

    gazetteers: dict[str, Path] = field(init=False)
    """The file of each gazetteer by name."""

    def __post_init__(self) -> None:
        self.gazetteers = {}
        for entry in self.gazetteer or []:
            name, separator, path = entry.partition("=")
            if not (name and separator and path):
                raise UsageError(f"--gazetteer is {entry!r}: must be NAME=FILE")
            self.gazetteers[name] = Path(path)


@dataclass
class NetworkOptions:
    """Parameters of `NeuralTagger`. ``hybrid`` adds the scores of a linear CRF."""

    words: Annotated[
        str | None,
        _make_network_option(
            "Parts of a word vector, separated by commas: embedding, cnn, rnn, ngrams, charagram.",
            metavar="LIST",
        ),
    ] = None
    vectors: Annotated[
        Path | None,
        _make_network_option("File of word vectors that initialise the embedding.", metavar="FILE"),
    ] = None
    word_dim: Annotated[int | None, _make_network_option("Size of a word embedding.")] = None
    encoder: Annotated[
        str | None, _make_network_option("Encoder of the word vectors: lstm or cnn.")
    ] = None
    hidden: Annotated[
        int | None, _make_network_option("Number of hidden units of the encoder, per direction.")
    ] = None
    layers: Annotated[int | None, _make_network_option("Number of encoder layers.")] = None
    head: Annotated[str | None, _make_network_option("Output layer: crf, softmax or memm.")] = None
    hybrid: Annotated[
        bool,
        _make_network_option(
            "Add the scores of a linear CRF with the features of --features.", "--hybrid"
        ),
    ] = False
    dropout: Annotated[
        float | None, _make_network_option("Fraction of the inputs set to zero during training.")
    ] = None
    optimizer: Annotated[str | None, _make_network_option("Optimizer: adamw or sgd.")] = None
    learning_rate: Annotated[float | None, _make_network_option("Highest learning rate.")] = None
    batch_size: Annotated[
        int | None, _make_network_option("Number of sequences per training step.")
    ] = None
    epochs: Annotated[
        int | None, _make_network_option("Maximum number of passes over the data.")
    ] = None
    device: Annotated[
        str | None, _make_network_option("Device: cpu or cuda; default: cuda if available.")
    ] = None
    precision: Annotated[
        str | None, _make_network_option("Mixed precision on cuda: bf16 or fp16.")
    ] = None

    def set_options(self) -> dict[str, Any]:
        """Return the options that the user set, by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        # `not in (None, False)` would be wrong: 0 == False, but --dropout 0 is a set option.
        return {
            name: value
            for name, value in values.items()
            if value is not None and value is not False
        }


@dataclass
class Options:
    """All options of ``trellis train``."""

    files: Annotated[
        list[Path], Argument(help="Files of training data with labels.", metavar="FILE")
    ]
    output: Annotated[Path, Option("--output", "-o", help="Model file to write.")] = Path(
        "model.trellis"
    )
    dev: Annotated[
        Path | None, Option(help="File of development data, which are scored during training.")
    ] = None
    model: Annotated[str, Option("--model", "-m", help=f"Model: {', '.join(MODELS)}.")] = "crf"
    data: DataOptions = field(default_factory=DataOptions)
    labels: LabelOptions = field(default_factory=LabelOptions)
    extraction: FeatureOptions = field(default_factory=FeatureOptions)
    l1: Annotated[
        float | None,
        Option(help=f"Strength of the L1 penalty; default {read_default(CRF, 'l1'):g}."),
    ] = None
    l2: Annotated[
        float | None,
        Option(help="Strength of the L2 penalty; default: chosen from the size of the data."),
    ] = None
    tune: Annotated[
        int,
        Option(
            help="Try up to N values of l2, by --dev or by cross-validation, and use the best.",
            metavar="N",
        ),
    ] = 0
    best: Annotated[
        bool,
        Option(
            "--best",
            help="Choose constraints, features and l2 by their scores; with --vectors, also "
            "try clusters of the words and a network.",
        ),
    ] = False
    solver: Annotated[
        str | None,
        Option(help=f"Solver: {', '.join(SOLVERS)}; default {read_default(CRF, 'solver')}."),
    ] = None
    max_iter: Annotated[
        int | None, Option(help="Maximum number of iterations; default: depends on the solver.")
    ] = None
    min_count: Annotated[
        float | None,
        Option(help="Ignore features that occur less often than this with a label."),
    ] = None
    order: Annotated[
        int | None,
        Option(
            help="1: weights of label pairs; 2: also of three labels in a row; default "
            f"{read_default(CRF, 'order')}."
        ),
    ] = None
    states: Annotated[
        str | None,
        Option(
            help="Pairs (feature, label) with a weight: seen (in the training data) or all; "
            f"default {read_default(CRF, 'states')}."
        ),
    ] = None
    transitions: Annotated[
        str | None,
        Option(
            help=f"Label pairs with a weight: seen (in the training data), all or none; default "
            f"{read_default(CRF, 'transitions')}."
        ),
    ] = None
    constraints: Annotated[
        str | None,
        Option(
            help="Tagging scheme whose forbidden label pairs are never predicted: BIO, BILOU, "
            "BIOES, …, or auto to detect it."
        ),
    ] = None
    patience: Annotated[
        int | None,
        Option(help="Stop after this number of --dev scores without improvement."),
    ] = None
    dev_every: Annotated[
        int | None,
        Option(help=f"Iterations between two --dev scores; default {DEV_EVERY}."),
    ] = None
    seed: Annotated[int, Option(help="Seed of the random numbers.")] = 0
    checkpoint_every: Annotated[
        int | None,
        Option(
            help="Save a checkpoint every N iterations; default: such that saving takes 5 % of "
            "the time.",
            metavar="N",
        ),
    ] = None
    resume: Annotated[
        bool, Option("--resume", help="Continue from the last checkpoint, if there is one.")
    ] = False
    network: NetworkOptions = field(default_factory=NetworkOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    jobs: Jobs = None
    quiet: Quiet = False

    def input_files(self) -> list[Path]:
        """Return every file that training reads."""
        optional = [self.dev, self.extraction.template, self.network.vectors]
        lists = [*self.extraction.gazetteers.values(), *(self.extraction.clusters or [])]
        return [*self.files, *(path for path in optional if path is not None), *lists]


def check_options(options: Options) -> None:
    """Validate the options that do not depend on the data, before any file is read."""
    one_of(options.model, MODELS, "--model")
    one_of(options.extraction.features, FEATURES, "--features")
    extraction = options.extraction
    lists = extraction.gazetteers or extraction.clusters
    chosen_features = extraction.features != "auto" or lists
    if extraction.template and chosen_features:
        raise InputError(
            "--template defines all features: it cannot be used with --features, --gazetteer or "
            "--clusters"
        )
    for name, minimum in (("tune", 0), ("seed", 0), ("dev_every", 1), ("patience", 1)):
        value = getattr(options, name)
        if value is not None and value < minimum:
            raise InputError(f"{_format_flag(name)} must be at least {minimum}, not {value}")
    for name, value in vars(options.labels).items():
        if value == "":
            raise InputError(f"{_format_flag(name)} must not be empty")
        for search, is_used in (("--tune", options.tune), ("--best", options.best)):
            if is_used and value is not None:
                raise InputError(f"{_format_flag(name)} cannot be used with {search}")
    # Without --dev there is no score that could stop improving.
    if options.patience is not None and options.dev is None:
        raise InputError("--patience needs a development set: --dev FILE")
    if options.best and options.model != "crf":
        raise InputError(f"--best does not apply to --model {options.model}")
    if options.best and options.network.vectors is not None:
        pass  # --best trains a network too
    elif options.model != "neural":
        for name in options.network.set_options():
            raise InputError(f"{_format_flag(name)} needs --model neural")
    elif not options.network.hybrid and chosen_features:
        raise InputError("--features, --gazetteer and --clusters need --hybrid with --model neural")
    if options.engine.is_set:
        _check_engine(options)
    values = {**vars(options.extraction), **vars(options), "tune": options.tune or None}
    for name in _INAPPLICABLE.get(options.model, ()):
        if values[name] is not None and values[name] is not False:
            raise InputError(f"{_format_flag(name)} does not apply to --model {options.model}")


def _check_engine(options: Options) -> None:
    """Raise InputError for an option that needs all data in memory."""
    if options.model not in ("crf", "memm"):
        raise InputError(f"--engine and --workers do not apply to --model {options.model}")
    if options.solver in ONLINE_SOLVERS:
        raise InputError(f"--solver {options.solver} cannot be used with --engine or --workers")
    if options.order == 2:
        raise InputError("--order 2 cannot be used with --engine or --workers")
    needs_memory = {"best": options.best, "tune": options.tune, **vars(options.labels)}
    for name, value in needs_memory.items():
        if value:
            raise InputError(f"{_format_flag(name)} cannot be used with --engine or --workers")


def _format_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
