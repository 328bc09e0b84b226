"""Files of neural taggers: what comes back is what went, and a wrong file is told from a right one.

Also the parts of training that have an oracle: the optimiser of rows, clipping, batches.
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
from trellis.nn.tagger.data import Epoch, _Unique, bucketed, make_corpus, words_of
from trellis.nn.tagger.optimizer import LazyRows, clip
from trellis.nn.words import WordEmbedding


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


X = [["the", "Dog", "barks"], ["a", "cat"], ["the", "cat", "sleeps", "well"], ["dogs"]] * 3
Y = [["D", "N", "V"], ["D", "N"], ["D", "N", "V", "A"], ["N"]] * 3
OTHERS = [["the", "Unseen", "cat", "slept"], [], ["naïve"]]
KINDS = {
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
    given = {"hidden": 5, "word_dim": 6, "char_hidden": 4, "epochs": 1, "device": "cpu"}
    return NeuralTagger(random_state=0, **(given | options)).fit(X, Y, dev=(X, Y))


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_back_is_what_went(kind, tmp_path):
    tagger, path = fitted(**KINDS[kind]), tmp_path / "model.trellis"
    tagger.save(path)
    state = torch.random.get_rng_state()
    for other in (trellis.load(path), NeuralTagger.load(path)):
        assert torch.equal(torch.random.get_rng_state(), state)
        assert other.predict(X + OTHERS) == tagger.predict(X + OTHERS)
        pairs = zip(
            other.predict_marginals(X + OTHERS), tagger.predict_marginals(X + OTHERS), strict=True
        )
        assert all(np.array_equal(a, b) for a, b in pairs)
        assert other.history_ == tagger.history_
        assert other.classes_.tolist() == tagger.classes_.tolist()
        other.save(tmp_path / "again.trellis")
        assert trellis.load(tmp_path / "again.trellis").predict(X) == tagger.predict(X)


def test_loaded_model_can_be_fitted_anew(tmp_path):
    tagger = fitted()
    tagger.save(tmp_path / "model.trellis")
    again = trellis.load(tmp_path / "model.trellis").set_params(device="cpu").fit(X, Y, dev=(X, Y))
    assert again.losses_ == tagger.losses_


def test_functions_cannot_be_kept(tmp_path):
    tagger = fitted(head=lambda n: nn.CRF(n, batch_first=True))
    with pytest.raises(InputError, match="function"):
        tagger.save(tmp_path / "model.trellis")
    assert not list(tmp_path.iterdir())


def endings(sequence):
    return [[f"end={word[-1]}", "bias"] for word in sequence]


def test_features_that_a_function_makes_are_given_again(tmp_path):
    tagger, path = fitted(features=endings), tmp_path / "model.trellis"
    tagger.save(path)
    assert trellis.load(path, features=endings).predict(X) == tagger.predict(X)
    with pytest.raises(InputError, match="features=function"):
        trellis.load(path).predict(X)


def changed(path, meta=None, tensors=None, without=()):
    """The same file with other contents, and a right checksum."""
    contents = native.read(path)
    arrays = {name: np.array(a) for name, a in contents.tensors.items() if name not in without}
    native.write(path, contents.kind, contents.meta | (meta or {}), arrays | (tensors or {}))


BAD = {
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


@pytest.mark.parametrize("kind", BAD)
def test_wrong_files_are_format_errors(kind, tmp_path):
    path = tmp_path / "model.trellis"
    fitted().save(path)
    parameters, tensors, without = BAD[kind]
    meta = {"parameters": native.read(path).meta["parameters"] | parameters}
    changed(path, meta, tensors, without)
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
def test_wrong_settings_are_format_errors(meta, tmp_path):
    path = tmp_path / "model.trellis"
    fitted().save(path)
    changed(path, meta)
    with pytest.raises(FormatError, match=r"model\.trellis"):
        trellis.load(path)


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "model.trellis"
    CRF(max_iter=1).fit(X, Y).save(path)
    with pytest.raises(FormatError, match="crf"):
        NeuralTagger.load(path)
    fitted().save(path)
    data = path.read_bytes()
    for wrong in (data[:-1], data[:100], b"", data[:-5] + b"xxxxx", b"\x80\x04" + data):
        path.write_bytes(wrong)
        with pytest.raises(FormatError):
            NeuralTagger.load(path)
    with pytest.raises(FileNotFoundError):
        NeuralTagger.load(tmp_path / "none.trellis")


@pytest.mark.parametrize("name", ["state.network.output.bias", "state.exp_avg.output.bias"])
@pytest.mark.parametrize("value", [np.zeros(9, np.float32), np.full(4, np.inf, np.float32)])
def test_wrong_checkpoints_are_format_errors(name, value, tmp_path):
    path = tmp_path / "run.checkpoint"
    settings = {"hidden": 5, "epochs": 2, "random_state": 0, "device": "cpu"}
    NeuralTagger(**settings).fit(X, Y, checkpoint=Checkpoint(path, every=1))
    changed(path, tensors={name: value})
    with pytest.raises(FormatError, match=r"run\.checkpoint"):
        NeuralTagger(**settings).fit(X, Y, checkpoint=Checkpoint(path, resume=True))


# ---- optimisers


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_rows_are_updated_as_adamw_does(decay):
    torch.manual_seed(0)
    begin = torch.randn(4, 3)
    ours, theirs = (torch.nn.Embedding.from_pretrained(begin.clone(), freeze=False, sparse=s)
                    for s in (True, False))  # fmt: skip
    lazy = LazyRows([ours.weight], lr=0.05, weight_decay=decay)
    dense = torch.optim.AdamW([theirs.weight], lr=0.05, weight_decay=decay)
    for _ in range(5):
        ids, weight = torch.tensor([2, 0, 1, 3, 2]), torch.randn(5, 3)  # one row comes twice
        for table, optimizer in ((ours, lazy), (theirs, dense)):
            optimizer.zero_grad()
            (table(ids) * weight).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-5, atol=1e-6)


def test_rows_without_a_gradient_stay():
    table = torch.nn.Embedding(5, 2, sparse=True)
    before = table.weight.detach().clone()
    lazy = LazyRows([table.weight], lr=0.1, weight_decay=0.5)
    for ids in ([1, 3], [1], []):
        lazy.zero_grad()
        table(torch.tensor(ids, dtype=torch.long)).sum().backward()
        lazy.step()
    moved = (table.weight != before).any(dim=1)
    assert moved.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("most", [0.1, 1e6])
def test_clipping_is_that_of_pytorch(most):
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    theirs = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    for a, b in zip(ours, theirs, strict=True):
        a.grad = torch.randn_like(a)
        b.grad = a.grad.clone()
    clip(ours, most)
    torch.nn.utils.clip_grad_norm_(theirs, most)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


# ---- batches


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_unique_is_numpys_but_for_the_order(first, second):
    find = _Unique(10)
    for ids in (first, second):
        array = np.array(ids, np.int64)
        unique, place = find(array)
        assert sorted(unique) == np.unique(array).tolist()
        np.testing.assert_array_equal(unique[place], array)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 9), st.integers(0, 99))
def test_every_sequence_is_in_one_batch(lengths, size, seed):
    array = np.array(lengths)
    parts = bucketed(array, size, np.random.default_rng(seed))
    assert sorted(np.concatenate(parts)) == list(range(len(lengths)))
    assert {len(part) for part in parts} <= {size, len(lengths) % size}
    plain = bucketed(array, size, None)
    assert np.all(np.diff(array[np.concatenate(plain)]) >= 0)


def test_a_batch_holds_the_words_it_should():
    words, lengths = words_of(X)
    table = WordEmbedding(2)
    table.learn(dict.fromkeys(words, 1))
    made = make_corpus(words, lengths, table, torch.device("cpu"))
    made.tags = np.arange(len(words))
    names = ["", "?", *table.words]
    for batch in Epoch(made, bucketed(lengths, 5, np.random.default_rng(0))):
        rows = batch.rows[0][batch.word, 0].tolist()
        shape = (len(batch.lengths), len(batch.sizes))
        assert batch.lengths.tolist() == sorted(lengths[batch.sequences], reverse=True)
        assert batch.sizes.sum() == len(rows)
        for row, place, own in zip(rows, batch.place.tolist(), batch.row.tolist(), strict=True):
            b, t = divmod(place, shape[1])
            assert b == own
            sequence = batch.sequences[b]
            assert names[row] == X[sequence][t]
            assert words[batch.tags[b, t]] == X[sequence][t]
