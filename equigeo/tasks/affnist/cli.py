"""Command-line task for affNIST."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import nn

from equigeo.datasets.digits.read_image import IMAGE_FORMATS
from equigeo.tasks.affnist.config import ImageConfig
from equigeo.tasks.affnist.data import Digits
from equigeo.tasks.affnist.evaluate import IMAGE_TESTS, evaluate_image_classifier
from equigeo.tasks.affnist.models import IMAGE_MODELS
from equigeo.tasks.affnist.train import plan_fit
from equigeo.tasks.affnist.trained import TrainedImageClassifier, classify_image
from equigeo.tasks.arguments import Argument, positive
from equigeo.tasks.evaluation_output import EvaluationOutput
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.task import Task
from equigeo.tasks.text import class_table
from equigeo.training.loop.fit_plan import FitPlan


class AffNISTClassification(Task[ImageConfig, Digits, TrainedImageClassifier]):
    """Classify transformed digits after training on centred ones.

    Examples
    --------
    >>> AffNISTClassification().name
    'affnist'
    """

    help = "classify transformed digits after training on centred ones"
    example_data = "mnist"
    data_remedy = "the folder with the files of MNIST"
    train_arguments = (
        Argument("--data", "folder with the four files of MNIST", metavar="DIR"),
        Argument(
            "--digits", "train on the first N digits (default: all)", positive, metavar="N",
            unit="digits",
        ),
        Argument(
            "--test-images", "transformed digits to evaluate on (default: 20000)", positive,
            metavar="N", unit="digits",
        ),
        Argument(
            "--holdout",
            "evaluate on transformed validation digits, and leave the test digits unseen",
            constant=True,
        ),
    )  # fmt: skip
    evaluate_arguments = (
        Argument("--data", "default: the training data of the model", metavar="DIR"),
        Argument("--split", "affnist: validation or test digits", choices=("validation", "test")),
        Argument(
            "--test", "how digits are transformed (default: affnist)", choices=IMAGE_TESTS
        ),
        Argument(
            "--images", "how many transformed digits (default: 20000; there are 320000)", positive,
            metavar="N", unit="digits",
        ),
    )  # fmt: skip
    measures = {  # noqa: RUF012
        "test_accuracy": "{part} accuracy {value:.2%}",
        "logit_change": "equivariance error {value:.3f}: change of the logits / deviation",
    }
    files = "BMP, JPEG, PGM or PNG"
    suffixes = tuple(IMAGE_FORMATS)
    trained_type = TrainedImageClassifier

    def load(self, config: ImageConfig) -> Digits:
        """Load the training digits and the evaluation digits."""
        return Digits.load(config)

    def describe(self, config: ImageConfig, data: Digits) -> str:
        """Return the numbers of digits."""
        digits = f"{config.digits} digits" if config.digits else "all training digits"
        return f"{digits} of {config.data}, {config.preset} preset"

    def plan(self, config: ImageConfig, data: Digits, model: nn.Module | None = None) -> FitPlan:
        """Build the model."""
        return plan_fit(config, data, model)

    def preset_model(self, config: ImageConfig) -> Any:
        """Build the preset's model."""
        return IMAGE_MODELS[config.preset].preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedImageClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
        """Compute accuracy per class and the change of the logits."""
        evaluation = evaluate_image_classifier(
            trained,
            options.test or "affnist",
            options.images,
            data=options.data,
            split=options.split,
        )
        text = (
            f"{evaluation.test}, {evaluation.images} images of the {evaluation.split} digits\n"
            f"{class_table(evaluation.classes, evaluation.confusion, 'images')}\n\n"
            f"equivariance error {evaluation.logit_change:.3f}: root mean square change of the "
            "logits under affNIST's\ntransformations / their deviation across centred digits"
        )
        return EvaluationOutput(text, evaluation.to_dict())

    def predict(
        self, trained: TrainedImageClassifier, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        """Classify an image file."""
        if view:
            raise ValueError("--view shows meshes; an image has no faces")
        return classify_image(trained, path, top)
