"""Word encoders equal plain formulas, central differences, and encodings of single words."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import FastText, Vectors
from trellis.errors import InputError
from trellis.nn.words import (
    Charagram,
    CharCNN,
    CharRNN,
    ConcatWords,
    NGramEmbedding,
    WordEmbedding,
)

COUNTS = {"the": 9, "cat": 3, "sat": 1, "Zürich": 2, "a": 5, "antidisestablishmentarianism": 1}
TEXT = ["the", "cat", "the", "unseen", "a", "", "Zürich", "a"]
MAKERS = {
    "cnn": lambda: CharCNN(6, widths=(2, 3), filters=7),
    "highway": lambda: CharCNN(6, widths=(3,), filters=5, highway=True),
    "lstm": lambda: CharRNN(6, 4),
    "gru": lambda: CharRNN(6, 4, cell="gru"),
    "hashed": lambda: NGramEmbedding(5, minn=2, maxn=4, bucket=40),
    "dictionary": lambda: NGramEmbedding(5, minn=2, maxn=4, ngrams="dictionary"),
    "sum": lambda: NGramEmbedding(5, minn=2, maxn=4, ngrams="dictionary", combine="sum"),
    "charagram": lambda: Charagram(5, activation="tanh"),
    "charagram relu": lambda: Charagram(5, ngrams="hashed", bucket=40, activation="relu"),
    "table": lambda: WordEmbedding(5),
    "lowercase": lambda: WordEmbedding(5, lowercase=True),
    "all": lambda: ConcatWords(WordEmbedding(3), ConcatWords(CharCNN(4), CharRNN(4, 3))),
}


def make_encoder(kind):
    torch.manual_seed(0)
    encoder = MAKERS[kind]()
    encoder.learn(COUNTS)
    return encoder.double().eval()


@pytest.fixture(params=list(MAKERS))
def kind(request):
    return request.param


def test_batch_equals_single_words(kind):
    encoder = make_encoder(kind)
    batch_vectors = encoder.encode(TEXT)
    assert batch_vectors.shape == (len(TEXT), encoder.dim)
    for word, vector in zip(TEXT, batch_vectors, strict=True):
        torch.testing.assert_close(encoder.encode([word])[0], vector, atol=1e-12, rtol=1e-12)


def test_padding_changes_nothing(kind):
    encoder = make_encoder(kind)
    rows = encoder.rows(["cat", "the"])
    padded = [torch.nn.functional.pad(table, (0, 5)) for table in rows]
    torch.testing.assert_close(encoder(*rows), encoder(*padded), atol=1e-12, rtol=1e-12)


def test_gradient_equals_central_differences(kind):
    encoder = make_encoder(kind)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(len(TEXT), encoder.dim, generator=generator, dtype=torch.float64)

    def loss():
        return (encoder.encode(TEXT) * weight).sum()

    loss().backward()
    checked = 0
    for p in encoder.parameters():
        flat, gradient = p.data.view(-1), p.grad.view(-1)
        used = gradient.nonzero()[:, 0].tolist()
        for i in used[:: max(1, len(used) // 8)]:
            original, values = flat[i].item(), []
            for step in (1e-6, -1e-6):
                flat[i] = original + step
                values.append(loss().item())
            flat[i] = original
            numeric = (values[0] - values[1]) / 2e-6
            assert numeric == pytest.approx(gradient[i].item(), rel=1e-5, abs=1e-7)
            checked += 1
    assert checked >= 5


def test_vocabularies_and_parameters_restore_an_encoder(kind):
    encoder, restored = make_encoder(kind), MAKERS[kind]()
    restored.restore(encoder.vocabularies())
    restored.double().load_state_dict(encoder.state_dict())
    assert torch.equal(restored.eval().encode(TEXT), encoder.encode(TEXT))


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_any_words_have_vectors(words):
    encoder = ConcatWords(WordEmbedding(3), CharCNN(4, filters=3), CharRNN(4, 2))
    encoder.learn(COUNTS)
    vectors = encoder.encode(words)
    assert vectors.shape == (len(words), encoder.dim)
    assert torch.isfinite(vectors).all()


# ---- against the formulas


def test_cnn_takes_the_maximum_over_windows():
    encoder = make_encoder("cnn")
    ids = encoder.rows(["cat"])[0][0].tolist()
    table = encoder.characters.weight.detach()
    expected = []
    for width, convolution in zip(encoder.widths, encoder.convolutions, strict=True):
        padded = [*ids, *[0] * width]
        for filter_ in convolution.weight.detach():  # (char_dim, width)
            best = 0.0
            for begin in range(len(ids)):
                window = table[padded[begin : begin + width]]
                best = max(best, float((window.t() * filter_).sum()))
            expected.append(best)
    np.testing.assert_allclose(encoder.encode(["cat"])[0].detach(), expected, atol=1e-12)


def test_highway_follows_its_equation():
    """g relu(W x) + (1 - g) x with the gate g = σ(G x), where x is the vector without highway."""
    encoder = make_encoder("highway")
    layer, encoder.highway = encoder.highway, None
    x = encoder.encode(TEXT).detach().numpy()
    encoder.highway = layer
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    transformed, gate = np.split(x @ weight.T + bias, 2, axis=1)
    gate = 1 / (1 + np.exp(-gate))
    expected = gate * np.maximum(transformed, 0) + (1 - gate) * x
    np.testing.assert_allclose(encoder.encode(TEXT).detach(), expected, atol=1e-12)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_rnn_equals_a_bidirectional_network_on_one_word(cell):
    encoder = make_encoder(cell)
    network = (torch.nn.LSTM if cell == "lstm" else torch.nn.GRU)(6, 4, bidirectional=True).double()
    state = dict(encoder.forwards.state_dict())
    state |= {f"{n}_reverse": p for n, p in encoder.backwards.state_dict().items()}
    network.load_state_dict(state)
    for word in ("cat", "Zürich", ""):
        ids = encoder.rows([word])[0][0]
        states = network(encoder.characters(ids))[0]
        expected = torch.cat([states[-1, :4], states[0, 4:]])
        torch.testing.assert_close(encoder.encode([word])[0], expected)


def test_long_words_keep_both_ends():
    encoder = make_encoder("cnn")
    word, same_ends = "x" * 40, "x" * 16 + "y" * 30 + "x" * 16
    assert torch.equal(encoder.encode([word]), encoder.encode([same_ends]))
    assert not torch.equal(encoder.encode([word]), encoder.encode(["x" * 16 + "t" * 20]))


@pytest.mark.parametrize("combine", ["mean", "sum"])
@pytest.mark.parametrize("ngrams", ["hashed", "dictionary"])
def test_ngrams_of_a_fasttext_model_reproduce_its_vectors(ngrams, combine):
    text = [["the", "cat", "sat"], ["the", "dog", "sat"]] * 10
    model = FastText(
        8, min_count=1, sample=0, epochs=1, bucket=100, ngrams=ngrams, combine=combine,
        n_jobs=1, random_state=0,
    ).fit(text)  # fmt: skip
    encoder = NGramEmbedding(from_fasttext=model)
    encoder.learn({"cat": 1})
    words = ["cat", "sat", "catsat"]
    expected = np.stack([model.vector(word) for word in words])
    np.testing.assert_allclose(encoder.encode(words).detach(), expected, atol=1e-6)
    assert encoder.combine == combine
    restored = NGramEmbedding(8, ngrams=ngrams, bucket=100, combine=combine)
    restored.restore(encoder.vocabularies())
    restored.load_state_dict(encoder.state_dict())
    assert torch.equal(restored.encode(words), encoder.encode(words))


# ---- tables of words


def test_vectors_initialise_the_table_also_for_upper_case_words():
    vectors = Vectors(["red", "blue"], [[1.0, 2.0], [3.0, 4.0]])
    table = WordEmbedding(vectors=vectors)
    table.learn({"Red": 2, "green": 1})
    table.eval()
    assert table.encode(["red", "Red", "BLUE"]).tolist() == [[1, 2], [1, 2], [3, 4]]
    assert (
        table.index["Red"] != table.index["red"]
    )  # Red has a separate row, which training can change
    assert torch.equal(table.encode(["never"])[0], table.unknown)


def test_unknown_dropout_has_probability_a_over_a_plus_n():
    torch.manual_seed(0)
    table = WordEmbedding(4, unknown_dropout=1.0)
    table.learn({"often": 9, "once": 1})
    with torch.no_grad():
        table.unknown.fill_(7.0)
    rows = table.rows(["often", "once"] * 4000)
    dropped = (table.train()(*rows) == 7.0).all(dim=1).view(-1, 2).double().mean(dim=0)
    np.testing.assert_allclose(dropped, [0.1, 0.5], atol=0.03)
    assert not (table.eval()(*rows) == 7.0).any()


def test_frozen_table_has_no_gradient():
    table = WordEmbedding(3, trainable=False)
    table.learn(COUNTS)
    table.encode(TEXT).sum().backward()
    assert table.table.weight.grad is None
    assert table.unknown.grad is not None


# ---- errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CharCNN(0), "char_dim"),
        (lambda: CharCNN(widths=()), "widths"),
        (lambda: CharCNN(widths=(3, 9)), "from 1 to 8"),
        (lambda: CharCNN(widths=(2, 3, 4), filters=2), "filters is 2: must be at least 3"),
        (lambda: CharRNN(cell="transformer"), "transformer"),
        (lambda: CharRNN(hidden=0), "hidden"),
        (lambda: WordEmbedding(), "dim and vectors are both None"),
        (lambda: WordEmbedding(0), "at least 1"),
        (lambda: WordEmbedding(3, vectors=Vectors(["a"], [[1.0, 2.0]])), "dim is 3"),
        (lambda: WordEmbedding(vectors=[[1.0]]), "must be Vectors"),
        (lambda: WordEmbedding(3, unknown_dropout=-1), "unknown_dropout"),
        (lambda: NGramEmbedding(3, minn=4, maxn=3), "minn=4"),
        (lambda: NGramEmbedding(3, bucket=0), "bucket=0"),
        (lambda: NGramEmbedding(3, ngrams="bytes"), "bytes"),
        (lambda: NGramEmbedding(from_fasttext="model.bin"), "must be a FastText"),
        (lambda: ConcatWords(), "at least one encoder"),
        (lambda: ConcatWords(torch.nn.Linear(2, 2)), "encoders must be WordEncoders"),
        (lambda: make_encoder("cnn").encode("word"), "list of str"),
        (lambda: make_encoder("cnn").encode(["a", 3]), "list of str"),
        (lambda: WordEmbedding(2).restore([["a", "a"]]), "twice"),
        (lambda: NGramEmbedding(2).restore([["ab"]]), "must start with a space or #"),
        (
            lambda: CharCNN(2).restore([["ab"]]),
            "contains .ab.: each entry must be a single character",
        ),
        (lambda: make_encoder("all").restore([["a"]]), "1 vocabularies, but 3"),
    ],
)
def test_invalid_arguments_raise(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_characters_can_be_exported():
    cnn = CharCNN(filters=4)
    cnn.learn({"some": 1, "words": 1})
    (rows,) = cnn.rows(["some", "words"])
    program = torch.export.export(cnn.eval(), (rows,))
    torch.testing.assert_close(program.module()(rows), cnn(rows))


def test_the_widest_filters() -> None:
    encoder = CharCNN(6, widths=(1, 8), filters=2)
    assert [convolution.kernel_size for convolution in encoder.convolutions] == [(1,), (8,)]


def test_entries_of_a_table_are_distinct() -> None:
    table = NGramEmbedding(4, ngrams="dictionary")
    with pytest.raises(InputError, match="has an entry twice: entries must be distinct"):
        table.restore([["#ab", " a", "#ab"]])
    table.restore([["#ab", " a"]])
    assert table.index == {"#ab": 1, " a": 2}
    with pytest.raises(InputError, match="must start with a space or #"):
        table.restore([["ab"]])


def test_chances_of_the_unknown_word() -> None:
    """a / (a + n) for a word that occurs n times; words without occurrences are never dropped."""
    vectors = Vectors(["red", "rare"], np.eye(2, dtype=np.float32))
    table = WordEmbedding(vectors=vectors, unknown_dropout=0.5)
    table.learn({"red": 2, "new": 1})
    assert table.words == ["red", "rare", "new"]
    chances = table.chance[-3:].tolist()
    assert chances == pytest.approx([0.5 / 2.5, 0.0, 0.5 / 1.5])
    assert not table.chance[:-3].any()
