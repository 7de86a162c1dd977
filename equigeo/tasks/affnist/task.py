"""Evaluation and command-line task of affNIST."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from torch import Tensor, nn

from equigeo.datasets import AffNIST, HomNIST, load_digits
from equigeo.datasets.digits.readers import IMAGE_FORMATS
from equigeo.datasets.digits.transformed import TransformedDigits, centred
from equigeo.tasks.affnist.run import (
    IMAGE_MODELS,
    IMAGES_AT_ONCE,
    Digits,
    ImageConfig,
    TrainedImageClassifier,
    classify_image,
    image_confusion,
    logit_change,
    plan_fit,
)
from equigeo.tasks.common.arguments import Argument, class_table, positive
from equigeo.tasks.task import Evaluation, EvaluationOutput, FilePrediction, Task
from equigeo.training.plan import FitPlan

IMAGE_TESTS: Final = ("affnist", "homnist", "centred")
DEFAULT_IMAGES: Final = 20_000


@dataclass(frozen=True, repr=False)
class ImageEvaluation(Evaluation):
    """Predictions on transformed digits and the deviation from invariance."""

    test: str
    split: str
    classes: list[str]
    confusion: list[list[int]]  # images by true class (row) and predicted class (column)
    images: int  # number of images
    accuracy: float
    logit_change: float  # RMS over the standard deviation across centered digits


def evaluate_image_classifier(
    classifier: TrainedImageClassifier,
    test: Literal["affnist", "homnist", "centred"] = "affnist",
    number: int | None = None,
    *,
    data: str | None = None,
    split: Literal["validation", "test"] | None = None,
) -> ImageEvaluation:
    """Classify transformed digits and compute the change of the logits under transformations.

    Parameters
    ----------
    number : int, optional
        Default: 20,000, or all if there are fewer. affNIST and homNIST have 320,000 per split.
    data : str, optional
        Folder with the files of MNIST. Default: that of the training.
    split : {"validation", "test"}, optional
        Default: the split that the training evaluated on; ``"test"`` for other data.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from struct import pack
    >>> from equigeo.tasks.affnist import ImageConfig, PlainCNN
    >>> model = PlainCNN.preset("cnn", 10).eval()  # not trained
    >>> trained = TrainedImageClassifier(model, tuple("0123456789"), ImageConfig("mnist"), "0.2.0")
    >>> row = bytes(12) + bytes([255] * 4) + bytes(12)
    >>> with tempfile.TemporaryDirectory() as folder:  # four bars, in the files of MNIST
    ...     file = Path(folder) / "t10k-images-idx3-ubyte"
    ...     _ = file.write_bytes(pack(">4i", 0x803, 4, 28, 28) + 4 * (28 * row))
    ...     file = Path(folder) / "t10k-labels-idx1-ubyte"
    ...     _ = file.write_bytes(pack(">2i", 0x801, 4) + bytes([1] * 4))
    ...     result = evaluate_image_classifier(trained, "centred", data=folder, split="test")
    >>> result.images, sum(result.confusion[1])
    (4, 4)
    """
    if test not in IMAGE_TESTS:
        raise ValueError(f"test must be one of {', '.join(IMAGE_TESTS)}, got {test!r}")
    config = classifier.config
    data = config.data if data is None else data
    split = split or (config.evaluated_split if data == config.data else "test")
    images, labels = load_digits(data, split)
    affnist = AffNIST(images, labels, split)
    # one variant of every digit, where only the digit counts
    source = {"affnist": affnist, "homnist": HomNIST(images, labels, split)}.get(
        test, AffNIST(images, labels, split, variants=range(1))
    )
    positions = source.spread(min(DEFAULT_IMAGES, len(source)) if number is None else number)
    batches = _batches(source, positions, is_centred=test == "centred")
    confusion = image_confusion(classifier.model, batches, len(classifier.classes))
    return ImageEvaluation(
        test=test,
        split=split,
        classes=list(classifier.classes),
        confusion=confusion.tolist(),
        images=len(positions),
        accuracy=float(confusion.diagonal().sum()) / len(positions),
        logit_change=logit_change(classifier.model, affnist),
    )


def _batches(
    source: TransformedDigits, positions: Tensor, is_centred: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    for part in positions.split(IMAGES_AT_ONCE):
        indices, variants = source.pairs(part)
        images = centred(source.images[indices]) if is_centred else source.render(indices, variants)
        yield images, source.labels[indices]


class AffNISTClassification(Task[ImageConfig, Digits, TrainedImageClassifier]):
    """Classify transformed digits after training on centered ones.

    Examples
    --------
    >>> AffNISTClassification().name
    'affnist'
    """

    help = "classify transformed digits after training on centered ones"
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
        return Digits.load(config)

    def describe(self, config: ImageConfig, data: Digits) -> str:
        digits = f"{config.digits} digits" if config.digits else "all training digits"
        return f"{digits} of {config.data}, {config.preset} preset"

    def plan(self, config: ImageConfig, data: Digits, model: nn.Module | None = None) -> FitPlan:
        return plan_fit(config, data, model)

    def preset_model(self, config: ImageConfig) -> Any:
        return IMAGE_MODELS[config.preset].preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedImageClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
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
            "logits under affNIST's\ntransformations / their deviation across centered digits"
        )
        return EvaluationOutput(text, evaluation.to_dict())

    def predict(
        self, trained: TrainedImageClassifier, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        if view:
            raise ValueError("--view shows meshes; an image has no faces")
        return classify_image(trained, path, top)
