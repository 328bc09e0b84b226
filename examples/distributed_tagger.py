"""A tagger with `trellis.nn.CRF` under DistributedDataParallel, on two processes with gloo.

    ∇ loss = (1/K) Σₖ ∇ lossₖ        over the K processes

Each process has a copy of the network and every K-th sentence of a batch. After the backward pass,
DistributedDataParallel averages the gradients, so all copies take the same step. The loss of a
process is divided by the tokens of the whole batch, and multiplied by K. So the averaged gradient
is that of one process with the whole batch, whatever the lengths of the sentences.

    python examples/distributed_tagger.py                 two processes on this machine
    torchrun --nnodes 4 --nproc-per-node 8 examples/distributed_tagger.py --torchrun

On GPUs, use the backend nccl and `module.to(local rank)`. The CRF layer needs no change.
"""

import argparse
import os
import random
import tempfile
from pathlib import Path

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from trellis.nn import CRF

WORDS, TAGS, BATCH, STEPS = 30, 4, 16, 40


class Tagger(nn.Module):
    """−Σ log p(y | x) of a batch: embeddings, an LSTM in both directions, and a CRF."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.encoder = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.output = nn.Linear(32, TAGS)
        self.crf = CRF(TAGS, batch_first=True)

    def forward(self, words: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """Return the loss; words, tags and mask are (sentences, tokens).

        DistributedDataParallel adds its hooks to this method, so the loss is computed inside it.
        """
        # Packed, because the backward LSTM would read the padding, whose length differs by process.
        lengths = mask.sum(dim=1).cpu()
        packed = pack_padded_sequence(self.embedding(words), lengths, True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.encoder(packed)[0], True)
        loss: Tensor = -self.crf(self.output(hidden), tags, mask)
        return loss


def make_batch(step: int) -> list[tuple[list[int], list[int]]]:
    """Return sentences whose tag depends on the word and on the tag before it."""
    generator = random.Random(step)
    sentences = []
    for _ in range(BATCH):
        words = [generator.randrange(WORDS) for _ in range(generator.randint(3, 12))]
        tags = [words[0] % TAGS]
        for word in words[1:]:
            tags.append(0 if tags[-1] == word % TAGS else word % TAGS)
        sentences.append((words, tags))
    return sentences


def train(rank: int, processes: int, steps: int = STEPS) -> tuple[dict[str, Tensor], list[float]]:
    """Train one of the processes; return its parameters and the loss per token of each batch."""
    torch.manual_seed(0)
    tagger = Tagger()
    # One process needs no wrapper, and its result is that of several processes up to rounding.
    model = DistributedDataParallel(tagger) if processes > 1 else tagger
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(steps):
        batch = make_batch(step)
        tokens = sum(len(words) for words, _ in batch)
        part = batch[rank::processes]
        words, tags = (pad_sequence([torch.tensor(s[n]) for s in part], True) for n in (0, 1))
        mask = pad_sequence([torch.ones(len(s[0]), dtype=torch.bool) for s in part], True)
        loss = model(words, tags, mask) * processes / tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach() / processes
        if processes > 1:
            distributed.all_reduce(total)
        losses.append(float(total))
    return {name: value.detach().clone() for name, value in tagger.named_parameters()}, losses


def run_process(rank: int, processes: int, folder: str) -> None:
    """Join the group of processes, train, and store the parameters."""
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=processes)
    try:
        torch.save(train(rank, processes), Path(folder) / f"{rank}.pt")
    finally:
        distributed.destroy_process_group()


def train_on_processes(processes: int) -> list[tuple[dict[str, Tensor], list[float]]]:
    """Return the parameters and losses of each process."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run_process, (processes, folder), nprocs=processes)
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(processes)]


def main() -> None:
    """Train on one process and on two, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--torchrun", action="store_true", help="torchrun has started the processes"
    )
    if parser.parse_args().torchrun:
        distributed.init_process_group("gloo")
        rank, processes = distributed.get_rank(), distributed.get_world_size()
        _, losses = train(rank, processes)
        if rank == 0:
            print(f"{processes} processes: loss {losses[0]:.4f} to {losses[-1]:.4f}")
        distributed.destroy_process_group()
        return
    (single, losses), pair = train(0, 1), train_on_processes(2)
    print(f"one process:   loss per token {losses[0]:.4f} to {losses[-1]:.4f}")
    print(f"two processes: loss per token {pair[0][1][0]:.4f} to {pair[0][1][-1]:.4f}")
    between = max(float((pair[0][0][n] - pair[1][0][n]).abs().max()) for n in single)
    to_single = max(float((pair[0][0][n] - single[n]).abs().max()) for n in single)
    print(
        f"largest difference of a parameter: {between:.1g} between the two processes, "
        f"{to_single:.1g} to one process"
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
