"""Compare CRF layers on a GPU: ours, pytorch-crf, its loop as a CUDA graph, torch-struct.

    python benchmarks/gpu_crf.py

The script checks the results, measures, and prints tables, in about six minutes. Times are medians
between CUDA events, measured in turns. "ours" is the layer with a mask that it validates, as
pytorch-crf does. "kernels" are our kernels alone. "graph" are the same kernels without the time
that Python needs to launch them. The last table compares the arguments of the layer: all of them
should take the same time as a prefix mask.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from gpu_timing import graph, in_turns, kernel_times, on_one_thread
from timing import Table
from torch import Tensor

DEVICE = "cuda"
LIMIT = 400.0  # seconds; later shapes are measured without the peers
LARGEST_TENSOR = 40e9  # bytes; torch-struct allocates several tensors of the largest size
WIDE = 40.0  # transitions multiplied by this factor need log space in float32


class Shape(NamedTuple):
    """Rows, steps, labels; our expected times and the published time of torbi (CUDA), in ms."""

    B: int
    T: int
    L: int
    train_expected: float
    decode_expected: float
    torbi: float | None = None

    def __str__(self) -> str:
        return f"{self.B}, {self.T}, {self.L}"


SHAPES = (
    Shape(32, 64, 20, 0.15, 0.08),
    Shape(64, 256, 50, 0.20, 0.12, 0.51),
    Shape(16, 512, 128, 0.50, 0.32, 1.85),
    Shape(8, 4096, 9, 1.1, 0.9),
    Shape(256, 512, 32, 0.22, 0.14, 0.89),
    Shape(1024, 128, 64, 0.25, 0.13, 1.36),
    Shape(64, 2048, 128, 1.9, 1.3, 9.27),
)


class Batch(NamedTuple):
    """Scores on the GPU, lengths T/2 … T, and gold labels."""

    emissions: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    lengths: Tensor
    tags: Tensor
    weight: Tensor

    @property
    def scores(self) -> tuple[Tensor, ...]:
        """Return emissions, transitions, start, end and lengths."""
        return self[:5]

    def inside(self) -> Tensor:
        """Return the mask for the peers, (rows, steps)."""
        steps = torch.arange(self.tags.shape[1], device=self.tags.device)
        return steps < self.lengths[:, None]

    def leaves(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Return copies of the scores that require gradients."""
        return [part.detach().to(dtype).clone().requires_grad_() for part in self[:4]]


def make(shape: Shape, scale: float = 1.0, positional: bool = False) -> Batch:
    """Return a batch with normal scores. The first row has full length."""
    torch.manual_seed(sum(shape[:3]))
    rows, steps, labels = shape[:3]
    on_gpu = {"device": DEVICE}
    lengths = torch.randint(steps // 2, steps + 1, (rows,), **on_gpu)
    lengths[0] = steps
    square = (rows, steps - 1, labels, labels) if positional else (labels, labels)
    return Batch(
        torch.randn(rows, steps, labels, **on_gpu),
        scale * torch.randn(square, **on_gpu),
        torch.randn(labels, **on_gpu),
        torch.randn(labels, **on_gpu),
        lengths,
        torch.randint(labels, (rows, steps), **on_gpu),
        torch.ones(rows, **on_gpu),
    )


# ---- ours


def load_ours() -> tuple[ModuleType, ModuleType | None]:
    """Return the GPU engine, and the CPU engine or None if the native core is not built."""
    try:
        from trellis.inference import chain

        cpu: ModuleType | None = chain.cpu  # loads the core
    except ImportError:
        import trellis

        package = ModuleType("trellis.inference.chain")
        package.__path__ = [str(Path(trellis.__file__).parent / "inference" / "chain")]
        sys.modules[package.__name__], cpu = package, None
        print("the native core is not built: results are compared with float64 on the GPU")
    from trellis.inference.chain import triton

    return triton, cpu


def train(engine: ModuleType, x: Batch, tagged: bool = True) -> Callable[[], tuple[Tensor, ...]]:
    """Return a step: log p(tags) or log Z of each row, and the gradients of the weighted sum."""
    batch = (*x.scores, x.tags if tagged else None, None)

    def step() -> tuple[Tensor, ...]:
        plan, _ = engine.find_plan(engine.ChainPlan, batch, ("rows",))
        value, saved = plan.run(batch)
        return (value, *plan.gradients(saved, x.weight))

    return step


def scaled_share(engine: ModuleType, x: Batch) -> float:
    """Return the share of rows that were computed with scaled probabilities, not in log space."""
    batch = (*x.scores, None, None)
    plan = engine.ChainPlan(batch)
    _, memory = plan.launch(batch)
    alpha = plan.views(memory)["alpha"].view(x.emissions.shape)
    return float((alpha[:, 0].amax(1) > 0).double().mean())


def decode(engine: ModuleType, x: Batch) -> Callable[[], tuple[Tensor, Tensor]]:
    """Return a step: the best labels and their scores."""
    batch = (*x.scores, None, None)

    def step() -> tuple[Tensor, Tensor]:
        plan, _ = engine.find_plan(engine.ChainPlan, batch, ("path",))
        score, (labels,) = plan.run(batch)
        return labels, score

    return step


# ---- peers


def loop_partition(x: Batch) -> Tensor:
    """Return log Z of each row, with the operations of pytorch-crf that do not wait for the GPU."""
    inside = x.inside()
    alpha = x.start + x.emissions[:, 0]
    for t in range(1, x.emissions.shape[1]):
        step = x.transitions if x.transitions.dim() == 2 else x.transitions[:, t - 1]
        scores = alpha[:, :, None] + step + x.emissions[:, t, None, :]
        alpha = torch.where(inside[:, t, None], torch.logsumexp(scores, 1), alpha)
    return torch.logsumexp(alpha + x.end, 1)


def loop_score(x: Batch) -> Tensor:
    """Return the score of the tags, all steps at once. pytorch-crf loops over the steps."""
    inside, last = x.inside(), x.tags.gather(1, x.lengths[:, None] - 1)[:, 0]
    steps = x.emissions.gather(2, x.tags[:, :, None])[:, :, 0] * inside
    pairs = x.transitions[x.tags[:, :-1], x.tags[:, 1:]] * inside[:, 1:]
    return steps.sum(1) + pairs.sum(1) + x.start[x.tags[:, 0]] + x.end[last]


def loop_train(x: Batch) -> Callable[[], tuple[Tensor, ...]]:
    """Return a step: -log p(tags) and its gradients, computed by the loop."""
    leaves = x.leaves()
    batch = Batch(*leaves, *x[4:])

    def step() -> tuple[Tensor, ...]:
        value = (loop_partition(batch) - loop_score(batch)).sum()
        return (value, *torch.autograd.grad(value, leaves))

    return step


def loop_decode(x: Batch, dtype: torch.dtype = torch.float32) -> Callable[[], tuple[Tensor, ...]]:
    """Return a step: Viterbi and back-tracking of the batch, with a loop in Python."""
    emissions, transitions, start, end = (part.to(dtype) for part in x[:4])
    inside = x.inside()

    def step() -> tuple[Tensor, ...]:
        best, history = start + emissions[:, 0], []
        same = torch.arange(best.shape[1], device=best.device).expand_as(best)
        for t in range(1, emissions.shape[1]):
            values, before = (best[:, :, None] + transitions + emissions[:, t, None, :]).max(1)
            history.append(torch.where(inside[:, t, None], before, same))
            best = torch.where(inside[:, t, None], values, best)
        score, label = (best + end).max(1)
        path = [label]
        for before in reversed(history):
            path.append(before.gather(1, path[-1][:, None])[:, 0])
        return torch.stack(path[::-1], 1), score

    return step


def layer_steps(layer: Any, x: Batch) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the training and the decoding step of a layer with the interface of pytorch-crf."""
    emissions, *scores = x.leaves()
    layer.transitions, layer.start_transitions, layer.end_transitions = (
        torch.nn.Parameter(part.detach()) for part in scores
    )
    inside, inputs = x.inside(), (emissions, *layer.parameters())

    def training() -> Any:
        loss = -layer(emissions, x.tags, inside, reduction="sum")
        return torch.autograd.grad(loss, inputs)

    def decoding() -> Any:
        with torch.no_grad():
            return layer.decode(emissions, inside)

    return training, decoding


def pytorch_crf(x: Batch) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the steps of pytorch-crf, unchanged."""
    import torchcrf

    return layer_steps(torchcrf.CRF(len(x.start), batch_first=True).cuda(), x)


def ours(x: Batch) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the steps of our layer."""
    from trellis.nn import CRF

    return layer_steps(CRF(len(x.start), batch_first=True).cuda(), x)


def torch_struct(x: Batch) -> Callable[[], Any]:
    """Return a step of torch-struct: log Z and its gradient.

    The score of the tags is omitted, which is an advantage for torch-struct.
    """
    rows, steps, labels = x.emissions.shape
    if (size := 4.0 * rows * steps // 2 * labels**3) > LARGEST_TENSOR:
        raise MemoryError(f"one tensor would take {size / 1e9:.0f} GB")
    from torch_struct import LinearChainCRF

    torch.distributions.Distribution.set_default_validate_args(False)
    emissions, transitions, start, end = leaves = x.leaves()

    def step() -> Any:
        edges = transitions.T + emissions[:, 1:, :, None]
        edges[:, 0] += (start + emissions[:, 0])[:, None, :]
        edges[torch.arange(rows), x.lengths - 2] += end[:, None]
        return torch.autograd.grad(LinearChainCRF(edges, x.lengths).partition.sum(), leaves)

    return step


# ---- checks


def exact(cpu: ModuleType | None, x: Batch) -> tuple[Tensor, ...]:
    """Return Σ log Z, all expected counts, and the scores of the best paths, in float64."""
    if cpu is None or x.transitions.dim() > 2:
        leaves = x.leaves(torch.float64)
        value = loop_partition(Batch(*leaves, *x[4:])).sum()
        best = loop_decode(x, torch.float64)()[1] if x.transitions.dim() == 2 else value
        return (value.detach(), *torch.autograd.grad(value, leaves), best)
    scores = [part.double().cpu().numpy() for part in x[:4]]
    lengths = x.lengths.cpu().numpy()
    counts = cpu.expected_counts(*scores, lengths=lengths)
    best = cpu.viterbi(*scores, lengths=lengths).score
    parts = (counts.log_partition.sum(), *counts[:4], best)
    return tuple(torch.from_numpy(np.asarray(part, np.float64)).to(DEVICE) for part in parts)


def path_scores(x: Batch, labels: Tensor) -> Tensor:
    """Return the score of each labelling, in float64."""
    inside = x.inside()
    unary = x.emissions.double().gather(2, labels[:, :, None])[:, :, 0]
    pairs = x.transitions.double()[labels[:, :-1], labels[:, 1:]]
    last = labels.gather(1, x.lengths[:, None] - 1)[:, 0]
    steps = (unary * inside).sum(1) + (pairs * inside[:, 1:]).sum(1)
    return steps + x.start.double()[labels[:, 0]] + x.end.double()[last]


def check(engine: ModuleType, cpu: ModuleType | None, x: Batch, tolerance: float = 1e-5) -> str:
    """Return the errors of log Z, marginals, counts and best scores as one line of text.

    Raise if an error is too large, or if two runs give different bits.
    """
    value, *gradients = train(engine, x, tagged=False)()
    _, *again = train(engine, x, tagged=False)()
    log_z, *counts, best = exact(cpu, x)
    labels, score = decode(engine, x)()
    errors = {"log Z": float((value.double().sum() - log_z).abs() / log_z.abs())}
    for name, gradient, count in zip(Batch._fields, gradients, counts, strict=False):
        size = 1.0 if name == "emissions" else float(count.abs().max())
        errors[name] = float((gradient - count).abs().max()) / size
    if x.transitions.dim() == 2:
        errors["best"] = float(((score - best) / best).abs().max())
        errors["path"] = float(((path_scores(x, labels) - best) / best).abs().max())
    form = f"{scaled_share(engine, x):.0%} scaled"
    text = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
    if not (errors["log Z"] < 1e-6 and max(errors.values()) < tolerance):
        raise AssertionError(f"the errors are too large: {text} ({form})")
    if not all(torch.equal(a, b) for a, b in zip(gradients, again, strict=True)):
        raise AssertionError("two runs gave different bits")
    return f"{text} ({form})"


# ---- times


def routes(x: Batch) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return training steps of the layer, one for each kind of mask, lengths and validation."""
    from trellis.nn import CRF

    emissions = x.emissions.detach().clone().requires_grad_()
    layers = [
        CRF(len(x.start), batch_first=True, validate=validate).cuda() for validate in (True, False)
    ]
    prefix = x.inside()
    hole = prefix.clone()
    hole[:, 1] = False

    def build(layer: Any, **options: Any) -> Callable[[], Callable[[], Any]]:
        inputs = (emissions, *layer.parameters())

        def step() -> Any:
            return torch.autograd.grad(-layer(emissions, x.tags, **options), inputs)

        return lambda: step

    return {
        "prefix mask": build(layers[0], mask=prefix),
        "mask with a hole": build(layers[0], mask=hole),
        "lengths": build(layers[0], lengths=x.lengths),
        "no mask": build(layers[0]),
        "validate=False": build(layers[1], mask=prefix),
        "per row": build_rows(layers[0], emissions, x.tags, prefix),
        "empty step": lambda: empty_step(emissions),
    }


def build_rows(layer: Any, emissions: Tensor, tags: Tensor, mask: Tensor) -> Any:
    """Return a training step without a reduction in the layer."""
    inputs = (emissions, *layer.parameters())

    def step() -> Any:
        value = layer(emissions, tags, mask, reduction="none")
        return torch.autograd.grad(-value.sum(), inputs)

    return lambda: step


def empty_step(emissions: Tensor) -> Callable[[], Any]:
    """Return a step without kernels, which measures the time of PyTorch's autograd alone."""

    class Empty(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.new_empty(())

        @staticmethod
        def backward(ctx: Any, weight: Tensor) -> Tensor:
            return torch.empty_like(ctx.saved_tensors[0])

    return lambda: torch.autograd.grad(Empty.apply(emissions), emissions)


def measure_routes(shapes: tuple[Shape, ...]) -> Table:
    """Return the times of all routes in turns, and the ratio of the slowest to a prefix mask."""
    table = None
    for shape in shapes:
        times = in_turns(routes(make(shape)))
        if table is None:
            title = "CRF layer, forward + backward, ms, by arguments (last: slowest / prefix mask)"
            table = Table(title, ("B, T, L", *times, "x"))
        compared = [times[name] for name in list(times)[1:5]]
        slowest = max((t for t in compared if t is not None), default=None)
        table.add(str(shape), *times.values(), ratio(slowest, times["prefix mask"]))
        torch.cuda.empty_cache()
    assert table is not None
    return table


class Clock:
    """Measures times, and skips the peers after LIMIT seconds."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def measure(
        self, ours: dict[str, Callable[[], Any]], peers: dict[str, Callable[[], Any]]
    ) -> dict[str, float | None]:
        """Return the milliseconds of all steps, and None for skipped peers."""
        expired = time.perf_counter() - self.begin > LIMIT
        if expired:
            print("  no time left for the peers")
        none: dict[str, float | None] = dict.fromkeys([*ours, *peers])
        return {**none, **in_turns(ours if expired else {**ours, **peers})}


def ratio(peer: float | None, ours: float | None) -> float | None:
    """Return how many times ours is faster, or None if one time is missing."""
    return peer / ours if peer and ours else None


def measure(
    engine: ModuleType, cpu: ModuleType | None, shape: Shape, clock: Clock, tables: list[Table]
) -> None:
    """Check and time one shape."""
    x = make(shape)
    print(f"({shape})", check(engine, cpu, x))
    wide = make(shape, WIDE)
    if shape.B * shape.T * shape.L**2 < 3e8:
        print("  wide scores:", check(engine, cpu, wide, 1e-4))
    training, decoding = ours(x)
    peer_training, peer_decoding = pytorch_crf(x)
    times = clock.measure(
        {
            "ours": lambda: training,
            "ours 1": lambda: on_one_thread(training),
            "kernels": lambda: train(engine, x),
            "graph": lambda: graph(train(engine, x)),
            "layer graph": lambda: graph(training),
            "log space": lambda: train(engine, wide),
        },
        {
            "pytorch-crf": lambda: peer_training,
            "pytorch-crf 1": lambda: on_one_thread(peer_training),
            "loop as a graph": lambda: graph(loop_train(x)),
            "torch-struct": lambda: torch_struct(x),
        },
    )
    layer, layer_1, kernels, kernels_graph, layer_graph, log_space, *peer_times = times.values()
    peer, peer_1, loop, struct = peer_times
    tables[0].add(
        str(shape), layer, layer_1, kernels, kernels_graph, layer_graph, shape.train_expected,
        log_space, peer, peer_1, loop, struct, ratio(peer, layer), ratio(peer_1, layer_1),
        ratio(loop, layer), ratio(loop, layer_graph), ratio(struct, layer),
    )  # fmt: skip
    times = clock.measure(
        {
            "ours": lambda: decoding,
            "kernels": lambda: decode(engine, x),
            "graph": lambda: graph(decode(engine, x)),
        },
        {"pytorch-crf": lambda: peer_decoding, "loop": lambda: loop_decode(x)},
    )
    layer, kernels, kernels_graph, peer, loop = times.values()
    tables[1].add(
        str(shape), layer, kernels, kernels_graph, shape.decode_expected, peer, loop, shape.torbi,
        ratio(peer, layer), ratio(loop, kernels), ratio(shape.torbi, kernels),
    )  # fmt: skip
    for step in (train(engine, x), decode(engine, x)):
        slowest = sorted(kernel_times(step).items(), key=lambda pair: -pair[1])[:4]
        print(" ", ", ".join(f"{name[:30]} {us:.0f} us" for name, us in slowest))


def main() -> list[Table]:
    """Check and time all shapes, print the tables and return them."""
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA GPU")
    engine, cpu = load_ours()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    ours = ("B, T, L", "ours", "kernels", "graph", "expected")
    tables = [
        Table(
            "CRF, forward + backward, ms (1: backward on the calling thread; graph: CUDA graphs)",
            (
                *("B, T, L", "ours", "ours 1", "kernels", "graph", "ours graph", "expected"),
                *("log space", "pytorch-crf", "pytorch-crf 1", "loop graph", "torch-struct"),
                *("x", "x 1", "x loop", "graphs", "x struct"),
            ),
        ),
        Table(
            "CRF, best path, ms (ratios: ours / pytorch-crf, kernels / loop, kernels / torbi)",
            (*ours, "pytorch-crf", "eager loop", "torbi", "x", "x ", "x  "),
        ),
    ]
    small = Shape(8, 40, 20, 0.0, 0.0)
    print("position-dependent transitions:", check(engine, None, make(small, positional=True)))
    clock, failed = Clock(), 0
    for shape in SHAPES:
        try:
            measure(engine, cpu, shape, clock, tables)
        except Exception as error:
            failed += 1
            print(f"({shape}): {type(error).__name__}: {error}")
        torch.cuda.empty_cache()
    tables.append(measure_routes(SHAPES[:3]))
    for table in tables:
        print(table.text())
    if failed:
        sys.exit(f"{failed} shapes failed")
    return tables


if __name__ == "__main__":
    main()
