"""Neural taggers compared with the linear CRF on names, parts of speech and slots.

    linear CRF   p(y | x) = exp(Σₜ w · φ(x, t, yₜ₋₁, yₜ)) / Z(x)    features of the words
    softmax      p(y | x) = Πₜ exp(eₜ(yₜ)) / Zₜ                    scores of a network, per token
    crf          p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z(x)    normalised over the sequence
    hybrid       p(y | x) ∝ p_crf(y | x) p_linear(y | x)^α        their product, with weight α

A network sees words only, words and a convolution over their characters (+chars), or also vectors
that FastText has learned from text without labels (+vectors). The epoch is chosen on the
development set. The scores are those of the test set, averaged over the seeds.

    python examples/neural_tagger.py --make-vectors words.trellis      once; takes minutes
    python examples/neural_tagger.py --vectors words.trellis           run all missing trainings
    python examples/neural_tagger.py --dataset snips --network crf+chars --seed 0
    python examples/neural_tagger.py --vectors words.trellis --device cuda --jobs 14
    python examples/neural_tagger.py --table                           print the results

Each finished training is a line of JSON in the results file, so the example can be interrupted and
continued. The data are in the folder --data, or TRELLIS_DATA.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from trellis import CRF, FastText, Vectors
from trellis.data import conll, conllu
from trellis.metrics import accuracy, span_f1

DATA = Path(os.environ.get("TRELLIS_DATA", Path(__file__).parents[2] / "shared" / "data"))
Labelled = tuple[list[list[str]], list[list[str]]]


class Corpus(NamedTuple):
    """Data for training, for choosing the epoch, and for the reported scores."""

    train: Labelled
    dev: Labelled
    test: Labelled


class Run(NamedTuple):
    """One training."""

    dataset: str
    network: str
    seed: int


class Setting(NamedTuple):
    """Settings that all trainings share."""

    data: Path
    vectors: Path | None
    device: str | None
    epochs: int | None
    threads: int
    limit: int | None


# ---- data


def _read_names(folder: Path, language: str) -> Corpus:
    parts = ("train", "testa", "testb")
    paths = [folder / "ner" / f"conll2002-{language}.{part}.conll.gz" for part in parts]
    return Corpus(*(conll.read(path, columns=[0]) for path in paths))


def _read_parts_of_speech(folder: Path) -> Corpus:
    parts = ("train", "dev", "test")
    return Corpus(*(conllu.read(folder / "pos" / f"ud-en-gum.{p}.conllu.gz") for p in parts))


def _read_slots(folder: Path) -> Corpus:
    """Read SNIPS. Its validation file is the test set; every 15th training request is for dev."""
    paths = [folder / "slots" / f"snips.{part}.conll.gz" for part in ("train", "test")]
    (X, y), test = (conll.read(path) for path in paths)
    train = [n for n in range(len(X)) if n % 15 != 14]
    dev = [n for n in range(len(X)) if n % 15 == 14]
    return Corpus(*(([X[n] for n in part], [y[n] for n in part]) for part in (train, dev)), test)


DATASETS: dict[str, Callable[[Path], Corpus]] = {
    "es": lambda folder: _read_names(folder, "es"),
    "nl": lambda folder: _read_names(folder, "nl"),
    "gum": _read_parts_of_speech,
    "snips": _read_slots,
}
TITLES = {
    "es": "Spanish names, F1",
    "nl": "Dutch names, F1",
    "gum": "GUM UPOS, accuracy",
    "snips": "SNIPS slots, F1",
}
ENGLISH = ("gum", "snips")  # corpora in the language of the text without labels


def score(dataset: str, y: Any, predicted: Any) -> float:
    """Return the span F1, or the accuracy for parts of speech."""
    return accuracy(y, predicted) if dataset == "gum" else span_f1(y, predicted, "BIO")


def unseen_accuracy(corpus: Corpus, predicted: Any) -> float:
    """Return the accuracy on test words that do not occur in the training data."""
    known = {word for words in corpus.train[0] for word in words}
    pairs = [
        (label, predicted_label)
        for words, labels, predicted_labels in zip(*corpus.test, predicted, strict=True)
        for word, label, predicted_label in zip(words, labels, predicted_labels, strict=True)
        if word not in known
    ]
    return mean(label == predicted_label for label, predicted_label in pairs)


# ---- models

NETWORKS: dict[str, dict[str, Any]] = {
    "softmax+chars": {"words": ("embedding", "cnn"), "head": "softmax"},
    "crf": {"words": ("embedding",)},
    "crf+chars": {"words": ("embedding", "cnn")},
    "hybrid+chars": {"words": ("embedding", "cnn"), "features": "crf"},
}
WITH_VECTORS = ("softmax+chars", "crf", "crf+chars", "hybrid+chars")
LINEAR = "linear CRF"
# These are larger than the defaults, which are chosen for two CPU cores.
WIDTHS = {"word_dim": 100, "char_hidden": 60, "hidden": 128}
SETTINGS = {"batch_size": 32, "learning_rate": 4e-3, "epochs": 20, **WIDTHS}
SEEDS = (0, 1, 2)
L2 = (0.1, 0.3, 1.0)


def networks(dataset: str) -> list[str]:
    """Return the networks of the table, the simplest first."""
    if dataset not in ENGLISH:
        return list(NETWORKS)
    return ["crf", "crf+chars", *(f"{name}+vectors" for name in WITH_VECTORS)]


def train(run: Run, setting: Setting) -> dict[str, Any]:
    """Train one model and return its scores."""
    corpus = DATASETS[run.dataset](setting.data)
    if setting.limit:
        corpus = Corpus(*((X[: setting.limit], y[: setting.limit]) for X, y in corpus))
    started = time.perf_counter()
    fit = _fit_linear if run.network == LINEAR else _fit_network
    model, details = fit(run, setting, corpus)
    seconds = time.perf_counter() - started
    predicted = model.predict(corpus.test[0])
    return {
        **run._asdict(),
        "dev": score(run.dataset, corpus.dev[1], model.predict(corpus.dev[0])),
        "test": score(run.dataset, corpus.test[1], predicted),
        "unseen": unseen_accuracy(corpus, predicted),
        "seconds": seconds,
        **details,
    }


def _fit_linear(run: Run, setting: Setting, corpus: Corpus) -> tuple[Any, dict[str, Any]]:
    """Fit CRFs with default features; the L2 penalty is chosen on the development set."""
    models = {l2: CRF(l2=l2, max_iter=100, n_jobs=setting.threads) for l2 in L2}
    scores = {
        l2: score(run.dataset, corpus.dev[1], model.fit(*corpus.train).predict(corpus.dev[0]))
        for l2, model in models.items()
    }
    best = max(scores, key=scores.__getitem__)
    return models[best], {"l2": best, "device": "cpu"}


def _fit_network(run: Run, setting: Setting, corpus: Corpus) -> tuple[Any, dict[str, Any]]:
    import torch

    from trellis import NeuralTagger

    torch.set_num_threads(setting.threads)
    options = SETTINGS | NETWORKS[run.network.removesuffix("+vectors")]
    if run.network.endswith("+vectors"):
        if setting.vectors is None:
            raise SystemExit(f"{run.network} needs --vectors FILE; create it with --make-vectors")
        options["vectors"] = Vectors.load(setting.vectors)
    if setting.epochs:
        options["epochs"] = setting.epochs
    options |= {"device": setting.device, "n_jobs": setting.threads, "random_state": run.seed}
    model = NeuralTagger(**options)
    model.fit(*corpus.train, dev=corpus.dev)
    details = {
        "epochs": len(model.history_),
        "tokens_per_second": median(e.tokens_per_second for e in model.history_),
        "device": str(setting.device),
        "torch": torch.__version__,
    }
    return model, details


# ---- vectors


def make_vectors(path: Path, data: Path, jobs: int | None) -> None:
    """Train FastText on the text and save the vectors of the words in the English corpora.

    The text has no capitals and no punctuation. FastText computes a vector for any word from its
    characters, so the saved vectors are those of the full model.
    """
    model = FastText(100, bucket=500_000, n_jobs=jobs, random_state=0)
    model.fit(data / "text" / "wiki100.txt.xz")
    words = {
        word.lower()
        for dataset in ENGLISH
        for X, _ in DATASETS[dataset](data)
        for x in X
        for word in x
    }
    vocabulary = sorted(word for word in words if any(map(str.isalnum, word)))
    Vectors(vocabulary, model.vectors_[vocabulary]).save(path)
    print(f"{path}: {len(vocabulary):,} words")


# ---- all trainings and the table of results


def missing_runs(options: argparse.Namespace, done: set[Run]) -> Iterator[Run]:
    """Yield the trainings that are not done, all networks of the first seed first."""
    for seed in options.seed or SEEDS:
        for dataset in options.dataset or DATASETS:
            linear = [LINEAR] if seed == SEEDS[0] else []  # its training is not random
            for network in [*linear, *networks(dataset)]:
                run = Run(dataset, network, seed)
                if run not in done and network in (options.network or [network]):
                    yield run


def read_results(path: Path) -> list[dict[str, Any]]:
    """Return the records of the results file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train_all(runs: list[Run], setting: Setting, results: Path, jobs: int) -> int:
    """Train in ``jobs`` processes, write the results, and return the number of failures."""
    failed = 0
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(train, run, setting): run for run in runs}
        for number, future in enumerate(as_completed(running), 1):
            run = running[future]
            try:
                line = future.result()
            except Exception as error:  # the other trainings continue
                failed += 1
                print(f"{run} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            scores = f"dev {100 * line['dev']:.2f}, test {100 * line['test']:.2f}"
            progress = f"{number} of {len(runs)}: {run.dataset} {run.network} {run.seed}"
            print(f"{progress}: {scores}, {line['seconds']:.0f} s", flush=True)
    return failed


def table(lines: list[dict[str, Any]]) -> str:
    """Return test scores in percent as Markdown: mean and standard deviation over the seeds."""
    scores: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        scores.setdefault((line["network"], line["dataset"]), []).append(100 * line["test"])
    datasets = [name for name in DATASETS if any(key[1] == name for key in scores)]
    order = [LINEAR, *NETWORKS, *(f"{name}+vectors" for name in WITH_VECTORS)]
    rows = [["model", *(TITLES[name] for name in datasets)], ["---"] * (1 + len(datasets))]
    for network in order:
        cells = [_format_cell(scores.get((network, name), [])) for name in datasets]
        if any(cells):
            rows.append([network, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _format_cell(scores: list[float]) -> str:
    if len(scores) < 2:
        return f"{scores[0]:.2f}" if scores else ""
    return f"{mean(scores):.2f} ± {stdev(scores):.2f}"


def main() -> None:
    """Make vectors, or run the missing trainings and print the table of results."""
    options = _parse_options()
    if options.make_vectors:
        make_vectors(options.make_vectors, options.data, options.threads)
        return
    failed = 0
    if not options.table:
        done = {Run(*(line[f] for f in Run._fields)) for line in read_results(options.results)}
        threads = options.threads or max(1, (os.cpu_count() or 1) // options.jobs)
        setting = Setting(
            options.data, options.vectors, options.device, options.epochs, threads, options.limit
        )
        runs = list(missing_runs(options, done))
        failed = train_all(runs, setting, options.results, options.jobs)
    print(table(read_results(options.results)))
    sys.exit(1 if failed else 0)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = {name for dataset in DATASETS for name in networks(dataset)}
    parser.add_argument("--dataset", nargs="+", choices=DATASETS)
    parser.add_argument("--network", nargs="+", choices=[LINEAR, *sorted(names)])
    parser.add_argument("--seed", nargs="+", type=int)
    parser.add_argument("--device", help="cpu or cuda; default: cuda if available")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    parser.add_argument("--threads", type=int, help="threads per process")
    parser.add_argument("--epochs", type=int, help="maximum number of epochs, for a quick run")
    parser.add_argument("--limit", type=int, help="use only this number of sentences of each part")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the corpora")
    parser.add_argument("--vectors", type=Path, help="file written by --make-vectors")
    parser.add_argument("--make-vectors", type=Path, metavar="FILE")
    parser.add_argument("--results", type=Path, default=Path("neural_tagger.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the results without training")
    return parser.parse_args()


if __name__ == "__main__":
    main()
