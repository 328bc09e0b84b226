"""The conditional random field: p(y | x) = exp(Σₜ w · φ(x, t, yₜ₋₁, yₜ)) / Z(x).

`LinearChainModel.fit` contains the whole training pipeline. A fitted model computes scores
(fitted.py); the chain engine of `trellis.inference` turns them into labels (decoding.py).
"""

from collections.abc import Callable
from typing import Any, Self

from trellis.checks import check_not_empty, sample_weights, unchanged_on_error
from trellis.data.shards.corpus import Corpus
from trellis.errors import InputError
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.fitted import FittedChain
from trellis.models.chain.joint import learn_joint
from trellis.models.chain.labels import as_array, encode_for_training
from trellis.models.chain.monitoring import Monitor, TrainingRun, read_dev, warn_of_unseen_labels
from trellis.models.chain.parameters import check_parameters
from trellis.models.chain.training import build_problem, solve
from trellis.models.chain.warm_start import initial_classes, initial_features, initial_weights
from trellis.models.chain.weights import WeightRules, choose_weights, drop_unused_attributes
from trellis.optim.display import show_progress
from trellis.optim.result import Progress
from trellis.sequences import label_lists, sequences

__all__ = ["CRF", "LinearChainModel"]


class LinearChainModel(FittedChain):
    """A linear chain model with features. CRF and MEMM differ only in the normaliser."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        dev: Any = None,
        dev_every: int = 1,
        callback: Callable[[Progress], object] | None = None,
        checkpoint: Any = None,
        engine: Any = None,
    ) -> Self:
        """Learn the weights from sequences X and their labels y, or from a `trellis.data.Corpus`.

        A label of ``None`` is unknown. A set of labels means that one of them is correct. The
        likelihood then sums over all labellings that agree with y. ``sample_weight`` is one number
        per sequence. The development set ``dev=(X, y)`` is scored every ``dev_every`` iterations.
        With ``early_stopping=n``, training ends after n scores in a row without improvement, and
        the model gets the weights with the best score. ``callback`` is called after each iteration;
        a truthy return value stops training. A ``checkpoint`` saves the state during training, so
        that training can be resumed after a crash. An ``engine`` computes the gradients of the
        shards of a corpus, by default `trellis.engines.Local`.
        """
        check_parameters(self)
        any_type = self._takes_any_type()
        checkpoint = Checkpoint.at(checkpoint) if isinstance(X, Corpus) else checkpoint
        monitor = Monitor(read_dev(dev, any_type), dev_every, callback, checkpoint)
        monitor.check(self.early_stopping)
        if isinstance(X, Corpus):
            # Imported here, so that commands that load a model start faster.
            from trellis.models.sharded.fitting import fit_corpus

            fit_corpus(self, X, y, sample_weight, engine, monitor)
            return self
        if engine is not None:
            raise InputError("engine needs a trellis.data.Corpus as X, which has shards")
        with unchanged_on_error(self), show_progress(type(self).__name__, self.verbose) as draw:
            X, y = sequences(X, any_type=any_type), label_lists(y)
            self.corpus_layout_ = None  # the layout of an earlier fit does not describe these data
            # Features: tokens become sparse rows of attributes.
            features = initial_features(self, X)
            batch = features.learn(X)
            check_not_empty(batch.lengths)
            # Labels become integers.
            earlier = initial_classes(self)
            labels = encode_for_training(y, batch.lengths, earlier, self.constraints)
            sample_weight = sample_weights(sample_weight, len(X))
            # Weights: of (attribute, label), of pairs and triples of labels, of joint features.
            rules = WeightRules(self.states, self.transitions, self.min_count, self.order)
            batch = learn_joint(features, batch, X, labels, rules, sample_weight)
            layout = choose_weights(batch, features, labels, rules, sample_weight)
            layout, w0 = initial_weights(self, layout, labels.classes)
            batch, layout = drop_unused_attributes(features, batch, layout)
            self.classes_, self.features_, self.layout_ = as_array(labels.classes), features, layout
            # Objective: the core takes its own copy of the data.
            problem = build_problem(self, batch, labels, layout, sample_weight)
            self.l2_ = problem.l2
            warn_of_unseen_labels(monitor.dev, labels.classes)
            run = TrainingRun(self, monitor, draw)
            state = run.resume((*batch.arrays(), labels.label, labels.allowed, sample_weight), w0)
            del batch  # a large corpus must not be in memory twice
            # Solver: minimise the objective from w0, or from the state of a checkpoint.
            run.finish(solve(self, problem, w0, run, state), problem)
            if self.l1 > 0:
                self._prune()
        return self


class CRF(LinearChainModel):
    """A linear-chain conditional random field.

    Training maximises Σᵢ log p(yᵢ | xᵢ) - l2/2 ‖w‖² - l1 ‖w‖₁.

    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
    >>> y = [["DET", "NOUN", "VERB"]] * 3
    >>> crf = CRF(l2=0.1).fit(X, y)
    >>> crf.predict([["a", "dog", "sleeps"]])
    [['DET', 'NOUN', 'VERB']]

    Parameters
    ----------
    features
        A `trellis.features.Window`, a `Spec` (also read from CRF++ and Wapiti templates), or a
        function of a sequence. With None, ``str`` and tuple tokens get built-in features, and
        tokens that are dicts, lists of names or arrays are themselves features.
    edge_features
        Features of the transition into each position: a function of a sequence, `Window` or `Spec`.
    joint
        Joint features, one weight each: a function f(x, i, previous, label), or a list of them;
        ``previous`` is None at position 0. They replace the built-in features.
    order
        With 2, three labels in a row that occur in training have a weight w[yₜ₋₂, yₜ₋₁, yₜ] too.
    l2, l1
        Strengths of the penalties. ``l2="auto"`` chooses a value from the numbers of tokens and
        labels; ``l2_`` is the value used. With l1 > 0, most weights become 0 and are removed.
    solver
        "lbfgs" (OWL-QN with l1 > 0), "gradient" (plain ascent), "sgd", "perceptron",
        "passive-aggressive" or "arow". ``solver_options`` are further arguments of the solver's
        function in `trellis.optim`; ``max_iter`` limits the iterations.
    states, transitions
        The pairs with a weight: those "seen" in training, "all", or for transitions "none".
    min_count
        A feature that occurs less often with a label gets no weight for this label.
    constraints
        A tagging scheme ("BIO", "BILOU", …) or pairs of labels that must not follow each other.
    label_weight
        ``{label: weight}``. With a weight above 1, errors at this label cost more: where it is
        correct, log(weight) is added to the scores of all other labels (softmax-margin).
    scoring, early_stopping
        The metric of ``fit(…, dev=…)``: "accuracy", "sequence_accuracy" or "span_f1"; and the
        number of scores in a row without improvement after which training ends.
    warm_start, verbose
        If True, fit continues from the current weights, and shows its progress.

    """

    kind = "crf"
    normalised_by_step = False
