"""Padded batches and CUDA graphs give the same numbers as packed batches and plain steps."""

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis import NeuralTagger  # noqa: E402
from trellis.nn.lstm import bidirectional as lstm_module  # noqa: E402
from trellis.nn.lstm.triton import Engine  # noqa: E402
from trellis.nn.tagger.data import (  # noqa: E402
    Epoch,
    PaddedBatch,
    bucket_by_length,
    build_corpus,
    read_words,
)
from trellis.nn.tagger.network import Network  # noqa: E402

INTERPRETED = triton.knobs.runtime.interpret
ON_GPU = pytest.mark.skipif(
    INTERPRETED or not torch.cuda.is_available(), reason="CUDA graphs need a GPU"
)
SENTENCES = ["the cat sat", "a dog", "the big dog ran off", "cats", "a cat ran", "dogs sat"]
X = [line.split() for line in SENTENCES] * 3
Y = [["V" if word in ("sat", "ran") else "O" for word in x] for x in X]
SMALL = {"word_dim": 5, "char_dim": 3, "char_hidden": 4, "hidden": 6, "random_state": 0}


def make_tagger(**settings):
    return NeuralTagger(**{**SMALL, "batch_size": 4, "epochs": 2, **settings})


@pytest.mark.interpreter
@pytest.mark.skipif(
    not INTERPRETED, reason="without the interpreter, the kernels need CUDA tensors"
)
def test_padding_changes_nothing(monkeypatch):
    model = make_tagger(dropout=0.0, word_dropout=0.0, device="cpu").fit(X, Y)
    network = model.network_
    words, lengths = read_words(X)
    corpus = build_corpus(words, lengths, network.words, torch.device("cpu"))
    corpus.tags = np.array([model.classes_.tolist().index(label) for y in Y for label in y])
    epoch = Epoch(corpus, bucket_by_length(lengths, 4, np.random.default_rng(0)))
    monkeypatch.setattr(
        lstm_module,
        "_choose_engine",
        lambda lstm, x, sizes, packing, rows: Engine(packing, rows),
    )
    parameters = [p for p in network.parameters() if p.requires_grad]

    def loss_and_gradients(batch):
        loss = network.log_likelihood(batch) / batch.tokens
        gradients = torch.autograd.grad(loss, parameters)
        return loss, [g.to_dense() if g.is_sparse else g for g in gradients]

    shapes = set()
    for plain, candidate in zip(epoch, epoch.padded(4), strict=True):
        if len(plain.lengths) < 4:
            assert not isinstance(candidate, PaddedBatch)
            continue
        shapes.add(candidate.shape)
        padded = candidate.batch(corpus)
        assert len(padded.word) == 4 * 16
        assert sorted(padded.cell.tolist()) == list(range(4 * 16))
        assert int(padded.tokens) == plain.tokens == len(plain.word)
        loss, gradients = loss_and_gradients(padded)
        expected_loss, expected_gradients = loss_and_gradients(plain)
        torch.testing.assert_close(loss, expected_loss)
        for actual, expected in zip(gradients, expected_gradients, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
    assert shapes == {(4, 16)}


@ON_GPU
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"words": ("embedding", "rnn")},
        {"words": ("ngrams",), "layers": 2},
        {"head": "softmax"},
        {"head": "memm"},
        {"precision": "bf16"},
        {"clip": None, "char_widths": (2, 3)},
    ],
)
def test_graphs_learn_what_plain_steps_learn(settings, monkeypatch):
    runs = []
    for captured in (True, False):
        monkeypatch.setattr(Network, "fixed_sizes", captured)
        model = make_tagger(device="cuda", epochs=4, **settings).fit(X, Y)
        runs.append(([entry.loss for entry in model.history_], model.predict(X)))
    (losses, labels), (plain_losses, plain_labels) = runs
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-4)
    assert labels == plain_labels


@ON_GPU
def test_a_graph_is_captured_on_the_gpu(monkeypatch):
    from trellis.nn.tagger.cuda_graph import StepGraphs

    graphs = []
    capture = StepGraphs._capture

    def record(*arguments):
        graphs.append(capture(*arguments))
        return graphs[-1]

    monkeypatch.setattr(StepGraphs, "_capture", record)
    make_tagger(device="cuda").fit(X, Y)
    assert [graph.integers.is_cuda for graph in graphs] == [True]
