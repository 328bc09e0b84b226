"""Images, pixel by pixel: each pixel by itself, and as a conditional random field on the grid.

    nuclei   microscope images of 64 by 64 with masks of nuclei, fluorescent and stained
    snakes   coloured snakes whose cells are numbered from head to tail: 11 labels, and a cell by
             itself says little of its number
    shapes   noisy binary images, made here, with a picture: input, unary only, CRF, truth

Both models see the same features of a pixel, are learnt from the same images and tested on others. The CRF
is `trellis.GridCRF`: weights for pairs of labels that stand side by side or above each other, learnt by the
tree-reweighted bound of the likelihood. For nuclei a grey threshold, fitted to the training pixels, is shown too.

    python examples/segmentation.py [nuclei snakes shapes] [--data FOLDER] [--picture FILE.png]
"""  # noqa: E501

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from trellis import GridCRF, SoftmaxRegression

DATA = Path(__file__).parents[2] / "shared" / "data" / "segmentation"


def around(image: np.ndarray) -> np.ndarray:
    """A pixel and its eight neighbours, ``(H, W, 9 d)``; 0 beyond the border."""
    height, width, _ = image.shape
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    parts = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.concatenate(parts, axis=-1)


def compare(
    train: tuple[list[Any], list[Any]], test: tuple[list[Any], list[Any]], crf: GridCRF
) -> tuple[float, float, list[Any], list[Any]]:
    """Test pixels right, and labels, of both models."""
    alone = SoftmaxRegression(l2=1.0, solver="newton")
    rows = [x.reshape(-1, x.shape[-1]) for x in train[0]]
    alone.fit(np.concatenate(rows), np.concatenate([own.ravel() for own in train[1]]))
    unary = [alone.predict(x.reshape(-1, x.shape[-1])).reshape(x.shape[:2]) for x in test[0]]
    # the most probable label of each pixel: as pixels are counted, better than the best labelling
    joint = [p.argmax(axis=-1) for p in crf.fit(*train).predict_marginals(test[0])]
    right = np.concatenate([own.ravel() for own in test[1]])
    flat = [np.concatenate([own.ravel() for own in guess]) for guess in (unary, joint)]
    scores = [100 * float(np.mean(guess == right)) for guess in flat]
    return scores[0], scores[1], unary, joint


def show(name: str, unary: float, joint: float) -> None:
    """One line of the table."""
    print(f"{name:28}{unary:8.2f} %{joint:8.2f} %{joint - unary:+8.2f}", flush=True)


def colours_of(image: np.ndarray) -> np.ndarray:
    """Colours, their squares, the mean around, and colours as they stand out of this image."""
    height, width, depth = image.shape
    mean = around(image).reshape(height, width, 9, depth).mean(axis=2)
    own = (image - image.mean(axis=(0, 1))) / (image.std(axis=(0, 1)) + 0.02)
    return np.concatenate([image, image**2, mean, own, np.maximum(own, 0.0)], axis=-1)


def threshold(train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """Test pixels right by the grey value, and the side of it, that are best on training pixels."""
    grey, right = (np.array(part).ravel() for part in train)
    best = max(
        ((np.mean((grey > t) == (right == side)), t, side) for t in range(256) for side in (0, 1)),
    )
    grey, right = (np.array(part).ravel() for part in test)
    return 100 * float(np.mean((grey > best[1]) == (right == best[2])))


def nuclei(folder: Path, most: int, max_iter: int) -> None:
    """Fluorescent and stained, apart."""
    data = np.load(folder / "nuclei64.npz")
    masks = np.unpackbits(data["masks"], axis=1).reshape(-1, 64, 64).astype(int)
    for kind, name in ((0, "nuclei, fluorescent"), (1, "nuclei, stained")):
        parts, greys = [], []
        for wanted in (False, True):
            rows = np.flatnonzero((data["kind"] == kind) & (data["is_test"] == wanted))
            rows = rows if wanted else rows[:most]
            images = [colours_of(data["images"][i] / 255.0) for i in rows]
            parts.append((images, [masks[i] for i in rows]))
            greys.append(([data["images"][i].mean(axis=-1) for i in rows], parts[-1][1]))
        crf = GridCRF(l2=1.0, contrast=True, symmetric=True, max_iter=max_iter)
        unary, joint, *_ = compare(parts[0], parts[1], crf)
        show(f"{name}, {len(parts[0][0])}", unary, joint)
        print(f"    grey threshold {threshold(greys[0], greys[1]):.2f} %")


def snakes(folder: Path) -> None:
    """Which colour the cell and each of its neighbours has."""
    data = np.load(folder / "snakes.npz")
    parts = []
    colours: list[Any] = []
    for part in ("train", "test"):
        X, y, at, seen = [], [], 0, 0
        for height, width, depth in data[f"X_{part}_shape"]:
            size = height * width
            image = data[f"X_{part}"][at : at + size * depth].reshape(size, depth)
            colours = colours or np.unique(image, axis=0).tolist()
            onehot = (image[:, None] == np.array(colours)).all(axis=-1).astype(float)
            X.append(around(onehot.reshape(height, width, -1)))
            y.append(data[f"Y_{part}"][seen : seen + size].reshape(height, width).astype(int))
            at, seen = at + size * depth, seen + size
        parts.append((X, y))
    crf = GridCRF(l2=0.3, max_iter=80, max_sweeps=50)
    show("snakes", *compare(parts[0], parts[1], crf)[:2])


def shape(rng: np.random.Generator, side: int = 96) -> np.ndarray:
    """A few discs and bars."""
    i, j = np.indices((side, side))
    out = np.zeros((side, side), dtype=int)
    for _ in range(4):
        (a, b), r = rng.integers(10, side - 10, size=2), rng.integers(6, 18)
        out[(i - a) ** 2 + (j - b) ** 2 < r * r] = 1
    out[int(rng.integers(side - 8)) :][:8] = 1
    return out


def shapes(picture: Path | None) -> None:
    """Grey values with as much noise as signal."""
    rng = np.random.default_rng(0)
    y = [shape(rng) for _ in range(8)]
    X = [(own + rng.normal(size=own.shape))[..., None] for own in y]
    crf = GridCRF(l2=1.0, symmetric=True, directed=False, max_iter=40)
    alone, joint, guess, best = compare((X[:4], y[:4]), (X[4:], y[4:]), crf)
    show("noisy shapes", alone, joint)
    if picture is not None:
        grey = np.clip((X[4][..., 0] + 1.5) / 4, 0, 1)
        save(picture, [grey, guess[0], best[0], y[4]])


def save(path: Path, panels: list[np.ndarray]) -> None:
    """Panels side by side, as a PNG."""
    from matplotlib.image import imsave

    gap = np.ones((len(panels[0]), 6))
    parts = [part for panel in panels for part in (panel.astype(float), gap)][:-1]
    imsave(path, np.repeat(np.repeat(np.concatenate(parts, axis=1), 2, 0), 2, 1), cmap="gray")


def main() -> None:
    """One line for each data set."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("sets", nargs="*", default=["nuclei", "snakes", "shapes"])
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--most", type=int, default=32, help="nuclei to learn from, of each kind")
    options.add_argument("--max-iter", type=int, default=12, help="for the nuclei")
    options.add_argument("--picture", type=Path)
    chosen = options.parse_args()
    print(f"{'test pixels right':28}{'unary':>10}{'CRF':>10}{'gain':>8}")
    if "nuclei" in chosen.sets:
        nuclei(chosen.data, chosen.most, chosen.max_iter)
    if "snakes" in chosen.sets:
        snakes(chosen.data)
    if "shapes" in chosen.sets:
        shapes(chosen.picture)


if __name__ == "__main__":
    main()
