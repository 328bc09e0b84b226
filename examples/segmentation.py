"""Image segmentation: classify each pixel by itself, or all pixels with a CRF on the grid.

    nuclei   microscope images of 64 by 64 pixels with masks of nuclei, fluorescent and stained
    snakes   coloured snakes whose cells are numbered from head to tail: 11 labels; the colour of a
             single cell is weak evidence for its number
    shapes   generated noisy binary images; --picture shows input, unary model, CRF and truth

Both models have the same features of a pixel, the same training images and the same test images.
The CRF is `trellis.GridCRF`. It has weights for pairs of labels of neighbouring pixels, trained
with the tree-reweighted bound of the likelihood. For nuclei, the example also shows a grey
threshold that is fitted to the training pixels.

    python examples/segmentation.py [nuclei snakes shapes] [--data FOLDER] [--picture FILE.png]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from trellis import GridCRF, SoftmaxRegression

DATA = Path(__file__).parents[2] / "shared" / "data" / "segmentation"


def neighbourhoods(image: np.ndarray) -> np.ndarray:
    """Return each pixel with its eight neighbours, shape (H, W, 9 d); 0 outside the image."""
    height, width, _ = image.shape
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    parts = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.concatenate(parts, axis=-1)


def compare(
    train: tuple[list[Any], list[Any]], test: tuple[list[Any], list[Any]], crf: GridCRF
) -> tuple[float, float, list[Any], list[Any]]:
    """Return the test accuracies and the predicted labels of the unary model and of the CRF."""
    softmax = SoftmaxRegression(l2=1.0, solver="newton")
    pixels = [x.reshape(-1, x.shape[-1]) for x in train[0]]
    softmax.fit(np.concatenate(pixels), np.concatenate([labels.ravel() for labels in train[1]]))
    unary = [softmax.predict(x.reshape(-1, x.shape[-1])).reshape(x.shape[:2]) for x in test[0]]
    # The score counts pixels, so the most probable label of each pixel is the best prediction.
    joint = [p.argmax(axis=-1) for p in crf.fit(*train).predict_marginals(test[0])]
    truth = np.concatenate([labels.ravel() for labels in test[1]])
    predictions = [np.concatenate([y.ravel() for y in labels]) for labels in (unary, joint)]
    scores = [100 * float(np.mean(labels == truth)) for labels in predictions]
    return scores[0], scores[1], unary, joint


def show(name: str, unary: float, joint: float) -> None:
    """Print one line of the table."""
    print(f"{name:28}{unary:8.2f} %{joint:8.2f} %{joint - unary:+8.2f}", flush=True)


def colour_features(image: np.ndarray) -> np.ndarray:
    """Return colours, their squares, local means, and colours standardised over the image."""
    height, width, depth = image.shape
    mean = neighbourhoods(image).reshape(height, width, 9, depth).mean(axis=2)
    standardised = (image - image.mean(axis=(0, 1))) / (image.std(axis=(0, 1)) + 0.02)
    return np.concatenate(
        [image, image**2, mean, standardised, np.maximum(standardised, 0.0)], axis=-1
    )


def threshold(train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """Return the test accuracy of the grey threshold that is best on the training pixels."""
    grey, truth = (np.array(part).ravel() for part in train)
    best = max(
        (np.mean((grey > level) == (truth == bright_label)), level, bright_label)
        for level in range(256)
        for bright_label in (0, 1)
    )
    grey, truth = (np.array(part).ravel() for part in test)
    _, level, bright_label = best
    return 100 * float(np.mean((grey > level) == (truth == bright_label)))


def nuclei(folder: Path, max_images: int, max_iter: int) -> None:
    """Compare the models on fluorescent and on stained nuclei."""
    data = np.load(folder / "nuclei64.npz")
    masks = np.unpackbits(data["masks"], axis=1).reshape(-1, 64, 64).astype(int)
    for kind, name in ((0, "nuclei, fluorescent"), (1, "nuclei, stained")):
        parts, greys = [], []
        for is_test in (False, True):
            chosen = np.flatnonzero((data["kind"] == kind) & (data["is_test"] == is_test))
            chosen = chosen if is_test else chosen[:max_images]
            images = [colour_features(data["images"][i] / 255.0) for i in chosen]
            parts.append((images, [masks[i] for i in chosen]))
            greys.append(([data["images"][i].mean(axis=-1) for i in chosen], parts[-1][1]))
        crf = GridCRF(l2=1.0, contrast=True, symmetric=True, max_iter=max_iter)
        unary, joint, *_ = compare(parts[0], parts[1], crf)
        show(f"{name}, {len(parts[0][0])}", unary, joint)
        print(f"    grey threshold {threshold(greys[0], greys[1]):.2f} %")


def snakes(folder: Path) -> None:
    """Compare the models on snakes; the features are the colours of a cell and its neighbours."""
    data = np.load(folder / "snakes.npz")
    parts = []
    colours: list[Any] = []
    for part in ("train", "test"):
        X, y, x_offset, y_offset = [], [], 0, 0
        for height, width, depth in data[f"X_{part}_shape"]:
            size = height * width
            image = data[f"X_{part}"][x_offset : x_offset + size * depth].reshape(size, depth)
            colours = colours or np.unique(image, axis=0).tolist()
            onehot = (image[:, None] == np.array(colours)).all(axis=-1).astype(float)
            X.append(neighbourhoods(onehot.reshape(height, width, -1)))
            y.append(
                data[f"Y_{part}"][y_offset : y_offset + size].reshape(height, width).astype(int)
            )
            x_offset, y_offset = x_offset + size * depth, y_offset + size
        parts.append((X, y))
    crf = GridCRF(l2=0.3, max_iter=80, max_sweeps=50)
    show("snakes", *compare(parts[0], parts[1], crf)[:2])


def shape(rng: np.random.Generator, side: int = 96) -> np.ndarray:
    """Return a binary image with four discs and a bar."""
    i, j = np.indices((side, side))
    image = np.zeros((side, side), dtype=int)
    for _ in range(4):
        centre, radius = rng.integers(10, side - 10, size=2), rng.integers(6, 18)
        image[(i - centre[0]) ** 2 + (j - centre[1]) ** 2 < radius**2] = 1
    image[int(rng.integers(side - 8)) :][:8] = 1
    return image


def shapes(picture: Path | None) -> None:
    """Compare the models on binary images with noise of standard deviation 1."""
    rng = np.random.default_rng(0)
    y = [shape(rng) for _ in range(8)]
    X = [(labels + rng.normal(size=labels.shape))[..., None] for labels in y]
    crf = GridCRF(l2=1.0, symmetric=True, directed=False, max_iter=40)
    unary, joint, unary_labels, joint_labels = compare((X[:4], y[:4]), (X[4:], y[4:]), crf)
    show("noisy shapes", unary, joint)
    if picture is not None:
        grey = np.clip((X[4][..., 0] + 1.5) / 4, 0, 1)
        save(picture, [grey, unary_labels[0], joint_labels[0], y[4]])


def save(path: Path, panels: list[np.ndarray]) -> None:
    """Write the panels side by side as a PNG file."""
    from matplotlib.image import imsave

    gap = np.ones((len(panels[0]), 6))
    parts = [part for panel in panels for part in (panel.astype(float), gap)][:-1]
    imsave(path, np.repeat(np.repeat(np.concatenate(parts, axis=1), 2, 0), 2, 1), cmap="gray")


def main() -> None:
    """Compare the models on each data set, and print one line per data set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=["nuclei", "snakes", "shapes"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument(
        "--max-images", type=int, default=32, help="training images of each kind of nuclei"
    )
    parser.add_argument("--max-iter", type=int, default=12, help="iterations for the nuclei")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    print(f"{'correct test pixels':28}{'unary':>10}{'CRF':>10}{'gain':>8}")
    if "nuclei" in options.sets:
        nuclei(options.data, options.max_images, options.max_iter)
    if "snakes" in options.sets:
        snakes(options.data)
    if "shapes" in options.sets:
        shapes(options.picture)


if __name__ == "__main__":
    main()
