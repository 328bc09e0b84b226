"""The network of a tagger: words → vectors → context → emissions → head.

The file is in the order of the computation: the encoders of tokens in context, the whole network,
and the functions that build a network from the settings of a tagger.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trellis.checks import integer_in_range
from trellis.errors import InputError
from trellis.formats.native import Tensors, expect, finite
from trellis.formats.parts import Parts, read_strings, store_strings
from trellis.models.chain.labels import constraints_for
from trellis.nn.crf import CRF
from trellis.nn.lstm.bidirectional import bidirectional, runs_on_gpu
from trellis.nn.tagger.data import Batch
from trellis.nn.tagger.heads import MEMM, Softmax
from trellis.nn.words.base import ConcatWords, WordEncoder
from trellis.nn.words.charagram import Charagram
from trellis.nn.words.chars import CharCNN, CharRNN
from trellis.nn.words.tables import NGramEmbedding, WordEmbedding, as_vectors

__all__ = [
    "ENCODERS",
    "HEADS",
    "WORDS",
    "Network",
    "build_network",
    "build_word_encoder",
    "copy_weights",
    "count_weights",
    "load_weights",
    "network_parts",
    "read_network",
]

WORDS = ("embedding", "cnn", "rnn", "ngrams", "charagram")
HEADS = ("crf", "softmax", "memm")
_MAX_TABLE_DIM = 2**31 - 1

Arrays = dict[str, NDArray[Any]]


# ---- tokens in context


class RecurrentEncoder(nn.Module):
    """hₜ = [LSTM→(x₁ … xₜ); LSTM←(x_T … xₜ)]: a bidirectional LSTM, dim = 2 · hidden."""

    def __init__(self, width: int, hidden: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * hidden
        self.lstm = nn.LSTM(
            width, hidden, layers, bidirectional=True, dropout=dropout if layers > 1 else 0.0
        )

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Return states (N, dim) of packed tokens (N, width)."""
        return bidirectional(self.lstm, x, batch.sizes, batch.packing, len(batch.lengths))

    @property
    def skips_padding(self) -> bool:
        """True if padding tokens do not change the states of other tokens."""
        return runs_on_gpu(self.lstm)


class ConvEncoder(nn.Module):
    """hₜ ← relu(W [hₜ₋ₖ; hₜ; hₜ₊ₖ] + b) + hₜ, with k = 1, 2, 4, … in successive layers."""

    skips_padding = False  # a padding token would be a neighbour of a real token

    def __init__(self, width: int, hidden: int, layers: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.dim = 2 * hidden
        self.first = nn.Linear(width, self.dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.dim, self.dim, 3, padding=2**n, dilation=2**n) for n in range(layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, batch: Batch) -> Tensor:
        """Return states (N, dim) of packed tokens (N, width)."""
        shape, cell = (len(batch.lengths), len(batch.sizes)), batch.cell
        h = self.first(x).relu()
        for convolution in self.convolutions:
            # Each layer has a new grid: positions after the end of a sequence must be 0.
            grid = h.new_zeros(shape[0] * shape[1], self.dim).index_copy_(0, cell, self.dropout(h))
            convolved = convolution(grid.view(*shape, self.dim).transpose(1, 2)).transpose(1, 2)
            h = convolved.reshape(-1, self.dim).index_select(0, cell).relu() + h
        return h


ENCODERS = {"lstm": RecurrentEncoder, "cnn": ConvEncoder}


# ---- the whole network


class Network(nn.Module):
    """eₜ = W h(v(word₁) … v(word_T))ₜ + b, and log p(y | e) by the head."""

    words: Any
    encoder: Any
    head: Any

    def __init__(
        self,
        words: WordEncoder,
        encoder: Any,
        head: Any,
        labels: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.words, self.encoder, self.head = words, encoder, head
        self.output = nn.Linear(encoder.dim, labels)
        self.dropout = dropout
        self.has_builtin_head = isinstance(head, CRF | Softmax | MEMM)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        device: torch.device = self.output.weight.device
        return device

    @property
    def fixed_sizes(self) -> bool:
        """True if the kernels of a step depend only on the shape of a padded batch.

        Padding must not change the result. Only such steps can be captured as CUDA graphs.
        """
        head = self.head
        # a CRF with validation copies values from the GPU to the host, which a CUDA graph cannot do
        synchronises = type(head) is CRF and head.validate
        is_builtin = type(head) in (CRF, Softmax, MEMM)
        return bool(self.encoder.skips_padding) and is_builtin and not synchronises

    def forward(self, batch: Batch) -> Tensor:
        """Return emissions (B, T, labels); 0 after the end of a sequence."""
        shape = (len(batch.lengths), len(batch.sizes))
        x = self.words(*batch.rows).index_select(0, batch.word)
        h = self.encoder(self._apply_dropout(x, batch), batch)
        emissions = self.output(self._apply_dropout(h, batch))
        emissions = emissions.float()
        grid = emissions.new_zeros(shape[0] * shape[1], emissions.shape[1]).index_copy_(
            0, batch.cell, emissions
        )
        return grid.view(*shape, emissions.shape[1])

    def log_likelihood(self, batch: Batch, weights: Tensor | None = None) -> Tensor:
        """Return Σ weight · log p(tags | words) over the sequences of a batch.

        ``weights`` (B,) are the weights of the sequences; None means that all are 1. Only built-in
        heads support weights.
        """
        emissions = self(batch)
        if not self.has_builtin_head:
            steps = torch.arange(emissions.shape[1], device=emissions.device)
            log_p: Tensor = self.head(emissions, batch.tags, mask=steps < batch.lengths[:, None])
        elif weights is None:
            log_p = self.head(emissions, batch.tags, lengths=batch.lengths)
        else:
            rows = self.head(emissions, batch.tags, lengths=batch.lengths, reduction="none")
            log_p = (rows * weights).sum()
        return log_p

    def _apply_dropout(self, x: Tensor, batch: Batch) -> Tensor:
        """Apply variational dropout: the same columns are 0 in all tokens of a sequence."""
        if not self.training or self.dropout == 0:
            return x
        mask = x.new_empty(len(batch.lengths), x.shape[1]).bernoulli_(1 - self.dropout)
        return x * mask.div_(1 - self.dropout).index_select(0, batch.row)


def count_weights(network: nn.Module) -> dict[str, int]:
    """Return the number of weights of each part: words, encoder, output, head."""
    counts: Counter[str] = Counter()
    for name, weights in network.named_parameters():
        counts[name.partition(".")[0]] += weights.numel()
    return dict(counts)


def copy_weights(network: nn.Module, prefix: str = "network.") -> Arrays:
    """Return copies of all weights as NumPy arrays. Later training steps do not change them."""
    state = network.state_dict()
    return {
        prefix + name: np.array(tensor.detach().cpu().numpy()) for name, tensor in state.items()
    }


def load_weights(network: nn.Module, arrays: Arrays, prefix: str = "network.") -> None:
    """Set all weights from finite float32 arrays of the same shapes."""
    state = network.state_dict()
    for name, tensor in state.items():
        array = arrays.get(prefix + name)
        if array is None or array.shape != tuple(tensor.shape) or array.dtype != np.float32:
            expected = f"must be float32 of shape {tuple(tensor.shape)}"
            raise InputError(f"tensor {prefix + name!r} {expected}, and must not be missing")
        if not np.isfinite(array).all():
            raise InputError(f"tensor {prefix + name!r} has values that are not finite")
        state[name] = torch.from_numpy(np.array(array))
    network.load_state_dict(state)


# ---- from the settings of a tagger to its network


def build_word_encoder(
    settings: Any, sparse: bool, vectors: Any = None, table_dim: int | None = None
) -> WordEncoder:
    """Return the word encoders of a tagger's settings, with empty vocabularies.

    ``table_dim`` is the width of the table of words when its rows come from a file.
    """
    encoders: list[WordEncoder] = []
    for name in settings.words:
        if name == "embedding":
            pretrained = as_vectors(vectors)
            dim = pretrained.dim if pretrained is not None else table_dim or settings.word_dim
            encoders.append(
                WordEmbedding(
                    dim,
                    vectors=pretrained,
                    unknown_dropout=settings.word_dropout,
                    lowercase=settings.lowercase,
                    sparse=sparse,
                )
            )
        elif name == "cnn":
            encoders.append(
                CharCNN(
                    settings.char_dim,
                    settings.char_widths,
                    settings.char_hidden,
                    highway=settings.char_highway,
                )
            )
        elif name == "rnn":
            hidden = max(1, settings.char_hidden // 2)
            encoders.append(CharRNN(settings.char_dim, hidden, cell=settings.char_cell))
        elif name == "ngrams":
            encoders.append(NGramEmbedding(settings.word_dim, sparse=sparse))
        else:
            encoders.append(Charagram(settings.word_dim, sparse=sparse))
    return ConcatWords(*encoders)


def build_network(settings: Any, words: WordEncoder, labels: list[Any]) -> Network:
    """Return the network of a tagger's settings for these labels."""
    encoder_class = ENCODERS[settings.encoder]
    encoder = encoder_class(words.dim, settings.hidden, settings.layers, settings.dropout)
    head = _build_head(settings.head, labels, settings.constraints)
    return Network(words, encoder, head, len(labels), settings.dropout)


def _build_head(head: str | Callable[[int], nn.Module], labels: list[Any], constraints: Any) -> Any:
    """Return the head of this name. If it is a function, call it with the number of labels."""
    if callable(head):
        return head(len(labels))
    if head == "crf":
        forbidden_pairs: Any = constraints
        if constraints is not None and not isinstance(constraints, str):
            label_constraints = constraints_for(constraints, labels)
            forbidden_pairs = (
                []
                if label_constraints is None
                else np.argwhere(label_constraints.forbidden).tolist()
            )
        return CRF(
            len(labels),
            batch_first=True,
            labels=[str(label) for label in labels],
            constraints=forbidden_pairs,
            validate=False,  # the corpus is validated once, before training
        )
    return {"softmax": Softmax, "memm": MEMM}[head](len(labels))


# ---- networks in files


def network_parts(network: Network) -> Parts:
    """Return the weights and vocabularies of a network, as metadata and tensors of a file."""
    tensors = copy_weights(network)
    table_dims = [
        module.dim for module in network.words.modules() if isinstance(module, WordEmbedding)
    ]
    vocabularies = network.words.vocabularies()
    for n, strings in enumerate(vocabularies):
        store_strings(tensors, f"words.{n}", strings)
    meta = {"table_dim": table_dims[0] if table_dims else None, "vocabularies": len(vocabularies)}
    return meta, tensors


def read_network(
    settings: Any, labels: list[Any], meta: dict[str, Any], tensors: Tensors
) -> Network:
    """Return the network that `network_parts` stored, in evaluation mode on the CPU.

    The network is first built without memory, on the device "meta", and each tensor of the file is
    compared with it. So memory is allocated only for sizes that the tensors of the file really
    have. The number of layers is compared with the number of tensors before that, because each
    layer takes time even without memory.
    """
    _check_counts(settings, meta, len(tensors))
    table_dim = None
    if meta["table_dim"] is not None:
        table_dim = integer_in_range(meta["table_dim"], 1, _MAX_TABLE_DIM, "table_dim")
    vocabularies = [
        read_strings(tensors, f"words.{tensor_name}", distinct=False)
        for tensor_name in range(meta["vocabularies"])
    ]

    def build() -> Network:
        words = build_word_encoder(settings, sparse=False, table_dim=table_dim)
        words.restore(vocabularies)
        return build_network(settings, words, labels)

    try:
        with torch.device("meta"):
            shapes = {
                tensor_name: tuple(tensor.shape)
                for tensor_name, tensor in build().state_dict().items()
            }
    except (RuntimeError, OverflowError, TypeError) as error:  # the sizes are too large
        first_line = str(error).partition("\n")[0]
        raise InputError(f"PyTorch cannot build a network of these sizes: {first_line}") from None
    for name, shape in shapes.items():
        expect(tensors, f"network.{name}", np.float32, shape)
        finite(tensors, f"network.{name}")
    # Initial weights are random. fork_rng keeps the state of the caller's generator unchanged.
    with torch.random.fork_rng(devices=[]):
        network = build()
    load_weights(network, tensors)
    return network.eval()


def _check_counts(settings: Any, meta: dict[str, Any], n_tensors: int) -> None:
    """Raise InputError if a network has more parts than its file has tensors."""
    counts = {
        "layers": settings.layers,
        "words": len(settings.words),
        "char_widths": len(settings.char_widths),
        "vocabularies": integer_in_range(meta["vocabularies"], 0, np.inf, "vocabularies"),
    }
    for name, count in counts.items():
        if count > n_tensors:
            raise InputError(f"{name}: a network with {count} needs more than {n_tensors} tensors")
