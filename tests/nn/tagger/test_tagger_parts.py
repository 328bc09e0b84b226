"""Optimisers, clipping and batches of the neural tagger equal independent references."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

import trellis
from trellis.models.chain.inspection import FeatureContributions
from trellis.nn.tagger.data import (
    Epoch,
    _UniqueFinder,
    bucket_by_length,
    build_corpus,
    read_words,
)
from trellis.nn.tagger.inspection import split_scores
from trellis.nn.tagger.optimizer import LazyRows, clip_gradients
from trellis.nn.words import WordEmbedding

X = [["the", "Dog", "barks"], ["a", "cat"], ["the", "cat", "sleeps", "well"], ["dogs"]] * 3


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
    initial = table.weight.detach().clone()
    lazy = LazyRows([table.weight], lr=0.1, weight_decay=0.5)
    for ids in ([1, 3], [1], []):
        lazy.zero_grad()
        table(torch.tensor(ids, dtype=torch.long)).sum().backward()
        lazy.step()
    has_changed = (table.weight != initial).any(dim=1)
    assert has_changed.tolist() == [False, True, False, True, False]


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_equals_that_of_pytorch(max_norm):
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    theirs = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5)]
    for our, their in zip(ours, theirs, strict=True):
        our.grad = torch.randn_like(our)
        their.grad = our.grad.clone()
    clip_gradients(ours, max_norm)
    torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our.grad, their.grad)


# ---- batches


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_unique_finder_equals_numpy_except_for_the_order(first, second):
    find_unique = _UniqueFinder(10)
    for ids in (first, second):
        array = np.array(ids, np.int64)
        unique, index = find_unique(array)
        assert sorted(unique) == np.unique(array).tolist()
        np.testing.assert_array_equal(unique[index], array)


@settings(deadline=None, max_examples=examples(50))
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


def test_the_parts_of_scores() -> None:
    """The parts of the chosen label and of the runner-up sum to their scores."""
    X, y = [["a", "b", "a"], ["b", "a"]], [["P", "Q", "Q"], ["Q", "P"]]
    settings = {"word_dim": 3, "char_dim": 2, "char_hidden": 2, "hidden": 2, "epochs": 1}
    tagger = trellis.NeuralTagger(**settings, features="crf", random_state=0, device="cpu")
    tagger.fit(X, y)
    tagger.temperature_, tagger.alpha_ = 0.5, 3.0
    scores = tagger._compute_scores([X[0]])
    path = [tagger.classes_.tolist().index(label) for label in tagger.predict(X[:1])[0]]
    split = split_scores(tagger, X[0], scores, path)
    linear = FeatureContributions(tagger.linear_, X[0], path)
    for t, labels in ((0, (0, 1)), (1, (1, 0)), (2, (0, 1))):
        parts = {part.feature: part for part in split(t, labels)}
        for part in linear.features_at(t, labels):
            scaled = parts[part.feature]
            expected = (6.0 * part.chosen, 6.0 * part.runner_up)
            assert (scaled.chosen, scaled.runner_up) == pytest.approx(expected)
        names = [name for name in parts if name.startswith(("transition", "start", "end"))]
        assert all(parts[name].value == 1.0 for name in [*names, "network"])
        assert len([name for name in names if "into" in name]) == (t > 0)
        assert len([name for name in names if "out of" in name]) == (t < 2)
        for field, label in zip(("chosen", "runner_up"), labels, strict=True):
            total = sum(
                getattr(part, field) for name, part in parts.items() if "transition" not in name
            )
            expected_total = scores.unary[0][t, label]
            if t == 0 and scores.start is not None:
                expected_total += scores.start[label]
            if t == 2 and scores.end is not None:
                expected_total += scores.end[label]
            assert total == pytest.approx(expected_total, abs=1e-6)
