"""Every public name can be imported: the names in docs/api.md, and those of release 0.1.0."""

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from trellis._renamed import RENAMED

# docs/api.md of 0.1.0: module -> names. An empty tuple means that the module itself is documented.
API_0_1_0 = {
    "trellis": (
        "CRF CTCDecoder FastText GraphCRF GridCRF HMM LogisticRegression MEMM NeuralTagger "
        "SoftmaxRegression TextClassifier Vectors Word2Vec load"
    ),
    "trellis.models.foreign": "save_crfsuite",
    "trellis.models.regression": "Regression",
    "trellis.models.decoding": "Decoding Labelling",
    "trellis.models.linear": "LinearChainModel",
    "trellis.models.inspection": (
        "Inspection Explanation Contribution SpanChance FeatureWeight Transition"
    ),
    "trellis.models.checkpoint": "Checkpoint",
    "trellis.models.ctc_decoder": "CTCDecoder Stream",
    "trellis.embeddings.keyed": "Keyed",
    "trellis.loading": "load",
    "trellis.features": "Window named chunking chunking_rich ner pos",
    "trellis.features.templates": "parse",
    "trellis.features.wapiti": "parse",
    "trellis.data.conll": "",
    "trellis.data.conllu": "",
    "trellis.data.crfsuite": "",
    "trellis.data.jsonl": "",
    "trellis.data.markup": "",
    "trellis.data.samples": "",
    "trellis.data.tags": "",
    "trellis.data.text": "",
    "trellis.metrics": "",
    "trellis.inference.chain": "",
    "trellis.inference.ctc": "",
    "trellis.inference.graph": "",
    "trellis.formats.arpa": "",
    "trellis.optim": "",
    "trellis.errors": "",
    "trellis.compat": "stand_in",
    "trellis.compat.pycrfsuite": "Trainer Tagger ItemSequence",
    "trellis.compat.sklearn_crfsuite": "CRF",
    "trellis.compat.pyctcdecode": "build_ctcdecoder",
    "trellis.compat.fasttext": "train_supervised train_unsupervised load_model tokenize",
    "trellis.compat.gensim.models": "KeyedVectors",
}
# Modules of 0.1.0 that need PyTorch.
TORCH_0_1_0 = {
    "trellis.nn": "CRF CTCLoss",
    "trellis.nn.tagger": "NeuralTagger",
    "trellis.nn.words": "WordEmbedding",
    "trellis.compat.torchcrf": "CRF",
}


def import_names(module: str, names: str) -> None:
    loaded = importlib.import_module(module)
    for name in names.split():
        assert getattr(loaded, name) is not None, f"{module}.{name}"


@pytest.mark.parametrize("module", API_0_1_0)
def test_names_of_the_first_release(module: str) -> None:
    if module in RENAMED:
        sys.modules.pop(module, None)
        with pytest.warns(DeprecationWarning, match=f"is now {RENAMED[module]}"):
            import_names(module, API_0_1_0[module])
        assert importlib.import_module(module) is importlib.import_module(RENAMED[module])
    import_names(RENAMED.get(module, module), API_0_1_0[module])


@pytest.mark.parametrize("module", TORCH_0_1_0)
def test_names_of_the_first_release_that_need_pytorch(module: str) -> None:
    pytest.importorskip("torch")
    import_names(module, TORCH_0_1_0[module])


def test_every_moved_module_exists() -> None:
    missing = [new for new in RENAMED.values() if not source_exists(new)]
    assert not missing, f"these targets of RENAMED do not exist: {missing}"
    reused = [old for old in RENAMED if source_exists(old)]
    assert not reused, f"these old paths are modules again: {reused}"


def source_exists(module: str) -> bool:
    path = Path(__file__).parents[1] / "src" / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_a_moved_module_keeps_its_own_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = importlib.import_module("trellis.models.foreign")
    assert old.__name__ == old.__spec__.name == "trellis.models.foreign"


def test_importing_trellis_imports_nothing_heavy() -> None:
    code = "import sys, trellis; print(*sorted(m for m in sys.modules if m.startswith('trellis')))"
    output = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=dict(os.environ),
    )
    assert output.stdout.split() == ["trellis", "trellis._renamed"]
