"""Charagram by its equation, its training on paraphrases, and neighbours of encoders."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import Vectors, _core
from trellis.errors import InputError
from trellis.nn.words import (
    Charagram,
    CharCNN,
    CharRNN,
    ConcatWords,
    NGramEmbedding,
    WordEmbedding,
    train_on_paraphrases,
)
from trellis.nn.words.charagram import ACTIVATIONS, margin_loss

COUNTS = {"walk": 3, "walked": 1, "talk": 2}
PAIRS = [("color", "colour"), ("center", "centre"), ("gray", "grey"), ("tire", "tyre")]


def make_encoder(**options: Any) -> Charagram:
    torch.manual_seed(0)
    encoder = Charagram(5, **options)
    encoder.learn(COUNTS)
    with torch.no_grad():
        encoder.bias.copy_(torch.linspace(-1, 1, 5))
    return encoder


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_charagram_follows_its_equation(activation: str) -> None:
    encoder = make_encoder(activation=activation)
    table = dict(zip(encoder.entries, encoder.table.weight.detach().numpy()[1:], strict=True))
    function = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[activation]
    for text in ("walk", "walking", "walk and talk", "x", ""):
        grams = [g for g in _core.subwords(text, 2, 4) if "#" + g in table]
        total = sum((table["#" + g] for g in grams), np.zeros(5))
        expected = function(encoder.bias.detach().numpy() + total)
        np.testing.assert_allclose(encoder.encode([text])[0].detach(), expected, atol=1e-6)
    assert len([g for g in _core.subwords("walk", 2, 4) if "#" + g in table]) == 12


def test_settings() -> None:
    encoder = Charagram(3)
    assert (encoder.minn, encoder.maxn, encoder.bucket) == (2, 4, 200_000)
    assert (encoder.ngrams, encoder.activation, encoder.sparse) == ("dictionary", "tanh", False)
    assert encoder.bias.tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="activation"):
        Charagram(3, activation="sigmoid")
    with pytest.raises(InputError, match="combine"):
        NGramEmbedding(3, combine="max")
    assert NGramEmbedding(3).combine == "mean"


# ---- the loss


def expected_loss(a: np.ndarray, b: np.ndarray, texts: list[tuple[str, str]], margin: float):
    """Return the loss of Wieting et al., pair by pair."""

    def cosine(u: np.ndarray, v: np.ndarray) -> float:
        return float(u @ v / np.linalg.norm(u) / np.linalg.norm(v))

    everything = [(text[0], row) for text, row in zip(texts, a, strict=True)]
    everything += [(text[1], row) for text, row in zip(texts, b, strict=True)]
    loss = 0.0
    for pair, u, v in zip(texts, a, b, strict=True):
        others = [row for text, row in everything if text not in pair]
        for side in (u, v):
            if others:
                negative = max(cosine(side, row) for row in others)
                loss += max(0.0, margin - cosine(u, v) + negative)
    return loss


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 5), st.integers(0, 99), st.floats(0, 1))
def test_loss_follows_its_equation(n: int, seed: int, margin: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n, 3))
    names = rng.choice(list("abcdefgh"), (n, 2)).tolist()
    flat = np.array(names).T.ravel()
    same = (np.array(names)[:, :, None] == flat).any(axis=1)
    loss = margin_loss(*map(torch.from_numpy, (a, b, same)), margin)
    assert float(loss) == pytest.approx(expected_loss(a, b, names, margin))


def test_gradient_of_the_loss_equals_central_differences() -> None:
    rng = np.random.default_rng(1)
    a, b = (torch.from_numpy(x).requires_grad_() for x in rng.normal(size=(2, 4, 3)))
    paired = torch.eye(4, dtype=torch.bool).repeat(1, 2)
    assert torch.autograd.gradcheck(lambda a, b: margin_loss(a, b, paired, 0.9), (a, b))


# ---- training


@pytest.mark.parametrize(
    "encoder",
    [
        Charagram(12),
        Charagram(12, ngrams="hashed", bucket=500, activation="relu"),
        CharCNN(8, widths=(2, 3), filters=16),
        CharRNN(8, 8),
        ConcatWords(WordEmbedding(6), NGramEmbedding(6)),
    ],
    ids=["charagram", "hashed", "cnn", "rnn", "concat"],
)
def test_paraphrases_become_similar(encoder: Any) -> None:
    losses = train_on_paraphrases(encoder, PAIRS, epochs=80, learning_rate=0.02, random_state=0)
    assert len(losses) == 80
    assert losses[-1] < 0.3 * losses[0]
    assert not encoder.training
    vectors = encoder.to_vectors([text for pair in PAIRS for text in pair])
    for a, b in PAIRS:
        assert vectors.nearest(a, 1)[0].word == b


def test_training_step_by_step() -> None:
    """Two epochs of one batch each are two steps of Adam on the mean loss of the pairs and l2."""
    encoder = Charagram(6)
    pairs = [*PAIRS, ("color", "hue")]
    state = torch.random.get_rng_state()
    losses = train_on_paraphrases(
        encoder, pairs, margin=0.3, epochs=2, batch_size=5, learning_rate=0.1, l2=0.5,
        random_state=7,
    )  # fmt: skip
    assert torch.equal(torch.random.get_rng_state(), state)
    expected = Charagram(6)
    torch.manual_seed(7)
    expected.learn(Counter(text for pair in pairs for text in pair))
    optimizer = torch.optim.Adam(expected.parameters(), lr=0.1)
    flat = np.array(pairs).T.ravel()
    same = torch.from_numpy((np.array(pairs)[:, :, None] == flat).any(axis=1))
    assert same.sum() == 5 * 2 + 4 - 2  # "color" is in two pairs
    for n in range(2):
        a, b = (expected.encode(side) for side in zip(*pairs, strict=True))
        loss = margin_loss(a, b, same, 0.3) / 5
        assert losses[n] == pytest.approx(loss.item(), rel=1e-5)
        squares = expected.table.weight.square().sum() + expected.bias.square().sum()
        optimizer.zero_grad()
        (loss + 0.25 * squares).backward()
        optimizer.step()
    texts = ["color", "grey", "hue"]
    torch.testing.assert_close(encoder.encode(texts), expected.encode(texts))


def test_training_continues_and_repeats() -> None:
    def run(seed: int) -> tuple[list[float], list[float]]:
        encoder = Charagram(6)
        first = train_on_paraphrases(encoder, PAIRS, epochs=3, random_state=seed)
        entries = list(encoder.entries)
        second = train_on_paraphrases(
            encoder, [("color", "hue"), ("tire", "tyre")], epochs=2, learn=False, random_state=seed
        )
        assert encoder.entries == entries
        return first, second

    assert run(0) == run(0)
    assert run(0) != run(1)


@pytest.mark.parametrize(("n_pairs", "batch_size", "sizes"), [(7, 3, [4, 3]), (5, 9, [5])])
def test_batches(n_pairs: int, batch_size: int, sizes: list[int]) -> None:
    from trellis.nn.words.charagram import _Batches

    encoder = Charagram(4)
    encoder.learn({"a": 1})
    pairs = [(f"a{n}", f"b{n}") for n in range(n_pairs)]
    batches = _Batches(encoder, pairs, batch_size, 0)
    orders = []
    for _ in range(2):
        seen: list[int] = []
        for rows, numbers, n, same in batches.shuffled():
            assert len(numbers) == 2 * n
            assert len(rows[0]) == 2 * n
            assert torch.equal(same, torch.eye(n, dtype=torch.bool).repeat(1, 2))
            seen.append(n)
        assert seen == sizes
        orders.append(batches.rng.integers(1000))
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("pairs", "options", "match"),
    [
        (PAIRS[:1], {}, "pairs must be a list of at least two pairs"),
        ("color", {}, "pairs must be a list of at least two pairs"),
        (3, {}, "pairs must be a list of at least two pairs"),
        ([("a", "b"), ("c",)], {}, r"pairs\[1\] is \('c',\): must be two texts"),
        ([("a", "b"), "cd"], {}, r"pairs\[1\] is 'cd': must be two texts"),
        ([("a", 3), ("c", "d")], {}, r"pairs\[0\] is \('a', 3\): must be two texts"),
        (PAIRS, {"margin": -0.1}, "margin"),
        (PAIRS, {"learning_rate": "fast"}, "learning_rate"),
        (PAIRS, {"l2": -1}, "l2"),
        (PAIRS, {"epochs": 0}, "epochs"),
        (PAIRS, {"batch_size": 1}, "batch_size"),
        (PAIRS, {"random_state": -1}, "random_state"),
    ],
)
def test_invalid_training(pairs: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        train_on_paraphrases(Charagram(3), pairs, **options)


def test_invalid_encoders() -> None:
    with pytest.raises(InputError, match="encoder must be a WordEncoder"):
        train_on_paraphrases("charagram", PAIRS)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="encoder has sparse=True: must be False"):
        train_on_paraphrases(Charagram(3, sparse=True), PAIRS)


# ---- neighbours


def test_vectors_of_an_encoder() -> None:
    torch.manual_seed(0)
    encoder = CharCNN(6, filters=7, dropout=0.5).train()
    encoder.learn(COUNTS)
    vectors = encoder.to_vectors(["walk", "talk", "walk", "stalk"])
    assert encoder.training
    assert isinstance(vectors, Vectors)
    assert vectors.words == ["walk", "talk", "stalk"]
    expected = encoder.eval().encode(["walk", "talk", "stalk", "balk"]).detach().numpy()
    np.testing.assert_array_equal(vectors.matrix, expected[:3])
    np.testing.assert_allclose(vectors["balk"], expected[3], atol=1e-6)
    assert vectors["balk"].shape == (7,)
    vectors["balk"]
    assert not encoder.training
    assert encoder.to_vectors("walk").words == ["walk"]


def test_vectors_of_ngrams() -> None:
    dictionary = make_encoder()
    grams = dictionary.ngram_vectors()
    assert grams.words == [entry[1:] for entry in dictionary.entries]
    row = dictionary.index["#<w"]
    np.testing.assert_array_equal(grams["<w"], dictionary.table.weight[row].detach())
    assert dictionary.ngram_vectors(["zz", "<w", "<w"]).words == ["<w"]
    hashed = make_encoder(ngrams="hashed", bucket=30)
    ids = _core.subword_ids(["walk"], 2, 4, 30)[1]
    for gram in ("<w", "alk"):
        number = int(ids[_core.subwords("walk", 2, 4).index(gram)])
        expected = hashed.table.weight[1 + number].detach()
        np.testing.assert_array_equal(hashed.ngram_vectors(["<w", "alk"])[gram], expected)
    with pytest.raises(InputError, match="ngrams is the str 'walk': must be a list"):
        dictionary.ngram_vectors("walk")
    for encoder in (hashed, Charagram(3)):
        with pytest.raises(InputError, match="no n-gram has a row: call learn, or list the n-gr"):
            encoder.ngram_vectors()
