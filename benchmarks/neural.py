"""Measure epochs of the neural tagger with our CRF layer and with pytorch-crf, and tagging.

    python benchmarks/neural.py                      on the CPU, two threads: minutes
    python benchmarks/neural.py --device cuda
    python benchmarks/neural.py --quick --only tagging

Epochs are those of `NeuralTagger.fit` on CoNLL-2002 Spanish, with the same network, batches and
optimiser. Only the layer at the top differs: ours, or that of pytorch-crf, which gets a mask. The
two trainings take turns of one epoch. Before that, both train on a part of the data with the same
seed, and must reach the same loss. On a GPU, steps with our layer are CUDA graphs. pytorch-crf
reads its mask in Python, so steps with it cannot be captured. Tagging is `predict` on testb, from
tokens to labels.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torchcrf
from corpora import require
from timing import (
    Case,
    Table,
    Training,
    check_close,
    describe_machine,
    ratio,
    save_json,
    time_alternating,
    time_iterations,
)

from trellis import CRF, NeuralTagger
from trellis.data import conll
from trellis.nn import crf
from trellis.nn.tagger.network import Network

THREADS = 2
EPOCHS = 4  # the first is not timed
QUICK = 1000  # sentences
CHECKED = 200  # sentences on which the losses of both layers are compared
Labelled = tuple[list[Any], list[Any]]


HEADS: dict[str, Any] = {"ours": "crf", "pytorch-crf": partial(torchcrf.CRF, batch_first=True)}


def read(part: str, count: int | None = None) -> Labelled:
    """Return words and labels of the first sentences of the Spanish corpus."""
    X, y = conll.read(require(f"ner/conll2002-es.{part}.conll.gz"), columns=[0])
    return X[:count], y[:count]


def tagger(head: Any, device: str, epochs: int, **settings: Any) -> NeuralTagger:
    """Return a tagger with the default network and the given head."""
    return NeuralTagger(head=head, device=device, epochs=epochs, random_state=0, **settings)


def check(device: str) -> None:
    """Raise unless the layers agree, and both learn the same from the same initial weights."""
    check_layers(device)
    # In a batch of single words, the transitions of pytorch-crf have no gradient and ours have
    # gradient 0, so momentum would change only ours.
    pairs = [pair for pair in zip(*read("train", CHECKED), strict=True) if len(pair[0]) > 1]
    X, y = [words for words, _ in pairs], [labels for _, labels in pairs]
    losses = {}
    # SGD, because AdamW makes full steps even where a gradient is only a rounding error
    settings = {"optimizer": "sgd", "learning_rate": 0.01, "dropout": 0.0, "word_dropout": 0.0}
    # TF32 is too inexact for the comparison
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for name, head in HEADS.items():
            model = tagger(head, device, 2, **settings).fit(X, y)
            losses[name] = [entry.loss for entry in model.history_]
    check_close("losses of two epochs", losses["ours"], losses["pytorch-crf"], 1e-4)
    if device != "cpu":
        check_graphs(device, X, y)


def check_graphs(device: str, X: list[Any], y: list[Any]) -> None:
    """Raise unless CUDA graphs, which AdamW uses, reach the same losses as single steps."""
    with_graphs = tagger("crf", device, 3).fit(X, y).history_
    captured, Network.fixed_sizes = Network.fixed_sizes, property(lambda _: False)  # type: ignore[method-assign, assignment]
    try:
        without = tagger("crf", device, 3).fit(X, y).history_
    finally:
        Network.fixed_sizes = captured  # type: ignore[method-assign]
    losses = [[entry.loss for entry in history] for history in (with_graphs, without)]
    check_close("losses with CUDA graphs", *losses, 1e-4)


def check_layers(device: str) -> None:
    """Raise unless log-likelihood and gradients agree on a batch of several lengths."""
    torch.manual_seed(0)
    ours, peer = crf.CRF(9, batch_first=True).to(device), HEADS["pytorch-crf"](9).to(device)
    peer.load_state_dict(ours.state_dict())
    emissions = torch.randn(8, 50, 9, device=device)
    tags = torch.randint(0, 9, (8, 50), device=device)
    lengths = torch.tensor([50, 47, 31, 31, 20, 8, 2, 1], device=device)
    mask = torch.arange(50, device=device) < lengths[:, None]
    results = []
    for layer, options in ((ours, {"lengths": lengths}), (peer, {"mask": mask})):
        e = emissions.clone().requires_grad_()
        value = layer(e, tags, **options)
        value.backward()
        gradients = [e.grad, layer.transitions.grad, layer.start_transitions.grad]
        results.append([x.detach().cpu() for x in (value, *gradients)])
    for name, result, expected in zip(("value", "emissions", "A", "start"), *results, strict=True):
        check_close(f"layer, {name}", result, expected, 1e-4)


def epochs(options: argparse.Namespace) -> Table:
    """Time epochs of both layers in turn."""
    check(options.device)
    X, y = read("train", QUICK if options.quick else None)
    tokens = sum(map(len, X))

    def training(head: Any) -> Training:
        def run(tick: Any) -> Any:
            settings = {"batch_size": options.batch_size} if options.batch_size else {}
            model = tagger(head, options.device, options.epochs, **settings)
            return model.fit(X, y, callback=lambda _: tick())

        return run

    times, _ = time_iterations({name: training(head) for name, head in HEADS.items()}, 1)
    size = options.batch_size or NeuralTagger().batch_size
    amount = f"{len(X):,} sentences, {size} at a time"
    title = f"An epoch over CoNLL-2002 Spanish, {amount}, {_describe_device(options)}, seconds"
    columns = ("layer", "median", "minimum", "tokens/s", "epochs", "x")
    table = Table(title, columns)
    table.keep("epoch", times)
    for name, timing in times.items():
        speed = round(tokens / timing.median)
        gain = ratio(timing, times["ours"])
        table.add(name, timing.median, timing.minimum, speed, timing.repeats, gain)
    return table


def tagging(options: argparse.Namespace) -> Table:
    """Time `predict` of the neural tagger, and of a linear CRF with the default features."""
    X, y = read("train", QUICK)
    test, _ = read("testb", QUICK if options.quick else None)
    tokens = sum(map(len, test))
    models: dict[str, Any] = {
        "NeuralTagger": tagger("crf", options.device, 1).fit(X, y),
        "linear CRF": CRF(max_iter=10, n_jobs=THREADS).fit(X, y),
    }
    cases = [Case(name, lambda m=model: m.predict(test)) for name, model in models.items()]
    times = time_alternating(cases, 3 if options.quick else 5)
    device = _describe_device(options)
    title = f"Tagging CoNLL-2002 Spanish testb, {tokens:,} tokens, {device}, tokens/s"
    table = Table(title, ("model", "median", "best"))
    table.keep("tagging", times)
    for name, timing in times.items():
        table.add(name, round(tokens / timing.median), round(tokens / timing.minimum))
    return table


def _describe_device(options: argparse.Namespace) -> str:
    if options.device == "cpu":
        return f"{THREADS} threads"
    return str(torch.cuda.get_device_name(options.device))


SECTIONS = {"epochs": epochs, "tagging": tagging}


def main() -> None:
    """Run the chosen sections, print their tables, and save them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="run these sections")
    parser.add_argument(
        "--epochs", type=int, default=EPOCHS, help="epochs per layer; the first is not timed"
    )
    parser.add_argument(
        "--batch-size", type=int, help="sentences per batch; default: that of the tagger"
    )
    parser.add_argument("--quick", action="store_true", help="part of the data, few repeats")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the tables for page.py")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    machine = describe_machine(("trellis", "torch", "pytorch-crf"))
    print("\n".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    tables = []
    for name in options.only or SECTIONS:
        tables.append(SECTIONS[name](options))
        print(tables[-1].text(options.markdown), flush=True)
    if options.json:
        save_json(options.json, machine, tables)


if __name__ == "__main__":
    main()
