"""``equigeo evaluate`` of an image classifier."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from equigeo.cli.class_table import class_table
from equigeo.training import TrainedImageClassifier, evaluate_image_classifier
from equigeo.training.atomic_write import atomic_write


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
    done, epochs = len(trained.history), trained.config.recipe.epochs
    if done < epochs:
        print(f"note: this run has finished {done} of {epochs} epochs", file=sys.stderr)
    evaluation = evaluate_image_classifier(
        trained,
        options.test or "affnist",
        options.images,
        data=None if options.data is None else str(Path(options.data)),
        split=options.split,
    )
    print(f"{evaluation.test}, {evaluation.images} images of the {evaluation.split} digits")
    print(class_table(evaluation.classes, evaluation.confusion, "images"))
    print(
        f"\nequivariance error {evaluation.logit_change:.3f}: root mean square change of the "
        "logits under affNIST's\ntransformations / their deviation across centred digits"
    )
    if options.json:
        text = json.dumps(evaluation.to_dict(), indent=1) + "\n"
        atomic_write(options.json, lambda file: file.write(text.encode()))
