"""Charagram: sums of character n-grams through a non-linearity, and their training on paraphrases.

Wieting, Bansal, Gimpel, Livescu (2016): Charagram: Embedding Words and Sentences via Character
n-grams.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trellis.checks import integer_at_least, number_at_least, one_of
from trellis.embeddings.training import seed_of
from trellis.errors import InputError
from trellis.nn.words.base import WordEncoder
from trellis.nn.words.tables import NGramEmbedding

__all__ = ["ACTIVATIONS", "Charagram", "margin_loss", "train_on_paraphrases"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class Charagram(NGramEmbedding):
    """v(text) = f(b + Σ V[g]) over the n-grams g of a word or a sentence, minn ≤ |g| ≤ maxn.

    >>> _ = torch.manual_seed(0)
    >>> encoder = Charagram(4)
    >>> encoder.learn({"walk": 2, "walked": 1})
    >>> encoder.encode(["walking", "walk"]).shape  # any text has a vector
    torch.Size([2, 4])

    f is the ``activation``, "tanh" or "relu". With ``ngrams="dictionary"``, the ``bucket`` most
    frequent n-grams of the training data have one row each; with "hashed", the hash of an n-gram
    selects one of ``bucket`` rows. Train it on pairs of paraphrases (`train_on_paraphrases`), or as
    a part of a network: ``NeuralTagger(words=("embedding", "charagram"))``.
    """

    def __init__(
        self,
        dim: int,
        *,
        minn: int = 2,
        maxn: int = 4,
        bucket: int = 200_000,
        ngrams: str = "dictionary",
        activation: str = "tanh",
        sparse: bool = False,
    ) -> None:
        one_of(activation, ACTIVATIONS, "activation")
        super().__init__(
            dim, minn=minn, maxn=maxn, bucket=bucket, ngrams=ngrams, combine="sum", sparse=sparse
        )
        self.activation = activation
        self.bias = nn.Parameter(torch.zeros(self.dim))

    def forward(self, rows: Tensor) -> Tensor:
        """Return vectors (texts, dim) of row numbers (texts, most n-grams)."""
        return ACTIVATIONS[self.activation](self.bias + super().forward(rows))


def margin_loss(a: Tensor, b: Tensor, same: Tensor, margin: float) -> Tensor:
    """Compute Σ max(0, δ − cos(aᵢ, bᵢ) + cos(aᵢ, t)) + max(0, δ − cos(aᵢ, bᵢ) + cos(bᵢ, t′)).

    δ is the ``margin``. ``a`` and ``b`` are the vectors of the pairs, (pairs, dim). The negative t
    is the vector most similar to aᵢ among both sides of the other pairs of the batch, and t′ the
    one most similar to bᵢ. ``same`` (pairs, 2 · pairs) is True where a text must not be a negative
    of a pair: it belongs to the pair, or is equal to one of its texts.
    """
    a, b = functional.normalize(a, dim=1), functional.normalize(b, dim=1)
    similar = (a * b).sum(dim=1)
    texts = torch.cat([a, b])
    total = a.new_zeros(())
    for side in (a, b):
        negative = (side @ texts.T).masked_fill(same, -torch.inf).max(dim=1).values
        total = total + (margin - similar + negative).clamp(min=0).sum()
    return total


def train_on_paraphrases(
    encoder: WordEncoder,
    pairs: Sequence[tuple[str, str]],
    *,
    margin: float = 0.4,
    epochs: int = 10,
    batch_size: int = 100,
    learning_rate: float = 1e-3,
    l2: float = 0.0,
    learn: bool = True,
    random_state: Any = None,
) -> list[float]:
    """Train an encoder to give paraphrases similar vectors. Return the mean loss of each epoch.

    The loss of a pair is `margin_loss`, plus l2/2 ‖θ‖² for each batch. Any word encoder can be
    trained. ``learn=False`` continues with the vocabulary and the weights of the encoder.

    >>> encoder = Charagram(16)
    >>> pairs = [("color", "colour"), ("center", "centre"), ("gray", "grey"), ("tire", "tyre")]
    >>> losses = train_on_paraphrases(encoder, pairs, epochs=60, learning_rate=0.01, random_state=0)
    >>> losses[-1] < 0.2 * losses[0]
    True
    >>> encoder.to_vectors(["colour", "centre", "grey"]).similarity("color", "colour") > 0.8
    True
    """
    _check_training(encoder, pairs)
    for name, value in (("margin", margin), ("learning_rate", learning_rate), ("l2", l2)):
        number_at_least(value, 0.0, name)
    epochs = integer_at_least(epochs, 1, "epochs")
    batch_size = integer_at_least(batch_size, 2, "batch_size")
    seed = seed_of(random_state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if learn:
            encoder.learn(Counter(text for pair in pairs for text in pair))
        batches = _Batches(encoder, pairs, batch_size, seed)
        optimizer = torch.optim.Adam(encoder.parameters(), lr=learning_rate)
        encoder.train()
        losses = []
        for _ in range(epochs):
            total = 0.0
            for rows, numbers, n_pairs, same in batches.shuffled():
                vectors = encoder(*rows).index_select(0, numbers)
                loss = margin_loss(vectors[:n_pairs], vectors[n_pairs:], same, margin) / n_pairs
                total += float(loss.detach()) * n_pairs
                if l2:
                    squares = [p.square().sum() for p in encoder.parameters() if p.requires_grad]
                    loss = loss + 0.5 * l2 * torch.stack(squares).sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            losses.append(total / len(pairs))
        encoder.eval()
    return losses


class _Batches:
    """The batches of an epoch, as rows of the encoder: texts become integers only once."""

    def __init__(
        self, encoder: WordEncoder, pairs: Sequence[tuple[str, str]], batch_size: int, seed: int
    ) -> None:
        distinct_texts = dict.fromkeys(text for pair in pairs for text in pair)
        index = {text: n for n, text in enumerate(distinct_texts)}
        self.device = next(encoder.parameters()).device
        self.rows = encoder.rows(list(index))
        self.texts = torch.tensor([[index[a], index[b]] for a, b in pairs])  # (pairs, 2)
        # A batch of one pair has no negatives, so pairs that are left over go to other batches.
        self.n_batches = max(1, len(pairs) // batch_size)
        self.rng = np.random.default_rng(seed)

    def shuffled(self) -> Iterator[tuple[list[Tensor], Tensor, int, Tensor]]:
        """Yield the batches of an epoch as (rows, numbers, pairs, same).

        ``rows`` are those of the distinct texts of the batch. ``numbers`` (2 · pairs,) are the
        indices of the left texts of all pairs, then of the right texts. ``pairs`` is the number of
        pairs. ``same`` is the argument of `margin_loss`.
        """
        for part in np.array_split(self.rng.permutation(len(self.texts)), self.n_batches):
            sides = self.texts[torch.from_numpy(part)].T  # (2, pairs)
            texts = sides.flatten()
            distinct, numbers = texts.unique(return_inverse=True)
            same = (sides.T[:, :, None] == texts).any(dim=1)  # (pairs, 2 · pairs)
            rows = [table[distinct].to(self.device) for table in self.rows]
            yield rows, numbers.to(self.device), len(part), same.to(self.device)


def _check_training(encoder: Any, pairs: Any) -> None:
    """Raise InputError if there is nothing to train, or if the pairs are not pairs of texts."""
    if not isinstance(encoder, WordEncoder):
        raise InputError(f"encoder must be a WordEncoder, not {encoder!r:.60}")
    if any(getattr(module, "sparse", False) for module in encoder.modules()):
        raise InputError("encoder has sparse=True: must be False, Adam needs all gradients")
    if isinstance(pairs, str) or not isinstance(pairs, Sequence) or len(pairs) < 2:
        raise InputError("pairs must be a list of at least two pairs of texts")
    for n, pair in enumerate(pairs):
        is_pair = isinstance(pair, list | tuple) and len(pair) == 2
        if not is_pair or not all(isinstance(text, str) for text in pair):
            raise InputError(f"pairs[{n}] is {pair!r:.60}: must be two texts")
