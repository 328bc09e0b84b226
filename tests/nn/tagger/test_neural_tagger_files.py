"""Files of neural taggers: saved and loaded models are equal, and invalid files raise.

Also the parts of training with an independent reference: optimisers, clipping and batches.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import trellis
from trellis import CRF, NeuralTagger, Vectors, nn
from trellis.errors import FormatError, InputError
from trellis.features import Window
from trellis.formats import native
from trellis.models.chain.checkpoint import Checkpoint
from trellis.nn.tagger.data import (
    Epoch,
    _UniqueFinder,
    bucket_by_length,
    build_corpus,
    read_words,
)
from trellis.nn.tagger.optimizer import LazyRows, clip_gradients
from trellis.nn.words import WordEmbedding


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


X = [["the", "Dog", "barks"], ["a", "cat"], ["the", "cat", "sleeps", "well"], ["dogs"]] * 3
Y = [["D", "N", "V"], ["D", "N"], ["D", "N", "V", "A"], ["N"]] * 3
UNSEEN = [["the", "Unseen", "cat", "slept"], [], ["naïve"]]
SETTINGS = {
    "plain": {},
    "hybrid": {"features": "crf"},
    "window": {"features": Window(columns=())},
    "vectors": {"vectors": Vectors(["cat", "slept"], np.eye(2, 9, dtype=np.float32))},
    "all words": {"words": ("embedding", "rnn", "ngrams"), "lowercase": True},
    "softmax": {"head": "softmax", "encoder": "cnn"},
    "memm": {"head": "memm", "layers": 2},
    "pairs": {"constraints": [("D", "V"), ("A", "A")]},
}


def fitted(**options):
    settings = {"hidden": 5, "word_dim": 6, "char_hidden": 4, "epochs": 1, "device": "cpu"}
    return NeuralTagger(random_state=0, **(settings | options)).fit(X, Y, dev=(X, Y))


@pytest.mark.parametrize("name", SETTINGS)
def test_loaded_model_equals_saved_model(name, tmp_path):
    tagger, path = fitted(**SETTINGS[name]), tmp_path / "model.trellis"
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


def test_loaded_model_can_be_fitted_again(tmp_path):
    tagger = fitted()
    tagger.save(tmp_path / "model.trellis")
    again = trellis.load(tmp_path / "model.trellis").set_params(device="cpu").fit(X, Y, dev=(X, Y))
    assert again.losses_ == tagger.losses_


def test_head_set_as_a_function_cannot_be_saved(tmp_path):
    tagger = fitted(head=lambda n: nn.CRF(n, batch_first=True))
    with pytest.raises(InputError, match="function"):
        tagger.save(tmp_path / "model.trellis")
    assert not list(tmp_path.iterdir())


def endings(sequence):
    return [[f"end={word[-1]}", "bias"] for word in sequence]


def test_feature_function_is_passed_to_load(tmp_path):
    tagger, path = fitted(features=endings), tmp_path / "model.trellis"
    tagger.save(path)
    assert trellis.load(path, features=endings).predict(X) == tagger.predict(X)
    with pytest.raises(InputError, match="features=function"):
        trellis.load(path).predict(X)


def rewrite(path, meta=None, tensors=None, without=()):
    """Replace parts of a file, with a valid checksum."""
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
    fitted().save(path)
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
    fitted().save(path)
    rewrite(path, meta)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


def test_other_and_damaged_files_raise(tmp_path):
    path = tmp_path / "model.trellis"
    CRF(max_iter=1).fit(X, Y).save(path)
    with pytest.raises(FormatError, match="crf"):
        NeuralTagger.load(path)
    fitted().save(path)
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


# ---- optimisers


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lazy_rows_equal_adamw_where_all_rows_have_gradients(decay):
    torch.manual_seed(0)
    initial = torch.randn(4, 3)
    ours, theirs = (torch.nn.Embedding.from_pretrained(initial.clone(), freeze=False, sparse=s)
                    for s in (True, False))  # fmt: skip
    lazy = LazyRows([ours.weight], lr=0.05, weight_decay=decay)
    dense = torch.optim.AdamW([theirs.weight], lr=0.05, weight_decay=decay)
    for _ in range(5):
        ids, weight = torch.tensor([2, 0, 1, 3, 2]), torch.randn(5, 3)  # row 2 occurs twice
        for table, optimizer in ((ours, lazy), (theirs, dense)):
            optimizer.zero_grad()
            (table(ids) * weight).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)


def test_rows_without_a_gradient_are_unchanged():
    table = torch.nn.Embedding(5, 2, sparse=True)
    before = table.weight.detach().clone()
    lazy = LazyRows([table.weight], lr=0.1, weight_decay=0.5)
    for ids in ([1, 3], [1], []):
        lazy.zero_grad()
        table(torch.tensor(ids, dtype=torch.long)).sum().backward()
        lazy.step()
    moved = (table.weight != before).any(dim=1)
    assert moved.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_equals_that_of_pytorch(max_norm):
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    theirs = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    for a, b in zip(ours, theirs, strict=True):
        a.grad = torch.randn_like(a)
        b.grad = a.grad.clone()
    clip_gradients(ours, max_norm)
    torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


# ---- batches


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_unique_finder_equals_numpy_except_for_the_order(first, second):
    find_unique = _UniqueFinder(10)
    for ids in (first, second):
        array = np.array(ids, np.int64)
        unique, index = find_unique(array)
        assert sorted(unique) == np.unique(array).tolist()
        np.testing.assert_array_equal(unique[index], array)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 99))
def test_every_sequence_is_in_one_batch(lengths, size, seed):
    array = np.array(lengths)
    groups = bucket_by_length(array, size, np.random.default_rng(seed))
    assert sorted(np.concatenate(groups)) == list(range(len(lengths)))
    assert {len(group) for group in groups} <= {size, len(lengths) % size}
    unshuffled = bucket_by_length(array, size, None)
    assert np.all(np.diff(array[np.concatenate(unshuffled)]) >= 0)


def test_batches_contain_the_words_and_tags_of_their_sequences():
    words, lengths = read_words(X)
    table = WordEmbedding(2)
    table.learn(dict.fromkeys(words, 1))
    corpus = build_corpus(words, lengths, table, torch.device("cpu"))
    corpus.tags = np.arange(len(words))
    names = ["", "?", *table.words]
    for batch in Epoch(corpus, bucket_by_length(lengths, 5, np.random.default_rng(0))):
        rows = batch.rows[0][batch.word, 0].tolist()
        shape = (len(batch.lengths), len(batch.sizes))
        assert batch.lengths.tolist() == sorted(lengths[batch.sequences], reverse=True)
        assert batch.sizes.sum() == len(rows)
        for row, cell, index in zip(rows, batch.cell.tolist(), batch.row.tolist(), strict=True):
            b, t = divmod(cell, shape[1])
            assert b == index
            sequence = batch.sequences[b]
            assert names[row] == X[sequence][t]
            assert words[batch.tags[b, t]] == X[sequence][t]
