"""The neural tagger: an epoch with our CRF layer and with pytorch-crf's, and tagging.

    python benchmarks/neural.py                      on the CPU, two threads: minutes
    python benchmarks/neural.py --device cuda
    python benchmarks/neural.py --quick --only tagging

An epoch is one of `NeuralTagger.fit` over CoNLL-2002 Spanish: the same network, batches and
optimiser; only the layer on top is ours or pytorch-crf's, given a mask as its users give it. The
two trainings take turns of one epoch. Before that both train on a part with the same seed, and must
come to the same loss. On a card steps with our layer are CUDA graphs; pytorch-crf's looks at its
mask from Python, so that steps with it cannot be. Tagging is `predict` on testb, tokens in and
labels out.
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torchcrf
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

DATA = Path(os.environ.get("TRELLIS_DATA", Path(__file__).parents[2] / "shared" / "data"))
THREADS = 2
EPOCHS = 4  # the first of them is not counted
QUICK = 1000  # sentences
CHECKED = 200
Labelled = tuple[list[Any], list[Any]]


HEADS: dict[str, Any] = {"ours": "crf", "pytorch-crf": partial(torchcrf.CRF, batch_first=True)}


def read(part: str, most: int | None = None) -> Labelled:
    """Words and labels of the Spanish corpus."""
    X, y = conll.read(DATA / "ner" / f"conll2002-es.{part}.conll.gz", columns=[0])
    return X[:most], y[:most]


def tagger(head: Any, device: str, epochs: int, **settings: Any) -> NeuralTagger:
    """The default network under a head."""
    return NeuralTagger(head=head, device=device, epochs=epochs, random_state=0, **settings)


def check(device: str) -> None:
    """Raise unless the layers agree, and both learn the same from the same beginning."""
    check_layers(device)
    # of a batch of single words pytorch-crf's transitions have no gradient, ours have 0: momentum
    # then moves ours alone
    long = [pair for pair in zip(*read("train", CHECKED), strict=True) if len(pair[0]) > 1]
    X, y = [words for words, _ in long], [labels for _, labels in long]
    losses = {}
    # SGD, as AdamW makes whole steps of gradients that are nothing but rounding
    settings = {"optimizer": "sgd", "learning_rate": 0.01, "dropout": 0.0, "word_dropout": 0.0}
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # exact enough to compare
        for name, head in HEADS.items():
            model = tagger(head, device, 2, **settings).fit(X, y)
            losses[name] = [entry.loss for entry in model.history_]
    check_close("losses of two epochs", losses["ours"], losses["pytorch-crf"], 1e-4)
    if device != "cpu":
        check_graphs(device, X, y)


def check_graphs(device: str, X: list[Any], y: list[Any]) -> None:
    """Steps as CUDA graphs, which AdamW's are, come to the losses of steps one by one."""
    with_graphs = tagger("crf", device, 3).fit(X, y).history_
    captured, Network.fixed_sizes = Network.fixed_sizes, property(lambda _: False)  # type: ignore[method-assign, assignment]
    try:
        without = tagger("crf", device, 3).fit(X, y).history_
    finally:
        Network.fixed_sizes = captured  # type: ignore[method-assign]
    losses = [[entry.loss for entry in history] for history in (with_graphs, without)]
    check_close("losses of graphs", *losses, 1e-4)


def check_layers(device: str) -> None:
    """Log-likelihood and gradients of a batch of several lengths."""
    torch.manual_seed(0)
    ours, peer = crf.CRF(9, batch_first=True).to(device), HEADS["pytorch-crf"](9).to(device)
    peer.load_state_dict(ours.state_dict())
    emissions = torch.randn(8, 50, 9, device=device)
    tags = torch.randint(0, 9, (8, 50), device=device)
    lengths = torch.tensor([50, 47, 31, 31, 20, 8, 2, 1], device=device)
    mask = torch.arange(50, device=device) < lengths[:, None]
    found = []
    for layer, told in ((ours, {"lengths": lengths}), (peer, {"mask": mask})):
        e = emissions.clone().requires_grad_()
        value = layer(e, tags, **told)
        value.backward()
        gradients = [e.grad, layer.transitions.grad, layer.start_transitions.grad]
        found.append([x.detach().cpu() for x in (value, *gradients)])
    for what, own, other in zip(("value", "emissions", "A", "start"), *found, strict=True):
        check_close(f"layer, {what}", own, other, 1e-4)


def epochs(options: argparse.Namespace) -> Table:
    """Seconds an epoch, the two heads in turns."""
    check(options.device)
    X, y = read("train", QUICK if options.quick else None)
    tokens = sum(map(len, X))

    def training(head: Any) -> Training:
        def run(tick: Any) -> Any:
            settings = {"batch_size": options.batch_size} if options.batch_size else {}
            made = tagger(head, options.device, options.epochs, **settings)
            return made.fit(X, y, callback=lambda _: tick())

        return run

    times, _ = time_iterations({name: training(head) for name, head in HEADS.items()}, 1)
    size = options.batch_size or NeuralTagger().batch_size
    what = f"{len(X):,} sentences, {size} at a time"
    title = f"An epoch over CoNLL-2002 Spanish, {what}, {_where(options)}, seconds"
    columns = ("layer", "median", "minimum", "tokens/s", "epochs", "x")
    table = Table(title, columns)
    table.keep("epoch", times)
    for name, own in times.items():
        speed = round(tokens / own.median)
        ahead = ratio(own, times["ours"])
        table.add(name, own.median, own.minimum, speed, own.repeats, ahead)
    return table


def tagging(options: argparse.Namespace) -> Table:
    """Tokens a second of `predict`; the linear CRF with the default features beside it."""
    X, y = read("train", QUICK)
    test, _ = read("testb", QUICK if options.quick else None)
    tokens = sum(map(len, test))
    models: dict[str, Any] = {
        "NeuralTagger": tagger("crf", options.device, 1).fit(X, y),
        "linear CRF": CRF(max_iter=10, n_jobs=THREADS).fit(X, y),
    }
    cases = [Case(name, lambda m=model: m.predict(test)) for name, model in models.items()]
    times = time_alternating(cases, 3 if options.quick else 5)
    title = f"Tagging CoNLL-2002 Spanish testb, {tokens:,} tokens, {_where(options)}, tokens/s"
    table = Table(title, ("model", "median", "best"))
    table.keep("tagging", times)
    for name, own in times.items():
        table.add(name, round(tokens / own.median), round(tokens / own.minimum))
    return table


def _where(options: argparse.Namespace) -> str:
    if options.device == "cpu":
        return f"{THREADS} threads"
    return str(torch.cuda.get_device_name(options.device))


SECTIONS = {"epochs": epochs, "tagging": tagging}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="run these sections")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of each, the first not counted")
    parser.add_argument("--batch-size", type=int, help="instead of the tagger's own")
    parser.add_argument("--quick", action="store_true", help="part of the data, few repeats")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also save everything here")
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
