"""Build the model that the options of ``trellis train`` describe."""

from typing import Any

from trellis.app.training.options import Options
from trellis.errors import InputError
from trellis.features import Spec
from trellis.models.chain.crf import CRF
from trellis.models.chain.hmm import HMM
from trellis.models.chain.memm import MEMM
from trellis.models.chain.parameters import check_parameters

__all__ = ["build_estimator", "check_estimator"]

_LINEAR = ("l1", "l2", "solver", "max_iter", "min_count", "order", "states", "transitions")


def check_estimator(options: Options) -> None:
    """Validate the parameters of the model before any data are read."""
    if options.model == "hmm":
        return
    model = build_estimator(options, None, "BIO")
    if options.model != "neural":
        check_parameters(model)
        return
    # Imported here, because it needs PyTorch, which is optional.
    from trellis.nn.tagger.settings import check_settings, choose_device

    check_settings(model)
    choose_device(model.device)
    if model.vectors is not None:
        model.vectors.stat()  # raises FileNotFoundError if the file is missing


def build_estimator(options: Options, spec: Spec | None, scheme: str) -> Any:
    """Return the unfitted model. Options that are not set have the default of the model."""
    if options.model == "hmm":
        return HMM(spec, n_jobs=options.jobs, random_state=options.seed)
    if options.model == "neural":
        return _build_network(options, spec, scheme)
    values = {name: getattr(options, name) for name in _LINEAR}
    settings = {name: value for name, value in values.items() if value is not None}
    if options.model not in ("crf", "memm"):
        settings["solver"] = options.model
    if options.extraction.template and options.transitions is None and spec is not None:
        # In a template file, a line "B" means that there are transitions.
        settings["transitions"] = (
            "all" if any(template.edge for template in spec.templates) else "none"
        )
    settings |= _choose_constraints(options, scheme)
    return (MEMM if options.model == "memm" else CRF)(
        spec,
        scoring="accuracy" if scheme == "plain" else "span_f1",
        early_stopping=options.patience,
        n_jobs=options.jobs,
        random_state=options.seed,
        **settings,
    )


def _build_network(options: Options, spec: Spec | None, scheme: str) -> Any:
    try:
        from trellis.nn.tagger.tagger import NeuralTagger
    except ImportError as error:
        raise InputError(f"--model neural: {error}") from None
    settings = options.network.set_options()
    if settings.pop("hybrid", False):
        settings["features"] = "crf" if spec is None else spec
    if "words" in settings:
        settings["words"] = tuple(settings["words"].split(","))
    if options.patience is not None:
        settings["patience"] = options.patience
    settings |= _choose_constraints(options, scheme)
    return NeuralTagger(random_state=options.seed, n_jobs=options.jobs, **settings)


def _choose_constraints(options: Options, scheme: str) -> dict[str, Any]:
    if not options.constraints:
        return {}
    return {"constraints": scheme if options.constraints == "auto" else options.constraints}
