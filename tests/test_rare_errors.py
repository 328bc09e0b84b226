"""Errors that few inputs raise, one call each: the message names what is wrong and where."""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.checks import is_not_a_score
from trellis.compat.fasttext import load_model
from trellis.compat.fasttext.meter import Counts, Meter
from trellis.compat.gensim.models import KeyedVectors
from trellis.compat.pyctcdecode.language_model import load_unigram_set_from_arpa
from trellis.data import jsonl, markup
from trellis.errors import FormatError, InfeasibleError, InputError
from trellis.features.window import ner
from trellis.formats import arpa, crfsuite
from trellis.formats.quantization import quantize
from trellis.formats.text_models import open_text
from trellis.inference import chain, graph
from trellis.optim import newton
from trellis.plots import lattice

X, Y = [["the", "dog"], ["a", "cat"]] * 3, [["D", "N"]] * 6
UNIFORM = np.log(np.full((2, 3), 1 / 3))


def decoder(**options: Any) -> Any:
    return trellis.CTCDecoder(["", " ", "a"], **options)


def pair() -> Any:
    return graph.FactorGraph([2], [((0,), [0.0, 0.0])])


GRAPH = (np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[0, 1], [1, 2]]))


@functools.cache
def fitted_graph() -> Any:
    return trellis.GraphCRF(max_iter=2).fit([GRAPH], [["a", "b", "a"]])


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # CTC decoder
    (lambda: decoder().decode(UNIFORM[None]), InputError, "has shape (1, 2, 3): must be (T, V)"),
    (lambda: decoder().decode_batch([UNIFORM], lengths=[1]), InputError, "lengths can only be"),
    (lambda: decoder().decode_batch(UNIFORM), InputError, "batch must be a list of (T, V)"),
    (lambda: decoder().decode_batch({UNIFORM.tobytes()}), InputError, "batch must be a list of"),
    (lambda: decoder().decode_batch(3), InputError, "batch must be a list of (T, V) arrays"),
    (
        lambda: decoder().decode_batch([UNIFORM, np.full((2, 3), -np.inf)]),
        InfeasibleError,
        "sequence 1: every text has probability 0",
    ),
    (lambda: decoder(alpha="1"), InputError, "alpha must be a number, not '1'"),
    (lambda: decoder(alpha=True), InputError, "alpha must be a number, not True"),
    (lambda: decoder(alpha=[1, 2]), InputError, "alpha must be a number, not [1, 2]"),
    (lambda: decoder(beta=math.nan), InputError, "beta"),
    (lambda: decoder(beta=-math.inf), InputError, "beta"),
    (lambda: decoder(token_min_logp=math.inf), InputError, "token_min_logp"),
    (lambda: decoder(beam_prune_logp=5e-324), InputError, "must be at most 0"),
    (lambda: decoder(beam_width=0), InputError, "beam_width is 0: must be at least 1"),
    (
        lambda: trellis.CTCDecoder(["", " "], blank=1),
        InputError,
        "cannot be both the blank and the separator of words",
    ),
    # sequence models
    (lambda: trellis.HMM().fit(X, Y).predict_marginals(X, known=3), InputError, "known must be"),
    (lambda: trellis.CRF(constraints="BIO").fit(X, [["O", "I-a"]] * 6), InputError, "I-a"),
    # regressions, optimisers
    (lambda: newton(lambda w: (0.0, w), 3, np.zeros(2)), InputError, "hessian must be a function"),
    # embeddings
    (
        lambda: trellis.TextClassifier(2, min_label_count=3).fit(["a"], ["x"]),
        InputError,
        "min_label_count is 3: no label occurs so often",
    ),
    (lambda: trellis.Vectors(["a"], [[1.0]]).search("a", 1), InputError, "queries"),
    # features
    (lambda: ner("pos"), InputError, "columns must be a list of names, got 'pos'"),
    (lambda: ner(3), InputError, "columns must be a list of names, got 3"),  # type: ignore
    # data
    (lambda: markup.mark(3, []), InputError, "text must be str, not int"),  # type: ignore
    # graphs
    (
        lambda: graph.FactorGraph.pairwise(np.zeros((2, 2)), np.zeros((0, 2, 2)), np.zeros((2, 2))),
        InputError,
        "edges must be (edges, 2), not of shape (0, 2, 2)",
    ),
    (lambda: pair().rescored(np.zeros(3)), InputError, "tables have shape (3,): must be (2,)"),
    (lambda: pair().rescored(np.array([0.0, np.nan])), InputError, "tables"),
    (lambda: fitted_graph().score([GRAPH], []), InputError, "X has 1 samples, y has 0"),
    (lambda: fitted_graph().score([GRAPH], [[["a"]]]), InputError, "labels of sample 0 have sha"),
    (
        lambda: fitted_graph().log_likelihood([GRAPH], [["a", set(), "b"]]),
        InputError,
        "sequence 0, position 1: set() is not a set of labels",
    ),
    (
        lambda: fitted_graph().log_likelihood([GRAPH], [["a", "a", "b"]] * 2),
        InputError,
        "X has 1 samples, y has 2",
    ),
    # chains
    (lambda: chain.viterbi(UNIFORM, "x"), InputError, "transition"),
    # files
    (lambda: crfsuite.parse(b"lCRF"), FormatError, "4 bytes are too few"),
]


@pytest.mark.parametrize(("call", "error", "message"), CALLS)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as info:
        call()
    assert message in str(info.value)


def test_an_empty_meter() -> None:
    precision, recall = Meter(Counts(1), {"a": 0}).precision_recall_curve("a")
    assert (precision.tolist(), recall.tolist()) == ([], [])


def test_properties_of_a_decoder() -> None:
    made = trellis.CTCDecoder(["a", " ", ""])
    assert (made.labels, made.blank, made.units) == (("a", " ", ""), 2, "characters")
    for value in (None, -math.inf):
        made = decoder(token_min_logp=value, beam_prune_logp=value)
        assert made.decode(UNIFORM) == decoder(token_min_logp=-99, beam_prune_logp=-99).decode(
            UNIFORM
        )


def test_lines_of_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for line, message in (
        ('{"tokens": ["a", 3], "tags": ["O", "O"]}', "position 1: 3 is not a string or a list"),
        ('{"tokens": [["a", 3]], "tags": ["O"]}', "position 0: ['a', 3] is not a string"),
        ('{"text": 3}', 'the object has neither "tokens" nor a string "text"'),
        ('{"tags": []}', 'the object has neither "tokens" nor a string "text"'),
    ):
        path.write_text(line + "\n")
        with pytest.raises(FormatError) as info:
            list(jsonl.iterate_objects(path))
        assert message in str(info.value)


def test_text_models_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path, message in ((tmp_path, "not a regular file"), (tmp_path / "empty", "is empty")):
        with pytest.raises(FormatError, match=message), open_text(path, "utf-8"):
            pass


def test_facts_about_a_language_model(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text(
        "\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-2\t<unk>\n-9\t<s>\t-1\n-1\t</s>\n"
        "-1\ta\n\n\\2-grams:\n-1\t<s> a\n\n\\end\\\n"
    )
    model = arpa.read(path)
    assert (model.order, model.counts, model.vocabulary) == (2, (4, 1), 4)
    assert model.words() == ["<s>", "</s>", "a"]
    assert repr(model) == "NGramModel(order=2, counts=(4, 1))"
    assert [word in model for word in ("a", "b", 3, "\ud800")] == [True, False, False, False]


def test_labels_of_numpy_types_become_python_values() -> None:
    labels = [[np.str_("D"), np.str_("N")]] * 6
    model = trellis.HMM().fit(X, labels)
    (predicted,) = model.predict(X[:1])
    assert [type(label) for label in predicted] == [str, str]
    numbers = trellis.HMM().fit(X, [[np.int64(1), np.int64(2)]] * 6)
    assert [type(label) for label in numbers.predict(X[:1])[0]] == [int, int]


def test_float32_scores() -> None:
    values = np.array([0.0, -np.inf, np.inf, np.nan, 3e38], np.float32)
    assert is_not_a_score(values).tolist() == [False, False, True, True, False]


def test_a_quantised_model_decodes_its_rows_and_is_not_trained() -> None:
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(300, size=5)) for _ in range(300)]
    model = trellis.TextClassifier(4, epochs=1, n_jobs=1).fit(texts, ["a", "b", "c"] * 100)
    small = model.quantize(dsub=1)
    assert small.input_.shape == model.input_.shape
    assert np.abs(small.input_ - model.input_).max() < 0.05
    words = trellis.FastText(4, min_count=1, bucket=300, epochs=1, n_jobs=1).fit(
        [text.split() for text in texts]
    )
    words._input = quantize(words.input_, 2)
    with pytest.raises(InputError, match="a quantised model cannot be trained"):
        words.partial_fit([["w1", "w2"]])


def test_reductions_of_the_layers() -> None:
    torch = pytest.importorskip("torch")
    from trellis import nn

    torch.manual_seed(0)
    crf = nn.CRF(3, batch_first=True)
    emissions, tags = torch.randn(2, 4, 3), torch.randint(3, (2, 4))
    losses = crf(emissions, tags, reduction="none")
    assert losses.shape == (2,)
    for name, divisor in (("sum", 1), ("mean", 2), ("token_mean", 8)):
        value = crf(emissions, tags, reduction=name)
        torch.testing.assert_close(value, losses.sum() / divisor)
    mask = torch.tensor([[True, True, True, False], [True, True, False, False]])
    masked = crf(emissions, tags, mask=mask, reduction="none").sum()
    torch.testing.assert_close(crf(emissions, tags, mask=mask, reduction="token_mean"), masked / 5)
    assert "num_tags=3, batch_first=True" in repr(crf)


def test_vector_attributes_of_gensim() -> None:
    vectors = KeyedVectors(2)
    vectors.add_vectors(["a", "b"], np.eye(2), extras={"count": np.array([3, 4])})
    assert [vectors.get_vecattr(key, "count") for key in ("a", "b")] == [3, 4]
    new = {"count": np.array([7, 8])}
    vectors.add_vectors(["b", "c"], np.ones((2, 2)), extras=new)
    assert [vectors.get_vecattr(key, "count") for key in "abc"] == [3, 4, 8]
    vectors.add_vectors(["b", "a"], np.ones((2, 2)), extras=new, replace=True)
    assert [vectors.get_vecattr(key, "count") for key in "abc"] == [8, 7, 8]


def test_lines_of_a_list() -> None:
    model = trellis.TextClassifier(2, epochs=1, n_jobs=1).fit(["a b", "c"], ["x", "y"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_fasttext(f"{folder}/m.bin")
        loaded = load_model(f"{folder}/m.bin")
    words, labels = loaded.get_line(["a b __label__x", "c __label__y"])
    assert words == [["a", "b", "</s>"], ["c", "</s>"]]
    assert labels == [["__label__x"], ["__label__y"]]
    assert loaded.get_line("a b __label__x") == (words[0], labels[0])


def test_the_score_of_a_graph_model_is_the_fraction_of_correct_nodes() -> None:
    model = fitted_graph()
    guess = list(model.predict([GRAPH])[0])
    wrong = ["b" if label == "a" else "a" for label in guess]
    assert model.score([GRAPH], [guess]) == 1.0
    assert model.score([GRAPH], [wrong]) == 0.0
    assert model.score([GRAPH], [[wrong[0], *guess[1:]]]) == pytest.approx(2 / 3)
    both = model.score([GRAPH, GRAPH], [guess, wrong], sample_weight=[3.0, 1.0])
    assert both == pytest.approx(0.75)


def test_marginals_of_a_picture_may_exceed_one_by_rounding() -> None:
    for p, is_valid in (
        (1 + 0.9e-6, True),
        (1 + 1.5e-6, False),
        (-0.9e-6, True),
        (-1.5e-6, False),
    ):
        if is_valid:
            lattice(["a"], ["N", "V"], np.array([[p, 0.5]]), ["N"])
            continue
        with pytest.raises(InputError, match=r"marginals, position 0, label 'N': .* is not in"):
            lattice(["a"], ["N", "V"], np.array([[p, 0.5]]), ["N"])


def test_unigrams_of_an_arpa_file_without_back_off(tmp_path: Path) -> None:
    path = tmp_path / "lm.arpa"
    path.write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1\ta\n\n\\end\\\n")
    with pytest.raises(FormatError, match="no word has a back-off weight: pass unigrams"):
        load_unigram_set_from_arpa(path)


@pytest.mark.parametrize(
    ("name", "limit"), [("dim", 1 << 24), ("word_ngrams", 1 << 10), ("minn", 64), ("maxn", 64)]
)
def test_limits_of_the_arguments_in_fasttext_files(tmp_path: Path, name: str, limit: int) -> None:
    model = trellis.TextClassifier(2, epochs=1, n_jobs=1).fit(["a b", "c"], ["x", "y"])
    path = tmp_path / "m.bin"
    model.save_fasttext(path)
    data = bytearray(path.read_bytes())
    fields = ("dim", "ws", "epoch", "min_count", "neg", "word_ngrams", "loss", "model", "bucket")
    place = 8 + 4 * (*fields, "minn", "maxn").index(name)
    for value, is_refused in ((limit, False), (limit + 1, True)):
        data[place : place + 4] = value.to_bytes(4, "little")
        path.write_bytes(data)
        try:
            trellis.TextClassifier.load(path)
            message = ""
        except FormatError as error:
            message = str(error)
        assert (f"{name} is {value}" in message) == is_refused, message
