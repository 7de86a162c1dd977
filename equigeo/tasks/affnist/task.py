"""Configuration, data, fit, evaluation and command-line task of affNIST."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.brief import brief_fields
from equigeo._core.config import Config, within
from equigeo.affine import AffineResNet
from equigeo.datasets import AffNIST, HomNIST, digit_canvas, load_digits, read_image
from equigeo.datasets.digits.readers import IMAGE_FORMATS
from equigeo.datasets.digits.transformed import centred
from equigeo.tasks.common.arguments import Argument, class_table, positive
from equigeo.tasks.common.measures import classify, confusion_matrix, ranking, relative_change
from equigeo.tasks.task import Evaluation, EvaluationOutput, FilePrediction, Task
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledSource, digest
from equigeo.training.objective import CrossEntropy, FitPlan
from equigeo.training.trained_model import TrainedModel

_SHORT: Final = Recipe(
    epochs=8, batch_size=64, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
    weight_decay=0.01, label_smoothing=0.05,
)  # fmt: skip

IMAGE_RECIPES: Final[dict[str, Recipe]] = {
    "default": _SHORT,
    "cnn": _SHORT,
    # As released with the published affine networks, except that the rate falls after every step
    # instead of every epoch, to 0 instead of 1e-7.
    "paper": Recipe(
        epochs=50, batch_size=128, learning_rate=2e-4, optimizer="adam", schedule="cosine",
        weight_decay=5e-3,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class ImageConfig(RunConfig):
    """Configuration of a run on affNIST, saved as ``config.json``.

    Training digits are centered and not transformed; test digits are transformed.

    Parameters
    ----------
    data : str, folder with the files of MNIST
    recipe, seed, devices, evaluate_every
        See ``RunConfig``; the jitter of the recipe must be 0.
    preset : str
        Model and recipe; ``cnn`` is equivariant only to translations.
    holdout : bool
        Evaluate on transformed validation digits instead of test digits.
    digits : int, number of training digits; 0 for all
    test_images : int, number of transformed digits to evaluate on

    Examples
    --------
    >>> config = ImageConfig("mnist", holdout=True)
    >>> ImageConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = IMAGE_RECIPES["default"]
    preset: Literal["default", "cnn", "paper"] = "default"
    holdout: bool = False
    digits: int = within(0, 10**6, default=0)
    test_images: int = within(1, 10**7, default=20_000)

    recipes: ClassVar[Mapping[str, Recipe]] = IMAGE_RECIPES
    unused: ClassVar[tuple[str, ...]] = (*RunConfig.unused, "jitter")
    samples: ClassVar[str] = "images"

    @property
    def evaluated_split(self) -> Literal["validation", "test"]:
        """Name of the split of digits that are transformed for evaluation."""
        return "validation" if self.holdout else "test"


def image_inputs(
    images: Tensor,  # (images, height, width) uint8, background 0
) -> Tensor:
    """Scale gray values to [0, 1] and add a channel axis, (images, 1, height, width) float32."""
    # in place: `float` has made a copy already
    return images.float().div_(255).unsqueeze(1)


@dataclass(frozen=True, eq=False)
class LabelledImages(LabelledSource):
    """Source of labeled images, converted to floats per batch."""

    images: Tensor  # (images, height, width) uint8, on the CPU
    labels: Tensor  # (images,)

    __repr__ = brief_fields

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        return image_inputs(self.images[chosen])

    def digests(self) -> Tensor:
        found = torch.tensor([digest(image) for image in self.images])
        return torch.stack([found, self.labels], dim=1)


@dataclass(frozen=True, eq=False)
class Digits:
    """Training and evaluation digits of a run.

    Examples
    --------
    >>> images, labels = torch.ones(2, 28, 28, dtype=torch.uint8), torch.tensor([0, 1])
    >>> train = LabelledImages(centred(images), labels)
    >>> len(Digits(train, AffNIST(images, labels, "test")).train)
    2
    """

    train: LabelledImages
    evaluated: AffNIST

    __repr__ = brief_fields

    @classmethod
    def load(cls, config: ImageConfig) -> Digits:
        """Load the digits of a configuration; with ``holdout``, the test digits are not read."""
        images, labels = load_digits(config.data, "train")
        number = config.digits or len(images)
        if number > len(images):
            raise ValueError(
                f"{config.data}: has {len(images)} training digits, not {number}; "
                "request fewer with --digits"
            )
        split = config.evaluated_split
        evaluated = AffNIST(*load_digits(config.data, split), split)
        return cls(LabelledImages(centred(images[:number]), labels[:number]), evaluated)


@dataclass(frozen=True)
class PlainCNNConfig(Config):
    """Configuration of a ``PlainCNN``.

    Parameters
    ----------
    widths : tuple of int, channels at each resolution
    blocks : int, residual blocks at each resolution
    """

    num_classes: int = within(0, 10**6, above=True)
    widths: tuple[int, ...] = within(0, 65_536, above=True, default=(16, 32, 64))
    blocks: int = within(0, 256, above=True, default=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise ValueError("the number of widths must be positive, got ()")


class PlainCNN(nn.Module):
    """Residual convolutional network, equivariant only to translations.

    A 5 x 5 convolution, residual blocks of two 3 x 3 convolutions with batch normalization, half
    the resolution from one width to the next, and a global maximum. The defaults take 0.09 GFLOP
    for an image of 40 x 40, as the default :class:`equigeo.affine.AffineResNet` does.

    Examples
    --------
    >>> model = PlainCNN.preset("cnn", num_classes=10).eval()
    >>> model(torch.rand(2, 1, 40, 40)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: PlainCNNConfig) -> None:
        super().__init__()
        self.config, widths = config, config.widths
        layers: list[nn.Module] = [_convolution(1, widths[0], 5), nn.ReLU()]
        for before, width in zip((widths[0], *widths[:-1]), widths, strict=True):
            if len(layers) > 2:  # the first width stays at full resolution
                layers += [nn.MaxPool2d(2), _convolution(before, width, 1), nn.ReLU()]
            layers += [_Block(width) for _ in range(config.blocks)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], config.num_classes)

    @classmethod
    def preset(cls, name: str, num_classes: int = 10) -> PlainCNN:
        """Build the only preset, ``"cnn"``."""
        if name != "cnn":
            raise ValueError(f"preset must be 'cnn', got {name!r}")
        return cls(PlainCNNConfig(num_classes))

    @classmethod
    def from_config(cls, config: PlainCNNConfig | Mapping[str, Any]) -> PlainCNN:
        """Build from ``config`` or from its ``to_dict``."""
        if isinstance(config, PlainCNNConfig):
            return cls(config)
        return cls(PlainCNNConfig.from_dict(config))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (images, classes) of gray values in [0, 1], (images, 1, height, width)."""
        return self.head(torch.amax(self.body(images), dim=(2, 3)))


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(width, width, 3), _convolution(width, width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


def _convolution(channels_in: int, channels_out: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, size, padding=size // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )


# Each has ``preset(name, num_classes)``, ``from_config(config)`` and a ``config`` with
# ``num_classes``, and takes (images, 1, 40, 40) in [0, 1].
IMAGE_MODELS: Final[dict[str, Any]] = {
    "default": AffineResNet,
    "paper": AffineResNet,
    "cnn": PlainCNN,
}


IMAGES_AT_ONCE: Final = 1000  # transformed images in memory
_BATCH_SIZE: Final = 100


def image_logits(
    model: nn.Module,
    images: Tensor,  # (images, height, width) uint8
) -> Tensor:
    """Compute logits in evaluation mode, (images, classes) on the CPU, a hundred at a time."""
    return classify(model, (image_inputs(part) for part in images.split(_BATCH_SIZE)))


def image_confusion(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],  # (images, height, width) uint8, (images,)
    num_classes: int,
) -> Tensor:
    """Count images by true and predicted class, (true classes, predicted classes)."""
    counts = torch.zeros(num_classes, num_classes, dtype=torch.long)
    for images, labels in batches:
        predictions = image_logits(model, images).argmax(dim=1)
        counts += confusion_matrix(labels, predictions, num_classes)
    return counts


def logit_change(model: nn.Module, data: AffNIST, number: int = 1000) -> float:
    """Return the RMS change of logits under affNIST's transformations; 0 for an invariant model.

    Each of ``number`` digits (at least 2) is compared with its centered original. The change is
    relative to the standard deviation of the logits across centered digits.

    Examples
    --------
    >>> digits = torch.zeros(2, 28, 28, dtype=torch.uint8)
    >>> digits[:, 6:22, 13:15] = 255
    >>> data = AffNIST(digits, torch.tensor([1, 1]), "test")
    >>> unaware = nn.Sequential(nn.Flatten(), nn.Linear(40 * 40, 10))
    >>> logit_change(unaware, data) > 0.1
    True
    """
    # one transformed version of each digit, beside its centered original
    indices, variants = data.pairs(data.spread(min(number, len(data.images))))
    if len(indices) < 2:
        raise ValueError(f"the change of logits needs at least 2 digits, got {len(indices)}")
    original = image_logits(model, centred(data.images[indices]))
    return relative_change(original, image_logits(model, data.render(indices, variants)))


DIGITS: Final = tuple("0123456789")


def _evaluate(data: AffNIST, positions: Tensor, model: nn.Module) -> dict[str, float]:
    batches = map(data.batch, positions.split(IMAGES_AT_ONCE))
    confusion = image_confusion(model, batches, len(DIGITS))
    return {
        "test_accuracy": float(confusion.diagonal().sum()) / len(positions),
        "logit_change": logit_change(model, data),
    }


class TrainedImageClassifier(TrainedModel[ImageConfig]):
    """Trained image classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "affnist", "image classifier", ImageConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return IMAGE_MODELS[config.preset].from_config(model)

    def logits(self, images: Tensor) -> Tensor:
        """Return logits (images, classes) of uint8 images (images, 40, 40) with background 0."""
        if len(images) == 0:
            return torch.zeros(0, len(self.classes))
        return image_logits(self.model, images)


IMAGE_TESTS: Final = ("affnist", "homnist", "centred")


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
    >>> model = PlainCNN.preset("cnn", 10).eval()  # not trained
    >>> trained = TrainedImageClassifier(model, DIGITS, ImageConfig("mnist"), "0.2.0")
    >>> evaluate_image_classifier(trained, "homnist", data="nowhere")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: nowhere: no such folder; expected a folder with the four files of MNIST: ...
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
    most = min(ImageConfig.test_images, len(source))
    positions = source.spread(most if number is None else number)
    parts = positions.split(IMAGES_AT_ONCE)
    batches: Iterable[tuple[Tensor, Tensor]] = map(source.batch, parts)
    if test == "centred":
        batches = ((centred(images[part]), labels[part]) for part in parts)
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
        if model is None:
            model = self._initial_model(config, len(DIGITS))
        # spread over digits and transformations, and the same after every epoch
        evaluate = partial(_evaluate, data.evaluated, data.evaluated.spread(config.test_images))
        objective = CrossEntropy.of(config.recipe, data.train.labels, len(DIGITS))
        return FitPlan(config, model, DIGITS, data.train, objective, evaluate)

    def preset_model(self, config: ImageConfig, num_classes: int = 2) -> Any:
        return IMAGE_MODELS[config.preset].preset(config.preset, num_classes=num_classes)

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
        if top < 1:
            raise ValueError(f"top must be at least 1, got {top}")
        try:
            image, note = digit_canvas(read_image(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        ranked = ranking(trained.classes, trained.logits(image[None])[0], top)
        return FilePrediction(path, ranked, f"{path}: {note}" if note else "")
