"""A trainer that prints one line for each iteration."""

from typing import Any

from trellis.compat.pycrfsuite import Trainer

__all__ = ["LinePerIterationTrainer"]


class LinePerIterationTrainer(Trainer):
    """`pycrfsuite.Trainer` with short messages and a table of the holdout scores at the end."""

    def on_iteration(self, log: str, info: dict[str, Any] | None) -> None:
        """Print the loss and the holdout scores of an iteration."""
        assert info is not None
        parts = [f"Iter {info['num']:<3} ", f"time={info['time']:<5.2f} "]
        parts.append(f"loss={info.get('loss', float('nan')):<8.2f} ")
        if "active_features" in info:
            parts.append(f"active={info['active_features']:<5} ")
        if "avg_precision" in info:
            accuracies = info["item_accuracy_float"], info["instance_accuracy_float"]
            parts.append(f"precision={info['avg_precision']:0.3f}  ")
            parts.append(f"recall={info['avg_recall']:0.3f}  F1={info['avg_f1']:0.3f}  ")
            parts.append(f"Acc(item/seq)={accuracies[0]:0.3f} {accuracies[1]:0.3f}  ")
        if "feature_norm" in info:
            parts.append(f"feature_norm={info['feature_norm']:<8.2f}")
        print("".join(parts).strip())

    def on_optimization_end(self, log: str) -> None:
        """Print the scores of each label."""
        assert self.logparser is not None
        last_iteration = self.logparser.last_iteration or {}
        if last_iteration.get("scores"):
            print(_format_scores(last_iteration["scores"]))
        super().on_optimization_end(log)


def _format_scores(scores: dict[str, Any]) -> str:
    """Return a table with the scores of each label."""
    width = max(map(len, ("Label", *scores)))
    lines = [f"{'Label':<{width}}  Precision    Recall        F1    Support"]
    for label, score in sorted(scores.items()):
        columns = (f"{value or 0.0:>9.3f}" for value in (score.precision, score.recall, score.f1))
        lines.append(f"{label:<{width}}  {' '.join(columns)}  {score.ref:>9}")
    separator = "=" * len(lines[0])
    return "\n".join([separator, *lines, separator.replace("=", "-")])
