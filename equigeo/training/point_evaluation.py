"""Results of a classifier of point clouds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from equigeo.training.cloud_copies import CLOUD_COPIES, cloud_copies
from equigeo.training.copy_result import CopyResult
from equigeo.training.point_parts import point_parts
from equigeo.training.relative_change import relative_change
from equigeo.training.trained_point_classifier import TrainedPointClassifier


@dataclass(frozen=True)
class PointEvaluation:
    """Predictions on upright clouds and on transformed copies of them.

    Parameters
    ----------
    classes : list of str
        Class names.
    labels, predictions : list of int
        True and predicted class of every cloud.
    confusion : list of list of int
        Clouds by true class (row) and predicted class (column).
    accuracy : float
        Share of upright clouds classified correctly.
    copies : list of CopyResult
        One entry per kind of copy; clouds are named by their position.
    logit_changes : dict of float
        By kind of copy, the root mean square change of the logits in units of their deviation
        across upright clouds.
    """

    classes: list[str]
    labels: list[int]
    predictions: list[int]
    confusion: list[list[int]]
    accuracy: float
    copies: list[CopyResult]
    logit_changes: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Give nested dictionaries of JSON types."""
        return asdict(self)


def evaluate_point_classifier(
    classifier: TrainedPointClassifier, *, data: str | None = None, seed: int = 0
) -> PointEvaluation:
    """Classify the clouds that the training evaluated on, and transformed copies of each.

    Parameters
    ----------
    classifier : TrainedPointClassifier
        What to evaluate.
    data : str, optional
        Folder of the clouds; by default that of the training.
    seed : int
        Decides the copies.

    Raises
    ------
    ValueError
        If the data are unusable, or have other classes than the classifier.
    """
    config = classifier.config
    _, test = point_parts(config if data is None else replace(config, data=data))
    if test.classes != classifier.classes:
        raise ValueError(
            f"the data have the classes {', '.join(test.classes)}, "
            f"the checkpoint {', '.join(classifier.classes)}"
        )
    logits = classifier.logits(test.points)
    original = logits.double().softmax(dim=1)
    predictions, number = original.argmax(dim=1), test.num_classes
    counts = (test.labels * number + predictions).bincount(minlength=number * number)
    names = [str(i) for i in range(len(test))]
    copies, changes = [], {}
    for kind in CLOUD_COPIES:
        moved = classifier.logits(cloud_copies(test.points, kind, seed))
        seen = moved.double().softmax(dim=1)
        copies.append(CopyResult.compare(kind, seen, original, test.labels, names))
        changes[kind] = relative_change(logits, moved)
    return PointEvaluation(
        classes=list(classifier.classes),
        labels=test.labels.tolist(),
        predictions=predictions.tolist(),
        confusion=counts.reshape(number, number).tolist(),
        accuracy=(predictions == test.labels).double().mean().item(),
        copies=copies,
        logit_changes=changes,
    )
