"""The training of a tagger in parts: rates, optimisers, scripted epochs, calibration."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from trellis import NeuralTagger
from trellis.errors import InputError, OptimizationError
from trellis.inference import chain
from trellis.nn.tagger.calibration import fit_temperature, mean_loss
from trellis.nn.tagger.network import copy_weights
from trellis.nn.tagger.optimizer import (
    LazyRows,
    build_optimizers,
    clip_gradients,
    rate_factor,
    restore_state,
    set_rate,
    state_arrays,
)
from trellis.nn.tagger.scores import tempered_scores
from trellis.nn.tagger.training import Progress, Trainer, TrainingRun, after_epoch
from trellis.nn.words import CharCNN, NGramEmbedding, WordEmbedding

# ---- learning rates, optimisers, clipping


@pytest.mark.parametrize(
    ("schedule", "total", "factors"),
    [
        ("constant", 11, {0.0: 1.0, 0.5: 1.0, 11.0: 1.0}),
        ("linear", 11, {0.0: 0.0, 0.25: 0.25, 1.0: 1.0, 3.5: 0.75, 6.0: 0.5, 11.0: 0.0, 12.0: 0.0}),
        ("linear", 5, {0.25: 0.5, 0.5: 1.0, 2.75: 0.5, 5.0: 0.0}),
        ("linear", 1, {0.05: 0.5, 0.1: 1.0, 0.55: 0.5, 1.0: 0.0}),
        ("cosine", 11, {0.5: 0.5, 1.0: 1.0, 3.5: 0.5 + 0.125**0.5, 6.0: 0.5, 11.0: 0.0, 13.0: 0.0}),
    ],
)
def test_learning_rates(schedule, total, factors):
    for epochs, factor in factors.items():
        assert rate_factor(schedule, epochs, total) == pytest.approx(factor, abs=1e-12)


def settings_of(optimizer):
    return SimpleNamespace(optimizer=optimizer, learning_rate=0.25, weight_decay=0.125)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_each_parameter_has_one_optimizer(optimizer, sparse):
    network = torch.nn.Sequential(torch.nn.Embedding(4, 3, sparse=sparse), torch.nn.Linear(3, 2))
    network.append(torch.nn.EmbeddingBag(5, 2, sparse=sparse))
    parameters = list(network.parameters())
    dense, *others = build_optimizers(network, parameters, settings_of(optimizer))
    (group,) = dense.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.25, 0.125)
    assert type(dense) is {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
    if optimizer == "sgd":
        assert (group["momentum"], group["foreach"]) == (0.9, True)
    else:
        assert (group["betas"], group["eps"], group["fused"]) == ((0.9, 0.999), 1e-8, True)
    assert len(group["params"]) == (2 if sparse else 4)
    assert len(others) == int(sparse)
    for tables in others:
        (group,) = tables.param_groups
        assert {id(p) for p in group["params"]} == {id(parameters[0]), id(parameters[3])}
        if optimizer == "adamw":
            assert type(tables) is LazyRows
            assert (group["lr"], group["weight_decay"]) == (0.25, 0.125)
            assert (group["betas"], group["eps"]) == ((0.9, 0.999), 1e-8)
        else:
            assert (group["lr"], group["weight_decay"], group["momentum"]) == (0.25, 0, 0)
    set_rate([dense, *others], 0.5)
    assert {group["lr"] for o in (dense, *others) for group in o.param_groups} == {0.5}
    rate = torch.tensor(0.0)
    dense.param_groups[0]["lr"] = rate
    set_rate([dense], 0.75)
    assert dense.param_groups[0]["lr"] is rate
    assert rate == 0.75


def test_defaults_of_lazy_rows():
    (group,) = LazyRows([torch.nn.Parameter(torch.zeros(2, 2))]).param_groups
    del group["params"]
    assert group == {"lr": 1e-3, "weight_decay": 0.0, "betas": (0.9, 0.999), "eps": 1e-8}


@pytest.mark.parametrize("norm", [3e-6, 9.5e-6, 1.05e-5, 1.0])
def test_clipping_of_small_gradients_equals_that_of_pytorch(norm):
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5, 2)]
    for parameter in ours[:2]:  # the last one has no gradient
        parameter.grad = torch.randn_like(parameter)
    total = torch.cat([p.grad for p in ours[:2]]).norm()
    for parameter in ours[:2]:
        parameter.grad *= norm / total
    theirs = copy.deepcopy(ours)
    for our, their in zip(ours[:2], theirs[:2], strict=True):
        their.grad = our.grad.clone()
    clip_gradients(ours, 1e-5)
    torch.nn.utils.clip_grad_norm_(theirs, 1e-5)
    for our, their in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(our.grad, their.grad, rtol=1e-5, atol=0)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_the_state_of_an_optimizer_is_validated(optimizer):
    network = torch.nn.Linear(3, 2)
    parameters = dict(network.named_parameters())
    optimizers = build_optimizers(network, list(parameters.values()), settings_of(optimizer))
    network(torch.ones(1, 3)).sum().backward()
    optimizers[0].step()
    arrays = state_arrays(optimizers, parameters)
    keys = ["step", "exp_avg", "exp_avg_sq"] if optimizer == "adamw" else ["momentum_buffer"]
    assert sorted(arrays) == sorted(f"{key}.{name}" for key in keys for name in parameters)
    fresh = build_optimizers(network, list(parameters.values()), settings_of(optimizer))
    restore_state(fresh, parameters, arrays)
    restored = state_arrays(fresh, parameters)
    for name, array in arrays.items():
        np.testing.assert_array_equal(restored[name], array)
        nan = np.full_like(array, np.nan)
        for invalid in (nan, array.astype(np.float64), np.zeros((7,), np.float32)):
            with pytest.raises(InputError, match=f"tensor '{name}' must be finite float32 of shap"):
                restore_state(fresh, parameters, arrays | {name: invalid})
        negative = np.full_like(array, -1.0)
        if "step" in name or "exp_avg_sq" in name:
            with pytest.raises(InputError, match=f"tensor '{name}' must be at least 0"):
                restore_state(fresh, parameters, arrays | {name: negative})
        else:
            restore_state(fresh, parameters, arrays | {name: negative})
        restore_state(fresh, parameters, arrays | {name: np.zeros_like(array)})
        if optimizer == "adamw":
            others = {other: value for other, value in arrays.items() if other != name}
            with pytest.raises(InputError, match="needs the tensors step, exp_avg, exp_avg_sq"):
                restore_state(fresh, parameters, others)
    restore_state(fresh, parameters, {})
    assert state_arrays(fresh, parameters) == {}


# ---- epochs


@pytest.mark.parametrize(("length", "threads"), [(511, 1), (512, 2)])
def test_an_epoch_trains_with_dropout_and_few_threads_for_small_batches(
    monkeypatch, length, threads
):
    steps = []
    original = Trainer._step

    def step(self, batch):
        steps.append((self.network.training, torch.get_num_threads(), self.rate))
        assert not torch.autograd.is_multithreading_enabled()
        original(self, batch)

    monkeypatch.setattr(Trainer, "_step", step)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        tagger = NeuralTagger(
            hidden=2, word_dim=2, words=("embedding",), head="softmax", batch_size=1, epochs=2,
            device="cpu", random_state=0, learning_rate=0.01,
        )  # fmt: skip
        tagger.fit([["a"] * length] * 2, [["x"] * length, ["y"] * length])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert {(is_training, count) for is_training, count, _ in steps} == {(True, threads)}
    factors = [rate_factor("linear", n / 2, 2) for n in range(4)]
    assert [rate for *_, rate in steps] == pytest.approx([0.01 * f for f in factors])
    assert [p.learning_rate for p in tagger.history_] == pytest.approx(
        [0.01 * f for f in factors[1::2]]
    )
    assert not tagger.network_.training


class ScriptedTrainer:
    """A trainer with given losses, whose weights are the number of the epoch."""

    def __init__(self, losses, **settings):
        self.losses = losses
        self.settings = SimpleNamespace(**{"patience": None, "epochs": len(losses)} | settings)
        self.network = torch.nn.Linear(1, 1, bias=False)
        self.corpus = SimpleNamespace(tokens=30)
        self.rate, self.seed = 0.5, 3

    def run_epoch(self, number):
        with torch.no_grad():
            self.network.weight.fill_(number)
        return self.losses[number - 1], 0.25

    def to_arrays(self):
        return copy_weights(self.network)

    def restore(self, arrays):
        assert "network.weight" in arrays


def run_script(scores, epochs=None, callback=None, **settings):
    """Return a finished run with these development scores, and the epoch of its weights."""
    trainer = ScriptedTrainer([2.0 - n / 8 for n in range(epochs or len(scores))], **settings)
    values = iter(scores or [])
    run = TrainingRun(trainer, (lambda: next(values)) if scores else None)
    run.run(callback, None)
    return run, float(trainer.network.weight.detach())


@pytest.mark.parametrize(
    ("scores", "patience", "epochs", "best"),
    [
        ([0.5, 0.4, 0.4, 0.6], None, 4, 4),
        ([0.5, 0.4, 0.4, 0.6], 2, 3, 1),
        ([0.5, 0.4, 0.4, 0.6], 3, 4, 4),
        ([0.5, 0.5, 0.4, 0.9], 2, 3, 1),  # an equal score is not better
        ([0.1, 0.2, 0.3, 0.2], 1, 4, 3),
        ([0.0, 0.0, 0.0, 0.0], 9, 4, 1),
    ],
)
def test_patience_and_the_best_weights(scores, patience, epochs, best):
    run, weight = run_script(scores, patience=patience)
    assert run.iteration == epochs
    assert weight == best
    assert run.dev_scores == [(n + 1, scores[n]) for n in range(epochs)]
    assert run.losses == [(n + 1, 2.0 - n / 8) for n in range(epochs)]
    assert run.progress[0] == Progress(1, 2.0, scores[0], 0.25, 120.0, 0.5)


def test_without_scores_all_epochs_are_run():
    run, weight = run_script(None, epochs=3, patience=1)
    assert (run.iteration, weight, run.best, run.dev_scores) == (3, 3.0, {}, [])
    run, _ = run_script(None, epochs=3, callback=lambda progress: progress.epoch == 2)
    assert run.iteration == 2


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_losses_that_are_not_finite(loss):
    with pytest.raises(OptimizationError, match=f"epoch 2: the loss is {loss}; try a smaller"):
        TrainingRun(ScriptedTrainer([1.0, loss]), None).run(None, None)


def test_a_run_is_restored():
    run, _ = run_script([0.5, 0.75, 0.25, 0.25], patience=2)
    other = TrainingRun(ScriptedTrainer([1.0] * 4), None)
    other.restore(run.to_arrays(), 2)
    assert other.progress == run.progress
    assert (other.since_best, other.trainer.seed) == (2, 3)
    assert other.best == run.best == {"network.weight": np.array([[2.0]], np.float32)}
    without, _ = run_script(None, epochs=2)
    other.restore(without.to_arrays(), 0)
    assert (other.progress, other.best) == (without.progress, {})
    arrays = run.to_arrays()
    for shape in ((4, 5), (4, 7), (24,)):
        with pytest.raises(InputError, match=r"'progress' has shape .*must be \(epochs, 6\)"):
            other.restore(arrays | {"progress": np.zeros(shape)}, 0)
    for seed in (-1, 2**31):
        with pytest.raises(InputError, match="seed"):
            other.restore(arrays | {"seed": np.array(seed)}, 0)
    other.restore(arrays | {"seed": np.array(2**31 - 1)}, 0)


def test_the_text_and_the_end_of_an_epoch():
    lines = []

    def draw(fraction, text):
        lines.append((fraction, text))

    progress = Progress(3, 0.12345, 0.98765, 2.0, 1234.5, 0.1)
    assert after_epoch(12, draw, None, progress) is False
    assert after_epoch(12, draw, lambda p: p.epoch, progress) is True
    assert after_epoch(4, draw, lambda p: None, progress._replace(dev_score=None)) is False
    text = "epoch 3 of 12  loss 0.1235  dev 98.77  1,234 tokens/s"
    assert lines[:2] == [(0.25, text)] * 2
    assert lines[2] == (0.75, "epoch 3 of 4  loss 0.1235  1,234 tokens/s")


# ---- calibration and temperature


def scores_of(n=6, seed=0):
    rng = np.random.default_rng(seed)
    unary = [3.0 * rng.normal(size=(4, 3)) for _ in range(n)]
    transition = rng.normal(size=(3, 3))
    return lambda t: chain.Scores([u / t for u in unary], transition / t)


@pytest.mark.parametrize("seed", range(3))
def test_the_temperature_minimises_the_loss(seed):
    rng = np.random.default_rng(seed)
    scores_at, labels = scores_of(seed=seed), rng.integers(-1, 3, size=24)
    sharp = np.concatenate(chain.marginals(scores_at(1.0)).unary).argmax(axis=1)
    labels = np.where(rng.random(24) < 0.6, sharp, labels)
    temperature = fit_temperature(scores_at, labels, 1)
    best = minimize_scalar(
        lambda log_t: mean_loss(scores_at(np.exp(log_t)), labels, 1),
        bounds=(np.log(0.1), np.log(10)), method="bounded", options={"xatol": 1e-8},
    )  # fmt: skip
    assert np.log(temperature) == pytest.approx(best.x, abs=0.0026)


def test_limits_of_the_temperature():
    scores_at = scores_of()
    best = np.concatenate(chain.viterbi(scores_at(1.0)).labels)
    worst = np.concatenate(chain.marginals(scores_at(1.0)).unary).argmin(axis=1)
    assert fit_temperature(scores_at, best, 1) == pytest.approx(0.1, rel=0.003)
    assert fit_temperature(scores_at, worst, 1) == pytest.approx(10.0, rel=0.003)
    assert fit_temperature(scores_at, np.full(24, -1), 1) == 1.0
    assert fit_temperature(scores_at, np.where(np.arange(24) < 1, best, -1), 1) < 0.2


def test_the_mean_loss_by_hand():
    p = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        scores = chain.Scores([np.log(p[:1]), np.log(p[1:])], np.zeros((3, 3)))
    assert mean_loss(scores, np.array([1, -1]), 1) == pytest.approx(np.log(4))
    assert mean_loss(scores, np.array([0, 0]), 1) == pytest.approx(np.log(2) / 2)
    # a label that is impossible counts as p = 1e-12
    assert mean_loss(scores, np.array([0, 2]), 1) == pytest.approx(np.log(2e12) / 2)


def test_scores_are_divided_by_the_temperature():
    X, y = [["a", "b"], ["c"]], [["x", "y"], ["y"]]
    tagger = NeuralTagger(hidden=2, word_dim=2, char_hidden=2, epochs=1, device="cpu").fit(X, y)
    scores_at = tempered_scores(tagger.network_, tagger._build_corpus(X), None, 1.0)
    plain = scores_at(1.0)
    for t in (0.5, 2.0):
        scores = scores_at(t)
        for name in ("transition", "start", "end"):
            np.testing.assert_allclose(getattr(scores, name), getattr(plain, name) / t)
        for ours, theirs in zip(scores.unary, plain.unary, strict=True):
            np.testing.assert_allclose(ours, theirs / t)


# ---- first weights


@pytest.mark.parametrize(
    ("encoder", "name"),
    [
        (WordEmbedding(4), "table"),
        (CharCNN(4, filters=2), "characters"),
        (NGramEmbedding(4, bucket=500), "table"),
    ],
)
def test_first_vectors_have_the_variance_of_a_unit_vector(encoder, name):
    """They are uniform on ±√(3 / dim), so the variance of each of the 4 numbers is 1 / 4."""
    torch.manual_seed(0)
    encoder.learn({f"word{chr(200 + n)}{n}": 1 for n in range(500)})
    table = getattr(encoder, name).weight.detach()[2:]
    assert float(table.abs().max()) <= 0.75**0.5
    assert float(table.abs().max()) > 0.98 * 0.75**0.5
    assert float(table.var()) == pytest.approx(0.25, rel=0.1)
