"""``equigeo evaluate`` of a classifier of point clouds."""

from __future__ import annotations

import argparse

from equigeo.cli.class_table import class_table
from equigeo.cli.copies_table import copies_table
from equigeo.cli.note_unfinished import note_unfinished
from equigeo.cli.write_json import write_json
from equigeo.training import PointEvaluation, TrainedPointClassifier, evaluate_point_classifier


def evaluate_points(options: argparse.Namespace) -> None:
    """Print accuracy by class and what transformations change.

    Parameters
    ----------
    options : argparse.Namespace
        Of the command.

    Raises
    ------
    ValueError
        If a file or the data cannot be used.
    """
    trained = TrainedPointClassifier.load(options.checkpoint)
    note_unfinished(trained)
    evaluation = evaluate_point_classifier(trained, data=options.data, seed=options.seed or 0)
    print(class_table(evaluation.classes, evaluation.confusion, "clouds"))
    print(f"\n{copies_table(evaluation.copies, evaluation.logit_changes)}")
    print("\nequivariance error: change of the logits / their deviation across upright clouds")
    print(f"\n{_summary(evaluation)}")
    write_json(options.json, evaluation.to_dict())


def _summary(evaluation: PointEvaluation) -> str:
    """Put what counts into a few lines."""
    (rotated,) = (copy for copy in evaluation.copies if copy.kind == "rotated")
    number = len(evaluation.labels)
    lines = [
        f"accuracy upright {evaluation.accuracy:.2%}, rotated {rotated.accuracy:.2%}",
        f"equal predictions upright and rotated: {1 - len(rotated.changed) / number:.2%}",
    ]
    if evaluation.flagged is not None:
        share = len(evaluation.flagged) / number
        lines.append(f"flagged by the embedding at default thresholds: {share:.2%}")
    if evaluation.unflagged_accuracy:
        upright, turned = (evaluation.unflagged_accuracy[k] for k in ("upright", "rotated"))
        lines.append(f"without flagged clouds: upright {upright:.2%}, rotated {turned:.2%}")
    return "\n".join(lines)
