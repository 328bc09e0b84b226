"""CTC: -log p(target | input) for a target that is not aligned to the frames.

A path π has one class at each frame. To get the target of a path, merge equal neighbours and then
remove the blanks. With y the log-probabilities of a network,

    loss = -log Σ_{π with this target} Πₜ exp y[t, πₜ]

Arguments, reductions and results are those of `torch.nn.functional.ctc_loss`. In addition:

- `from_logits=True` takes scores before the softmax, which is faster and needs less memory.
- Half precision is computed in float32.
- The gradient with respect to log-probabilities is exact, -p(class at the frame | target), and
  never NaN.
- Labels and lengths are validated.
- The same input always gives the same bits.

On a GPU, a path with a probability below e^-90,000,000 is treated as impossible.
"""

from math import log
from typing import Any

import torch
from torch import Tensor, nn

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.nn.ctc_batch import Batch, Lengths, check_numbers, refuse_probabilities
from trellis.nn.ctc_ops import Settings, compute_dtype, has_gpu_engine, losses, posterior

__all__ = ["CTCLoss", "ctc_loss", "ctc_posterior"]

_IMPOSSIBLE = -1e30  # log-probability of an impossible state; -inf would give NaN gradients


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
    """Compute -log p(target | input) of a batch.

    log_probs
        (T, B, V), or (T, V) for a single sequence: log-probabilities, or any scores with
        `from_logits`. -inf means probability zero.
    targets
        (B, S) padded, or the targets of all rows concatenated. They contain no blanks.
    input_lengths, target_lengths
        (B,): tensors on any device, or integers. Values after a length have no effect.
    reduction
        "none": one loss per row; "sum": their sum; "mean": the mean of loss / target length.
    zero_infinity
        If True, the loss is 0 instead of inf for a row whose target is too long for its frames. The
        gradient of such a row is 0 in both cases.
    label_smoothing
        ε: the loss of a row becomes (1 - ε) loss + ε Σₜ KL(uniform ‖ pₜ), where
        KL(uniform ‖ p) = -log V - (Σᵥ log p(v)) / V.
    entropy
        λ: λ H is subtracted from the loss of a row, where
        H = -Σ_π p(π | target) log p(π | target) is the entropy of the alignments of its target.
        With λ > 0, a network does not choose a single alignment too early. On the CPU, a slow loop
        in Python computes H.
    validate
        Whether labels and lengths on a GPU are validated: the call then waits for a small kernel.
        Compiled programs and CUDA graphs never validate them. The CPU always does, and refuses
        probabilities in place of their logarithms.

    >>> two_frames = torch.tensor([[[0.4, 0.6]], [[0.5, 0.5]]]).log()
    >>> loss = ctc_loss(two_frames, torch.tensor([[1]]), (2,), (1,))
    >>> round(loss.exp().item(), 3)  # 1 / 0.8: all paths except (blank, blank)
    1.25
    >>> scores = torch.zeros(5, 2, 4, requires_grad=True)
    >>> loss = ctc_loss(scores, torch.tensor([1, 2, 3]), (5, 3), (1, 2), from_logits=True)
    >>> loss.backward()
    >>> scores.grad[3:, 1].tolist()  # frames after the end of row 1
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
    needs_adjustment = bool(label_smoothing or zero_infinity)
    batch = _build_batch(log_probs, targets, input_lengths, target_lengths)
    on_cpu = not has_gpu_engine(log_probs)
    settings = Settings(as_integer(blank, "blank"), from_logits, 0.0 if on_cpu else entropy)
    loss, batch = losses(batch, settings, "none" if needs_adjustment else reduction, validate)
    if entropy and on_cpu:
        loss = loss - entropy * _compute_alignment_entropy(batch, blank, from_logits)
    if on_cpu and not torch.compiler.is_compiling():
        check_numbers(batch, loss)
        if not from_logits:
            refuse_probabilities(batch)
    if needs_adjustment:
        loss = _adjust_losses(loss, batch, from_logits, label_smoothing, zero_infinity)
    return _reduce(loss, reduction, batch.target_lengths, is_single=log_probs.dim() == 2)


def ctc_posterior(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    *,
    validate: bool = True,
) -> Tensor:
    """Return p(class v at frame t | target of row b) at ``[t, b, v]``, in the shape of log_probs.

    The probabilities of a frame sum to 1. They are all 0 after the length of a row, and in rows
    whose target has no path. Logits give the same result as log-probabilities. The result is not
    differentiable.

    >>> two_frames = torch.tensor([[0.4, 0.6], [0.5, 0.5]]).log()
    >>> share = ctc_posterior(two_frames, torch.tensor([1]), 2, 1)
    >>> [[round(p, 3) for p in frame] for frame in share.tolist()]
    [[0.25, 0.75], [0.375, 0.625]]
    """
    batch = _build_batch(log_probs, targets, input_lengths, target_lengths)
    probabilities = posterior(batch, blank, validate)
    return probabilities.squeeze(1) if log_probs.dim() == 2 else probabilities


class CTCLoss(nn.Module):
    """`ctc_loss` as a module, a replacement for `torch.nn.CTCLoss`.

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
        """Return the reduced loss."""
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
        """Return the settings, as ``print(model)`` shows them."""
        names = ["blank", "reduction", "zero_infinity", "from_logits"]
        names += [name for name in ("label_smoothing", "entropy") if getattr(self, name)]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _build_batch(log_probs: Tensor, *arguments: Any) -> Batch:
    # Engines read the memory of a tensor. The sign of a negative view is not in that memory.
    resolved_log_probs = log_probs.resolve_neg() if isinstance(log_probs, Tensor) else log_probs
    return Batch(resolved_log_probs, *arguments)


def _reduce(loss: Tensor, reduction: str, target_lengths: Tensor, is_single: bool) -> Tensor:
    """Reduce losses (B,), unless the engine has reduced them; `is_single` means input (T, V)."""
    if loss.dim() == 0:
        return loss
    if reduction == "mean":
        return (loss / target_lengths.clamp(min=1)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.squeeze(0) if is_single else loss


def _adjust_losses(
    loss: Tensor, batch: Batch, logits: bool, smoothing: float, zero_infinity: bool
) -> Tensor:
    """Apply label_smoothing and zero_infinity to the loss of each row."""
    is_possible = loss != float("inf")
    if smoothing:
        divergence = torch.where(is_possible, _compute_divergence(batch, logits), 0.0)
        loss = (1.0 - smoothing) * loss + smoothing * divergence
    return torch.where(is_possible, loss, 0.0) if zero_infinity else loss


def _mask_frames(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return which frames (T, B) are inside the length of their row, and the frames, 0 outside."""
    frame_index = torch.arange(batch.frames.shape[0], device=batch.frames.device)
    is_inside = frame_index[:, None] < batch.input_lengths
    frames = batch.frames.to(compute_dtype(batch.frames))
    return is_inside, frames.masked_fill(~is_inside[:, :, None], 0.0)


def _compute_divergence(batch: Batch, logits: bool) -> Tensor:
    """Compute Σₜ KL(uniform ‖ pₜ) of each row (B,)."""
    is_inside, frame_scores = _mask_frames(batch)
    mean_score = frame_scores.mean(-1) - (frame_scores.logsumexp(-1) if logits else 0.0)
    return torch.where(is_inside, -log(frame_scores.shape[-1]) - mean_score, 0.0).sum(0)


def _compute_alignment_entropy(batch: Batch, blank: int, logits: bool) -> Tensor:
    """Compute the entropy H of the alignments of each row (B,), with one iteration per frame.

    A state whose predecessors i have log-weights aᵢ and entropies hᵢ gets a = log Σ exp aᵢ and
    h = Σ exp(aᵢ - a) (hᵢ - (aᵢ - a)). The predecessors of a state are itself, the state before it
    and, for a label that differs from the previous label, also the previous label.
    """
    frames_inside, y = _mask_frames(batch)
    y = (y.log_softmax(-1) if logits else y).clamp(min=_IMPOSSIBLE)
    extended_targets, skip = _extend_targets(batch, blank)
    y = y.gather(2, extended_targets.expand(len(y), -1, -1))
    a = torch.full_like(y[0], _IMPOSSIBLE)
    a[:, 0] = 0.0  # a path starts in the first blank
    h = torch.zeros_like(a)
    for t, is_inside in enumerate(frames_inside[:, :, None]):
        predecessors = [_shift(a, k, _IMPOSSIBLE) for k in (0, 1, 2)]
        predecessors[2] = torch.where(skip, predecessors[2], _IMPOSSIBLE)
        entropies = torch.stack([_shift(h, k, 0.0) for k in (0, 1, 2)])
        weights = torch.stack(predecessors)
        log_total = weights.logsumexp(0)
        log_shares = weights - log_total
        h = torch.where(is_inside, (log_shares.exp() * (entropies - log_shares)).sum(0), h)
        a = torch.where(is_inside, log_total + y[t], a)
    # A path ends in the last blank, or in the last label of a target that is not empty.
    final_states = 2 * batch.target_lengths[:, None]
    final_states = torch.cat([final_states, (final_states - 1).clamp(min=0)], 1)
    ends, entropies = a.gather(1, final_states), h.gather(1, final_states)
    has_labels = batch.target_lengths > 0
    ends = torch.stack([ends[:, 0], torch.where(has_labels, ends[:, 1], _IMPOSSIBLE)], 1)
    log_shares = ends - ends.logsumexp(1, keepdim=True)
    entropy = (log_shares.exp() * (entropies - log_shares)).sum(1)
    return torch.where(ends.amax(1) > _IMPOSSIBLE / 2, entropy, 0.0)


def _extend_targets(batch: Batch, blank: int) -> tuple[Tensor, Tensor]:
    """Return targets with blanks around each label, and where a blank may be skipped.

    Both have shape (B, 2 S + 1).
    """
    positions = torch.arange(batch.targets.shape[1], device=batch.targets.device)
    labels = torch.where(positions < batch.target_lengths[:, None], batch.targets, blank)
    extended_targets = torch.stack([torch.full_like(labels, blank), labels], 2).flatten(1)
    extended_targets = nn.functional.pad(extended_targets, (0, 1), value=blank)
    return extended_targets, extended_targets != _shift(extended_targets, 2, blank)


def _shift(x: Tensor, by: int, fill: float) -> Tensor:
    """Return x (B, N) shifted to the right by ``by`` columns, with ``fill`` on the left."""
    return nn.functional.pad(x, (by, 0), value=fill)[:, : x.shape[1]]
