"""The CRF as the output layer of a network: p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z(x)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.checks import as_integer, flag, one_of
from trellis.errors import InputError
from trellis.inference import chain
from trellis.nn import reference
from trellis.nn.chain_ops import best_path, log_likelihood, log_partition, marginals
from trellis.nn.constraints import forbidden
from trellis.nn.steps import (
    Batch,
    Steps,
    check_batch,
    check_emissions,
    check_tensor,
    find_steps,
)

__all__ = ["CRF"]

_REDUCTIONS = ("none", "sum", "mean", "token_mean")


class CRF(nn.Module):
    """A linear-chain CRF over the scores (emissions) that a network computes for each step.

    p(y | x) = exp(start(y₁) + Σₜ eₜ(yₜ) + Σₜ A(yₜ₋₁, yₜ) + end(y_T)) / Z(x)

    >>> crf = CRF(3, batch_first=True)
    >>> emissions = torch.tensor([[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]])
    >>> _ = crf.start_transitions.data.zero_(), crf.end_transitions.data.zero_()
    >>> _ = crf.transitions.data.zero_()
    >>> crf.decode(emissions)
    [[0, 1, 2]]
    >>> crf.decode(emissions, mask=torch.tensor([[True, False, True]]))  # a step is removed
    [[0, 2]]
    >>> round(crf(emissions, torch.tensor([[0, 1, 2]])).item(), 3)
    -0.719

    Parameters
    ----------
    num_tags
        The number of tags, L.
    batch_first
        If True, emissions are (batch, steps, tags), else (steps, batch, tags).
    labels, constraints
        ``constraints`` is a tagging scheme ("BIO", "BILOU", …), which needs the names of the tags
        in ``labels``, or forbidden pairs (tag, next tag) of tag numbers.
    rank
        If set, the transitions are the product of two matrices (tags, rank), which saves memory and
        parameters if there are many tags.
    start_end
        If False, the layer has no scores of first and last tags: A is all that it learns, and
        ``start_transitions`` and ``end_transitions`` are constant zeros.
    validate
        Whether the values of tags, masks and lengths are validated. On a GPU the call then waits
        for the kernel that validates them. Compiled programs and CUDA graphs never validate.

    The parameters ``start_transitions``, ``end_transitions`` and ``transitions`` have the names of
    pytorch-crf, so its state dicts can be loaded. In all methods ``mask`` is True at the steps that
    are part of the chain, and may have any pattern. ``lengths`` (B,) is the alternative for padded
    rows. ``transitions=`` (B, T-1, L, L) adds a score to the transition into each step except the
    first.

    """

    start_transitions: Tensor
    end_transitions: Tensor
    _no_pairs: Tensor | None
    _no_starts: Tensor
    _no_ends: Tensor

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        labels: Sequence[str] | None = None,
        constraints: str | Iterable[tuple[int, int]] | None = None,
        rank: int | None = None,
        start_end: bool = True,
        validate: bool = True,
    ) -> None:
        start_end = flag(start_end, "start_end")
        for name, value in (("num_tags", num_tags), ("rank", rank)):
            if value is not None and as_integer(value, name) < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        super().__init__()
        self.num_tags, self.batch_first, self.validate = num_tags, batch_first, validate
        self.start_end = start_end
        if start_end:
            self.start_transitions = nn.Parameter(torch.empty(num_tags))
            self.end_transitions = nn.Parameter(torch.empty(num_tags))
        else:
            for name in ("start_transitions", "end_transitions"):
                self.register_buffer(name, torch.zeros(num_tags), persistent=False)
        if rank is None:
            self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        else:
            self.transition_from = nn.Parameter(torch.empty(num_tags, rank))
            self.transition_to = nn.Parameter(torch.empty(num_tags, rank))
        self.rank = rank
        tables = forbidden(num_tags, labels, constraints)
        for name, table in zip(("pairs", "starts", "ends"), tables, strict=True):
            self.register_buffer(f"_no_{name}", table, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from ±0.1; for low-rank transitions, their product is in ±0.1."""
        if self.start_end:
            nn.init.uniform_(self.start_transitions, -0.1, 0.1)
            nn.init.uniform_(self.end_transitions, -0.1, 0.1)
        if self.rank is None:
            nn.init.uniform_(self.transitions, -0.1, 0.1)
        else:
            bound = (0.1 / self.rank) ** 0.5
            nn.init.uniform_(self.transition_from, -bound, bound)
            nn.init.uniform_(self.transition_to, -bound, bound)

    def extra_repr(self) -> str:
        """Return the settings, as ``print(model)`` shows them."""
        settings = f"num_tags={self.num_tags}, batch_first={self.batch_first}, rank={self.rank}"
        return settings if self.start_end else f"{settings}, start_end=False"

    # ---- likelihoods

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return log p(tags | emissions) of each row, or reduced.

        ``reduction`` is "none", "sum", "mean" (over the rows) or "token_mean".
        "token_mean" is the sum divided by the number of unmasked steps. Tags at masked steps may
        have any value, such as -100. Boolean tags (B, T, L) are True for the possible tags of each
        step: the result is the log-probability of all labellings that have only possible tags.
        """
        one_of(reduction, _REDUCTIONS, "reduction")
        check_tensor(tags, "tags")
        if tags.dtype == torch.bool:
            return self._log_prob_of_sets(emissions, tags, mask, lengths, transitions, reduction)
        batch = self._build_batch(emissions, mask, lengths, transitions, tags)
        validate = self._should_validate(emissions)
        value, batch = log_likelihood(batch, reduction != "none", validate, self._check_batch)
        return _reduce(value, reduction, batch)

    def _log_prob_of_sets(
        self,
        emissions: Tensor,
        allowed: Tensor,
        mask: Tensor | None,
        lengths: Any,
        transitions: Tensor | None,
        reduction: str,
    ) -> Tensor:
        """Return log p of the labellings that `allowed` permits: their log Z minus log Z."""
        scores, steps = self._to_front(emissions, mask, lengths, transitions)
        _check_allowed(allowed, emissions)
        front_emissions, pairs, start, end = scores
        allowed = steps.to_front(self._rows_first(allowed))
        allowed_emissions = front_emissions.masked_fill(~allowed, -torch.inf)
        value = log_partition(allowed_emissions, pairs, start, end, steps.lengths)
        value = value - log_partition(*scores, steps.lengths)
        return _reduce(value, reduction, Batch(*scores, steps.lengths))

    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return log Z of each row (B,), differentiable."""
        scores, steps = self._to_front(emissions, mask, lengths, transitions)
        return log_partition(*scores, steps.lengths)

    def entropy(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return H(y | x) of each row (B,) in nats, differentiable."""
        scores, steps = self._to_front(emissions, mask, lengths, transitions)
        dtype = torch.promote_types(emissions.dtype, torch.float32)
        front_emissions, pairs, start, end = (score.to(dtype) for score in scores)
        return reference.entropy(front_emissions, pairs, start, end, steps.lengths)

    # ---- labels

    def decode(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
        padded: int | None = None,
    ) -> Any:
        """Return the best tags of each row: a list of lists, one tag for each unmasked step.

        With ``padded=n``, return a tensor in the layout of the mask, with n at the masked steps.
        """
        scores, steps = self._to_front(emissions, mask, lengths, transitions)
        tags, _ = best_path(*scores, steps.lengths)
        if padded is not None:
            return self._rows_first(steps.to_positions(tags, padded))
        rows = zip(tags.tolist(), steps.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]

    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Return p(yₜ | x) in the shape of the emissions, 0 at masked steps; not differentiable."""
        scores, steps = self._to_front(emissions, mask, lengths, transitions)
        probabilities = steps.to_positions(marginals(*scores, steps.lengths))
        return probabilities if self.batch_first else probabilities.transpose(0, 1)

    def kbest(
        self,
        emissions: Tensor,
        k: int,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> list[list[tuple[list[int], float]]]:
        """Return the k best labellings of each row with their log-probabilities, best first.

        A row with fewer than k possible labellings gets fewer.
        """
        scores, row_lengths = self._to_numpy(emissions, mask, lengths, transitions)
        best = chain.kbest(*scores, lengths=row_lengths, k=k)
        log_z = np.asarray(chain.log_partition(*scores, lengths=row_lengths))
        return [
            [
                (path[:length].tolist(), min(float(value - row_log_z), 0.0))
                for path, value in zip(paths, values, strict=True)
                if value > -np.inf  # a missing path of a padded batch
            ]
            for paths, values, row_log_z, length in zip(
                best.labels, best.score, log_z, row_lengths, strict=True
            )
        ]

    def sample(
        self,
        emissions: Tensor,
        n: int = 1,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
        random_state: Any = None,
    ) -> list[list[list[int]]]:
        """Draw n labellings y ~ p(y | x) for each row."""
        scores, row_lengths = self._to_numpy(emissions, mask, lengths, transitions)
        row_paths = chain.sample(*scores, lengths=row_lengths, n=n, random_state=random_state)
        return [
            paths[:, :length].tolist() for paths, length in zip(row_paths, row_lengths, strict=True)
        ]

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return transitions (L, L), starts (L,) and ends (L,), -inf where they are forbidden."""
        return self._compute_scores()

    # ---- shared by the methods

    def _should_validate(self, emissions: Tensor) -> bool:
        """Return True if values are validated: not in compiled programs and CUDA graphs."""
        if not self.validate or torch.compiler.is_compiling():
            return False
        return not (emissions.is_cuda and torch.cuda.is_current_stream_capturing())

    def _rows_first(self, x: Any) -> Any:
        """Return x with the batch as its first axis; an invalid x is returned for later checks."""
        if self.batch_first or not isinstance(x, Tensor) or x.dim() < 2:
            return x
        return x.transpose(0, 1)

    def _build_batch(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        lengths: Any,
        transitions: Tensor | None,
        tags: Tensor | None = None,
    ) -> Batch:
        """Return the arguments of a call and the scores of the layer, rows first, not validated."""
        check_tensor(emissions, "emissions")
        # Engines read the memory of a tensor. The sign of a negative view is not in that memory.
        row_emissions = self._rows_first(emissions.resolve_neg())
        pairs, start, end = self._compute_scores()
        if transitions is not None:
            check_tensor(transitions, "transitions")
            check_emissions(row_emissions, self.num_tags, start.device)
            shape = (
                row_emissions.shape[0],
                row_emissions.shape[1] - 1,
                self.num_tags,
                self.num_tags,
            )
            if transitions.shape != shape:
                raise InputError(f"transitions have shape {tuple(transitions.shape)}, not {shape}")
            pairs = transitions + pairs
        tags, mask = self._rows_first(tags), self._rows_first(mask)
        return Batch(row_emissions, pairs, start, end, lengths, tags, mask)

    def _check_batch(self, batch: Batch) -> Batch:
        """Validate shapes, types and devices."""
        check_emissions(batch.emissions, self.num_tags, self.start_transitions.device)
        return check_batch(batch)

    def _to_front(
        self, emissions: Tensor, mask: Tensor | None, lengths: Any, transitions: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Steps]:
        """Return scores with the unmasked steps of each row at the front, and these steps."""
        batch = self._check_batch(self._build_batch(emissions, mask, lengths, transitions))
        steps = find_steps(batch, self._should_validate(batch.emissions))
        pairs = (
            batch.transitions if transitions is None else steps.pairs_to_front(batch.transitions)
        )
        return (steps.to_front(batch.emissions), pairs, batch.start, batch.end), steps

    def _compute_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        pairs = (
            self.transitions if self.rank is None else self.transition_from @ self.transition_to.T
        )
        start, end = self.start_transitions, self.end_transitions
        if self._no_pairs is None:
            return pairs, start, end
        return (
            pairs.masked_fill(self._no_pairs, -torch.inf),
            start.masked_fill(self._no_starts, -torch.inf),
            end.masked_fill(self._no_ends, -torch.inf),
        )

    def _to_numpy(
        self, emissions: Tensor, mask: Tensor | None, lengths: Any, transitions: Tensor | None
    ) -> tuple[list[Any], Any]:
        """Return scores in float64, and lengths, as arrays."""
        with torch.no_grad():
            scores, steps = self._to_front(emissions, mask, lengths, transitions)
            arrays = [score.double().cpu().numpy() for score in scores]
        return arrays, steps.lengths.cpu().numpy()


def _reduce(value: Tensor, reduction: str, batch: Batch) -> Tensor:
    """Reduce the values (B,). A scalar is the sum that the engine has already computed."""
    if reduction == "none":
        return value
    value_sum = value if value.dim() == 0 else value.sum()
    if reduction == "sum":
        return value_sum
    if reduction == "mean":
        return value_sum / len(batch.emissions)
    if batch.mask is not None:
        return value_sum / torch.count_nonzero(batch.mask)
    if batch.lengths is not None:
        return value_sum / batch.lengths.sum()
    return value_sum / (batch.emissions.shape[0] * batch.emissions.shape[1])


def _check_allowed(allowed: Tensor, emissions: Tensor) -> None:
    if allowed.shape != emissions.shape:
        shapes = f"{tuple(allowed.shape)}, but emissions have {tuple(emissions.shape)}"
        raise InputError(f"possible tags have shape {shapes}")
