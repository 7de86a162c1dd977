"""Evaluation of image classifiers on transformed digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.datasets import AffNIST, HomNIST, load_digits
from equigeo.datasets.digits.centred import centred
from equigeo.datasets.digits.transformed_digits import TransformedDigits
from equigeo.tasks.affnist.logits import IMAGES_AT_ONCE, image_confusion, logit_change
from equigeo.tasks.affnist.trained import TrainedImageClassifier

IMAGE_TESTS: Final = ("affnist", "homnist", "centred")
DEFAULT_IMAGES: Final = 20_000


@dataclass(frozen=True)
class ImageEvaluation:
    """Predictions on transformed digits and the deviation from invariance."""

    test: str
    split: str
    classes: list[str]
    confusion: list[list[int]]  # images by true class (row) and predicted class (column)
    images: int  # number of images
    accuracy: float
    logit_change: float  # RMS over the standard deviation across centred digits

    __repr__ = brief_fields

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types."""
        return asdict(self)


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
