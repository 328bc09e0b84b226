# Types of the compiled module. Each section names its source files in cpp/bindings, which document
# the functions. Small results are returned; large ones are written into arrays that the caller has
# allocated.
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Integers: TypeAlias = NDArray[np.int64]
_Doubles: TypeAlias = NDArray[np.float64]

def isa() -> str: ...
def available_isas() -> list[str]: ...
def use_isa(name: str) -> bool: ...
def hash_bytes(text: bytes, keys: NDArray[np.uint64]) -> int: ...
def hash_key(key: NDArray[np.uint32], keys: NDArray[np.uint64]) -> int: ...
def fill_padding(
    rows: NDArray[Any], lengths: _Integers, slot: int, value: float, threads: int
) -> None: ...
def split_rows(flat: NDArray[Any], lengths: _Integers) -> list[NDArray[Any]]: ...
def scan_arrays(arrays: list[NDArray[Any]], lengths: _Integers) -> int: ...
def look_at_steps(
    mask: NDArray[np.bool_] | None,
    lengths: _Integers | None,
    tags: _Integers | None,
    width: int,
    labels: int,
    row_lengths: _Integers,
) -> int: ...
def layer_counts(
    emissions: NDArray[Any],
    transition: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    lengths: _Integers,
    tags: _Integers | None,
    value: _Doubles,
    unary: NDArray[Any],
    pairs: _Doubles,
    threads: int,
) -> bool: ...
def layer_best(
    emissions: NDArray[Any],
    transition: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    lengths: _Integers,
    labels: _Integers,
    score: _Doubles,
    threads: int,
) -> bool: ...
def lstm_forward(
    gates: NDArray[np.float32],
    u: NDArray[np.float32],
    sizes: _Integers,
    h: NDArray[np.float32],
    c: NDArray[np.float32],
    before: NDArray[np.float32],
    threads: int,
) -> None: ...
def lstm_backward(
    d_h: NDArray[np.float32],
    activations: NDArray[np.float32],
    c: NDArray[np.float32],
    u: NDArray[np.float32],
    sizes: _Integers,
    d_gates: NDArray[np.float32],
    threads: int,
) -> None: ...
def largest_windows(
    ids: _Integers,
    table: NDArray[np.float32],
    best: NDArray[np.float32],
    where: NDArray[np.int32],
) -> None: ...
def largest_windows_backward(
    ids: _Integers,
    where: NDArray[np.int32],
    d_best: NDArray[np.float32],
    d_table: NDArray[np.float32],
) -> None: ...
def adam_rows(
    w: NDArray[np.float32],
    m: NDArray[np.float32],
    v: NDArray[np.float32],
    ids: _Integers,
    g: NDArray[np.float32],
    beta1: float,
    beta2: float,
    decay: float,
    size: float,
    scale: float,
    epsilon: float,
) -> None: ...

class ChainFloat64:
    def __init__(
        self,
        unary: NDArray[Any] | list[NDArray[Any]],
        starts: _Integers,
        lengths: _Integers,
        transition: _Doubles | None,
        transitions: list[NDArray[Any]] | None,
        start: _Doubles | None,
        end: _Doubles | None,
        threads: int,
    ) -> None: ...
    def log_partition(self, log_z: _Doubles, outcomes: _Integers) -> None: ...
    def marginals(
        self,
        unary: NDArray[Any],
        pairwise: NDArray[Any] | None,
        pairwise_starts: _Integers | None,
        counts: _Doubles | None,
        log_z: _Doubles,
        outcomes: _Integers,
        weights: _Doubles | None,
    ) -> list[NDArray[Any]] | None: ...
    def subtract_paths(
        self,
        labels: _Integers,
        unary: NDArray[Any],
        pairwise: NDArray[Any] | None,
        pairwise_starts: _Integers | None,
        counts: _Doubles | None,
        log_z: _Doubles,
        outcomes: _Integers,
        weights: _Doubles | None,
    ) -> None: ...
    def viterbi(
        self, labels: _Integers, score: _Doubles, outcomes: _Integers
    ) -> list[NDArray[Any]] | None: ...
    def max_marginals(
        self, out: NDArray[Any], outcomes: _Integers
    ) -> list[NDArray[Any]] | None: ...
    def alpha_table(self, rows: _Doubles, log_z: _Doubles, outcomes: _Integers) -> None: ...
    def beta_table(self, rows: _Doubles, log_z: _Doubles, outcomes: _Integers) -> None: ...
    def best_table(
        self, rows: _Doubles, pointers: _Integers, score: _Doubles, outcomes: _Integers
    ) -> None: ...
    def entropy(self, result: _Doubles, outcomes: _Integers) -> None: ...
    def sample(
        self, rows_before: _Integers, uniforms: _Doubles, labels: _Integers, outcomes: _Integers
    ) -> None: ...
    def kbest(
        self,
        k: int,
        rows_before: _Integers,
        labels: _Integers,
        scores: _Doubles,
        path_counts: _Integers,
    ) -> None: ...
    def count_paths(self, k: int, path_counts: _Integers) -> None: ...
    def score(self, labels: _Integers, scores: _Doubles, outcomes: _Integers) -> None: ...

class ChainFloat32(ChainFloat64): ...

# ctc/loss.cpp
class CtcFloat64:
    def __init__(
        self,
        input: NDArray[Any],
        targets: _Integers,
        input_lengths: _Integers,
        target_lengths: _Integers,
        blank: int,
        logits: bool,
        threads: int,
    ) -> None: ...
    def forward(self, loss: NDArray[Any], log_norm: NDArray[Any], alpha: NDArray[Any]) -> None: ...
    def backward(
        self,
        log_norm: NDArray[Any],
        alpha: NDArray[Any],
        loss: NDArray[Any],
        weight: NDArray[Any],
        gradient: NDArray[Any],
    ) -> None: ...

class CtcFloat32(CtcFloat64): ...

# ctc/decode.cpp; log_probs is (B, T, V).
_Hypotheses: TypeAlias = tuple[_Integers, _Integers, _Doubles, _Integers, _Integers]

def ctc_align(
    log_probs: NDArray[Any],
    targets: _Integers,
    lengths: _Integers,
    target_lengths: _Integers,
    blank: int,
    threads: int,
    labels: _Integers,
    starts: _Integers,
    ends: _Integers,
    confidence: _Doubles,
    score: _Doubles,
) -> None: ...
def ctc_greedy(
    log_probs: NDArray[Any], lengths: _Integers, blank: int, threads: int
) -> _Hypotheses: ...
def ctc_beam_search(
    log_probs: NDArray[Any],
    lengths: _Integers,
    blank: int,
    width: int,
    k: int,
    min_log_prob: float,
    threads: int,
) -> _Hypotheses: ...

# ctc/ngram.cpp
class NgramModel:
    longest_run: int
    order: int
    counts: list[int]
    def __contains__(self, word: str) -> bool: ...
    def words(self) -> list[str]: ...
    def start(self, bos: bool) -> int: ...
    def step(self, state: int, word: str) -> tuple[float, int, bool]: ...
    def full_scores(
        self, words: list[str], bos: bool, eos: bool
    ) -> list[tuple[float, int, bool]]: ...

class ArpaReader:
    def __init__(self) -> None: ...
    def feed(self, block: bytes) -> None: ...
    def finish(self) -> NgramModel: ...

# ngram/training.cpp
class NgramTraining:
    tokens: int
    types: int
    lines: int
    written: int
    def __init__(
        self,
        *,
        order: int,
        characters: bool,
        skip_symbols: bool,
        decimals: int,
        memory: int,
        threads: int,
        folder: str,
    ) -> None: ...
    def feed(self, block: bytes) -> None: ...
    def end_text(self) -> None: ...
    def estimate(
        self, thresholds: list[int], fallback: tuple[float, float, float] | None
    ) -> None: ...
    def next_block(self) -> bytes: ...
    def levels(self) -> list[tuple[int, int, list[float], bool]]: ...
    def close(self) -> None: ...

# ctc/words.cpp. A transcript is (words, starts, ends, acoustic score, bonus, state).
_Transcript: TypeAlias = tuple[list[str], list[int], list[int], float, float, Any]

class CtcWords:
    def __init__(
        self,
        pieces: list[tuple[str, bool, bool]],
        options: tuple[float, float, float, float, float, float, int, int, int],
        model: NgramModel | None,
        foreign: Callable[[Any], Any] | None,
        vocabulary: list[str] | None,
        hot_words: list[str],
        bounded: bool,
    ) -> None: ...
    def allow(self, words: list[str], spellings: list[list[int]] | None) -> None: ...
    def decode_float32(
        self,
        batch: list[NDArray[np.float32]],
        logits: bool,
        k: int,
        only_best: bool,
        timed: bool,
        threads: int,
        start: Any,
    ) -> list[list[_Transcript]]: ...
    def decode_float64(
        self,
        batch: list[NDArray[np.float64]],
        logits: bool,
        k: int,
        only_best: bool,
        timed: bool,
        threads: int,
        start: Any,
    ) -> list[list[_Transcript]]: ...

class CtcStreamFloat64:
    def __init__(self, words: CtcWords, logits: bool) -> None: ...
    def feed(self, frames: NDArray[Any]) -> int: ...
    def partial(self) -> tuple[str, str]: ...
    def finish(self, k: int) -> list[_Transcript]: ...

class CtcStreamFloat32(CtcStreamFloat64): ...

# graph/graph.cpp and graph/grid.cpp
class Graph:
    def __init__(
        self, cardinality: _Integers, begin: _Integers, scope: _Integers, table: _Integers
    ) -> None: ...
    def plan(self, most_entries: float) -> tuple[bool, int, float]: ...
    def exact(
        self,
        tables: _Doubles,
        log_z: _Doubles,
        variable: _Doubles | None,
        factor: _Doubles | None,
        threads: int,
    ) -> None: ...
    def best(self, tables: _Doubles, score: _Doubles, labels: _Integers, threads: int) -> None: ...
    def sample(
        self, tables: _Doubles, uniforms: _Doubles, labels: _Integers, threads: int
    ) -> bool: ...
    def propagate(
        self,
        tables: _Doubles,
        weight: _Doubles,
        max_product: bool,
        residual: bool,
        damping: float,
        tolerance: float,
        max_iterations: int,
        threads: int,
        variable: _Doubles,
        factor: _Doubles | None,
        log_v: _Doubles,
        log_f: _Doubles,
        messages: _Doubles,
    ) -> tuple[int, float, bool, bool]: ...
    def score(self, tables: _Doubles, labels: _Integers) -> float: ...
    def conditionals(self, tables: _Doubles, labels: _Integers, out: _Doubles) -> None: ...
    def climb(self, tables: _Doubles, labels: _Integers, max_sweeps: int) -> tuple[int, bool]: ...
    def gibbs(
        self,
        tables: _Doubles,
        chains: int,
        sweeps: int,
        uniforms: _Doubles,
        labels: _Integers,
        kept: _Integers,
        score: _Doubles,
        threads: int,
    ) -> None: ...
    def mean_field(
        self, tables: _Doubles, q: _Doubles, max_sweeps: int, tolerance: float
    ) -> tuple[int, float, float]: ...

class Grid:
    def __init__(
        self,
        unary: _Doubles,
        horizontal: _Doubles,
        vertical: _Doubles,
        max_product: bool,
        damping: float,
        tolerance: float,
        max_sweeps: int,
        threads: int,
        horizontal_weight: float = 1.0,
        vertical_weight: float = 1.0,
    ) -> None: ...
    def report(self) -> tuple[int, float, bool]: ...
    def beliefs(self, out: _Doubles) -> bool: ...
    def messages(self, out: _Doubles) -> None: ...

# features/: sparse rows are (begin, id); those of ready features are (begin, id, value or None).
_Rows: TypeAlias = tuple[_Integers, NDArray[np.int32]]
_ReadyRows: TypeAlias = tuple[_Integers, NDArray[np.int32], _Doubles | None]
_Strings: TypeAlias = tuple[NDArray[np.int8], _Integers]

class Extractor:
    attributes: int
    longest_run: int
    edge_attributes: int
    key_size: int
    def __init__(
        self,
        fields: list[tuple[int, str, int]],
        templates: list[tuple[int, bool, list[tuple[int, int, int]]]],
        outside: Any,
        gazetteers: list[tuple[int, int, list[list[str]]]],
        flag: str,
        derive: Callable[[int, str], str | None],
    ) -> None: ...
    def learn(self, sequences: Any) -> tuple[_Rows, _Rows]: ...
    def extract(self, sequences: Any, threads: int) -> tuple[_Rows, _Rows]: ...
    def keys(self, edge: bool) -> NDArray[np.uint32]: ...
    def strings(self, raw: bool) -> _Strings: ...
    def restore(
        self,
        values: list[str],
        raw: list[str],
        keys: NDArray[np.uint32],
        edge_keys: NDArray[np.uint32],
    ) -> None: ...
    def add_names(
        self,
        data: NDArray[np.uint8],
        begin: _Integers,
        size: _Integers,
        which: _Integers,
        literals: list[list[str]],
        numbers: list[int],
        edge: bool,
    ) -> _Integers: ...

class ItemSequence:
    def __init__(self, sequence: Any) -> None: ...
    def items(self) -> list[dict[str, float]]: ...
    def __len__(self) -> int: ...

class Vocabulary:
    longest_run: int
    def learn(self, sequences: Any) -> _ReadyRows: ...
    def learn_items(self, items: ItemSequence) -> _ReadyRows: ...
    def find(self, sequences: Any, threads: int) -> _ReadyRows: ...
    def strings(self) -> _Strings: ...
    def restore(self, names: list[str]) -> None: ...
    def restore_from(self, data: NDArray[np.uint8], begin: _Integers, size: _Integers) -> None: ...
    def __len__(self) -> int: ...

# loglinear/tagger.cpp
class Tagger:
    def __init__(self, vocabulary: Vocabulary, scorer: Scorer, labels: tuple[Any, ...]) -> None: ...
    def set(self, sequence: Any) -> None: ...
    def best(self) -> list[Any]: ...
    def scores(self) -> _Doubles: ...
    def __len__(self) -> int: ...

# formats/formats.cpp
def make_cqdb(data: NDArray[np.uint8], ends: _Integers) -> NDArray[np.uint8]: ...
def repeated(data: NDArray[np.uint8], begin: _Integers, size: _Integers) -> int: ...
def split_weights(
    number: _Integers,
    weight: _Doubles,
    begin: _Integers,
    states: NDArray[np.uint8],
    bare: NDArray[np.uint8],
    labels: int,
) -> tuple[
    tuple[_Integers, _Integers, NDArray[np.uint16]],
    tuple[_Integers, _Integers, NDArray[np.int32]],
    _Doubles,
    _Integers,
    _Doubles,
]: ...

class WeightReader:
    lines: int
    kept: int
    def __init__(self, indexed: bool, index: _Integers, weight: _Doubles) -> None: ...
    def feed(self, block: bytes) -> tuple[str, bytes]: ...

# loglinear/loglinear.cpp
class SparseRows:
    def __init__(self, begin: _Integers, id: NDArray[np.int32], value: _Doubles | None) -> None: ...

class WeightLayout:
    def __init__(
        self,
        labels: int,
        state_begin: _Integers,
        state_label: NDArray[np.uint16],
        bigram: NDArray[np.int32],
        edge_begin: _Integers | None,
        edge_bigram: NDArray[np.int32] | None,
        trigram: _Integers | None = None,
    ) -> None: ...

class PairStates:
    begin: NDArray[np.int32]
    last: NDArray[np.int32]
    previous: NDArray[np.int32]
    def __init__(self, labels: int, trigram: _Integers) -> None: ...
    def __len__(self) -> int: ...
    def transitions(self, bigrams: _Doubles, trigrams: _Doubles, out: _Doubles) -> None: ...

class TrainingData:
    def __init__(
        self,
        weights: WeightLayout,
        rows: SparseRows,
        edges: SparseRows | None,
        row_begin: _Integers,
        label: NDArray[np.int32],
        allowed: NDArray[np.bool_] | None,
        weight: _Doubles | None,
        cost: _Doubles | None,
        forbidden: NDArray[np.bool_] | None,
        start: _Doubles | None,
        end: _Doubles | None,
    ) -> None: ...

class Objective:
    infeasible: int
    log_likelihood: list[float]
    def __init__(self, data: TrainingData, by_step: bool) -> None: ...
    def evaluate(self, w: _Doubles, l2: float, threads: int, gradient: _Doubles) -> float: ...

class Online:
    def __init__(self, data: TrainingData) -> None: ...
    def sgd(
        self, order: _Integers, lam: float, t0: float, done: int, v: _Doubles, scale: float
    ) -> tuple[float, float]: ...
    def perceptron(
        self,
        order: _Integers,
        w: _Doubles,
        total: _Doubles,
        steps: int,
        sequence_errors: _Integers | None = None,
    ) -> tuple[int, int]: ...
    def passive_aggressive(
        self,
        order: _Integers,
        variant: int,
        aggressiveness: float,
        count_errors: bool,
        w: _Doubles,
        total: _Doubles,
        steps: int,
    ) -> tuple[float, int]: ...
    def arow(self, order: _Integers, gamma: float, w: _Doubles, variance: _Doubles) -> float: ...

class Scorer:
    def __init__(self, weights: WeightLayout, w: _Doubles) -> None: ...
    def scores(self, rows: SparseRows, threads: int, out: _Doubles) -> None: ...
    def transitions(
        self, edges: SparseRows | None, forbidden: NDArray[np.bool_] | None, out: _Doubles
    ) -> None: ...

def seen(
    rows: SparseRows,
    attributes: int,
    cells: int,
    cell: NDArray[np.int32],
    allowed: NDArray[np.bool_] | None,
    weight: _Doubles | None,
    min_sum: float,
) -> tuple[_Integers, NDArray[np.int32]]: ...

# optim/optim.cpp
def dot(a: _Doubles, b: _Doubles, threads: int) -> float: ...
def step(w: _Doubles, d: _Doubles, t: float, out: _Doubles, threads: int) -> None: ...
def pseudo_gradient(
    w: _Doubles, gradient: _Doubles, l1: _Doubles, out: _Doubles, threads: int
) -> float: ...
def project_direction(pseudo: _Doubles, l1: _Doubles, d: _Doubles, threads: int) -> float: ...
def orthant_step(
    w: _Doubles,
    d: _Doubles,
    t: float,
    pseudo: _Doubles,
    l1: _Doubles,
    out: _Doubles,
    threads: int,
) -> tuple[float, float]: ...

class LbfgsMemory:
    def __init__(self, n: int, capacity: int) -> None: ...
    def __len__(self) -> int: ...
    def push(
        self,
        w: _Doubles,
        w_before: _Doubles,
        gradient: _Doubles,
        gradient_before: _Doubles,
        q: _Doubles,
        threads: int,
    ) -> tuple[float, float, bool]: ...
    def append(self, s: _Doubles, y: _Doubles, threads: int) -> None: ...
    def project(self, q: _Doubles, threads: int) -> None: ...
    def direction(self, q: _Doubles, d: _Doubles, threads: int) -> float: ...
    def clear(self) -> None: ...
    def pairs(self) -> list[tuple[_Doubles, _Doubles]]: ...

# embedding/corpus.cpp
def subword_ids(
    words: list[str] | list[bytes], minn: int, maxn: int, bucket: int
) -> tuple[_Integers, NDArray[np.int32]]: ...
def subwords(word: str | bytes, minn: int, maxn: int) -> list[str]: ...
def word_hashes(words: list[str] | list[bytes]) -> NDArray[np.uint32]: ...

# embedding/text_predictor.cpp
class TextPredictor:
    def __init__(
        self,
        words: list[bytes],
        labels: list[bytes],
        minn: int,
        maxn: int,
        word_ngrams: int,
        bucket: int,
        kept: Any,
        input: NDArray[np.uint8],
        centroids: NDArray[np.float32] | None,
        width: int,
        norm_codes: NDArray[np.uint8] | None,
        norms: NDArray[np.float32] | None,
        output: NDArray[np.float32],
        loss: str,
        label_counts: Any,
    ) -> None: ...
    def best(
        self, texts: Any, k: int, threshold: float, threads: int
    ) -> list[list[tuple[int, float]]]: ...
    def best_of_lines(
        self, lines: list[bytes], prefix: bytes, k: int, threshold: float, threads: int
    ) -> list[list[tuple[int, float]]]: ...
    def split(self, line: bytes, prefix: bytes) -> tuple[list[bytes], list[int]]: ...
    def mean(self, line: bytes, prefix: bytes) -> tuple[NDArray[np.float32], int]: ...

# embedding/corpus.cpp and training.cpp
class Corpus:
    def __init__(self, threads: int, end_words: bool = False, memory: int = ...) -> None: ...
    def add_text(self, text: bytes) -> None: ...
    def end_text(self) -> None: ...
    def add_sentences(self, sentences: list[Any], first: int) -> None: ...
    def finish(self) -> None: ...
    def common_words(
        self, min_count: int, max_words: int
    ) -> tuple[NDArray[np.int8], _Integers, _Integers, NDArray[np.int32]]: ...
    def number(self, numbers: NDArray[np.int32]) -> None: ...
    def chunk_words(self) -> _Integers: ...
    @property
    def words(self) -> int: ...
    @property
    def lines(self) -> int: ...
    @property
    def longest_run(self) -> int: ...
    @property
    def types(self) -> int: ...

def alias_cells(weights: _Doubles) -> NDArray[np.uint32]: ...
def huffman(
    counts: _Integers,
) -> tuple[_Integers, NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]: ...
def embedding_table(rows: int, dim: int) -> NDArray[np.float32]: ...
def fill_table(
    table: NDArray[np.float32],
    begin: int,
    end: int,
    dim: int,
    range: float,
    seed: int,
    threads: int,
) -> None: ...
def row_means(
    table: NDArray[np.float32],
    begin: _Integers,
    row: NDArray[np.int32],
    out: NDArray[np.float32],
    threads: int,
) -> None: ...
def embedding_step(
    hidden: NDArray[np.float32],
    rows: NDArray[np.float32],
    label: NDArray[np.float32],
    weight: NDArray[np.float32],
    softmax_target: int,
    rate: float,
) -> float: ...

class EmbeddingTrainer:
    def __init__(
        self,
        input: NDArray[np.float32],
        output: NDArray[np.float32],
        vocabulary: int,
        rows_begin: _Integers | None,
        row: NDArray[np.int32] | None,
        keep: NDArray[np.uint32] | None,
        noise: NDArray[np.uint32] | None,
        path_begin: _Integers | None,
        path_node: NDArray[np.int32] | None,
        path_right: NDArray[np.uint8] | None,
        loss: int,
        cbow: bool,
        shared: bool,
        window: int,
        negatives: int,
        shrink: bool,
        sum: bool = False,
        hot_nodes: int = 0,
        hot_for: int = 1,
    ) -> None: ...
    def sentences(self, **options: Any) -> tuple[float, float]: ...
    def texts(self, **options: Any) -> tuple[float, float]: ...

# embedding/nearest.cpp
def nearest(
    rows: NDArray[np.float32],
    scale: NDArray[np.float32],
    queries: NDArray[np.float32],
    threads: int,
    scores: NDArray[np.float32],
    ids: _Integers,
    coarse: tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]] | None = None,
) -> None: ...
def coarse_rows(
    rows: NDArray[np.float32],
    scale: NDArray[np.float32],
    threads: int,
    code: NDArray[np.int8],
    step: NDArray[np.float32],
    error_bound: NDArray[np.float32],
) -> None: ...
def assign(
    points: NDArray[np.float32],
    begin: int,
    centroids: NDArray[np.float32],
    group: int,
    codes: NDArray[np.uint8],
    threads: int,
) -> None: ...
def vector_rows(
    block: bytes, text: bool, out: NDArray[np.float32]
) -> tuple[_Integers, int, str]: ...

# text/words.cpp
unicode_version: str

def tokens(text: str) -> list[str]: ...
def token_offsets(text: str) -> list[tuple[int, int]]: ...
def word_boundaries(text: str) -> list[int]: ...
