"""The CRF layer against the loop over time, enumeration, and pytorch-crf."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from torch import Tensor

from trellis.errors import InputError
from trellis.nn import CRF, reference

SHAPES = [(1, 1, 1), (2, 1, 2), (3, 7, 2), (4, 5, 3), (2, 9, 5), (5, 3, 33)]


def make_case(
    rows: int, steps: int, tags: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[CRF, Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    crf = CRF(tags, batch_first=True).to(dtype)
    for p in crf.parameters():
        p.data.normal_()
    emissions = torch.randn(rows, steps, tags, dtype=dtype)
    lengths = torch.randint(1, steps + 1, (rows,))
    return crf, emissions, torch.randint(0, tags, (rows, steps)), lengths


def layer_scores(crf: CRF) -> tuple[Tensor, Tensor, Tensor]:
    return crf.transitions, crf.start_transitions, crf.end_transitions


def likelihood(crf: CRF, e: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
    scores = layer_scores(crf)
    return reference.score(e, *scores, lengths, y) - reference.log_partition(e, *scores, lengths)


def enumerate_scores(crf: CRF, e: Tensor) -> dict[tuple[int, ...], float]:
    """Return the score of every labelling of one row."""
    a, start, end = (p.detach().numpy() for p in layer_scores(crf))
    u = e.detach().numpy()
    scores = {}
    for y in itertools.product(range(crf.num_tags), repeat=len(u)):
        pairs = sum(a[i, j] for i, j in itertools.pairwise(y))
        scores[y] = start[y[0]] + end[y[-1]] + sum(u[t, k] for t, k in enumerate(y)) + pairs
    return scores


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_equal_the_loop(shape: tuple[int, int, int]) -> None:
    crf, e, y, lengths = make_case(*shape)
    e.requires_grad_()
    weight = torch.randn(len(e), dtype=torch.float64)
    ours = crf(e, y, lengths=lengths, reduction="none")
    theirs = likelihood(crf, e, y, lengths)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    leaves = [e, *crf.parameters()]
    for w in (weight, torch.ones_like(weight), -2.5 * torch.ones_like(weight)):
        gradients = torch.autograd.grad((ours * w).sum(), leaves, retain_graph=True)
        expected_gradients = torch.autograd.grad(
            (theirs * w).sum(), leaves, retain_graph=True, allow_unused=True
        )
        for actual, expected in zip(gradients, expected_gradients, strict=True):
            expected = torch.zeros_like(actual) if expected is None else expected
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 4, 3), (1, 3, 4), (1, 5, 2)])
def test_everything_equals_enumeration(shape: tuple[int, int, int]) -> None:
    crf, e, _, _ = make_case(*shape, seed=3)
    by_path = enumerate_scores(crf, e[0])
    scores = np.array(list(by_path.values()))
    log_z = np.logaddexp.reduce(scores)
    p = np.exp(scores - log_z)
    paths = list(by_path)
    assert float(crf.log_partition(e).detach()) == pytest.approx(log_z, abs=1e-10)
    assert crf.decode(e) == [list(paths[int(scores.argmax())])]
    assert float(crf.entropy(e).detach()) == pytest.approx(-(p * (scores - log_z)).sum(), abs=1e-10)
    marginals = np.zeros(shape[1:])
    for y, probability in zip(paths, p, strict=True):
        marginals[np.arange(len(y)), y] += probability
    np.testing.assert_allclose(crf.marginals(e)[0].numpy(), marginals, atol=1e-10)
    order = np.argsort(-scores)[:5]
    for (y, value), n in zip(crf.kbest(e, 5)[0], order, strict=True):
        assert tuple(y) == paths[n]
        assert value == pytest.approx(scores[n] - log_z, abs=1e-10)
    drawn = crf.sample(e, 20_000, random_state=0)[0]
    seen = np.zeros(shape[1:])
    for y in drawn:
        seen[np.arange(len(y)), y] += 1 / len(drawn)
    np.testing.assert_allclose(seen, marginals, atol=0.02)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "token_mean"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_same_as_pytorch_crf(reduction: str, batch_first: bool) -> None:
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf is not installed")
    crf, e, y, lengths = make_case(4, 6, 5)
    pytorch_crf = torchcrf.CRF(5, batch_first=batch_first).double()
    pytorch_crf.load_state_dict(crf.state_dict())
    ours = CRF(5, batch_first=batch_first).double()
    ours.load_state_dict(pytorch_crf.state_dict())
    mask = torch.arange(6) < lengths[:, None]
    if not batch_first:
        e, y, mask = e.transpose(0, 1), y.T, mask.T
    e = e.clone().requires_grad_()
    value, expected = ours(e, y, mask, reduction), pytorch_crf(e, y, mask, reduction)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(
        torch.autograd.grad(value.sum(), e), torch.autograd.grad(expected.sum(), e)
    )
    assert ours.decode(e, mask) == pytorch_crf.decode(e, mask)


# ---- masks


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_masked_steps_are_removed(data: st.DataObject) -> None:
    rows, steps, tags = data.draw(st.tuples(*[st.integers(1, 5)] * 3))
    crf, e, y, _ = make_case(rows, steps, tags, seed=data.draw(st.integers(0, 99)))
    bits = data.draw(st.lists(st.integers(1, 2**steps - 1), min_size=rows, max_size=rows))
    mask = torch.tensor([[bool(b >> t & 1) for t in range(steps)] for b in bits])
    y = torch.where(mask, y, -100)
    e.requires_grad_()
    ours = crf(e, y, mask, reduction="none")
    marginals = crf.marginals(e, mask)
    padded = crf.decode(e, mask, padded=-1)
    (gradient,) = torch.autograd.grad(ours.sum(), e)
    assert (gradient[~mask] == 0).all()
    assert (marginals[~mask] == 0).all()
    assert (padded[~mask] == -1).all()
    for b in range(rows):
        unmasked = e[b, mask[b]][None]
        alone = crf(unmasked, y[b, mask[b]][None])
        torch.testing.assert_close(ours[b], alone, rtol=1e-10, atol=1e-10)
        assert crf.decode(unmasked)[0] == crf.decode(e, mask)[b] == padded[b, mask[b]].tolist()
        torch.testing.assert_close(marginals[b, mask[b]], crf.marginals(unmasked)[0])
        torch.testing.assert_close(crf.entropy(e, mask)[b], crf.entropy(unmasked)[0])


def test_transitions_that_depend_on_the_step() -> None:
    crf, e, y, _ = make_case(3, 5, 4)
    extra = torch.randn(3, 4, 4, 4, dtype=torch.float64, requires_grad=True)
    scores = (extra + crf.transitions, crf.start_transitions, crf.end_transitions)
    lengths = torch.tensor([5, 2, 1])
    ours = crf(e, y, lengths=lengths, transitions=extra, reduction="none")
    theirs = reference.score(e, *scores, lengths, y) - reference.log_partition(e, *scores, lengths)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    leaves = [extra, *crf.parameters()]
    gradients = torch.autograd.grad((ours * w).sum(), leaves)
    expected_gradients = torch.autograd.grad((theirs * w).sum(), leaves)
    for actual, expected in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    mask = torch.tensor([[True, False, True, True, False]] * 3)
    unmasked, into = e[:, [0, 2, 3]], extra[:, [1, 2]]
    torch.testing.assert_close(
        crf(e, y, mask, transitions=extra), crf(unmasked, y[:, [0, 2, 3]], transitions=into)
    )
    best, _ = reference.viterbi(e, *scores, lengths)
    assert crf.decode(e, lengths=lengths, transitions=extra) == [
        row[:n].tolist() for row, n in zip(best, lengths, strict=True)
    ]


def test_kbest_and_samples_with_transitions_that_depend_on_the_step() -> None:
    crf, e, _, _ = make_case(2, 4, 3, seed=6)
    extra = torch.randn(2, 3, 3, 3, dtype=torch.float64)
    a, start, end = (p.detach().numpy() for p in layer_scores(crf))
    steps, u, lengths = a + extra.numpy(), e.numpy(), torch.tensor([4, 3])
    best = crf.kbest(e, 100, lengths=lengths, transitions=extra)
    drawn = crf.sample(e, 4000, lengths=lengths, transitions=extra, random_state=0)
    for b, length in enumerate(lengths.tolist()):
        scores = {
            y: start[y[0]]
            + end[y[-1]]
            + sum(u[b, t, k] for t, k in enumerate(y))
            + sum(steps[b, t, i, j] for t, (i, j) in enumerate(itertools.pairwise(y)))
            for y in itertools.product(range(3), repeat=length)
        }
        log_z = np.logaddexp.reduce(list(scores.values()))
        order = sorted(scores, key=lambda y: -scores[y])
        assert [tuple(y) for y, _ in best[b]] == order[:100]
        values = [value for _, value in best[b]]
        np.testing.assert_allclose(values, [scores[y] - log_z for y in order[:100]], atol=1e-10)
        share = np.mean([tuple(y) == order[0] for y in drawn[b]])
        assert share == pytest.approx(np.exp(scores[order[0]] - log_z), abs=0.03)
    assert (
        crf.kbest(e, 1, lengths=lengths, transitions=extra)[0][0][0]
        == crf.decode(e, lengths=lengths, transitions=extra)[0]
    )
    assert crf.kbest(e, 1) != crf.kbest(e, 1, transitions=extra)
    mask = torch.tensor([[True, False, True, True]] * 2)
    unmasked, into = e[:, [0, 2, 3]], extra[:, [1, 2]]
    assert crf.kbest(e, 2, mask, transitions=extra) == crf.kbest(unmasked, 2, transitions=into)
    for method in (crf.kbest, crf.sample):
        with pytest.raises(InputError, match=r"transitions have shape \(2, 2, 3, 3\), not"):
            method(e, 2, transitions=extra[:, 1:])


def test_kbest_has_no_more_paths_than_there_are() -> None:
    crf = CRF(2, batch_first=True)
    assert [sorted(y for y, _ in row) for row in crf.kbest(torch.zeros(2, 1, 2), 5)] == [
        [[0], [1]]
    ] * 2
    rows = crf.kbest(torch.zeros(2, 2, 2), 3, lengths=torch.tensor([1, 2]))
    assert [len(row) for row in rows] == [2, 3]
    assert all(np.isfinite(value) and -1 not in y for row in rows for y, value in row)
    forbidden = CRF(2, batch_first=True, constraints=[(0, 0), (0, 1), (1, 0)])
    assert [y for y, _ in forbidden.kbest(torch.zeros(1, 3, 2), 5)[0]] == [[1, 1, 1]]


def test_without_start_and_end() -> None:
    """score(x, y) = Σ e + Σ A: the layer has no other parameters."""
    torch.manual_seed(0)
    crf = CRF(3, batch_first=True, start_end=False).double()
    assert [name for name, _ in crf.named_parameters()] == ["transitions"]
    assert list(crf.state_dict()) == ["transitions"]
    assert crf.extra_repr() == "num_tags=3, batch_first=True, rank=None, start_end=False"
    assert CRF(3).extra_repr() == "num_tags=3, batch_first=False, rank=None"
    assert CRF(3).start_end is True
    e = torch.randn(2, 4, 3, dtype=torch.float64)
    tags = torch.randint(0, 3, (2, 4))
    crf.reset_parameters()
    full = CRF(3, batch_first=True).double()
    full.load_state_dict(crf.state_dict(), strict=False)
    full.start_transitions.data.zero_()
    full.end_transitions.data.zero_()
    torch.testing.assert_close(crf(e, tags), full(e, tags), rtol=0, atol=0)
    (-crf(e, tags)).backward()
    (-full(e, tags)).backward()
    torch.testing.assert_close(crf.transitions.grad, full.transitions.grad)
    assert crf.decode(e) == full.decode(e)
    torch.testing.assert_close(crf.entropy(e), full.entropy(e))
    assert all((score == 0).all() for score in crf.scores()[1:])
    torch.testing.assert_close(crf.log_partition(e[:, :1]).detach(), e[:, 0].logsumexp(1))
    bio = CRF(3, batch_first=True, labels=["O", "B-X", "I-X"], constraints="BIO", start_end=False)
    assert bio.decode(torch.tensor([[[0.0, 0.0, 9.0], [0.0, 0.0, 9.0]]])) == [[1, 2]]
    low = CRF(3, rank=2, start_end=False)
    assert {name for name, _ in low.named_parameters()} == {"transition_from", "transition_to"}
    with pytest.raises(InputError, match="start_end must be True or False, not 'no'"):
        CRF(3, start_end="no")


# ---- constraints and partial labels


def test_tagging_scheme_forbids_transitions() -> None:
    labels = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    crf = CRF(5, batch_first=True, labels=labels, constraints="BIO").double()
    e = torch.randn(20, 7, 5, dtype=torch.float64) * 3
    for row in crf.decode(e):
        for before, after in itertools.pairwise(["O", *(labels[t] for t in row)]):
            if after.startswith("I-"):
                assert before[1:] == after[1:]
    tags = torch.tensor([[0, 1, 2, 2, 3, 4, 0]] * 20)
    e.requires_grad_()
    loss = -crf(e, tags)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in (e, *crf.parameters()))
    assert crf.transitions.grad[0, 2] == 0  # a forbidden transition has no gradient
    illegal = crf(e, torch.tensor([[2] * 7] * 20), reduction="none")
    assert torch.isneginf(illegal).all()
    assert not crf.state_dict().keys() - {"transitions", "start_transitions", "end_transitions"}


def test_forbidden_pairs() -> None:
    crf = CRF(2, batch_first=True, constraints=[(0, 0), (1, 1)])
    assert crf.decode(torch.tensor([[[5.0, 0], [5, 0], [5, 0]]])) == [[0, 1, 0]]


def test_sets_of_possible_tags() -> None:
    crf, e, _, _ = make_case(2, 4, 3, seed=5)
    allowed = torch.rand(2, 4, 3) < 0.6
    allowed[:, :, 0] |= ~allowed.any(dim=2)
    ours = crf(e, allowed, reduction="none")
    for b in range(2):
        by_path = enumerate_scores(crf, e[b])
        possible = [s for y, s in by_path.items() if all(allowed[b, t, k] for t, k in enumerate(y))]
        expected = np.logaddexp.reduce(possible) - np.logaddexp.reduce(list(by_path.values()))
        assert float(ours[b].detach()) == pytest.approx(expected, abs=1e-10)
    e.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: crf(x, allowed, reduction="none"), e)
    y = torch.tensor([[0, 1, 2, 0]] * 2)
    one_hot = torch.nn.functional.one_hot(y, 3).bool()
    torch.testing.assert_close(crf(e, one_hot), crf(e, y))


def test_rows_without_a_path() -> None:
    crf, e, y, _ = make_case(3, 4, 3)
    e = e.index_fill(0, torch.tensor([1]), -torch.inf).requires_grad_()
    value = crf(e, y, reduction="none")
    assert torch.isneginf(value).tolist() == [False, True, False]
    log_z = crf.log_partition(e)
    assert torch.isneginf(log_z).tolist() == [False, True, False]
    grads = torch.autograd.grad(value.sum(), [e, *crf.parameters()])
    possible_rows = [0, 2]
    rows = e.detach()[possible_rows].requires_grad_()
    expected = torch.autograd.grad(crf(rows, y[possible_rows]), [rows, *crf.parameters()])
    assert (grads[0][1] == 0).all()
    torch.testing.assert_close(grads[0][possible_rows], expected[0])
    for actual, expected_gradient in zip(grads[1:], expected[1:], strict=True):
        torch.testing.assert_close(actual, expected_gradient)


def test_low_rank() -> None:
    crf = CRF(6, batch_first=True, rank=2).double()
    e, y = torch.randn(2, 5, 6, dtype=torch.float64), torch.randint(0, 6, (2, 5))
    full = CRF(6, batch_first=True).double()
    full.transitions.data = crf.transition_from.data @ crf.transition_to.data.T
    full.start_transitions, full.end_transitions = crf.start_transitions, crf.end_transitions
    torch.testing.assert_close(crf(e, y), full(e, y))
    crf(e, y).backward()
    assert crf.transition_from.grad.shape == (6, 2)


# ---- numbers


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    crf, e, y, _ = make_case(4, 512, 20, dtype=torch.float32)
    narrow = e.to(dtype).requires_grad_()
    wide = narrow.detach().double().requires_grad_()
    exact = copy.deepcopy(crf).double()
    value, expected = crf(narrow, y, reduction="none"), exact(wide, y, reduction="none")
    assert value.dtype == torch.float32
    assert float((value - expected).detach().abs().max()) < 0.01
    value.sum().backward()
    expected.sum().backward()
    assert narrow.grad.dtype == dtype
    digits = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=digits, atol=digits)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert crf(narrow, y).dtype == torch.float32


def test_large_scores() -> None:
    crf, e, y, lengths = make_case(3, 50, 4)
    e = (e * 1e4).requires_grad_()
    value = crf(e, y, lengths=lengths, reduction="none")
    torch.testing.assert_close(value, likelihood(crf, e, y, lengths), rtol=1e-10, atol=1e-6)
    (gradient,) = torch.autograd.grad(value.sum(), e)
    assert torch.isfinite(gradient).all()


def test_gradcheck_and_opcheck() -> None:
    from trellis.nn.chain_ops import chain_value, chain_viterbi

    crf, e, y, lengths = make_case(3, 4, 3)
    e.requires_grad_()

    def value(e: Tensor, a: Tensor, s: Tensor, f: Tensor) -> Tensor:
        return chain_value(e, a, s, f, lengths, y, True)[0]

    assert torch.autograd.gradcheck(value, (e, *layer_scores(crf)))
    arguments = (e, *layer_scores(crf), lengths, y, True)
    torch.library.opcheck(chain_value, arguments)
    torch.library.opcheck(
        chain_viterbi, (e.detach(), *(p.detach() for p in layer_scores(crf)), lengths)
    )


def test_entropy_has_a_gradient() -> None:
    crf, e, _, lengths = make_case(2, 4, 3)
    e.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: crf.entropy(x, lengths=lengths), e)


def test_no_second_derivative() -> None:
    crf, e, y, _ = make_case(2, 3, 2)
    e.requires_grad_()
    (gradient,) = torch.autograd.grad(crf(e, y), e, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated again"):
        gradient.sum().backward()


# ---- torch.compile, torch.export, reproducibility


def test_compiled_without_graph_breaks() -> None:
    crf, e, y, lengths = make_case(3, 6, 4)
    mask = torch.arange(6) < lengths[:, None]
    e.requires_grad_()
    compiled = torch.compile(crf, fullgraph=True, backend="aot_eager")
    value, expected = compiled(e, y, mask), crf(e, y, mask)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value, e), torch.autograd.grad(expected, e))


def test_decoder_can_be_exported() -> None:
    crf, e, _, lengths = make_case(3, 6, 4)

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.crf = crf

        def forward(self, e: Tensor, mask: Tensor) -> Tensor:
            tags: Tensor = self.crf.decode(e, mask, padded=-1)
            return tags

    mask = torch.arange(6) < lengths[:, None]
    program = torch.export.export(Decoder(), (e, mask))
    torch.testing.assert_close(program.module()(e, mask), crf.decode(e, mask, padded=-1))


def test_same_bits_each_time() -> None:
    crf, e, y, _ = make_case(6, 40, 7, dtype=torch.float32)
    e.requires_grad_()
    first, again = (torch.autograd.grad(crf(e, y), [e, *crf.parameters()]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


# ---- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"emissions": torch.zeros(2, 3)}, "3 dimensions, not 2"),
        ({"emissions": torch.zeros(2, 3, 5)}, "5 tags, but the layer has 4"),
        ({"emissions": torch.zeros(0, 3, 4)}, "the batch is empty"),
        ({"emissions": torch.zeros(2, 3, 4, dtype=torch.long)}, "floating point"),
        ({"tags": torch.zeros(2, 4, dtype=torch.long)}, r"tags of shape \(2, 4\)"),
        ({"tags": torch.zeros(2, 3)}, "tags must be integers"),
        ({"tags": torch.tensor([[0, 1, 2], [0, 4, 0]])}, "row 1 of the batch, step 1: tag 4"),
        ({"tags": torch.tensor([[0, 1, -100], [0, 0, 0]])}, "row 0 of the batch, step 2: tag -100"),
        ({"mask": torch.ones(3, 3, dtype=torch.bool)}, r"mask of shape \(3, 3\)"),
        ({"mask": torch.tensor([[1, 1, 1], [0, 0, 0]])}, "row 1 of the batch has no steps"),
        ({"lengths": torch.tensor([3, 0])}, "row 1 of the batch has no steps"),
        ({"lengths": [4, 1]}, "row 0 of the batch has length 4, but there are 3 steps"),
        ({"lengths": [1.5, 1]}, "must be integers"),
        ({"lengths": "two"}, "lengths must be integers, not 'two'"),
        ({"emissions": [[[0.0]]]}, "emissions must be a tensor, not list"),
        ({"tags": [[0]]}, "tags must be a tensor, not list"),
        ({"tags": torch.zeros(2, 3).long().to_sparse()}, "tags must be a dense tensor, not sparse"),
        ({"lengths": []}, "lengths have shape \\(0,\\): must be \\(2,\\)"),
        ({"mask": [[1]]}, "mask must be a tensor, not list"),
        ({"transitions": 5}, "transitions must be a tensor, not int"),
        ({"lengths": [3, 3], "mask": torch.ones(2, 3)}, "same meaning: pass only one"),
        ({"reduction": "all"}, "reduction must be one of none, sum"),
        ({"transitions": torch.zeros(2, 3, 4, 4)}, r"not \(2, 2, 4, 4\)"),
        ({"tags": torch.ones(2, 3, 3, dtype=torch.bool)}, "possible tags have shape"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    arguments = {"emissions": torch.zeros(2, 3, 4), "tags": torch.zeros(2, 3, dtype=torch.long)}
    with pytest.raises(InputError, match=message):
        CRF(4, batch_first=True)(**{**arguments, **change})


def test_errors_name_the_position_before_masking() -> None:
    mask = torch.tensor([[True, False, True], [True, True, True]])
    tags = torch.tensor([[0, 9, 9], [0, 0, 0]])
    with pytest.raises(InputError, match="row 0 of the batch, step 2: tag 9"):
        CRF(4, batch_first=True)(torch.zeros(2, 3, 4), tags, mask)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_tags": 0}, "num_tags must be at least 1"),
        ({"num_tags": "3"}, "num_tags must be an integer"),
        ({"num_tags": 3, "constraints": 5}, "a tagging scheme or pairs"),
        ({"num_tags": 3, "constraints": [(0, "x")]}, "a tagging scheme or pairs"),
        ({"num_tags": 3, "rank": 0}, "rank must be at least 1"),
        ({"num_tags": 3, "labels": ["O"]}, "3 tags, but labels has 1 names"),
        ({"num_tags": 3, "constraints": "BIO"}, "names of the tags"),
        ({"num_tags": 3, "constraints": [(0, 3)]}, r"\(0, 3\): tags must be 0 to 2"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CRF(**arguments)  # type: ignore[arg-type]


def test_layer_on_another_device():
    crf = CRF(3, batch_first=True)
    emissions = torch.zeros(1, 2, 3, device="meta")
    with pytest.raises(InputError, match="emissions are on meta, but the layer is on cpu"):
        crf(emissions, torch.zeros(1, 2, dtype=torch.long, device="meta"))
    with pytest.raises(InputError, match="emissions are on meta"):
        crf.decode(emissions)


def test_results_in_the_layout_of_the_steps() -> None:
    """Without batch_first, the steps are the first axis."""
    crf, e, _, lengths = make_case(3, 7, 2)
    steps_first = copy.deepcopy(crf)
    steps_first.batch_first = False
    expected = crf.marginals(e, lengths=lengths)
    actual = steps_first.marginals(e.transpose(0, 1), lengths=lengths)
    assert actual.shape == (7, 3, 2)
    torch.testing.assert_close(actual.transpose(0, 1), expected)
    padded = steps_first.decode(e.transpose(0, 1), lengths=lengths, padded=-5)
    assert padded.shape == (7, 3)
    torch.testing.assert_close(padded.T, crf.decode(e, lengths=lengths, padded=-5))


def test_the_steps_of_a_long_mask_keep_their_order() -> None:
    crf, e, _, _ = make_case(2, 300, 3)
    mask = torch.rand(2, 300) < 0.5
    mask[:, 0] = True
    for row, path in enumerate(crf.decode(e, mask)):
        assert path == crf.decode(e[row, mask[row]][None])[0]
