"""The CRF on grids: every pixel has a label, and neighbours have scores together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.inference import graph
from trellis.models.graph.base import FieldModel
from trellis.models.graph.losses import DECODERS, Engine, GraphEngine, Parts, better
from trellis.models.graph.samples import Doubles, Fields, Integers

__all__ = ["GridCRF"]


class GridCRF(FieldModel):
    """A conditional random field of images.

    p(y | x) = exp(Σ w_y · x_ij + Σ H[y_ij, y_i,j+1] + Σ V[y_ij, y_i+1,j]) / Z(x)

    X is a list of arrays (height, width, features), or (height, width) for one feature; y has an
    array of labels (height, width) for each. With ``contrast``, H and V also depend on how much the
    two pixels differ: the mean of ``|xᵢ - xⱼ|`` is a feature of their edge.

    >>> noise = np.random.default_rng(0).normal(size=(2, 24, 24))
    >>> truth = np.zeros((24, 24), dtype=int)
    >>> truth[4:-4, 4:-4] = 1
    >>> crf = GridCRF(symmetric=True).fit([truth + noise[0]], [truth])
    >>> alone = np.mean((truth + noise[1] > 0.5) == truth)
    >>> f"{alone:.2f} {crf.score([truth + noise[1]], [truth]):.2f}"
    '0.69 0.97'

    Parameters
    ----------
    objective
        As for `GraphCRF`; "trw" by default, as images are too wide to be exact. (With
        "pseudolikelihood" training is fastest, but where right labels say much of each other and
        pixels say little, pairs come out far too strong.)
    inference
        "auto", "trw" and "bp" are messages on the grid, in the native core; "expansion", "cut",
        "icm" and "exact" as for `GraphCRF`.
    directed
        Whether horizontal and vertical pairs have weights of their own.
    contrast
        Whether pairs have weights for the difference of their pixels.
    l2, l1, symmetric, fit_intercept, max_iter, tol, damping, max_sweeps
        As for `GraphCRF`.

    """

    kind = "grid-crf"

    def __init__(
        self,
        objective: str = "trw",
        *,
        l2: float = 1.0,
        l1: float = 0.0,
        inference: str = "auto",
        directed: bool = True,
        contrast: bool = False,
        symmetric: bool = False,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-5,
        damping: float = 0.0,
        max_sweeps: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            objective,
            l2=l2,
            l1=l1,
            inference=inference,
            symmetric=symmetric,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            damping=damping,
            max_sweeps=max_sweeps,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.directed = directed
        self.contrast = contrast

    def _collect(self, X: Any) -> Fields:
        images = _images(X)
        nodes, edges, features, first = [], [], [], 0
        for image in images:
            height, width, depth = image.shape
            rows = image.reshape(-1, depth)
            own = graph.grid_edges(height, width)
            columns = [np.ones(len(own))]
            if self.directed:
                across = np.arange(len(own)) < height * (width - 1)
                columns = [across.astype(np.float64), (~across).astype(np.float64)]
            if self.contrast:
                columns.append(np.abs(rows[own[:, 0]] - rows[own[:, 1]]).mean(axis=1))
            ones = np.ones((len(rows), 1))
            nodes.append(np.concatenate([rows, ones], axis=1) if self.fit_intercept else rows)
            edges.append(own + first)
            features.append(np.stack(columns, axis=1))
            first += len(rows)
        return Fields(
            np.concatenate(nodes),
            np.concatenate(edges),
            np.concatenate(features),
            _begins(nodes),
            _begins(edges),
            None,
            tuple(image.shape[:2] for image in images),
        )

    def _flat(self, y: Any) -> Any:
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise InputError(f"y must be a list of label arrays, not {type(y).__name__}")
        out = []
        for i, own in enumerate(y):
            labels = np.asarray(own)
            if labels.ndim != 2:
                raise InputError(f"labels of image {i} must be (height, width), not {labels.shape}")
            out.append(labels.ravel())
        return out

    def _engine(self, fields: Fields, labels: int) -> Engine:
        options = self._sweeps()
        inference = self._resolved()
        if self.objective == "likelihood" or inference in ("exact", *DECODERS):
            return GraphEngine(fields, labels, inference, options, self.n_jobs)
        method = "trw" if inference == "trw" else "bp"
        return _GridEngine(fields, labels, method, not self.contrast, options, self.n_jobs)

    def _shaped(self, fields: Fields, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        assert fields.grids is not None
        return rows.reshape(*fields.grids[i], *rows.shape[1:])


class _GridEngine:
    """Belief propagation on each image."""

    def __init__(
        self,
        fields: Fields,
        labels: int,
        method: str,
        shared: bool,
        options: dict[str, Any],
        n_jobs: int | None,
    ) -> None:
        self._fields, self._labels, self._shared = fields, labels, shared
        self._method = method
        self._options = {**options, "n_jobs": n_jobs}

    def _each(self, unary: Doubles, tables: Doubles) -> Any:
        """Scores of each image as the grid functions take them."""
        f, square = self._fields, (self._labels, self._labels)
        assert f.grids is not None
        for i, (height, width) in enumerate(f.grids):
            own = unary[f.node_begin[i] : f.node_begin[i + 1]].reshape(height, width, -1)
            pairs = tables[f.edge_begin[i] : f.edge_begin[i + 1]]
            across, down = np.split(pairs, [height * (width - 1)])
            if self._shared:  # all alike: one is enough, and much faster
                yield own, _first(across, square), _first(down, square)
            else:
                shapes = (height, width - 1, *square), (height - 1, width, *square)
                yield own, across.reshape(shapes[0]), down.reshape(shapes[1])

    def exact(self, unary: Doubles, tables: Doubles) -> Parts:
        """Grids are wide: this is for the general engine."""
        return GraphEngine(self._fields, self._labels, "exact", {}, None).exact(unary, tables)

    def bethe(self, unary: Doubles, tables: Doubles) -> Parts:
        """Beliefs and the Bethe log Z."""
        return self._messages("bp", unary, tables)

    def trw(self, unary: Doubles, tables: Doubles) -> Parts:
        """Beliefs and the upper bound of log Z."""
        return self._messages("trw", unary, tables)

    def _messages(self, method: str, unary: Doubles, tables: Doubles) -> Parts:
        log_z, p, pairs = [], [], [np.zeros((0, self._labels, self._labels))]
        residual = 0.0
        for scores in self._each(unary, tables):
            found = graph.grid_marginals(*scores, method=method, **self._options)
            residual = max(residual, found.residual)
            log_z.append(found.log_partition)
            p.append(found.unary.reshape(-1, self._labels))
            for both in (found.horizontal, found.vertical):
                pairs.append(both.reshape(-1, self._labels, self._labels))
        return Parts(np.array(log_z), np.concatenate(p), np.concatenate(pairs), residual)

    def marginals(self, unary: Doubles, tables: Doubles) -> Parts:
        """One of the two."""
        return self._messages(self._method, unary, tables)

    def best(self, unary: Doubles, tables: Doubles) -> Integers:
        """Max-product or the marginals, then ICM from where they end; the better of the two."""
        likely = self.marginals(unary, tables).nodes.argmax(axis=1)
        found: tuple[list[Integers], list[Integers]] = [], []
        for i, scores in enumerate(self._each(unary, tables)):
            g, own = graph.grid_graph(*scores), slice(*self._fields.node_begin[i : i + 2])
            starts = graph.grid_best(*scores, **self._options).labels.ravel(), likely[own]
            for labels, start in zip(found, starts, strict=True):
                labels.append(graph.icm(g, initial=start).labels)
        first, second = map(np.concatenate, found)
        return better(self._fields, first, second, unary, tables)


def _first(tables: Doubles, square: tuple[int, int]) -> Doubles:
    return tables[0] if len(tables) else np.zeros(square)


def _begins(parts: Sequence[NDArray[Any]]) -> Integers:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _images(X: Any) -> list[Doubles]:
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of images, not {type(X).__name__}")
    if len(X) == 0:
        raise InputError("X is empty: at least one image is needed")
    out: list[Doubles] = []
    for i, x in enumerate(X):
        try:
            image = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"image {i} must be an array of numbers") from None
        if image.ndim == 2:
            image = image[..., None]
        if image.ndim != 3 or image.shape[0] == 0 or image.shape[1] == 0:
            raise InputError(
                f"image {i} has shape {np.shape(x)}: must be (height, width, features)"
            )
        bad = np.argwhere(~np.isfinite(image))
        if bad.size:
            raise InputError(f"image {i} is {image[tuple(bad[0])]} at {bad[0].tolist()}")
        if image.shape[2] != (out[0].shape[2] if out else image.shape[2]):
            raise InputError(
                f"image {i} has {image.shape[2]} features, image 0 has {out[0].shape[2]}"
            )
        out.append(image)
    return out
