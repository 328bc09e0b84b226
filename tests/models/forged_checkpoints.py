"""Resume training from every forgery of a checkpoint: run as ``python forged_checkpoints.py NAME``.

Each forgery must raise an error that names the file, or training must end as usual. See
forged_models.py, which makes the forgeries.
"""

from __future__ import annotations

import faulthandler
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from forged_models import SECONDS, TAGS, WORDS, forgeries, limit_memory

import trellis
from trellis.errors import FormatError, InputError, OptimizationError
from trellis.formats import native
from trellis.models.chain.checkpoint import Checkpoint


def crf(solver: str, **options: Any) -> Callable[[], Any]:
    return lambda: trellis.CRF(solver=solver, max_iter=6, random_state=0, **options)


def tagger(**options: Any) -> Callable[[], Any]:
    sizes = {"hidden": 2, "word_dim": 2, "words": ("embedding",), "epochs": 3, "device": "cpu"}
    return lambda: trellis.NeuralTagger(random_state=0, **(sizes | options))


MODELS: dict[str, Callable[[], Any]] = {
    "lbfgs": crf("lbfgs", early_stopping=3),
    "owl-qn": crf("lbfgs", l1=0.01),
    "order 2": crf("lbfgs", order=2),
    "gradient": crf("gradient"),
    "sgd": crf("sgd"),
    "perceptron": crf("perceptron"),
    "passive-aggressive": crf("passive-aggressive"),
    "arow": crf("arow"),
    "memm": lambda: trellis.MEMM(max_iter=6),
    "tagger": tagger(),
    "tagger, sgd": tagger(optimizer="sgd", patience=2),
}


def check(make: Callable[[], Any], folder: Path) -> Iterator[str]:
    """Yield a line for each forgery that raises a wrong error."""
    path = folder / "run.checkpoint"

    def halt(progress: Any) -> None:
        if getattr(progress, "iteration", getattr(progress, "epoch", 0)) == 2:
            checkpoint.halt()

    checkpoint = Checkpoint(path)
    make().fit(WORDS, TAGS, dev=(WORDS, TAGS), checkpoint=checkpoint, callback=halt)
    assert checkpoint.stopped
    contents = native.read(path)
    resume(make, path)
    count, accepted = 0, 0
    limit_memory()
    for what, data in forgeries(contents):
        count += 1
        path.unlink()
        path.write_bytes(data)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            resume(make, path)
            accepted += 1
        except (FormatError, InputError) as error:
            if not str(error).startswith(str(path)) or len(str(error)) > 2000:
                yield f"{what}: {error!s:.200}"
        except OptimizationError:  # valid numbers that training cannot continue from
            accepted += 1
        except BaseException as error:
            yield f"{what}: {type(error).__name__}: {error!s:.200}"
        finally:
            faulthandler.cancel_dump_traceback_later()
    print(f"{count} forgeries, {accepted} accepted")


def resume(make: Callable[[], Any], path: Path) -> None:
    checkpoint = Checkpoint(path, every=100, resume=True)
    checkpoint.parameters()
    make().fit(WORDS, TAGS, dev=(WORDS, TAGS), checkpoint=checkpoint)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if "tagger" in sys.argv[1]:
        import torch

        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for line in check(MODELS[sys.argv[1]], Path(folder)):
            print("FAILED", line, flush=True)
