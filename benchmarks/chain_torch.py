"""Compare training steps and decoding of CRF layers on the CPU: ours, pytorch-crf, torch-struct."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from timing import Case, Table, check_close, milliseconds, ratio, time_alternating

SHAPES = ((32, 64, 20), (64, 256, 50), (16, 512, 128), (8, 4096, 9))  # (B, T, L)
LARGEST_TENSOR = 4e9  # bytes; torch-struct allocates several tensors of the largest size
PEERS = ("pytorch-crf", "torch-struct")
OURS = ("layer", "layer, lengths", "functions")
# the trailing space makes the last column a different key in the JSON
GAINS = ("/ pytorch-crf", "at minima", "/ torch-struct", "at minima ")


class Crf(NamedTuple):
    """A padded batch with gold labels, float64."""

    unary: np.ndarray  # (B, T, L)
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray  # (B, T), 0 in the padding
    inside: np.ndarray  # (B, T) bool

    def scores(self, dtype: type) -> tuple[np.ndarray, ...]:
        """Return the arguments of trellis in one precision."""
        return tuple(array.astype(dtype) for array in self[:4])


class Gradients(NamedTuple):
    """Σ (log Z − score) over the batch and its derivatives."""

    value: float
    unary: np.ndarray
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray


def make_crf(batch: int, steps: int, labels: int) -> Crf:
    """Return normal scores and lengths T/2..T. The first length is T, as torch-struct needs."""
    rng = np.random.default_rng(steps)
    lengths = rng.integers(steps // 2, steps + 1, batch)
    lengths[0] = steps
    inside = np.arange(steps) < lengths[:, None]
    return Crf(
        unary=rng.standard_normal((batch, steps, labels)),
        transition=rng.standard_normal((labels, labels)),
        start=rng.standard_normal(labels),
        end=rng.standard_normal(labels),
        lengths=lengths,
        labels=np.where(inside, rng.integers(0, labels, (batch, steps)), 0),
        inside=inside,
    )


def ours_train(chain: ModuleType, crf: Crf, scores: tuple[np.ndarray, ...]) -> Gradients:
    """Return expected minus observed counts: the gradient of the loss of a CRF layer."""
    count = len(crf.start)
    expected = chain.expected_counts(*scores, lengths=crf.lengths, n_jobs=2)
    gold = chain.score(*scores, labels=crf.labels, lengths=crf.lengths, n_jobs=2)
    rows, steps = np.nonzero(crf.inside)
    expected.unary[rows, steps, crf.labels[rows, steps]] -= 1
    pairs = (count * crf.labels[:, :-1] + crf.labels[:, 1:])[crf.inside[:, 1:]]
    last = crf.labels[np.arange(len(crf.lengths)), crf.lengths - 1]
    return Gradients(
        float(np.sum(expected.log_partition) - np.sum(gold)),
        expected.unary,
        expected.transition - np.bincount(pairs, minlength=count**2).reshape(count, count),
        expected.start - np.bincount(crf.labels[:, 0], minlength=count),
        expected.end - np.bincount(last, minlength=count),
    )


def ours_decode(chain: ModuleType, crf: Crf, scores: tuple[np.ndarray, ...]) -> Any:
    """Return the best paths and their scores."""
    return chain.viterbi(*scores, lengths=crf.lengths, n_jobs=2)


class TorchPeers:
    """A layer with the API of pytorch-crf, and torch-struct, with the same parameters and batch."""

    def __init__(self, crf: Crf, dtype: str, module: str = "torchcrf") -> None:
        import torch

        self.torch, self.dtype = torch, getattr(torch, dtype)
        layer = importlib.import_module(module).CRF(len(crf.start), batch_first=True)
        self.layer = layer.to(self.dtype)
        with torch.no_grad():
            self.layer.transitions.copy_(torch.from_numpy(crf.transition))
            self.layer.start_transitions.copy_(torch.from_numpy(crf.start))
            self.layer.end_transitions.copy_(torch.from_numpy(crf.end))
        self.unary = torch.from_numpy(crf.unary).to(self.dtype).requires_grad_()
        self.lengths, self.labels = torch.from_numpy(crf.lengths), torch.from_numpy(crf.labels)
        self.inside = torch.from_numpy(crf.inside)
        self.gold: Any = None  # torch-struct's one-hot edges, computed once, outside the timing

    def _gradients(self, loss: Any) -> Gradients:
        leaves = (
            self.unary,
            self.layer.transitions,
            self.layer.start_transitions,
            self.layer.end_transitions,
        )
        for leaf in leaves:
            leaf.grad = None
        loss.backward()
        return Gradients(loss.item(), *(leaf.grad.numpy() for leaf in leaves))

    def crf_train(self, **steps: Any) -> Gradients:
        """Run loss and backward of the layer, with a mask unless `steps` has lengths."""
        steps = steps or {"mask": self.inside}
        return self._gradients(-self.layer(self.unary, self.labels, reduction="sum", **steps))

    def crf_decode(self, **steps: Any) -> list[list[int]]:
        """Return the best paths of the layer."""
        with self.torch.no_grad():
            return self.layer.decode(self.unary, **(steps or {"mask": self.inside}))

    def struct(self) -> Any:
        """Return all scores as edge scores (B, T-1, next, previous), the input of torch-struct."""
        from torch_struct import LinearChainCRF

        unary, layer = self.unary.clone(), self.layer
        unary[:, 0] += layer.start_transitions
        unary[self.torch.arange(len(unary)), self.lengths - 1] += layer.end_transitions
        edges = layer.transitions.T.contiguous() + unary[:, 1:, :, None]
        edges[:, 0] += unary[:, 0, None, :]
        return LinearChainCRF(edges, lengths=self.lengths)

    def struct_train(self) -> Gradients:
        """Run log_prob and backward of torch-struct."""
        if self.gold is None:
            from torch_struct import LinearChain

            labels = self.unary.shape[-1]
            self.gold = LinearChain.to_parts(self.labels, labels, self.lengths).to(self.dtype)
        return self._gradients(-self.struct().log_prob(self.gold).sum())

    def struct_argmax(self) -> Any:
        """Return the best paths of torch-struct as one-hot edges, without its slow from_parts."""
        return self.struct().argmax


def struct_bytes(batch: int, steps: int, labels: int) -> int:
    """Return the bytes of the (B, T/2, L, L, L) float32 tensor of torch-struct's first step."""
    return batch * steps // 2 * labels**3 * 4


# ---- checks that all sides agree


def check_gradients(what: str, left: Gradients, right: Gradients, tolerance: float) -> None:
    """Raise unless the value and every gradient agree."""
    for field, a, b in zip(Gradients._fields, left, right, strict=True):
        check_close(f"{what}, {field}", a, b, tolerance)


def check_crf(chain: ModuleType | None, crf: Crf, with_struct: bool) -> None:
    """Check all sides in float64 to 1e-8, then ours in float32 to 1e-3."""
    peers = TorchPeers(crf, "float64")
    exact = peers.crf_train()
    best = crf_path_scores(crf, peers.crf_decode())
    if with_struct:
        check_gradients("torch-struct", peers.struct_train(), exact, 1e-8)
        edges = peers.struct()
        check_close("torch-struct best", edges.max.detach().squeeze(), best)
    for dtype, tolerance in ((np.float64, 1e-8), (np.float32, 1e-3)) if chain else ():
        layer = TorchPeers(crf, dtype.__name__, "trellis.nn")
        check_gradients(f"layer, {dtype.__name__}", layer.crf_train(), exact, tolerance)
        for steps in ({}, {"lengths": layer.lengths}):
            path_scores = crf_path_scores(crf, layer.crf_decode(**steps))
            check_close("best path of the layer", path_scores, best, tolerance)
        scores = crf.scores(dtype)
        check_gradients(dtype.__name__, ours_train(chain, crf, scores), exact, tolerance)
        ours = ours_decode(chain, crf, scores)
        check_close("best score", ours.score, best, tolerance)
        check_close("score of the best path", crf_path_scores(crf, ours.labels), best, tolerance)


def crf_path_scores(crf: Crf, labels: Any) -> list[float]:
    """Return the score of one path per sequence, without padding, in float64."""
    scores = []
    for unary, path, length in zip(crf.unary, labels, crf.lengths, strict=True):
        path = np.asarray(path)[:length]
        score = crf.start[path[0]] + unary[np.arange(length), path].sum() + crf.end[path[-1]]
        scores.append(score + crf.transition[path[:-1], path[1:]].sum())
    return scores


# ---- the table


def torch_section(chain: ModuleType | None, repeats: int) -> list[Table]:
    """Return a table of training steps and decoding of CRF layers, with two threads each."""
    import torch

    torch.set_num_threads(2)
    # the validation of torch.distributions is slow
    torch.distributions.Distribution.set_default_validate_args(False)
    table = Table(
        "CRF layers, 2 threads, ms",
        ("B, T, L", "task", *PEERS, *OURS, *GAINS),
    )
    table.notes = [
        "scores are float32, lengths are T/2 to T; train is the loss and all gradients; ratios are "
        "to our layer with a mask",
        "functions: training calls expected_counts and score of trellis.inference.chain, and "
        "subtracts the observed counts with NumPy; decoding calls viterbi",
        "torch-struct: building the gold edges is not timed, and its argmax is not converted from "
        "one-hot edges to labels",
    ]
    for shape in SHAPES:
        add_shape(table, chain, shape, repeats)
    return [table]


def add_shape(
    table: Table, chain: ModuleType | None, shape: tuple[int, int, int], repeats: int
) -> None:
    """Check one shape, then add its two rows. Skip torch-struct if it needs too much memory."""
    crf, size = make_crf(*shape), struct_bytes(*shape)
    with_struct = size <= LARGEST_TENSOR
    if not with_struct:
        table.notes.append(f"torch-struct skipped at {shape}: one tensor of {size / 1e9:.1f} GB")
    check_crf(chain, crf, with_struct)
    for task, cases in torch_cases(chain, crf, with_struct).items():
        times = time_alternating(cases, repeats, pause=0.02)
        table.keep(f"{shape} {task}", times)
        ours = times.get("layer")
        gains = (ratio(times.get(peer), ours, at) for peer in PEERS for at in ("median", "minimum"))
        shown = (milliseconds(times.get(name)) for name in (*PEERS, *OURS))
        table.add(", ".join(map(str, shape)), task, *shown, *gains)


def torch_cases(chain: ModuleType | None, crf: Crf, with_struct: bool) -> dict[str, list[Case]]:
    """Return the cases of both tasks."""
    peers = TorchPeers(crf, "float32")
    train, decode = [Case("pytorch-crf", peers.crf_train)], [Case("pytorch-crf", peers.crf_decode)]
    if with_struct:
        train.append(Case("torch-struct", peers.struct_train))
        decode.append(Case("torch-struct", peers.struct_argmax))
    if chain:
        layer, scores = TorchPeers(crf, "float32", "trellis.nn"), crf.scores(np.float32)
        steps = {"lengths": layer.lengths}
        train += [
            Case("layer", layer.crf_train),
            Case("layer, lengths", lambda: layer.crf_train(**steps)),
            Case("functions", lambda: ours_train(chain, crf, scores)),
        ]
        decode += [
            Case("layer", layer.crf_decode),
            Case("layer, lengths", lambda: layer.crf_decode(**steps)),
            Case("functions", lambda: ours_decode(chain, crf, scores)),
        ]
    return {"train": train, "decode": decode}
