"""``equigeo evaluate`` of an image classifier."""

from __future__ import annotations

import argparse

from equigeo.cli.class_table import class_table
from equigeo.cli.note_unfinished import note_unfinished
from equigeo.cli.write_json import write_json
from equigeo.training import TrainedImageClassifier, evaluate_image_classifier


def evaluate_images(options: argparse.Namespace) -> None:
    """Print accuracy by class and the change of the logits.

    Parameters
    ----------
    options : argparse.Namespace
        Of the command.

    Raises
    ------
    ValueError
        If a file or the data cannot be used.
    """
    trained = TrainedImageClassifier.load(options.checkpoint)
    note_unfinished(trained)
    evaluation = evaluate_image_classifier(
        trained,
        options.test or "affnist",
        options.images,
        data=options.data,
        split=options.split,
    )
    print(f"{evaluation.test}, {evaluation.images} images of the {evaluation.split} digits")
    print(class_table(evaluation.classes, evaluation.confusion, "images"))
    print(
        f"\nequivariance error {evaluation.logit_change:.3f}: root mean square change of the "
        "logits under affNIST's\ntransformations / their deviation across centred digits"
    )
    write_json(options.json, evaluation.to_dict())
