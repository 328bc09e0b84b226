"""The neural tagger: its objective, its batches, determinism, resuming and errors."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import trellis
import trellis.nn
from trellis import NeuralTagger, Vectors
from trellis.errors import InputError, UnseenLabelWarning
from trellis.features import Window
from trellis.inference import chain
from trellis.models.chain.checkpoint import Checkpoint
from trellis.nn.tagger.data import Epoch

COLOURS = ["red", "blue", "Green", "black"]
THINGS = ["cat", "dog", "Tree", "house", "car"]
HEADS = ["crf", "softmax", "memm"]


def corpus(count=40, seed=0):
    """Return sentences in which a colour starts a span, and the following thing ends it."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(count):
        words, labels = [], []
        while len(words) < rng.integers(1, 9):
            words += ["the"] * rng.integers(0, 2)
            labels += ["O"] * (len(words) - len(labels))
            if rng.random() < 0.6:
                words += [rng.choice(COLOURS).item(), rng.choice(THINGS).item()]
                labels += ["B-X", "I-X"]
            else:
                words.append(rng.choice(THINGS).item())
                labels.append("O")
        X.append(words)
        y.append(labels)
    return X, y


def make_tagger(**options):
    settings = {"hidden": 8, "word_dim": 6, "char_dim": 5, "char_hidden": 6, "epochs": 3}
    settings |= {"random_state": 0, "device": "cpu", "learning_rate": 0.02}
    return NeuralTagger(**(settings | options))


def weights(tagger):
    return {name: t.clone() for name, t in tagger.network_.state_dict().items()}


def same_weights(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# ---- learning and probabilities


@pytest.mark.parametrize(
    ("head", "words", "epochs"),
    [
        ("crf", ("embedding", "cnn"), 12),
        ("crf", ("rnn",), 30),
        ("crf", ("embedding", "ngrams"), 12),
        ("softmax", ("embedding", "cnn"), 12),
        ("memm", ("embedding", "cnn"), 12),
    ],
)
def test_training_learns_a_simple_rule(head, words, epochs):
    X, y = corpus()
    tagger = make_tagger(head=head, words=words, epochs=epochs, dropout=0.1, char_hidden=12).fit(
        X, y
    )
    assert tagger.score(*corpus(20, seed=1)) > 0.97
    assert tagger.losses_[-1][1] < 0.3 * tagger.losses_[0][1]


@pytest.mark.parametrize("encoder", ["lstm", "cnn"])
@pytest.mark.parametrize("head", HEADS)
def test_training_objective_equals_log_likelihood(head, encoder):
    X, y = corpus(12)
    tagger = make_tagger(head=head, encoder=encoder, layers=2).fit(X, y)
    encoded = tagger._build_corpus(X)
    encoded.tags = np.searchsorted(tagger.classes_.astype(str), np.concatenate(y)).astype(np.int64)
    groups = [np.arange(5), np.arange(5, 12)]
    with torch.no_grad():
        total = sum(
            float(tagger.network_.log_likelihood(batch)) for batch in Epoch(encoded, groups)
        )
    assert total == pytest.approx(tagger.log_likelihood(X, y).sum(), rel=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_marginals_equal_sums_over_all_labellings(head):
    X, y = corpus(12)
    tagger = make_tagger(head=head).fit(X, y)
    x = ["the", "red", "cat"]
    (marginals,) = tagger.predict_marginals([x])
    (labellings,) = tagger.predict_kbest([x], 27)
    assert sum(labelling.probability for labelling in labellings) == pytest.approx(1.0)
    expected = np.zeros_like(marginals)
    order = tagger.classes_.tolist()
    for labels, probability in labellings:
        for t, label in enumerate(labels):
            expected[t, order.index(label)] += probability
    np.testing.assert_allclose(marginals, expected, atol=1e-9)
    assert tagger.predict([x])[0] == labellings[0].labels
    pairs = np.zeros((2, 3, 3))
    for labels, probability in labellings:
        numbers = [order.index(label) for label in labels]
        for t in (0, 1):
            pairs[t, numbers[t], numbers[t + 1]] += probability
    np.testing.assert_allclose(tagger.predict_pairwise([x, []])[0], pairs, atol=1e-9)
    assert tagger.predict_pairwise([[]])[0].shape == (0, 3, 3)
    scores, log_z = tagger.scores([x]), tagger.log_partition([x, []])
    best = [order.index(label) for label in labellings[0].labels]
    log_p = chain.score(scores, labels=[best])[0] - log_z[0]
    assert np.exp(log_p) == pytest.approx(labellings[0].probability)
    assert log_z[1] == 0.0


class DecodingHead(torch.nn.Module):
    """A head with the two methods that a tagger requires."""

    def __init__(self, n_labels):
        super().__init__()
        self.crf = trellis.nn.CRF(n_labels, batch_first=True)

    def forward(self, emissions, tags, mask=None):
        return self.crf(emissions, tags, mask)

    def decode(self, emissions, mask=None):
        return self.crf.decode(emissions, mask)


def test_a_head_without_scores_has_no_quantities():
    X, y = corpus(4)
    tagger = make_tagger(head=DecodingHead, epochs=1).fit(X, y)
    for method in (tagger.scores, tagger.log_partition, tagger.predict_pairwise):
        with pytest.raises(InputError, match="head is a function can only predict labels"):
            method(X)


@pytest.mark.parametrize("encoder", ["lstm", "cnn"])
def test_marginals_do_not_depend_on_the_batch(encoder):
    X, y = corpus(30)
    tagger = make_tagger(encoder=encoder, layers=2, features="crf").fit(X, y)
    batch_marginals = tagger.predict_marginals(X)
    for x, marginals in zip(X, batch_marginals, strict=True):
        np.testing.assert_allclose(tagger.predict_marginals([x])[0], marginals, atol=1e-5)


def test_crf_has_transitions_and_softmax_has_none():
    X, y = corpus(10)
    assert not make_tagger(head="softmax").fit(X, y).transition_scores().any()
    assert make_tagger().fit(X, y).transition_scores().any()


def test_samples_obey_constraints():
    X, y = corpus(20)
    tagger = make_tagger(constraints="BIO", epochs=1).fit(X, y)
    allowed = {("O", "O"), ("O", "B-X"), ("B-X", "I-X"), ("B-X", "O"), ("B-X", "B-X")}
    allowed |= {("I-X", "I-X"), ("I-X", "O"), ("I-X", "B-X")}
    for labels in tagger.sample(X, 20, random_state=0)[0]:
        assert labels[0] != "I-X"
        assert set(pairwise(labels)) <= allowed


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_unknown_labels_are_summed_over(head):
    X, y = corpus(30)
    partial_labels = [[None if t % 3 == 2 else {v} for t, v in enumerate(labels)] for labels in y]
    tagger = make_tagger(head=head, epochs=15, dropout=0.1).fit(X, partial_labels)
    assert tagger.score(X, y) > 0.8
    encoded = tagger._build_corpus(X[:1])
    known = np.array([[label == v for label in tagger.classes_] for v in y[0]])
    encoded.allowed = torch.from_numpy(known)
    (batch,) = Epoch(encoded, [np.arange(1)])
    with torch.no_grad():
        log_p = float(tagger.network_.log_likelihood(batch))
    assert log_p == pytest.approx(tagger.log_likelihood(X[:1], y[:1])[0], rel=1e-5)


def test_pytorch_crf_as_head_learns_the_same():
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is not installed")
    X, y = corpus()
    ours = make_tagger().fit(X, y, dev=(X, y))
    theirs = make_tagger(head=lambda n: torchcrf.CRF(n, batch_first=True)).fit(X, y, dev=(X, y))
    np.testing.assert_allclose(ours.losses_, theirs.losses_, rtol=1e-4)
    assert ours.predict([*X, []]) == theirs.predict([*X, []])
    for call in (theirs.predict_marginals, theirs.transition_scores):
        with pytest.raises(InputError, match="function"):
            call(*([X] if call == theirs.predict_marginals else []))


# ---- input


def test_tokens_may_have_columns():
    X, y = corpus(20)
    plain = make_tagger().fit(X, y)
    columns = [[("#", word) for word in x] for x in X]
    dicts = [[{"form": word} for word in x] for x in X]
    for tokens, column in ((columns, 1), (dicts, "form")):
        tagger = make_tagger(column=column).fit(tokens, y)
        assert same_weights(weights(tagger), weights(plain))
        assert tagger.predict(tokens) == plain.predict(X)
    assert make_tagger(column=1).fit(columns, y).columns_ == 2


def test_vectors_initialise_the_table(tmp_path):
    X, y = corpus(20)
    rng = np.random.default_rng(0)
    vectors = Vectors([*COLOURS, "unseen"], rng.normal(size=(5, 7)).astype(np.float32))
    vectors.save(tmp_path / "words.trellis")
    tagger = make_tagger(vectors=vectors, epochs=1).fit(X, y)
    from_file = make_tagger(vectors=tmp_path / "words.trellis", epochs=1).fit(X, y)
    assert same_weights(weights(tagger), weights(from_file))
    table = tagger.network_.words.encoders[0]
    assert table.dim == 7
    row = table.table.weight[table.index["unseen"]].detach()
    np.testing.assert_array_equal(
        row, vectors["unseen"]
    )  # no batch contains the word, so its row is unchanged


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_hybrid_is_a_product_of_two_models(head):
    X, y = corpus(15)
    tagger = make_tagger(features=Window(columns=()), epochs=2, head=head).fit(X, y)
    alone = make_tagger(epochs=2, head=head).fit(X, y)
    linear = trellis.CRF(Window(columns=()), l2=0.3, max_iter=100).fit(X, y)
    tagger.alpha_ = 0.7
    x = ["the", "red", "Unseen"]
    (hybrid_paths,) = tagger.predict_kbest([x], 27)
    (paths,), (linear_paths,) = alone.predict_kbest([x], 27), linear.predict_kbest([x], 27)
    p = {tuple(path.labels): path.probability for path in paths}
    q = {tuple(path.labels): path.probability for path in linear_paths}
    product = {labels: p[labels] * q[labels] ** 0.7 for labels in p}
    total = sum(product.values())
    for labels, probability in hybrid_paths:
        assert probability == pytest.approx(product[tuple(labels)] / total, rel=1e-4, abs=1e-9)


def test_alpha_is_the_best_on_the_development_set():
    X, y = corpus()
    dev = corpus(20, seed=3)
    tagger = make_tagger(features="crf", epochs=1).fit(X, y, dev=dev)
    scores = {}
    for alpha in (0.25, 0.5, 1.0, 2.0, 4.0, tagger.alpha_):
        copy = clone(tagger).set_params(features=None)
        copy.__dict__ |= {**tagger.__dict__, "alpha_": alpha}
        scores[alpha] = trellis.metrics.span_f1(dev[1], copy.predict(dev[0]))
    assert scores[tagger.alpha_] == max(scores.values())
    assert make_tagger(features="crf", epochs=1).fit(X, y).alpha_ == 1.0


def test_hybrid_errors():
    X, y = corpus(5)
    edges = trellis.CRF(lambda x: [["a"] for _ in x], edge_features=lambda x: [["e"] for _ in x])
    with pytest.raises(InputError, match="features of transitions"):
        make_tagger(features=edges, epochs=1).fit(X, y).predict(X)
    with pytest.raises(InputError, match="memm"):
        make_tagger(features="crf", head="memm").fit(X, y)


def test_empty_sequences_get_no_labels():
    X, y = corpus(10)
    tagger = make_tagger(epochs=1).fit(X, y, dev=([*X, []], [*y, []]))
    assert tagger.predict([[], X[0], []]) == [[], tagger.predict(X[:1])[0], []]
    assert tagger.predict([]) == []


def test_labels_of_the_development_set_may_be_new():
    X, y = corpus(10)
    new_labels = [["B-NEW" for _ in labels] for labels in y]
    with pytest.warns(UnseenLabelWarning, match="'B-NEW'"):
        tagger = make_tagger(epochs=1).fit(X, y, dev=(X, new_labels))
    assert tagger.dev_scores_ == [(1, 0.0)]


def test_labels_may_be_numbers():
    X, y = corpus(20)
    numbers = [[len(label) for label in labels] for labels in y]
    tagger = make_tagger(epochs=8, dropout=0.1).fit(X, numbers, dev=(X, numbers))
    assert {type(label) for labels in tagger.predict(X) for label in labels} == {int}
    assert tagger.dev_scores_[-1][1] == pytest.approx(tagger.score(X, numbers))


# ---- training


def test_same_seed_gives_the_same_bits():
    X, y = corpus()
    first = make_tagger(features="crf").fit(X, y)
    assert same_weights(weights(first), weights(make_tagger(features="crf").fit(X, y)))
    reseeded = make_tagger(features="crf", random_state=1).fit(X, y)
    assert not same_weights(weights(first), weights(reseeded))


def test_global_random_state_is_unchanged():
    X, y = corpus(10)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_tagger(epochs=1).fit(X, y)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("options", [
    {}, {"features": "crf"}, {"optimizer": "sgd", "schedule": "cosine"}, {"encoder": "cnn"},
])  # fmt: skip
def test_resumed_training_ends_with_the_same_bits(tmp_path, options):
    X, y = corpus()
    dev = corpus(10, seed=2)
    path = tmp_path / "run.checkpoint"
    uninterrupted = make_tagger(epochs=5, **options).fit(X, y, dev=dev)
    make_tagger(epochs=5, **options).fit(
        X, y, dev=dev, checkpoint=Checkpoint(path, every=1), callback=lambda p: p.epoch == 4
    )
    resumed = make_tagger(epochs=5, **options)
    resumed.fit(X, y, dev=dev, checkpoint=Checkpoint(path, resume=True))
    assert same_weights(weights(uninterrupted), weights(resumed))
    assert [p[:3] for p in uninterrupted.history_] == [p[:3] for p in resumed.history_]


def test_halt_saves_and_stops(tmp_path):
    X, y = corpus(10)
    checkpoint = Checkpoint(tmp_path / "run.checkpoint", every=100)
    tagger = make_tagger().fit(X, y, checkpoint=checkpoint, callback=lambda p: checkpoint.halt())
    assert checkpoint.stopped
    assert checkpoint.iteration == tagger.n_iter_ == 1


def test_checkpoint_of_another_run_raises(tmp_path):
    X, y = corpus(10)
    path = tmp_path / "run.checkpoint"
    make_tagger().fit(X, y, checkpoint=Checkpoint(path, every=1))
    with pytest.raises(InputError, match="hidden=8"):
        make_tagger(hidden=9).fit(X, y, checkpoint=Checkpoint(path, resume=True))
    with pytest.raises(InputError, match="different training data"):
        make_tagger().fit(X[1:], y[1:], checkpoint=Checkpoint(path, resume=True))


def test_best_epoch_is_kept_and_patience_stops_training():
    X, y = corpus()
    scores = []
    tagger = make_tagger(epochs=30, patience=2, learning_rate=0.05, schedule="constant")
    tagger.fit(X, y, dev=corpus(20, seed=1), callback=lambda p: scores.append(p.dev_score))
    assert len(scores) == tagger.n_iter_ < 30
    assert scores[-1] <= max(scores[:-2])
    sentences, labels = corpus(20, seed=1)
    assert trellis.metrics.span_f1(labels, tagger.predict(sentences)) == max(scores)


def test_clone_and_parameters():
    tagger = make_tagger(head="memm", words=("rnn",))
    assert clone(tagger).get_params() == tagger.get_params()
    with pytest.raises(NotFittedError):
        tagger.predict([["a"]])
    with pytest.raises(NotFittedError):
        tagger.save("nowhere.trellis")


def test_failed_fit_leaves_the_model_unchanged():
    X, y = corpus(10)
    tagger = make_tagger(epochs=1).fit(X, y)
    predicted = tagger.predict(X)
    with pytest.raises(InputError):
        tagger.fit(X, y[1:])
    assert tagger.predict(X) == predicted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": "cnn"}, "must be a tuple"),
        ({"words": ("wordpiece",)}, "wordpiece"),
        ({"words": ()}, "must be a tuple"),
        ({"hidden": 0}, "hidden"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"epochs": 0}, "epochs"),
        ({"patience": 0}, "patience"),
        ({"encoder": "transformer"}, "transformer"),
        ({"head": "ctc"}, "ctc"),
        ({"optimizer": "lion"}, "lion"),
        ({"schedule": "step"}, "step"),
        ({"dropout": 1.0}, "dropout"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"clip": -1}, "clip"),
        ({"precision": "int8"}, "int8"),
        ({"precision": "bf16"}, "needs a GPU"),
        ({"scoring": "bleu"}, "bleu"),
        ({"device": "tpu"}, "tpu"),
        ({"constraints": "BIO", "head": "softmax"}, "constraints"),
        ({"constraints": "XYZ"}, "XYZ"),
        ({"features": 3}, "features"),
        ({"features": "hmm"}, "hmm"),
        ({"column": 4}, "sequence 0, position 0"),
    ],
)
def test_invalid_settings_raise(options, message):
    X, y = [[("a", "b")]], [["x"]]
    if "column" not in options:
        X = [["a", "a"]]
        y = [["x", "O"]]
    with pytest.raises(InputError, match=message):
        make_tagger(**options).fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("text", [["x"]], "list of sequences"),
        ([["a"]], [["x"], ["y"]], "1 sequences"),
        ([["a", "b"]], [["x"]], "sequence 0 has 2 positions and 1 labels"),
        ([["a"], "bc"], [["x"], ["x", "x"]], "sequence 1"),
        ([["a", 3]], [["x", "x"]], "sequence 0, position 1"),
        ([["a"]], [[None]], "no label is known"),
        ([["a"], []], [["x"], []], "sequence 1 is empty"),
        ([], [], "X is empty"),
    ],
)
def test_invalid_data_raise(X, y, message):
    with pytest.raises(InputError, match=message):
        make_tagger().fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dev": 3}, "pair"),
        ({"dev": ([["a"]], [])}, "1 sequences and 0"),
        ({"callback": 3}, "callback"),
        ({"checkpoint": "path"}, "checkpoint"),
    ],
)
def test_invalid_arguments_of_fit_raise(options, message):
    with pytest.raises(InputError, match=message):
        make_tagger().fit([["a"]], [["x"]], **options)


def test_forbidden_labels_in_the_training_data_raise():
    with pytest.raises(InputError, match="sequence 1, position 1: 'I-X' must not follow 'O'"):
        make_tagger(constraints="BIO").fit([["a"], ["a", "b"]], [["B-X"], ["O", "I-X"]])


def test_memm_with_unknown_labels_raises():
    with pytest.raises(InputError, match="memm"):
        make_tagger(head="memm").fit([["a", "b"]], [["x", None]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", [None, "bf16", "fp16"])
def test_model_trained_on_a_gpu_loads_on_the_cpu(tmp_path, precision):
    X, y = corpus()
    tagger = make_tagger(device="cuda", precision=precision, features="crf", epochs=10).fit(X, y)
    tagger.save(tmp_path / "model.trellis")
    loaded = trellis.load(tmp_path / "model.trellis")
    assert loaded.network_.device.type == "cpu"
    assert loaded.predict(X) == tagger.predict(X)
    assert loaded.score(X, y) > 0.9


def test_a_head_that_is_a_function_refuses_other_arguments():
    """It has only its own loss and its own decoder."""
    X, y = corpus(4)
    tagger = make_tagger(head=DecodingHead, epochs=1)
    with pytest.raises(InputError, match="sample_weight must be None: a head that is a function"):
        tagger.fit(X, y, sample_weight=np.ones(len(X)))
    tagger.fit(X, y)
    assert [len(path) for path in tagger.predict([["the", "cat"], [], ["cat"]])] == [2, 0, 1]
    with pytest.raises(InputError, match="known must be None: a head that is a function does not"):
        tagger.predict(X[:1], known=[[None] * len(X[0])])
    with pytest.raises(InputError, match="decode must be viterbi, not 'posterior': a head that is"):
        tagger.predict(X, decode="posterior")
