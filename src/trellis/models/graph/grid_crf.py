"""The CRF on images: each pixel has a label, and each pair of neighbouring pixels has a score."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError
from trellis.estimator import names_arguments
from trellis.formats.native import Tensors
from trellis.inference import graph
from trellis.models.graph.base import GraphModel
from trellis.models.graph.inference import DECODERS, Engine, GraphEngine, GridEngine
from trellis.models.graph.samples import Doubles, Samples, offsets

__all__ = ["GridCRF"]


class GridCRF(GraphModel):
    """A conditional random field of images.

    p(y | x) = exp(Σ w_y · x_ij + Σ H[y_ij, y_i,j+1] + Σ V[y_ij, y_i+1,j]) / Z(x)

    The sums are over the pixels (i, j), the horizontal pairs of neighbours and the vertical pairs.
    X is a list of arrays (height, width, features), or (height, width) for one feature. y is a list
    of label arrays (height, width). With ``contrast``, H and V also depend on how much the two
    pixels of a pair differ: the mean of ``|xᵢ - xⱼ|`` over the features is a feature of the pair.

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
        As for `GraphCRF`. The default is "trw", because images are too wide for exact inference.
        "pseudolikelihood" trains fastest. But if the pixels carry little information and
        neighbouring labels are strongly correlated, its pair weights are much too large.
    inference
        "auto", "trw" and "bp" pass messages on the grid, in the compiled core. "expansion", "cut",
        "icm" and "exact" have the same meaning as for `GraphCRF`.
    directed
        Whether horizontal and vertical pairs have different weights.
    contrast
        Whether pairs have additional weights for the difference of their pixels.
    l2, l1, symmetric, fit_intercept, max_iter, tol, damping, max_sweeps, n_jobs, random_state
        As for `GraphCRF`.

    """

    kind = "grid-crf"
    _FLAGS = (*GraphModel._FLAGS, "directed", "contrast")

    @names_arguments
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
        verbose: bool = False,
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
            verbose=verbose,
        )
        self.directed = directed
        self.contrast = contrast

    def _collect(self, X: Any) -> Samples:
        images = _check_images(X)
        nodes, edges, features, first_node = [], [], [], 0
        for image in images:
            height, width, depth = image.shape
            pixels = image.reshape(-1, depth)
            pairs = graph.grid_edges(height, width)
            ones = np.ones((len(pixels), 1))
            nodes.append(np.concatenate([pixels, ones], axis=1) if self.fit_intercept else pixels)
            edges.append(pairs + first_node)
            # `grid_edges` lists all horizontal edges first.
            horizontal = np.arange(len(pairs)) < height * (width - 1)
            features.append(self._edge_features(pixels, pairs, horizontal))
            first_node += len(pixels)
        return Samples(
            np.concatenate(nodes),
            np.concatenate(edges),
            np.concatenate(features),
            offsets([len(pixels) for pixels in nodes]),
            offsets([len(pairs) for pairs in edges]),
            None,
            tuple(image.shape[:2] for image in images),
        )

    def _edge_features(
        self, pixels: Doubles, pairs: NDArray[Any], horizontal: NDArray[np.bool_]
    ) -> Doubles:
        """Return the edge features ``(edges, k)``: constants, and optionally the contrast."""
        columns = [np.ones(len(pairs))]
        if self.directed:
            columns = [horizontal.astype(np.float64), (~horizontal).astype(np.float64)]
        if self.contrast:
            columns.append(np.abs(pixels[pairs[:, 0]] - pixels[pairs[:, 1]]).mean(axis=1))
        return np.stack(columns, axis=1)

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        model = super().from_parts(meta, tensors)
        if model.clique_coef_:
            raise InputError("cliques are only possible in a GraphCRF")
        n_tables = 1 + bool(model.directed) + bool(model.contrast)
        if len(model.pair_coef_) != n_tables:
            raise InputError(
                f"pairs has {len(model.pair_coef_)} matrices: directed={model.directed} and "
                f"contrast={model.contrast} need {n_tables}"
            )
        return model

    def _flatten(self, y: Any, samples: Samples | None = None) -> Any:
        if isinstance(y, str) or not hasattr(y, "__len__"):
            raise InputError(f"y must be a list of label arrays, not {type(y).__name__}")
        grids = (samples.grids if samples is not None else None) or ()
        flat_labels = []
        for i, image_labels in enumerate(y):
            labels = np.asarray(image_labels)
            if labels.ndim != 2:
                raise InputError(
                    f"labels of image {i} have shape {labels.shape}: must be (height, width)"
                )
            if i < len(grids) and labels.shape != grids[i]:
                raise InputError(
                    f"labels of image {i} have shape {labels.shape}: must be {grids[i]}, as the "
                    "image has"
                )
            flat_labels.append(labels.ravel())
        return flat_labels

    def _create_engine(self, samples: Samples, n_labels: int) -> Engine:
        settings = self._settings()
        if self.objective == "likelihood" or settings.inference in ("exact", *DECODERS):
            return GraphEngine(samples, n_labels, settings)
        return GridEngine(samples, n_labels, settings, shared=not self.contrast)

    def _reshape(self, samples: Samples, i: int, rows: NDArray[Any]) -> NDArray[Any]:
        assert samples.grids is not None
        return rows.reshape(*samples.grids[i], *rows.shape[1:])


def _check_images(X: Any) -> list[Doubles]:
    """Return the images as arrays (height, width, features). Raise InputError for invalid X."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of images, not {type(X).__name__}")
    if len(X) == 0:
        raise InputError("X is empty: at least one image is needed")
    images: list[Doubles] = []
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
        not_finite = np.argwhere(~np.isfinite(image))
        if not_finite.size:
            row, column, feature = not_finite[0].tolist()
            raise InputError(
                f"image {i}: feature {feature} of pixel ({row}, {column}) is "
                f"{image[row, column, feature]}: must be finite"
            )
        if images and image.shape[2] != images[0].shape[2]:
            raise InputError(
                f"image {i} has {image.shape[2]} features, image 0 has {images[0].shape[2]}: "
                "all images must have the same number"
            )
        images.append(image)
    return images
