"""CTC for PyTorch: losses and gradients on CPU and CUDA tensors.

The loss is -log p(target | input). Its gradient with respect to the logits of a frame is
softmax - p(class at the frame | target).

In eager programs one autograd function runs an engine: the native core, or a `CTCPlan` of Triton
kernels. Compiled programs use the operators ``trellis::ctc_*``, which call the same engines:
PyTorch can trace an operator, but not an engine.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trellis.errors import InputError
from trellis.inference.ctc import cpu
from trellis.inference.gpu.status import RowStatus
from trellis.nn.ctc_batch import (
    Batch,
    check_batch,
    check_numbers,
    check_status,
    refuse_probabilities,
)
from trellis.nn.once import refuse_second_derivative

__all__ = [
    "Settings",
    "compute_dtype",
    "ctc_gradient",
    "ctc_value",
    "has_gpu_engine",
    "losses",
    "posterior",
]

# elements: for a larger input, storing the gradient until the backward pass needs too much memory
_MAX_AT_ONCE = 2**22


class Settings(NamedTuple):
    """The settings of a loss."""

    blank: int
    logits: bool  # whether the softmax of the input is part of the loss
    entropy: float = 0.0  # λ in loss - λ · entropy of the alignments; 0 on the CPU


def compute_dtype(input: Tensor) -> torch.dtype:
    """Return float64 for float64 input, else float32."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def _gpu_engine() -> Any:
    """Return the module of the GPU kernels, which can be imported only if Triton is installed."""
    return import_module("trellis.inference.ctc.triton")


# ---- the engines of eager programs


class _CTC(torch.autograd.Function):
    """The loss that an engine computes, and its gradient.

    An engine is a `_NativeEngine` or a `CTCPlan`. Its method ``run(batch, status, entropy)``
    returns the loss and the tensors to save; ``gradients(saved, weight)`` returns the gradient of
    Σ weight · loss.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        _, batch, status, entropy, engine = inputs  # _ is batch.frames, which only autograd reads
        loss: Tensor
        loss, saved = engine.run(batch, status, entropy)
        ctx.save_for_backward(*saved)
        ctx.engine = engine
        return loss

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Any, ...]:
        # Calls are avoided here: this code runs on PyTorch's backward thread, where Python is slow.
        saved = ctx.saved_tensors
        gradients = ctx.engine.gradients(saved, weight.detach())
        if torch.is_grad_enabled():
            gradients = refuse_second_derivative(gradients, saved, "CTC loss")
        return (*gradients, None, None, None, None)


def is_eager(input: Any) -> bool:
    """Return True for a plain tensor in a program that is not being traced."""
    return type(input) in (Tensor, torch.nn.Parameter) and not torch.compiler.is_compiling()


def _runs_on_gpu(input: Any) -> bool:
    """Return True if an eager program runs a `CTCPlan`."""
    return is_eager(input) and input.is_cuda


def has_gpu_engine(input: Any) -> bool:
    """Return True if the GPU engine computes the loss, in an eager or a compiled program."""
    return _runs_on_gpu(input) or (isinstance(input, Tensor) and input.is_cuda)


def _computes_at_once(input: Tensor, targets: Any) -> bool:
    """Return True if the gradient is computed together with the loss, see `CTCPlan`.

    This is done for small inputs that are dense along the classes, but not in half precision: the
    gradient would be rounded before a loss scaler scales it.
    """
    return (
        input.dtype == compute_dtype(input)
        and input.dim() == 3
        and input.numel() <= _MAX_AT_ONCE
        and input.stride(2) == 1
        and isinstance(targets, Tensor)
        and targets.is_contiguous()
    )


def losses(
    batch: Batch, settings: Settings, reduction: str, validate: bool
) -> tuple[Tensor, Batch]:
    """Return the loss of each row (B,), and the batch that `check_batch` returns.

    On a GPU the loss may be reduced already: then it has no dimensions. With ``validate``, labels
    and lengths are validated; the native core always validates them.
    """
    needs_gradient = torch.is_grad_enabled() and getattr(batch.frames, "requires_grad", False)
    if _runs_on_gpu(batch.frames):
        computes_at_once = needs_gradient and _computes_at_once(batch.frames, batch.targets)
        timing = "later" if needs_gradient else "no"
        gradient_and_reduction = ("now", reduction) if computes_at_once else (timing, "none")
        return _run_on_gpu(batch, settings, gradient_and_reduction, validate)
    batch = check_batch(batch, settings.blank)
    if not is_eager(batch.frames):
        traced_loss: Tensor = ctc_value(*batch, *settings[:2], needs_gradient, settings.entropy)[0]
        return traced_loss, batch
    return _run_engine(batch, None, 0.0, _NativeEngine(settings)), batch


def _run_engine(batch: Batch, status: RowStatus | None, entropy: float, engine: Any) -> Tensor:
    loss: Tensor = _CTC.apply(  # type: ignore[no-untyped-call]
        batch.frames, batch, status, entropy, engine
    )
    return loss


def _run_on_gpu(
    batch: Batch, settings: Settings, gradient_and_reduction: tuple[str, str], validate: bool
) -> tuple[Tensor, Batch]:
    """Return the result of `losses`, computed by a `CTCPlan`.

    The gradient is "now" (computed with the loss), "later" (in the backward pass) or "no".
    """
    engine, (blank, logits, entropy) = _gpu_engine(), settings
    arguments = (blank, logits, entropy != 0.0, *gradient_and_reduction)
    check: Callable[[Batch], Batch] = lambda batch: check_batch(batch, blank)  # noqa: E731
    plan, batch = engine.find_plan(engine.CTCPlan, batch, arguments, check)
    # A CUDA graph cannot be captured while the host waits or allocates pinned memory.
    validate = validate and not torch.cuda.is_current_stream_capturing()
    rows, device = batch.frames.shape[1], batch.frames.device
    status = RowStatus(rows, device) if validate else None
    loss = _run_engine(batch, status, entropy, plan)
    if status is not None:
        check_status(status.wait(), batch, blank)
    return loss, batch


def posterior(batch: Batch, blank: int, validate: bool) -> Tensor:
    """Return p(class at the frame | target), (T, B, V), which is -∂ loss / ∂ log-probabilities."""
    settings = Settings(blank, False)
    batch = check_batch(batch, blank)
    batch = batch._replace(frames=batch.frames.to(compute_dtype(batch.frames)))
    if not is_eager(batch.frames):
        loss, *saved = ctc_value(*batch, *settings[:2], True, 0.0)
        weight = torch.full_like(loss, -1.0)
        traced_value: Tensor = ctc_gradient(*batch, loss, *saved, weight, *settings[:2])
        return traced_value
    with torch.enable_grad():
        leaf = batch.frames.detach().requires_grad_()
        batch = batch._replace(frames=leaf)
        if _runs_on_gpu(leaf):
            loss, _ = _run_on_gpu(batch, settings, ("later", "none"), validate)
        else:
            refuse_probabilities(batch)
            loss = _run_engine(batch, None, 0.0, _NativeEngine(settings))
            check_numbers(batch, loss)
    probabilities: Tensor = torch.autograd.grad(loss, leaf, torch.full_like(loss, -1.0))[0]
    return probabilities


class _NativeEngine:
    """The native core on CPU tensors."""

    def __init__(self, settings: Settings) -> None:
        if settings.entropy:
            raise InputError(
                f"entropy is {settings.entropy}: must be 0 on the CPU, where ctc_loss adds it"
            )
        self.blank, self.logits = settings[:2]

    def run(
        self, batch: Sequence[Tensor], status: None = None, entropy: float = 0.0
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the loss (B,), and the tensors that `gradients` needs."""
        x, labels, input_lengths, target_lengths = _as_arrays(*batch)
        results = cpu.forward(x, labels, input_lengths, target_lengths, self.blank, self.logits)
        loss, log_norm, states = (torch.from_numpy(array) for array in results)
        return loss, (*batch, loss, log_norm, states)

    def gradients(self, saved: Sequence[Tensor], weight: Tensor) -> tuple[Tensor]:
        """Return the gradient of Σ_b weight_b · loss_b with respect to the input, (T, B, V)."""
        input = saved[0]
        x, labels, input_lengths, target_lengths = _as_arrays(*saved[:4])
        loss, log_norm, states = (tensor.detach().numpy() for tensor in saved[4:7])
        same_dtype = input.dtype == compute_dtype(input)
        is_plain = same_dtype and input.is_contiguous()
        gradient = _allocate(x) if is_plain else torch.empty_like(input)
        # the core writes contiguous rows of classes in the type that it computes with
        needs_no_copy = same_dtype and gradient.stride(2) == 1
        output = gradient if needs_no_copy else _allocate(x)
        arguments = (labels, input_lengths, target_lengths, self.blank, self.logits)
        cpu.backward(x, *arguments, log_norm, states, loss, weight.numpy(), out=output.numpy())
        return (gradient if needs_no_copy else gradient.copy_(output),)


def _as_arrays(input: Tensor, *tensors: Tensor) -> Any:
    """Return NumPy views of CPU tensors, or a float32 copy of an input in half precision."""
    return (tensor.detach().numpy() for tensor in (input.to(compute_dtype(input)), *tensors))


def _allocate(like: Any) -> Tensor:
    """Return a new tensor of this shape and type, in memory of NumPy.

    NumPy requests huge pages for large arrays, and their first use is faster.
    """
    return torch.from_numpy(np.empty(like.shape, like.dtype))


# ---- operators for compiled programs


def _compute_value(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    gradient: bool,
    entropy: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the loss (B,), and log_norm, states and links for its gradient; see `CTCPlan`."""
    batch = (input, targets, input_lengths, target_lengths)
    settings = Settings(blank, logits, entropy)
    if not input.is_cuda:
        loss, saved = _NativeEngine(settings).run(batch)
        return loss, saved[5], saved[6], input.new_empty(0, dtype=torch.int32)
    engine = _gpu_engine()
    arguments = (blank, logits, entropy != 0.0, "later" if gradient else "no", "none")
    plan, _ = engine.find_plan(engine.CTCPlan, batch, arguments)
    loss, saved = plan.run(batch, None, entropy)
    if gradient:
        return loss, *saved[5:]
    log_norm = input.new_empty((0, 0), dtype=torch.float64)
    return loss, log_norm, loss.new_empty(0), loss.new_empty(0, dtype=torch.int32)


ctc_value = torch.library.custom_op("trellis::ctc_value", _compute_value, mutates_args=())


@ctc_value.register_fake
def _(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    logits: bool,
    gradient: bool,
    entropy: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    n_frames, n_rows, _ = input.shape
    n_labels = targets.shape[1]
    dtype = compute_dtype(input)
    log_norm_shape, links_shape = ((n_frames, n_rows) if logits else (0, 0)), (0,)
    states_shape: tuple[int, ...] = (n_rows, n_frames, 2 * n_labels + 1)
    if input.is_cuda:
        log_norm_shape = log_norm_shape if gradient else (0, 0)
        states_shape = (n_rows, n_frames + 2, 2, n_labels + 1) if gradient else (0,)
        links_shape = (n_rows, 2, n_labels + 1) if gradient else (0,)  # type: ignore[assignment]
    return (
        input.new_empty((n_rows,), dtype=dtype),
        input.new_empty(log_norm_shape, dtype=torch.float64 if input.is_cuda else dtype),
        input.new_empty(states_shape, dtype=dtype),
        input.new_empty(links_shape, dtype=torch.int32),
    )


def _compute_gradient(
    input: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    loss: Tensor,
    log_norm: Tensor,
    states: Tensor,
    links: Tensor,
    weight: Tensor,
    blank: int,
    logits: bool,
) -> Tensor:
    """Compute Σ_b weight[b] · ∂ loss[b] / ∂ input."""
    batch = (input, targets, input_lengths, target_lengths)
    saved = (*batch, loss, log_norm, states, links)
    if not input.is_cuda:
        return _NativeEngine(Settings(blank, logits)).gradients(saved, weight)[0]
    gradient: Tensor = _gpu_engine().weighted_gradient(saved, weight, blank, logits)
    return gradient


ctc_gradient = torch.library.custom_op("trellis::ctc_gradient", _compute_gradient, mutates_args=())


@ctc_gradient.register_fake
def _(input: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(input)


def _save_value(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:4], *output)
    ctx.blank, ctx.logits = inputs[4:6]
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)  # otherwise autograd allocates zeros as large as the states


def _backward(ctx: Any, weight: Tensor | None, *_: Any) -> tuple[Any, ...]:
    if weight is None:
        return (None,) * 8
    gradient = ctc_gradient(*ctx.saved_tensors, weight, ctx.blank, ctx.logits)
    return (gradient, *(None,) * 7)


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


def _raise_second_derivative(ctx: Any, *gradients: Any) -> Any:
    raise RuntimeError("the gradient of a trellis CTC loss cannot be differentiated again")


ctc_value.register_autograd(_backward, setup_context=_save_value)
ctc_gradient.register_autograd(_raise_second_derivative, setup_context=_save_nothing)
