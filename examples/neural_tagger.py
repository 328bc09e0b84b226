"""Networks beside the linear CRF: names, parts of speech and slots, one table, three seeds.

    linear CRF   p(y | x) = exp(Σₜ w · φ(x, t, yₜ₋₁, yₜ)) / Z(x)    features of the words
    softmax      p(y | x) = Πₜ exp(eₜ(yₜ)) / Zₜ                    scores of a network, step by step
    crf          p(y | x) = exp(Σₜ eₜ(yₜ) + A(yₜ₋₁, yₜ)) / Z(x)    a choice of the whole
    hybrid       p(y | x) ∝ p_crf(y | x) p_linear(y | x)^α        their product, α by the dev part

Words alone, with a convolution over their characters (+chars), with vectors that FastText learned
from text without labels (+vectors). The epoch is chosen on the development part, the figures are of
the test part, the mean of the seeds.

    python examples/neural_tagger.py --make-vectors words.trellis      once, minutes
    python examples/neural_tagger.py --vectors words.trellis           all that is not done yet
    python examples/neural_tagger.py --dataset snips --network crf+chars --seed 0
    python examples/neural_tagger.py --vectors words.trellis --device cuda --jobs 14
    python examples/neural_tagger.py --table                           of what is done

Each finished training is a line of JSON in the file of results, so it can be stopped and goes on.
The data are read from the folder --data, or TRELLIS_DATA.
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
    """What is learned from, what chooses the epoch, what is reported."""

    train: Labelled
    dev: Labelled
    test: Labelled


class Run(NamedTuple):
    """One training."""

    dataset: str
    network: str
    seed: int


class Setting(NamedTuple):
    """What is the same for all trainings."""

    data: Path
    vectors: Path | None
    device: str | None
    epochs: int | None
    threads: int
    limit: int | None


# ---- data


def _names(folder: Path, language: str) -> Corpus:
    parts = ("train", "testa", "testb")
    paths = [folder / "ner" / f"conll2002-{language}.{part}.conll.gz" for part in parts]
    return Corpus(*(conll.read(path, columns=[0]) for path in paths))


def _parts_of_speech(folder: Path) -> Corpus:
    parts = ("train", "dev", "test")
    return Corpus(*(conllu.read(folder / "pos" / f"ud-en-gum.{p}.conllu.gz") for p in parts))


def _slots(folder: Path) -> Corpus:
    """The validation file is the test; every 15th request of the training file is the dev part."""
    paths = [folder / "slots" / f"snips.{part}.conll.gz" for part in ("train", "test")]
    (X, y), test = (conll.read(path) for path in paths)
    apart = [n % 15 == 14 for n in range(len(X))]
    dev, train = ([n for n, is_dev in enumerate(apart) if is_dev == own] for own in (True, False))
    return Corpus(*(([X[n] for n in some], [y[n] for n in some]) for some in (train, dev)), test)


DATASETS: dict[str, Callable[[Path], Corpus]] = {
    "es": lambda folder: _names(folder, "es"),
    "nl": lambda folder: _names(folder, "nl"),
    "gum": _parts_of_speech,
    "snips": _slots,
}
TITLES = {
    "es": "Spanish names, F1",
    "nl": "Dutch names, F1",
    "gum": "GUM UPOS, accuracy",
    "snips": "SNIPS slots, F1",
}
ENGLISH = ("gum", "snips")  # what the text without labels is of


def score(dataset: str, y: Any, guess: Any) -> float:
    """Span F1, or for parts of speech the accuracy."""
    return accuracy(y, guess) if dataset == "gum" else span_f1(y, guess, "BIO")


def unseen_accuracy(corpus: Corpus, guess: Any) -> float:
    """Of the words of the test part that the training part does not have."""
    known = {word for words in corpus.train[0] for word in words}
    pairs = [
        (label, own)
        for words, labels, owns in zip(*corpus.test, guess, strict=True)
        for word, label, own in zip(words, labels, owns, strict=True)
        if word not in known
    ]
    return mean(label == own for label, own in pairs)


# ---- models

NETWORKS: dict[str, dict[str, Any]] = {
    "softmax+chars": {"words": ("embedding", "cnn"), "head": "softmax"},
    "crf": {"words": ("embedding",)},
    "crf+chars": {"words": ("embedding", "cnn")},
    "hybrid+chars": {"words": ("embedding", "cnn"), "features": "crf"},
}
WITH_VECTORS = ("softmax+chars", "crf", "crf+chars", "hybrid+chars")
LINEAR = "linear CRF"
# wider than the default, which is for two cores
WIDTHS = {"word_dim": 100, "char_hidden": 60, "hidden": 128}
SETTINGS = {"batch_size": 32, "learning_rate": 4e-3, "epochs": 20, **WIDTHS}
SEEDS = (0, 1, 2)
L2 = (0.1, 0.3, 1.0)


def networks(dataset: str) -> list[str]:
    """Those of the table, from the plainest on."""
    if dataset not in ENGLISH:
        return list(NETWORKS)
    return ["crf", "crf+chars", *(f"{name}+vectors" for name in WITH_VECTORS)]


def train(run: Run, setting: Setting) -> dict[str, Any]:
    """Train once and measure."""
    corpus = DATASETS[run.dataset](setting.data)
    if setting.limit:
        corpus = Corpus(*((X[: setting.limit], y[: setting.limit]) for X, y in corpus))
    began = time.perf_counter()
    make = _linear if run.network == LINEAR else _network
    model, about = make(run, setting, corpus)
    seconds = time.perf_counter() - began
    guess = model.predict(corpus.test[0])
    return {
        **run._asdict(),
        "dev": score(run.dataset, corpus.dev[1], model.predict(corpus.dev[0])),
        "test": score(run.dataset, corpus.test[1], guess),
        "unseen": unseen_accuracy(corpus, guess),
        "seconds": seconds,
        **about,
    }


def _linear(run: Run, setting: Setting, corpus: Corpus) -> tuple[Any, dict[str, Any]]:
    """The default extractor; the strength of the penalty is chosen on the development part."""
    models = {l2: CRF(l2=l2, max_iter=100, n_jobs=setting.threads) for l2 in L2}
    scores = {
        l2: score(run.dataset, corpus.dev[1], model.fit(*corpus.train).predict(corpus.dev[0]))
        for l2, model in models.items()
    }
    best = max(scores, key=scores.__getitem__)
    return models[best], {"l2": best, "device": "cpu"}


def _network(run: Run, setting: Setting, corpus: Corpus) -> tuple[Any, dict[str, Any]]:
    import torch

    from trellis import NeuralTagger

    torch.set_num_threads(setting.threads)
    options = SETTINGS | NETWORKS[run.network.removesuffix("+vectors")]
    if run.network.endswith("+vectors"):
        if setting.vectors is None:
            raise SystemExit(f"{run.network} needs --vectors FILE, which --make-vectors makes")
        options["vectors"] = Vectors.load(setting.vectors)
    if setting.epochs:
        options["epochs"] = setting.epochs
    options |= {"device": setting.device, "n_jobs": setting.threads, "random_state": run.seed}
    model = NeuralTagger(**options)
    model.fit(*corpus.train, dev=corpus.dev)
    about = {
        "epochs": len(model.history_),
        "tokens_per_second": median(e.tokens_per_second for e in model.history_),
        "device": str(setting.device),
        "torch": torch.__version__,
    }
    return model, about


# ---- vectors


def make_vectors(path: Path, data: Path, jobs: int | None) -> None:
    """Learn from the text, and keep the vectors of the words that the English corpora have.

    The text has no capitals and no punctuation. FastText makes a vector for any word of its
    characters, so what is kept is what the whole model would say.
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
    kept = sorted(word for word in words if any(map(str.isalnum, word)))
    Vectors(kept, model.vectors_[kept]).save(path)
    print(f"{path}: {len(kept):,} words")


# ---- all trainings, and the table


def wanted(options: argparse.Namespace, done: set[Run]) -> Iterator[Run]:
    """What is still to do: first all networks once, then with the next seed."""
    for seed in options.seed or SEEDS:
        for dataset in options.dataset or DATASETS:
            linear = [LINEAR] if seed == SEEDS[0] else []  # nothing in it is random
            for network in [*linear, *networks(dataset)]:
                run = Run(dataset, network, seed)
                if run not in done and network in (options.network or [network]):
                    yield run


def finished(path: Path) -> list[dict[str, Any]]:
    """The lines of the file of results."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def train_all(runs: list[Run], setting: Setting, results: Path, jobs: int) -> int:
    """Train in so many processes; a line for each that ends. How many failed."""
    failed = 0
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(train, run, setting): run for run in runs}
        for number, future in enumerate(as_completed(running), 1):
            run = running[future]
            try:
                line = future.result()
            except Exception as error:  # the others should go on
                failed += 1
                print(f"{run} failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                continue
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            text = f"dev {100 * line['dev']:.2f}, test {100 * line['test']:.2f}"
            where = f"{number} of {len(runs)}: {run.dataset} {run.network} {run.seed}"
            print(f"{where}: {text}, {line['seconds']:.0f} s", flush=True)
    return failed


def table(lines: list[dict[str, Any]]) -> str:
    """Test scores in percent as Markdown: the mean of the seeds, and how they spread."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        found.setdefault((line["network"], line["dataset"]), []).append(100 * line["test"])
    datasets = [name for name in DATASETS if any(key[1] == name for key in found)]
    order = [LINEAR, *NETWORKS, *(f"{name}+vectors" for name in WITH_VECTORS)]
    rows = [["model", *(TITLES[name] for name in datasets)], ["---"] * (1 + len(datasets))]
    for network in order:
        cells = [_cell(found.get((network, name), [])) for name in datasets]
        if any(cells):
            rows.append([network, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(scores: list[float]) -> str:
    if len(scores) < 2:
        return f"{scores[0]:.2f}" if scores else ""
    return f"{mean(scores):.2f} ± {stdev(scores):.2f}"


def main() -> None:
    """Do what is asked for."""
    options = _options()
    if options.make_vectors:
        make_vectors(options.make_vectors, options.data, options.threads)
        return
    failed = 0
    if not options.table:
        done = {Run(*(line[f] for f in Run._fields)) for line in finished(options.results)}
        threads = options.threads or max(1, (os.cpu_count() or 1) // options.jobs)
        setting = Setting(
            options.data, options.vectors, options.device, options.epochs, threads, options.limit
        )
        runs = list(wanted(options, done))
        failed = train_all(runs, setting, options.results, options.jobs)
    print(table(finished(options.results)))
    sys.exit(1 if failed else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = {name for dataset in DATASETS for name in networks(dataset)}
    parser.add_argument("--dataset", nargs="+", choices=DATASETS)
    parser.add_argument("--network", nargs="+", choices=[LINEAR, *sorted(known)])
    parser.add_argument("--seed", nargs="+", type=int)
    parser.add_argument("--device", help="cpu or cuda; by default cuda if it is there")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--threads", type=int, help="of each process")
    parser.add_argument("--epochs", type=int, help="most epochs, for a quick look")
    parser.add_argument("--limit", type=int, help="that many sentences of each part, to try it")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the corpora")
    parser.add_argument("--vectors", type=Path, help="what --make-vectors made")
    parser.add_argument("--make-vectors", type=Path, metavar="FILE")
    parser.add_argument("--results", type=Path, default=Path("neural_tagger.jsonl"))
    parser.add_argument("--table", action="store_true", help="train nothing, print what is there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
