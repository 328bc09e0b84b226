"""Saved and loaded neural taggers are equal, and invalid files raise errors."""

import copy

import numpy as np
import pytest
import torch

import trellis
from trellis import CRF, NeuralTagger, Vectors, nn
from trellis.errors import FormatError, InputError
from trellis.features import Window
from trellis.formats import native
from trellis.models.chain.checkpoint import Checkpoint
from trellis.nn.words import Charagram

X = [["the", "Dog", "barks"], ["a", "cat"], ["the", "cat", "sleeps", "well"], ["dogs"]] * 3
Y = [["D", "N", "V"], ["D", "N"], ["D", "N", "V", "A"], ["N"]] * 3
UNSEEN = [["the", "Unseen", "cat", "slept"], [], ["naïve"]]
SETTINGS = {
    "plain": {},
    "hybrid": {"features": "crf"},
    "window": {"features": Window(columns=())},
    "vectors": {"vectors": Vectors(["cat", "slept"], np.eye(2, 9, dtype=np.float32))},
    "all words": {"words": ("embedding", "rnn", "ngrams"), "lowercase": True},
    "charagram": {"words": ("charagram",)},
    "characters": {"words": ("cnn", "rnn"), "char_highway": True, "char_cell": "gru"},
    "softmax": {"head": "softmax", "encoder": "cnn"},
    "memm": {"head": "memm", "layers": 2},
    "pairs": {"constraints": [("D", "V"), ("A", "A")]},
}


def fit_tagger(**options):
    settings = {"hidden": 5, "word_dim": 6, "char_hidden": 4, "epochs": 1, "device": "cpu"}
    return NeuralTagger(random_state=0, **(settings | options)).fit(X, Y, dev=(X, Y))


@pytest.mark.parametrize("name", SETTINGS)
def test_loaded_model_equals_saved_model(name, tmp_path):
    tagger, path = fit_tagger(**SETTINGS[name]), tmp_path / "model.trellis"
    tagger.save(path)
    state = torch.random.get_rng_state()
    for loaded in (trellis.load(path), NeuralTagger.load(path)):
        assert torch.equal(torch.random.get_rng_state(), state)
        assert loaded.predict(X + UNSEEN) == tagger.predict(X + UNSEEN)
        pairs = zip(
            loaded.predict_marginals(X + UNSEEN), tagger.predict_marginals(X + UNSEEN), strict=True
        )
        assert all(np.array_equal(a, b) for a, b in pairs)
        assert loaded.history_ == tagger.history_
        assert loaded.classes_.tolist() == tagger.classes_.tolist()
        loaded.save(tmp_path / "again.trellis")
        assert trellis.load(tmp_path / "again.trellis").predict(X) == tagger.predict(X)


def test_settings_of_the_encoders_of_characters():
    convolutions, states = fit_tagger(**SETTINGS["characters"]).network_.words.encoders
    assert convolutions.highway is not None
    assert isinstance(states.forwards, torch.nn.GRU)
    plain, lstm = fit_tagger(words=("cnn", "rnn")).network_.words.encoders
    assert plain.highway is None
    assert isinstance(lstm.forwards, torch.nn.LSTM)
    (charagram,) = fit_tagger(**SETTINGS["charagram"]).network_.words.encoders
    assert type(charagram) is Charagram


def test_loaded_model_can_be_fitted_again(tmp_path):
    tagger = fit_tagger()
    tagger.save(tmp_path / "model.trellis")
    refitted = (
        trellis.load(tmp_path / "model.trellis").set_params(device="cpu").fit(X, Y, dev=(X, Y))
    )
    assert refitted.losses_ == tagger.losses_


def test_head_set_as_a_function_cannot_be_saved(tmp_path):
    tagger = fit_tagger(head=lambda n: nn.CRF(n, batch_first=True))
    with pytest.raises(InputError, match="function"):
        tagger.save(tmp_path / "model.trellis")
    assert not list(tmp_path.iterdir())


def ending_features(sequence):
    return [[f"end={word[-1]}", "bias"] for word in sequence]


def test_feature_function_is_passed_to_load(tmp_path):
    tagger, path = fit_tagger(features=ending_features), tmp_path / "model.trellis"
    tagger.save(path)
    assert trellis.load(path, features=ending_features).predict(X) == tagger.predict(X)
    with pytest.raises(InputError, match="features=function"):
        trellis.load(path).predict(X)


def rewrite(path, meta=None, tensors=None, without=()):
    """Replace parts of a file, and write it with a valid checksum."""
    contents = native.read(path)
    arrays = {name: np.array(a) for name, a in contents.tensors.items() if name not in without}
    native.write(path, contents.kind, contents.meta | (meta or {}), arrays | (tensors or {}))


DAMAGES = {
    "hidden": ({"hidden": 10**12}, {}, ()),
    "width": ({"hidden": 6}, {}, ()),
    "layers": ({"layers": 2}, {}, ()),
    "encoder": ({"encoder": "transformer"}, {}, ()),
    "words": ({"words": ["embedding"]}, {}, ()),
    "name": ({"no_such": 1}, {}, ()),
    "missing": ({}, {}, ("network.output.bias",)),
    "nan": ({}, {"network.output.bias": np.full(4, np.nan, np.float32)}, ()),
    "shape": ({}, {"network.output.bias": np.zeros(5, np.float32)}, ()),
    "type": ({}, {"network.output.bias": np.zeros(4)}, ()),
    "vocabulary": ({}, {"words.0.ends": np.array([0, 3, 10**9])}, ()),
    "alphabet": ({}, {}, ("words.1.bytes",)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_invalid_files_raise_format_errors(name, tmp_path):
    path = tmp_path / "model.trellis"
    fit_tagger().save(path)
    parameters, tensors, without = DAMAGES[name]
    meta = {"parameters": native.read(path).meta["parameters"] | parameters}
    rewrite(path, meta, tensors, without)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


@pytest.mark.parametrize(
    "meta",
    [
        {"classes": []},
        {"classes": ["D", "D", "N", "V"]},
        {"classes": ["D", "N"]},
        {"vocabularies": 1},
        {"vocabularies": -1},
        {"vocabularies": "two"},
        {"table_dim": 10**13},
        {"table_dim": "six"},
        {"history": [[1, 2]]},
        {"columns": None},
        {"parameters": []},
        {"linear": {"kind": "crf"}},
    ],
)
def test_invalid_metadata_raise_format_errors(meta, tmp_path):
    path = tmp_path / "model.trellis"
    fit_tagger().save(path)
    rewrite(path, meta)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


def test_other_and_damaged_files_raise(tmp_path):
    path = tmp_path / "model.trellis"
    CRF(max_iter=1).fit(X, Y).save(path)
    with pytest.raises(FormatError, match="crf"):
        NeuralTagger.load(path)
    fit_tagger().save(path)
    data = path.read_bytes()
    for damaged in (data[:-1], data[:100], b"", data[:-5] + b"xxxxx", b"\x80\x04" + data):
        path.write_bytes(damaged)
        with pytest.raises(FormatError):
            NeuralTagger.load(path)
    with pytest.raises(FileNotFoundError):
        NeuralTagger.load(tmp_path / "none.trellis")


@pytest.mark.parametrize("name", ["state.network.output.bias", "state.exp_avg.output.bias"])
@pytest.mark.parametrize("value", [np.zeros(9, np.float32), np.full(4, np.inf, np.float32)])
def test_invalid_checkpoints_raise_format_errors(name, value, tmp_path):
    path = tmp_path / "run.checkpoint"
    settings = {"hidden": 5, "epochs": 2, "random_state": 0, "device": "cpu"}
    NeuralTagger(**settings).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    rewrite(path, tensors={name: value})
    with pytest.raises(FormatError, match=r"run\.checkpoint"):
        NeuralTagger(**settings).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


def test_many_layers_are_refused_before_a_network_is_built(tmp_path):
    """PyTorch takes time that is quadratic in the layers: a file of 300 kB took a minute."""
    tagger = NeuralTagger(hidden=2, word_dim=2, epochs=1, random_state=0, device="cpu")
    meta, tensors = tagger.fit([["a", "b"]], [["X", "Y"]]).to_parts()
    meta["parameters"]["layers"] = 5000
    fillers = {f"filler{n}": np.zeros(0, np.uint8) for n in range(5000)}
    native.write(tmp_path / "model.trellis", tagger.kind, meta, tensors | fillers)
    with pytest.raises(FormatError, match="layers is 5000: encoder='lstm' supports at most 64"):
        trellis.load(tmp_path / "model.trellis")


@pytest.mark.parametrize(("encoder", "layers"), [("lstm", 65), ("cnn", 17)])
def test_the_number_of_layers_has_a_limit(encoder, layers):
    tagger = NeuralTagger(encoder=encoder, layers=layers)
    with pytest.raises(InputError, match=f"layers is {layers}: encoder='{encoder}' supports"):
        tagger.fit([["a"]], [["X"]])


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """The bytes of a file of a hybrid."""
    path = tmp_path_factory.mktemp("hybrid") / "model.trellis"
    fit_tagger(features="crf").save(path)
    return path.read_bytes()


def load_changed(hybrid, path, change):
    """Change the metadata of the file, and load it."""
    path.write_bytes(hybrid)
    meta = copy.deepcopy(dict(native.read(path).meta))
    change(meta)
    rewrite(path, meta)
    return NeuralTagger.load(path)


def changed(path, value):
    """Return a function that sets meta["a"]["b"] for path "a.b"."""

    def change(meta):
        *outer, last = path.split(".")
        for key in outer:
            meta = meta[key]
        meta[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("columns", -1), "columns must be at least 0, not -1"),
        (changed("columns", 1.5), "columns must be an integer"),
        (changed("history", []), "history must be a list with one entry per epoch"),
        (changed("history", 3), "history must be a list with one entry per epoch"),
        (changed("history", [[0, 1.0, 0.5, 1.0, 1.0, 1.0]]), "epoch must be at least 1"),
        (changed("history", [[1, "1", 0.5, 1.0, 1.0, 1.0]]), "loss must be a number"),
        (
            changed("history", [[1, 1.0, -0.5, 1.0, 1.0, 1.0]]),
            "dev_score must be finite and at least 0",
        ),
        (
            changed("history", [[1, 1.0, None, -1.0, 1.0, 1.0]]),
            "history must be finite and at least 0",
        ),
        (changed("alpha", -1e-9), "alpha is -1e-09: must be in 0.0..1000.0"),
        (changed("alpha", 1000.5), "alpha is 1000.5: must be in 0.0..1000.0"),
        (changed("alpha", True), "alpha must be a number"),
        (changed("vocabularies", -1), "vocabularies is -1: must be at least 0"),
        (changed("vocabularies", 10**6), "vocabularies: a network with 1000000 needs more than"),
        (
            changed("parameters.layers", 10**6),
            "layers is 1000000: encoder='lstm' supports at most 64",
        ),
        (changed("linear.classes", ["A", "D", "N", "X"]), "must have the labels of the tagger"),
    ],
)
def test_forged_metadata(change, message, hybrid, tmp_path):
    with pytest.raises(FormatError) as info:
        load_changed(hybrid, tmp_path / "model.trellis", change)
    assert message in str(info.value)


def test_metadata_at_the_bounds(hybrid, tmp_path):
    path = tmp_path / "model.trellis"
    changes = {"columns": 0, "alpha": 1000.0, "history": [[1, -2.0, 0.0, 0.0, 0.0, 0.0]]}
    tagger = load_changed(hybrid, path, lambda meta: meta.update(changes))
    assert (tagger.columns_, tagger.alpha_, tagger.history_[0].loss) == (0, 1000.0, -2.0)
    changes["history"] = [[1, 2.0, None, 0.0, 0.0, 0.0]]
    tagger = load_changed(hybrid, path, lambda meta: meta.update(changes))
    assert tagger.history_[0].dev_score is None


def test_values_that_old_files_do_not_have(hybrid, tmp_path):
    path = tmp_path / "model.trellis"
    path.write_bytes(hybrid)
    contents = native.read(path)
    meta = {key: x for key, x in contents.meta.items() if key not in ("alpha", "temperature")}
    arrays = {name: np.array(x) for name, x in contents.tensors.items()}
    native.write(path, contents.kind, meta, arrays)
    tagger = NeuralTagger.load(path)
    assert (tagger.alpha_, tagger.temperature_) == (1.0, 1.0)
