"""The conditional random field: p(y | x) = exp(Σₜ w · φ(x, t, yₜ₋₁, yₜ)) / Z(x)."""

from trellis.models.chain.linear import LinearChainModel

__all__ = ["CRF"]


class CRF(LinearChainModel):
    """A linear-chain conditional random field.

    p(y | x) = exp(Σₜ w · φ(x, t, yₜ₋₁, yₜ)) / Z(x), trained to maximise
    Σᵢ log p(yᵢ | xᵢ) - l2/2 ‖w‖² - l1 ‖w‖₁.

    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
    >>> y = [["DET", "NOUN", "VERB"]] * 3
    >>> crf = CRF(l2=0.1).fit(X, y)
    >>> crf.predict([["a", "dog", "sleeps"]])
    [['DET', 'NOUN', 'VERB']]
    >>> crf.predict([["a", "dog", "sleeps"]], known=[[None, {"VERB"}, None]])[0][1]
    'VERB'

    Parameters
    ----------
    features
        How tokens become features: None for built-in ones of ``str`` and tuple tokens and for ready
        ones (dicts, lists of names, arrays); a `trellis.features.Window` or `Spec` (also from CRF++
        and Wapiti templates); or a function that makes ready features of a sequence.
    edge_features
        A function of a sequence that makes, for each position, features of the transition into it:
        φ(x, t, y', y). (A Spec has edge templates for that.)
    l2, l1
        Strengths of the penalties. With l1 > 0 most weights become 0 and are dropped.
    solver
        "lbfgs" (OWL-QN with l1 > 0), "gradient" (plain ascent), "sgd", "perceptron",
        "passive-aggressive" or "arow"; ``solver_options`` are further arguments of its function in
        `trellis.optim`, and ``max_iter`` its limit.
    states, transitions
        Which weights there are: of what was "seen" in training, or of "all" combinations;
        transitions may also be "none".
    min_count
        Features that occur less often with a label are dropped.
    constraints
        A tagging scheme ("BIO", "BILOU", …) or pairs of labels that must not follow each other.
    label_weight
        ``{label: weight}``; above 1, mistakes where this label is right cost more in training: the
        wrong labels' scores are raised by log(weight) there (softmax-margin).
    scoring
        How ``fit(…, dev=…)`` scores: "accuracy" of labels, "sequence_accuracy" or "span_f1".
    early_stopping
        Scores in a row that are not better after which training ends.
    warm_start
        Whether fit goes on from the weights that are there; new data may bring new labels and
        features.

    """

    _by_step = False
