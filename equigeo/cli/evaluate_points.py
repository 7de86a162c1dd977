"""``equigeo evaluate`` of a classifier of point clouds."""

from __future__ import annotations

import argparse

from equigeo.cli.class_table import class_table
from equigeo.cli.copies_table import copies_table
from equigeo.cli.note_unfinished import note_unfinished
from equigeo.cli.write_json import write_json
from equigeo.training import TrainedPointClassifier, evaluate_point_classifier


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
    write_json(options.json, evaluation.to_dict())
