"""The CRF as the output layer of a network: p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z(x)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.inference import chain
from trellis.inference.gpu.signature import kinds_of, remembered
from trellis.inference.gpu.status import Marks
from trellis.nn import reference
from trellis.nn.chain_ops import best_path, log_partition, marginals, on_card
from trellis.nn.constraints import forbidden
from trellis.nn.steps import (
    Steps,
    check_emissions,
    check_tags,
    check_tensor,
    lengths_of,
    seen_steps,
    steps_of,
)

__all__ = ["CRF"]

_REDUCTIONS = ("none", "sum", "mean", "token_mean")
_fitting: dict[Any, dict[Any, Any]] = {}  # what is prepared for kinds that go together


class CRF(nn.Module):
    """A linear-chain CRF over the scores (emissions) that a network gives each step.

    p(y | x) = exp(start(y₁) + Σₜ eₜ(yₜ) + Σₜ A(yₜ₋₁, yₜ) + end(y_T)) / Z(x)

    >>> crf = CRF(3, batch_first=True)
    >>> emissions = torch.tensor([[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]])
    >>> _ = crf.start_transitions.data.zero_(), crf.end_transitions.data.zero_()
    >>> _ = crf.transitions.data.zero_()
    >>> crf.decode(emissions)
    [[0, 1, 2]]
    >>> crf.decode(emissions, mask=torch.tensor([[True, False, True]]))  # a step is taken out
    [[0, 2]]
    >>> round(crf(emissions, torch.tensor([[0, 1, 2]])).item(), 3)
    -0.719

    Parameters
    ----------
    num_tags
        How many tags there are.
    batch_first
        Whether emissions are (batch, steps, tags), not (steps, batch, tags).
    labels, constraints
        With the names of the tags, a tagging scheme ("BIO", "BILOU", …) forbids what it does not
        allow; constraints may also be pairs (tag, next tag) of numbers.
    rank
        Transitions as a product of two matrices (tags, rank), for many tags.
    validate
        Whether the values of tags, masks and lengths are looked at: the price on a GPU is to wait
        for the kernel that does so. A compiled program and a CUDA graph never wait.

    The parameters ``start_transitions``, ``end_transitions`` and ``transitions`` are named as in
    pytorch-crf, so its state dicts load. In all methods a ``mask`` (True: the step counts) may have
    any pattern, or ``lengths`` say how many steps of each row count. ``transitions=``
    (B, T-1, L, L) adds scores of the transition into each step but the first.

    """

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
        validate: bool = True,
    ) -> None:
        for name, value in (("num_tags", num_tags), ("rank", rank)):
            if value is not None and as_integer(value, name) < 1:
                raise InputError(f"{name} must be at least 1, not {value}")
        super().__init__()
        self.num_tags, self.batch_first, self.validate = num_tags, batch_first, validate
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
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
        """Draw all parameters anew, uniform in ±0.1; low-rank transitions are as small."""
        nn.init.uniform_(self.start_transitions, -0.1, 0.1)
        nn.init.uniform_(self.end_transitions, -0.1, 0.1)
        if self.rank is None:
            nn.init.uniform_(self.transitions, -0.1, 0.1)
        else:
            bound = (0.1 / self.rank) ** 0.5
            nn.init.uniform_(self.transition_from, -bound, bound)
            nn.init.uniform_(self.transition_to, -bound, bound)

    def extra_repr(self) -> str:
        """The settings, as ``print(model)`` shows them."""
        return f"num_tags={self.num_tags}, batch_first={self.batch_first}, rank={self.rank}"

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
        """Log p(tags | emissions): of each row ("none"), their sum or mean, or the mean of steps.

        Tags under the mask, or behind the length, may be anything, -100 included. Tags that are
        boolean (B, T, L) say which ones are possible at each step: the probability is that of all
        labellings which agree.
        """
        if reduction not in _REDUCTIONS:
            raise InputError(
                f"reduction must be one of {', '.join(_REDUCTIONS)}, not {reduction!r}"
            )
        check_tensor(tags, "tags")
        given = (emissions, mask, lengths, transitions)
        if tags.dtype != torch.bool:
            return self._log_prob(*given, tags, reduction)
        e, steps, scores = self._prepared(*given)
        allowed = check_allowed(tags, emissions, self.batch_first)
        known = e.masked_fill(~steps.front(allowed), -torch.inf)
        inside = log_partition(known, *scores, steps.lengths)
        value = inside - log_partition(e, *scores, steps.lengths)
        return _reduced(value, reduction, steps.lengths)

    def log_partition(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Log Z of each row, differentiable."""
        e, steps, scores = self._prepared(emissions, mask, lengths, transitions)
        return log_partition(e, *scores, steps.lengths)

    def entropy(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """H(y | x) of each row in nats, differentiable."""
        e, steps, (a, start, end) = self._prepared(emissions, mask, lengths, transitions)
        wide = torch.promote_types(e.dtype, torch.float32)
        e, a, start, end = (x.to(wide) for x in (e, a, start, end))
        return reference.entropy(e, a, start, end, steps.lengths)

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
        """The best tags of each row: a list of lists, one tag for each step that counts.

        With ``padded``, a tensor in the layout of the mask, with that number where no step counts.
        """
        e, steps, scores = self._prepared(emissions, mask, lengths, transitions)
        labels, _ = best_path(e, *scores, steps.lengths)
        if padded is not None:
            found = steps.back(labels, padded)
            if steps.order is not None:
                counted = torch.ones_like(labels, dtype=torch.bool)
                found = torch.where(steps.back(counted, False), found, padded)
            return found if self.batch_first else found.transpose(0, 1)
        rows = zip(labels.tolist(), steps.lengths.tolist(), strict=True)
        return [own[:length] for own, length in rows]

    def marginals(
        self,
        emissions: Tensor,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        transitions: Tensor | None = None,
    ) -> Tensor:
        """p(yₜ | x) in the layout of the emissions, 0 where no step counts; has no gradient."""
        e, steps, scores = self._prepared(emissions, mask, lengths, transitions)
        found = steps.back(marginals(e, *scores, steps.lengths))
        return found if self.batch_first else found.transpose(0, 1)

    def kbest(
        self, emissions: Tensor, k: int, mask: Tensor | None = None, *, lengths: Any = None
    ) -> list[list[tuple[list[int], float]]]:
        """The k best labellings of each row with their log-probabilities, best first."""
        scores, own = self._on_cpu(emissions, mask, lengths)
        found = chain.kbest(*scores, lengths=own, k=k)
        log_z = np.asarray(chain.log_partition(*scores, lengths=own))
        return [
            [
                (path[:length].tolist(), float(value - z))
                for path, value in zip(paths, values, strict=True)
            ]
            for paths, values, z, length in zip(found.labels, found.score, log_z, own, strict=True)
        ]

    def sample(
        self,
        emissions: Tensor,
        n: int = 1,
        mask: Tensor | None = None,
        *,
        lengths: Any = None,
        random_state: Any = None,
    ) -> list[list[list[int]]]:
        """N labellings y ~ p(y | x) of each row."""
        scores, own = self._on_cpu(emissions, mask, lengths)
        drawn = chain.sample(*scores, lengths=own, n=n, random_state=random_state)
        return [paths[:, :length].tolist() for paths, length in zip(drawn, own, strict=True)]

    def scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of transitions (L, L), starts and ends (L,): -inf where the constraints forbid them."""
        return self._scores()

    # ---- what they share

    def _looks(self, emissions: Tensor) -> bool:
        """Whether numbers are checked: a compiled program and a CUDA graph never wait for it."""
        if not self.validate or torch.compiler.is_compiling():
            return False
        return not (emissions.is_cuda and torch.cuda.is_current_stream_capturing())

    def _checked(self, emissions: Tensor) -> Tensor:
        """Emissions as (B, T, L), where the layer is: kernels take addresses for what they are."""
        e = check_emissions(emissions, self.num_tags, self.batch_first)
        own = self.start_transitions.device
        if e.device != own:
            raise InputError(f"emissions are on {e.device}, but the layer is on {own}")
        return e

    def _rows_first(self, x: Tensor) -> Tensor:
        return x if self.batch_first else x.transpose(0, 1)

    def _log_prob(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        lengths: Any,
        transitions: Tensor | None,
        tags: Tensor,
        reduction: str,
    ) -> Tensor:
        """Log p(tags | emissions), reduced."""
        check_tensor(emissions, "emissions")
        steps = None
        eager = emissions.is_cuda and transitions is None and not torch.compiler.is_compiling()
        looks = eager and self._looks(emissions)
        if looks or (eager and mask is None):
            found = self._on_card(emissions, mask, lengths, tags, reduction, looks)
            if isinstance(found, Tensor):
                return found
            steps = found
        own = check_tags(self._rows_first(tags), self._checked(emissions))
        e, steps, scores = self._prepared(emissions, mask, lengths, transitions, own, steps)
        value = log_partition(e, *scores, steps.lengths, steps.front(own))
        return _reduced(value, reduction, steps.lengths)

    def _on_card(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        lengths: Any,
        tags: Tensor,
        reduction: str,
        looks: bool,
    ) -> Tensor | Steps:
        """The same as if the steps that count came first; if they do not, which ones count."""
        emissions = emissions.resolve_neg()  # `_checked` does so too, but not for known kinds
        scores = self._scores()
        kinds = kinds_of(self.batch_first, emissions, *scores, lengths, tags, mask)
        prepared = _fitting.get(kinds)
        if prepared is not None:
            e, own, counts = self._rows_first(emissions), self._rows_first(tags), lengths
            grid = None if mask is None else self._rows_first(mask)
            if mask is None and lengths is None:
                counts = lengths_of(e, None, None)
        else:
            e, grid = self._checked(emissions), self._mask(mask)
            own, counts = check_tags(self._rows_first(tags), e), lengths_of(e, grid, lengths)
            as_given = own.dtype is tags.dtype and (lengths is None or counts is lengths)
            if kinds is not None and as_given:
                prepared = remembered(_fitting, kinds, dict)
        marks = Marks(len(e), e.device) if looks else None
        value = on_card(e, *scores, counts, own, grid, reduction != "none", marks, prepared)
        found = [] if marks is None else marks.wait()
        if not any(found) and reduction != "token_mean":
            return _reduced(value, reduction, own)
        steps = counts if grid is None else (grid != 0).sum(1)
        if not any(found):
            return _reduced(value, reduction, steps)
        return seen_steps(steps, found, grid, own, e.shape[1], self.num_tags)

    def _mask(self, mask: Tensor | None) -> Tensor | None:
        if mask is None:
            return None
        check_tensor(mask, "mask")
        return self._rows_first(mask)

    def _prepared(
        self,
        emissions: Tensor,
        mask: Tensor | None,
        lengths: Any,
        transitions: Tensor | None,
        tags: Tensor | None = None,
        steps: Steps | None = None,
    ) -> tuple[Tensor, Steps, tuple[Tensor, Tensor, Tensor]]:
        """Emissions (B, T, L), the steps that count in front, and the scores to go with them."""
        e = self._checked(emissions)
        if steps is None:
            steps = steps_of(e, self._mask(mask), lengths, tags, self._looks(e))
        pairs, start, end = self._scores()
        if transitions is not None:
            check_tensor(transitions, "transitions")
            due = (e.shape[0], e.shape[1] - 1, self.num_tags, self.num_tags)
            if transitions.shape != due:
                raise InputError(f"transitions have shape {tuple(transitions.shape)}, not {due}")
            pairs = steps.front_pairs(transitions) + pairs
        return steps.front(e), steps, (pairs, start, end)

    def _scores(self) -> tuple[Tensor, Tensor, Tensor]:
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

    def _on_cpu(
        self, emissions: Tensor, mask: Tensor | None, lengths: Any
    ) -> tuple[list[Any], Any]:
        with torch.no_grad():
            e, steps, scores = self._prepared(emissions, mask, lengths, None)
            arrays = [x.double().cpu().numpy() for x in (e, *scores)]
        return arrays, steps.lengths.cpu().numpy()


def _reduced(value: Tensor, reduction: str, lengths: Tensor) -> Tensor:
    """Of rows, or of their sum where that is known already."""
    if reduction == "none":
        return value
    total = value if value.dim() == 0 else value.sum()
    if reduction == "sum":
        return total
    return total / (len(lengths) if reduction == "mean" else lengths.sum())


def check_allowed(allowed: Tensor, emissions: Tensor, batch_first: bool) -> Tensor:
    """Possible tags (B, T, L)."""
    if allowed.shape != emissions.shape:
        shapes = f"{tuple(allowed.shape)}, but emissions {tuple(emissions.shape)}"
        raise InputError(f"possible tags have shape {shapes}")
    return allowed if batch_first else allowed.transpose(0, 1)
