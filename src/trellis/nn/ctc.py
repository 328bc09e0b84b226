"""CTC: -log p(target | input) where the target has no alignment to the frames.

A path takes one class at each frame; merge equal neighbours, then drop the blanks, and what is left
is the target that it stands for. With y the log-probabilities of a network,

    loss = -log Σ_{π stands for target} Πₜ exp y[t, πₜ]

Arguments, reductions and results are those of `torch.nn.functional.ctc_loss`. Beyond it,
`from_logits=True` takes what comes before the softmax, which is faster and needs less memory; half
precision is computed in float32; the gradient with respect to log-probabilities is the true one,
-p(class at the frame | target), and never NaN; labels and lengths are checked; the same input gives
the same bits on every device. On a GPU a path less likely than e^-90,000,000 counts as impossible.
"""

from math import log

import torch
from torch import Tensor, nn

from trellis.errors import InputError
from trellis.inference.gpu.status import Marks
from trellis.nn.ctc_batch import Batch, Lengths, check_numbers, look, prepare, raise_if
from trellis.nn.ctc_ops import (
    ctc_gradient,
    ctc_value,
    differentiable_value,
    number,
    reduced,
    small_on_card,
    value_at_once,
)

__all__ = ["CTCLoss", "ctc_loss", "ctc_posterior"]

_FAR = -1e30  # the log-probability of what cannot be, in the plain recursion


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    entropy: float = 0.0,
    validate: bool = True,
) -> Tensor:
    """-log p(target | input) of a batch.

    log_probs
        (T, B, V), or (T, V) for a single sequence: log-probabilities, or with `from_logits` any
        scores. -inf is probability zero.
    targets
        (B, S) padded, or the targets of all rows one after the other, without blanks.
    input_lengths, target_lengths
        (B,): tensors on any device, or integers. What lies behind a length has no effect.
    reduction
        "none": one loss a row; "sum": their sum; "mean": each divided by the length of its target,
        then the mean.
    zero_infinity
        0 instead of inf for a row whose target has no path, because it is too long for its frames.
        The gradient of such a row is 0 in both cases.
    label_smoothing
        ε: the loss of a row becomes (1 - ε) loss + ε Σₜ KL(uniform ‖ pₜ), where
        KL(uniform ‖ p) = -log V - (Σᵥ log p(v)) / V.
    entropy
        λ: λ H is subtracted from the loss of a row, where
        H = -Σ_π p(π | target) log p(π | target) is the entropy of the alignments of its target:
        λ > 0 keeps a network from being sure too early of a single one. Part of the kernels on a
        GPU, but a loop in Python on the CPU.
    validate
        whether labels and lengths on a GPU are checked: the price is to wait for a small kernel. A
        compiled program and a CUDA graph never wait.

    >>> two_frames = torch.tensor([[[0.4, 0.6]], [[0.5, 0.5]]]).log()
    >>> loss = ctc_loss(two_frames, torch.tensor([[1]]), (2,), (1,))
    >>> round(loss.exp().item(), 3)  # 1 / 0.8: all paths but (blank, blank)
    1.25
    >>> scores = torch.zeros(5, 2, 4, requires_grad=True)
    >>> loss = ctc_loss(scores, torch.tensor([1, 2, 3]), (5, 3), (1, 2), from_logits=True)
    >>> loss.backward()
    >>> scores.grad[3:, 1].tolist()  # behind the end
    [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    >>> ctc_loss(scores, torch.tensor([[1, 2], [3, 0]]), (5, 3), (2, 2))
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: target of batch row 1, position 1 is the blank, 0
    """
    if reduction not in ("none", "mean", "sum"):
        raise InputError(f"reduction is {reduction!r}: must be 'none', 'mean' or 'sum'")
    if not 0.0 <= label_smoothing <= 1.0:
        raise InputError(f"label_smoothing is {label_smoothing}: must be 0 to 1")
    x = prepare(log_probs, targets, input_lengths, target_lengths, blank)
    adjusted = label_smoothing or zero_infinity
    if small_on_card(x.frames, x.targets):
        now = "none" if adjusted else reduction
        looks = validate and not torch.cuda.is_current_stream_capturing()  # a graph never waits
        marks = Marks(x.frames.shape[1], x.frames.device) if looks else None
        how = (from_logits, entropy, now)
        loss = value_at_once(x.frames, *x.rows, blank, *how, marks, x.prepared)
        if marks is not None:
            raise_if(marks.wait(), x, blank)
    else:
        now = "none"
        if validate:
            look(x, blank)
        loss = _value(x, blank, from_logits, entropy)
    if validate and not loss.is_cuda and not torch.compiler.is_compiling():
        check_numbers(x, loss)
    if adjusted:
        loss = _adjusted(loss, x, from_logits, label_smoothing, zero_infinity)
    if now != reduction:
        loss = reduced(loss, reduction, x.target_lengths)
    return loss.squeeze(0) if x.single and loss.dim() else loss


def ctc_posterior(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    *,
    validate: bool = True,
) -> Tensor:
    """``[t, b, v]`` = p(class v at frame t | target of row b), shaped as log_probs.

    Each frame sums to 1, but is 0 behind the length, and where no path stands for the target.
    Logits may be given as well: the shares are the same. Has no gradient.

    >>> two_frames = torch.tensor([[0.4, 0.6], [0.5, 0.5]]).log()
    >>> share = ctc_posterior(two_frames, torch.tensor([1]), 2, 1)
    >>> [[round(p, 3) for p in frame] for frame in share.tolist()]
    [[0.25, 0.75], [0.375, 0.625]]
    """
    x = prepare(log_probs, targets, input_lengths, target_lengths, blank)
    with torch.no_grad():
        if validate:
            look(x, blank)
        frames = x.frames.to(number(x.frames))
        loss, log_norm, kept = ctc_value(frames, *x.rows, blank, False, True, 0.0)
        parts = (log_norm, kept, loss, torch.full_like(loss, -1.0))
        share: Tensor = ctc_gradient(frames, *x.rows, *parts, blank, False)
    return share.squeeze(1) if x.single else share


class CTCLoss(nn.Module):
    """`ctc_loss` as a module; takes the place of `torch.nn.CTCLoss`.

    >>> criterion = CTCLoss(blank=0, from_logits=True)
    >>> scores = torch.zeros(50, 16, 20, requires_grad=True)  # (T, B, V)
    >>> targets = torch.randint(1, 20, (16, 30))
    >>> loss = criterion(scores, targets, torch.full((16,), 50), torch.randint(10, 31, (16,)))
    >>> loss.backward()
    >>> criterion
    CTCLoss(blank=0, reduction='mean', zero_infinity=False, from_logits=True)
    """

    def __init__(
        self,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
        *,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        entropy: float = 0.0,
        validate: bool = True,
    ) -> None:
        super().__init__()
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity
        self.from_logits = from_logits
        self.label_smoothing = label_smoothing
        self.entropy = entropy
        self.validate = validate

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Lengths,
        target_lengths: Lengths,
    ) -> Tensor:
        """The loss, reduced."""
        return ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            from_logits=self.from_logits,
            label_smoothing=self.label_smoothing,
            entropy=self.entropy,
            validate=self.validate,
        )

    def extra_repr(self) -> str:
        """The arguments."""
        names = ["blank", "reduction", "zero_infinity", "from_logits"]
        names += [name for name in ("label_smoothing", "entropy") if getattr(self, name)]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _value(x: Batch, blank: int, logits: bool, entropy: float) -> Tensor:
    """The loss of each row, less the entropy of its alignments."""
    fused = entropy if x.frames.is_cuda else 0.0
    loss = differentiable_value(x.frames, *x.rows, blank, logits, fused)
    return loss - entropy * _alignment_entropy(x, blank, logits) if entropy != fused else loss


def _adjusted(loss: Tensor, x: Batch, logits: bool, smoothing: float, zero: bool) -> Tensor:
    """The loss of each row after label_smoothing and zero_infinity."""
    possible = loss != float("inf")
    if smoothing:
        far = torch.where(possible, _divergence(x, logits), 0.0)
        loss = (1.0 - smoothing) * loss + smoothing * far
    return torch.where(possible, loss, 0.0) if zero else loss


def _in_front(x: Batch) -> tuple[Tensor, Tensor]:
    """(T, B) whether a frame is in front of its row's end, and the frames with 0 behind it."""
    t = torch.arange(x.frames.shape[0], device=x.frames.device)
    inside = t[:, None] < x.input_lengths
    return inside, x.frames.to(number(x.frames)).masked_fill(~inside[:, :, None], 0.0)


def _divergence(x: Batch, logits: bool) -> Tensor:
    """Σₜ KL(uniform ‖ pₜ) of each row."""
    inside, y = _in_front(x)
    mean = y.mean(-1) - (y.logsumexp(-1) if logits else 0.0)
    return torch.where(inside, -log(y.shape[-1]) - mean, 0.0).sum(0)


def _alignment_entropy(x: Batch, blank: int, logits: bool) -> Tensor:
    """H of each row by the recursion that reads as the equations do: one step of Python a frame.

    Where paths of log-weights aᵢ and entropies hᵢ meet, a = log Σ exp aᵢ and
    h = Σ exp(aᵢ - a) (hᵢ - (aᵢ - a)). They come from the state itself, the one before it, and to a
    label that is not the last one again also from the one before that.
    """
    inside, y = _in_front(x)
    y = (y.log_softmax(-1) if logits else y).clamp(min=_FAR)
    s = torch.arange(x.targets.shape[1], device=y.device)
    labels = torch.where(s < x.target_lengths[:, None], x.targets, blank)
    extended = torch.stack([torch.full_like(labels, blank), labels], 2).flatten(1)
    extended = nn.functional.pad(extended, (0, 1), value=blank)  # (B, 2 S + 1)
    skip = extended != nn.functional.pad(extended, (2, 0), value=blank)[:, :-2]
    y = y.gather(2, extended.expand(len(y), -1, -1))
    a = torch.full_like(y[0], _FAR)
    a[:, 0] = 0.0  # in front of the first frame
    h = torch.zeros_like(a)
    for t, go in enumerate(inside[:, :, None]):
        one, two = (nn.functional.pad(a, (k, 0), value=_FAR)[:, : a.shape[1]] for k in (1, 2))
        ways = torch.stack([a, one, torch.where(skip, two, _FAR)])
        ends = torch.stack([nn.functional.pad(h, (k, 0))[:, : h.shape[1]] for k in (0, 1, 2)])
        total = ways.logsumexp(0)
        share = ways - total
        h = torch.where(go, (share.exp() * (ends - share)).sum(0), h)
        a = torch.where(go, total + y[t], a)
    last = 2 * x.target_lengths[:, None]
    last = torch.cat([last, (last - 1).clamp(min=0)], 1)
    ways, ends = a.gather(1, last), h.gather(1, last)
    ways = torch.stack([ways[:, 0], torch.where(x.target_lengths > 0, ways[:, 1], _FAR)], 1)
    share = ways - ways.logsumexp(1, keepdim=True)
    found = (share.exp() * (ends - share)).sum(1)
    return torch.where(ways.amax(1) > _FAR / 2, found, 0.0)
