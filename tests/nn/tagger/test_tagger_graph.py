"""Padded batches and training steps as CUDA graphs: the same numbers as without."""

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis import NeuralTagger  # noqa: E402
from trellis.nn.lstm import bidirectional as lstm_module  # noqa: E402
from trellis.nn.lstm.triton import Engine  # noqa: E402
from trellis.nn.tagger.data import Epoch, Padded, bucketed, make_corpus, words_of  # noqa: E402
from trellis.nn.tagger.network import Network  # noqa: E402

INTERPRETED = triton.knobs.runtime.interpret
ON_CARD = pytest.mark.skipif(
    INTERPRETED or not torch.cuda.is_available(), reason="CUDA graphs need a card"
)
SENTENCES = ["the cat sat", "a dog", "the big dog ran off", "cats", "a cat ran", "dogs sat"]
X = [line.split() for line in SENTENCES] * 3
Y = [["V" if word in ("sat", "ran") else "O" for word in x] for x in X]
SMALL = {"word_dim": 5, "char_dim": 3, "char_hidden": 4, "hidden": 6, "random_state": 0}


def tagger(**settings):
    return NeuralTagger(**{**SMALL, "batch_size": 4, "epochs": 2, **settings})


@pytest.mark.skipif(not INTERPRETED, reason="the card's kernels are for CUDA tensors")
def test_padding_changes_nothing(monkeypatch):
    model = tagger(dropout=0.0, word_dropout=0.0, device="cpu").fit(X, Y)
    network = model.network_
    words, lengths = words_of(X)
    corpus = make_corpus(words, lengths, network.words, torch.device("cpu"))
    corpus.tags = np.array([model.classes_.tolist().index(label) for y in Y for label in y])
    epoch = Epoch(corpus, bucketed(lengths, 4, np.random.default_rng(0)))
    monkeypatch.setattr(
        lstm_module, "_engine", lambda lstm, x, sizes, walk, rows: Engine(walk, rows)
    )
    parameters = [p for p in network.parameters() if p.requires_grad]

    def found(batch):
        loss = network.log_likelihood(batch) / batch.tokens
        gradients = torch.autograd.grad(loss, parameters)
        return loss, [g.to_dense() if g.is_sparse else g for g in gradients]

    shapes = set()
    for plain, other in zip(epoch, epoch.padded(4), strict=True):
        if len(plain.lengths) < 4:
            assert not isinstance(other, Padded)
            continue
        shapes.add(other.room)
        padded = other.batch(corpus)
        assert len(padded.word) == 4 * 16
        assert sorted(padded.place.tolist()) == list(range(4 * 16))
        assert int(padded.tokens) == plain.tokens == len(plain.word)
        (loss, own), (value, right) = found(padded), found(plain)
        torch.testing.assert_close(loss, value)
        for a, b in zip(own, right, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert shapes == {(4, 16)}


@ON_CARD
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
def test_a_graph_learns_what_steps_learn(settings, monkeypatch):
    found = []
    for captured in (True, False):
        monkeypatch.setattr(Network, "fixed_sizes", captured)
        model = tagger(device="cuda", epochs=4, **settings).fit(X, Y)
        found.append(([entry.loss for entry in model.history_], model.predict(X)))
    (losses, labels), (due, right) = found
    np.testing.assert_allclose(losses, due, rtol=1e-4)
    assert labels == right


@ON_CARD
def test_graphs_are_made_and_used(monkeypatch):
    from trellis.nn.tagger import cuda_graph as tagger_graph

    made = []
    capture = tagger_graph.Graphs._captured

    def watched(*given):
        made.append(capture(*given))
        return made[-1]

    monkeypatch.setattr(tagger_graph.Graphs, "_captured", watched)
    tagger(device="cuda").fit(X, Y)
    assert [graph.integers.is_cuda for graph in made] == [True]
