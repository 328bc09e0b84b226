"""The GPU kernels of CTC in Triton's interpreter: small odd sizes, NaN in new memory."""

import itertools
import os

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
pytest.importorskip("triton", reason="Triton is not installed")

from prepared_launches import prepare_launches  # noqa: E402
from torch.nn import functional  # noqa: E402

from trellis.inference.ctc import kernels_frames as kernels  # noqa: E402
from trellis.inference.ctc import triton as engine  # noqa: E402
from trellis.inference.ctc.triton import CTCPlan, weighted_gradient  # noqa: E402
from trellis.inference.gpu.status import RowStatus  # noqa: E402
from trellis.nn import ctc_ops  # noqa: E402
from trellis.nn.ctc_batch import Batch, _as_int64  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        "Interpreted" not in type(engine.walk_in).__name__,
        reason="Triton was loaded without its interpreter",
    ),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of inf - inf in unused lanes
]

# (T, B, V, S). The cases are: one frame; four frames and more (a block of the walk); two blocks of
# lanes and of labels; three classes; no labels; two blocks of the vocabulary.
SHAPES = [(1, 2, 3, 1), (6, 3, 5, 2), (11, 3, 40, 4), (17, 2, 3, 5), (4, 2, 4, 0), (3, 2, 1030, 2)]


@pytest.fixture(autouse=True)
def _nan_in_new_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill new memory with NaN or a huge integer, so that a read before a write is detected."""

    def filled(make):  # type: ignore[no-untyped-def]
        def new(*args, **kwargs):  # type: ignore[no-untyped-def]
            tensor = make(*args, **kwargs)
            odd = 255 if tensor.dtype == torch.uint8 else 2**30
            return tensor.fill_(torch.nan if tensor.is_floating_point() else odd)

        return new

    monkeypatch.setattr(torch.Tensor, "new_empty", filled(torch.Tensor.new_empty))
    monkeypatch.setattr(torch, "empty_like", filled(torch.empty_like))


def drawn(shape, blank=0, dtype=torch.float64):  # type: ignore[no-untyped-def]
    """Return random logits with NaN in the padding, and targets with -7 in the padding."""
    frames, rows, classes, labels = shape
    generator = torch.Generator().manual_seed(sum(shape))
    logits = 2.0 * torch.randn(frames, rows, classes, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, min(classes - 1, 3), (rows, labels), generator=generator)
    targets += targets >= blank
    ends = torch.randint((frames + 1) // 2, frames + 1, (rows,), generator=generator)
    sizes = torch.randint(0, labels + 1, (rows,), generator=generator)
    ends[0], sizes[0] = frames, labels
    for row in range(rows):
        logits[ends[row] :, row] = torch.nan
        targets[row, sizes[row] :] = -7
    return logits.to(dtype), targets, ends, sizes


def run(x, targets, ends, sizes, blank, logits, *, entropy=0.0, **how):  # type: ignore[no-untyped-def]
    """Return the loss, the saved tensors and the plan."""
    batch = (x, targets, ends, sizes)
    plan = CTCPlan(batch, blank, logits, entropy != 0.0, **how)
    return (*plan.run(batch, None, entropy), plan)


def status_of(targets, ends, sizes, frames, classes, **how):  # type: ignore[no-untyped-def]
    batch = (torch.zeros(frames, len(ends), classes), targets, ends, sizes)
    status = RowStatus(len(ends), torch.device("cpu"))
    CTCPlan(batch, 0, True, False, **how).run(batch, status)
    return status.wait()


def torch_loss(scores, targets, ends, sizes, blank, logits):  # type: ignore[no-untyped-def]
    """Return the loss of each row in float64, and the gradient of the sum of finite losses."""
    scores = scores.double().nan_to_num(0.0).requires_grad_()
    log_probs = scores.log_softmax(-1)
    # torch's gradient is correct only after a log_softmax. For log-probabilities it adds exp(y).
    loss = functional.ctc_loss(log_probs, targets, ends, sizes, blank, "none")
    possible = loss.isfinite()
    weight = torch.arange(1, len(loss) + 1).double()
    through = torch.where(possible, loss * weight, 0.0).sum()
    gradient = torch.autograd.grad(through, scores)[0].nan_to_num(0.0)
    if not logits:
        inside = (torch.arange(len(scores))[:, None] < ends) & possible
        gradient = gradient - log_probs.exp().detach() * (inside * weight)[:, :, None]
    gradient = torch.where(possible[None, :, None], gradient, 0.0)
    return log_probs.detach(), loss.detach(), gradient, weight


@pytest.mark.interpreter
@pytest.mark.parametrize(
    ("dtype", "logits", "blank", "shape"),
    [
        *((torch.float32, True, 0, shape) for shape in SHAPES),
        *((torch.float64, False, 2, shape) for shape in SHAPES),
        (torch.float64, True, 1, SHAPES[2]),
        (torch.bfloat16, True, 0, SHAPES[1]),
    ],
)
def test_equals_torch(dtype, logits, blank, shape):  # type: ignore[no-untyped-def]
    x, targets, ends, sizes = drawn(shape, blank, dtype)
    log_probs, wanted, slope, weight = torch_loss(x, targets, ends, sizes, blank, logits)
    x = x if logits else log_probs.to(dtype)
    rows = (targets, ends, sizes, blank, logits)
    loss, saved, plan = run(x, *rows)
    log_norm, states = saved[5:7]
    digits = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-6}[dtype]
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(loss.double(), wanted, rtol=digits, atol=digits)
    assert states.isfinite().all()
    assert log_norm.shape == (x.shape[:2] if logits else (0, 0))
    assert log_norm.isfinite().all()
    (gradient,) = plan.gradients(saved, weight.to(loss.dtype))
    assert gradient.dtype == dtype
    rough = 8e-3 if dtype == torch.bfloat16 else 0.0  # half precision: the result is rounded
    torch.testing.assert_close(gradient.double(), slope, rtol=rough, atol=10 * digits)
    alone, nothing, _ = run(x, *rows, gradient="no")
    assert torch.equal(alone, loss)
    assert nothing == ()


@pytest.mark.interpreter
def test_many_lanes():  # type: ignore[no-untyped-def]
    """The target has more labels than a warp has lanes, and than a tile of the gradient."""
    x, targets, ends, sizes = drawn((75, 1, 6, 70), dtype=torch.float32)
    sizes = torch.tensor([36])
    targets[:, 36:] = 1
    _, wanted, slope, weight = torch_loss(x, targets, ends, sizes, 0, True)
    rows = (targets, ends, sizes, 0, True)
    loss, saved, plan = run(x, *rows)
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-6, atol=0)
    (gradient,) = plan.gradients(saved, weight.float())
    torch.testing.assert_close(gradient.double(), slope, rtol=0, atol=2e-6)


def test_strides():  # type: ignore[no-untyped-def]
    x, targets, ends, sizes = drawn((6, 3, 5, 2))
    rows = (targets, ends, sizes, 0, True)
    weight = torch.ones(3, dtype=torch.float64)
    loss, saved, plan = run(x, *rows)
    (slope,) = plan.gradients(saved, weight)
    for other in (
        torch.cat([x, x], 2).transpose(0, 1).contiguous().transpose(0, 1)[:, :, :5],
        x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    ):
        same_loss, saved, plan = run(other, targets.t().contiguous().t(), *rows[1:])
        assert torch.equal(same_loss, loss)
        (gradient,) = plan.gradients(saved, weight[:1].expand(3))
        assert torch.equal(gradient, slope)
        # An operator of a compiled program saves its input as it is.
        assert torch.equal(weighted_gradient((other, *saved[1:]), weight, 0, True), slope)


@pytest.mark.interpreter
def test_infeasible_rows():  # type: ignore[no-untyped-def]
    """(1, 1) needs three frames. Zero frames allow only the empty target. -inf forbids."""
    x = torch.zeros(3, 5, 3)
    x[1, 4, 1:] = -torch.inf  # only the blank there
    targets = torch.tensor([[1, 1], [1, 2], [1, 2], [0, 0], [1, 2]])
    rows = (targets, torch.tensor([2, 2, 0, 0, 2]), torch.tensor([2, 2, 1, 0, 2]), 0)
    for logits in (True, False):
        loss, saved, plan = run(x, *rows, logits)
        nine = torch.tensor(9.0).log() if logits else 0.0
        assert loss.tolist() == [torch.inf, pytest.approx(nine), torch.inf, 0.0, torch.inf]
        (gradient,) = plan.gradients(saved, torch.ones(5))
        assert gradient.isfinite().all()
        assert gradient[:, [0, 2, 3, 4]].eq(0).all()
        third = 1 / 3 if logits else 0.0
        assert gradient[:2, 1].tolist() == [
            pytest.approx([third, third - 1, third]),
            pytest.approx([third, third, third - 1]),
        ]


@pytest.mark.interpreter
def test_huge_scores():  # type: ignore[no-untyped-def]
    """Scores of ±1e4: a state that underflows would give a loss of inf or a gradient of 0."""
    generator = torch.Generator().manual_seed(0)
    x = 1e4 * torch.randint(-1, 2, (12, 2, 4), generator=generator).float()
    x[:, 1] += torch.randn(12, 4, generator=generator)
    x[5, :, 3] = -torch.inf
    targets = torch.tensor([[1, 2, 3], [3, 3, 1]])
    lengths = (torch.tensor([12, 11]), torch.tensor([3, 3]))
    _, wanted, slope, _ = torch_loss(x, targets, *lengths, 0, True)
    rows = (targets, *lengths, 0, True)
    loss, saved, plan = run(x, *rows)
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-6, atol=0)
    (gradient,) = plan.gradients(saved, torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(gradient.double(), slope, rtol=0, atol=2e-3)  # float32 of 1e4 itself


@pytest.mark.interpreter
def test_nan_is_not_hidden():  # type: ignore[no-untyped-def]
    x, targets, ends, sizes = drawn((9, 2, 5, 2), dtype=torch.float32)
    ends[:] = torch.tensor([9, 9])
    x[:, 1] = 0.0
    x[2, 1, 3] = torch.nan
    loss, _, _ = run(x, targets, ends, sizes, 0, True)
    assert loss.isnan().tolist() == [False, True]


@pytest.mark.interpreter
def test_same_bits():  # type: ignore[no-untyped-def]
    x, targets, ends, sizes = drawn((11, 3, 40, 4), dtype=torch.float32)
    rows = (targets, ends, sizes, 0, True)
    runs = [run(x, *rows) for _ in range(2)]
    assert torch.equal(runs[0][0], runs[1][0])
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1][4:7], runs[1][1][4:7], strict=True))
    slopes = [plan.gradients(saved, torch.ones(3))[0] for _, saved, plan in runs]
    assert torch.equal(*slopes)


@pytest.mark.interpreter
@pytest.mark.parametrize("target", [(), (2,), (1, 1), (1, 2), (2, 1, 2)])
@pytest.mark.parametrize("logits", [True, False])
def test_entropy_against_enumeration(target, logits):  # type: ignore[no-untyped-def]
    """Test loss minus λ times the entropy of all paths of a target, and its gradient."""
    frames, classes, weight = 5, 3, 0.7
    generator = torch.Generator().manual_seed(len(target))
    x = torch.randn(frames, 1, classes, generator=generator, dtype=torch.float64)
    x.requires_grad_()
    y = (x.log_softmax(-1) if logits else x)[:, 0]
    hits = []
    for path in itertools.product(range(classes), repeat=frames):
        merged = [label for label, _ in itertools.groupby(path) if label]
        if tuple(merged) == target:
            hits.append(torch.tensor(path))
    scores = torch.stack([y[torch.arange(frames), path].sum() for path in hits])
    share = scores.log_softmax(0)
    wanted = -scores.logsumexp(0) + weight * (share.exp() * share).sum()
    rows = (
        torch.tensor([target], dtype=torch.long).reshape(1, -1),
        torch.tensor([frames]),
        torch.tensor([len(target)]),
        0,
        logits,
    )
    loss, saved, plan = run(x.detach(), *rows, entropy=weight)
    torch.testing.assert_close(loss[0], wanted.detach())
    (gradient,) = plan.gradients(saved, torch.ones(1).double())
    torch.testing.assert_close(gradient, torch.autograd.grad(wanted, x)[0])


@pytest.mark.interpreter
@pytest.mark.parametrize("gradient", ["now", "later", "no"])
def test_validation(gradient):  # type: ignore[no-untyped-def]
    targets = torch.tensor(
        [[1, 2], [0, 1], [1, 9], [3, 1], [1, -2], [1, 1], [1, 1], [1, 1], [1, 1]]
    )
    ends = torch.tensor([4, 4, 4, 4, 4, 5, -1, 4, 4])
    sizes = torch.tensor([2, 2, 1, 2, 2, 2, 2, 3, -1])
    status = status_of(targets, ends, sizes, 4, 3, gradient=gradient)
    assert status == [0, 1, 0, 1, 1, 1, 1, 1, 1]
    status = status_of(targets[:, :0], ends, sizes * 0, 4, 3, gradient=gradient)
    assert status == [0] * 5 + [1, 1, 0, 0]


@pytest.mark.interpreter
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_gradient_at_once(shape, logits, reduction, monkeypatch):  # type: ignore[no-untyped-def]
    """Run autograd as for a small batch on a GPU, but with CPU tensors."""
    monkeypatch.setattr(ctc_ops, "_runs_on_gpu", lambda x: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    scores, *rows = drawn(shape)
    x = (scores if logits else scores.log_softmax(-1)).detach().requires_grad_()
    batch, settings = Batch(x, *rows), ctc_ops.Settings(0, logits)
    loss, _ = ctc_ops.losses(batch, settings, reduction, True)
    row_loss, saved, plan = run(x.detach(), *rows, 0, logits)
    count = len(row_loss)
    shares = torch.ones(count).double()
    if reduction == "mean":
        shares = (1 / rows[2].clamp(min=1) / count).double()
    right = row_loss if reduction == "none" else (row_loss * shares).sum()
    torch.testing.assert_close(loss.detach(), right)
    outer = torch.arange(1, count + 1).double() if reduction == "none" else torch.tensor(3.0)
    outer = outer.to(loss.dtype)
    (want,) = plan.gradients(saved, outer * shares)
    gradient = torch.autograd.grad(loss, x, outer, retain_graph=True)[0]
    torch.testing.assert_close(gradient, want)
    assert torch.equal(torch.autograd.grad(loss, x, outer, retain_graph=True)[0], gradient)
    with pytest.raises(RuntimeError, match="CTC loss cannot be differentiated again"):
        torch.autograd.grad(loss, x, outer, create_graph=True)


def at_once(x, targets, ends, sizes, entropy, reduction, status=None):  # type: ignore[no-untyped-def]
    """Return loss and gradient of a plan from the cache."""
    batch, settings = (x, targets, ends, sizes), (0, True, entropy != 0.0, "now", reduction)
    plan, _ = engine.find_plan(CTCPlan, batch, settings)
    loss, (gradient,) = plan.run(batch, status, entropy)
    return loss, gradient


@pytest.mark.interpreter
def test_entropy_and_mistakes_at_once():  # type: ignore[no-untyped-def]
    x, targets, ends, sizes = drawn(SHAPES[1])
    status = RowStatus(len(ends), x.device)
    loss, gradient = at_once(x, targets, ends, sizes, 0.5, "none", status)
    right, saved, plan = run(x, targets, ends, sizes, 0, True, entropy=0.5)
    assert status.wait() == [0] * len(ends)
    torch.testing.assert_close(loss, right)
    torch.testing.assert_close(gradient, plan.gradients(saved, torch.ones_like(right))[0])
    targets = targets.clone()
    targets[-1, 0] = 0  # a blank
    status = RowStatus(len(ends), x.device)
    at_once(x, targets, ends, sizes, 0.0, "mean", status)
    assert status.wait() == [0] * (len(ends) - 1) + [1]


@pytest.mark.parametrize("mean", [False, True])
def test_sums_of_many_rows(mean):  # type: ignore[no-untyped-def]
    """The batch has more than 256 rows, the number added at once. Some targets are empty."""
    torch.manual_seed(4)
    loss, sizes, total = torch.rand(600).double(), torch.randint(0, 9, (600,)), torch.zeros(())
    kernels._sum_losses[(1,)](loss, sizes, total, 600, 8, MEAN=mean)
    right = (loss / sizes.clamp(min=1)).mean() if mean else loss.sum()
    torch.testing.assert_close(total, right.float())


@pytest.mark.interpreter
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_sums_with_a_row_without_a_path(reduction):  # type: ignore[no-untyped-def]
    x = torch.randn(2, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    # The same label twice needs three frames.
    rows = (torch.tensor([[1, 1], [2, 1]]), torch.tensor([2, 2]), torch.tensor([2, 2]))
    loss, gradient = at_once(x, *rows, 0.0, reduction)
    assert loss == float("inf")
    assert not gradient[:, 0].any()
    assert gradient[:, 1].any()


def test_empty_targets_alone():  # type: ignore[no-untyped-def]
    x = torch.zeros(2, 1, 2)
    rows = (torch.empty(1, 0, dtype=torch.int64), torch.tensor([2]), torch.tensor([0]))
    loss, _ = at_once(x, *rows, 0.0, "mean")
    torch.testing.assert_close(loss.neg().exp(), torch.tensor(0.25))


@pytest.mark.interpreter
@pytest.mark.parametrize("entropy", [0.0, 0.3])
def test_prepared_launches(entropy, monkeypatch):  # type: ignore[no-untyped-def]
    """Launch by address, as on a GPU, also for inputs that are slices of larger tensors."""
    launched = prepare_launches(monkeypatch)
    for seed in range(2):
        torch.manual_seed(seed)
        scores, targets, ends, sizes = drawn(SHAPES[1])
        x = (scores + torch.randn_like(scores)).detach()
        status = RowStatus(len(ends), x.device)
        before = len(launched)
        loss, gradient = at_once(x, targets, ends, sizes, entropy, "mean", status)
        assert len(launched) - before == (4 if seed == 0 else 0)
        assert not any(status.wait())
        right, saved, plan = run(x, targets, ends, sizes, 0, True, entropy=entropy)
        share = (1 / sizes.clamp(min=1) / len(sizes)).to(x.dtype)
        torch.testing.assert_close(loss, right @ share)
        torch.testing.assert_close(gradient, plan.gradients(saved, share)[0])
    large = torch.randn(x.shape[0], 2 * x.shape[1], x.shape[2] + 3, dtype=x.dtype)
    large[:, : x.shape[1], : x.shape[2]] = x
    part = large[:, : x.shape[1], : x.shape[2]]
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    for other in (part, part, turned):
        again = at_once(other, targets, ends, sizes, entropy, "mean")
        torch.testing.assert_close(again[0], loss)
        torch.testing.assert_close(again[1], gradient)


@pytest.mark.interpreter
def test_lengths_that_are_columns():  # type: ignore[no-untyped-def]
    table = torch.arange(6).view(3, 2)
    assert _as_int64(table[:, 0], table.device).is_contiguous()
    assert _as_int64(table[0, :1].expand(3), table.device).tolist() == [0, 0, 0]
