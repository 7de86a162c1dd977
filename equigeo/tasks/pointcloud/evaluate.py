"""Evaluation of point cloud classifiers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

from equigeo._brief import brief_fields
from equigeo.tasks.measures.classification import accuracy, confusion_matrix
from equigeo.tasks.measures.cloud_copies import CLOUD_COPIES, cloud_copies
from equigeo.tasks.measures.copy_result import CopyResult
from equigeo.tasks.measures.relative_change import relative_change
from equigeo.tasks.pointcloud.data import cloud_digests, fewer_points, whole_clouds
from equigeo.tasks.pointcloud.trained import TrainedPointClassifier


@dataclass(frozen=True)
class PointEvaluation:
    """Predictions on upright clouds and on transformed copies."""

    classes: list[str]
    labels: list[int]
    predictions: list[int]
    confusion: list[list[int]]  # clouds by true class (row) and predicted class (column)
    accuracy: float  # on upright clouds
    copies: list[CopyResult]  # clouds are named by position
    logit_changes: dict[str, float]  # RMS over the standard deviation across upright clouds
    # clouds with an embedding that is not invariant up to rounding; None without an embedding
    flagged: list[int] | None = None
    unflagged_accuracy: dict[str, float] = field(default_factory=dict)  # upright, by kind of copy
    trained_on: int | None = None  # number of training clouds; None if not recorded

    __repr__ = brief_fields

    def to_dict(self) -> dict[str, Any]:
        """Convert to nested dictionaries of JSON types."""
        return asdict(self)


def evaluate_point_classifier(
    classifier: TrainedPointClassifier, *, data: str | None = None, seed: int = 0
) -> PointEvaluation:
    """Classify the evaluation clouds of the training, or the test clouds of ``data``, and copies.

    ``seed`` determines the copies. The classes of the data must be those of the classifier.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from equigeo.mds import InvariantPointNet
    >>> from equigeo.tasks.pointcloud import PointConfig
    >>> points = np.random.default_rng(0).integers(-9999, 9999, (2, 40, 3), dtype=np.int16)
    >>> label, classes = np.array([0, 1], dtype=np.uint8), np.array(["bed", "chair"])
    >>> model = InvariantPointNet.preset("pointnet", 2).eval()  # not trained
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "test_a"):
    ...         file = Path(folder) / f"modelnet10_{part}.npz"
    ...         np.savez(file, points=points, label=label, classes=classes)
    ...     config = PointConfig(folder, preset="pointnet", model="mds", points=32)
    ...     trained = TrainedPointClassifier(model, ("bed", "chair"), config, "0.2.0")
    ...     evaluation = evaluate_point_classifier(trained)
    >>> [copy.changed for copy in evaluation.copies if copy.kind == "rotated"]  # it is invariant
    [[]]
    """
    config = classifier.config
    if data not in (None, config.data):
        config = replace(config, data=data, holdout=0)
    _, whole = whole_clouds(config)
    test = replace(whole, points=fewer_points(whole.points, config.points))
    if test.classes != classifier.classes:
        raise ValueError(
            f"the data have the classes {', '.join(test.classes)}, "
            f"the checkpoint {', '.join(classifier.classes)}"
        )
    logits = {"upright": classifier.logits(test.points)}
    logits |= {
        kind: classifier.logits(cloud_copies(test.points, kind, seed)) for kind in CLOUD_COPIES
    }
    probabilities = {kind: seen.double().softmax(dim=1) for kind, seen in logits.items()}
    original = probabilities["upright"]
    predictions = original.argmax(dim=1)
    names = [str(i) for i in range(len(test))]
    flagged = classifier.flagged(test.points)
    return PointEvaluation(
        classes=list(classifier.classes),
        labels=test.labels.tolist(),
        predictions=predictions.tolist(),
        confusion=confusion_matrix(test.labels, predictions, test.num_classes).tolist(),
        accuracy=accuracy(original, test.labels),
        copies=[
            CopyResult.compare(kind, probabilities[kind], original, test.labels, names)
            for kind in CLOUD_COPIES
        ],
        logit_changes={
            kind: relative_change(logits["upright"], logits[kind]) for kind in CLOUD_COPIES
        },
        flagged=None if flagged is None else flagged.nonzero().flatten().tolist(),
        unflagged_accuracy=_accuracy_without(flagged, probabilities, test.labels),
        trained_on=classifier.trained_on(cloud_digests(whole.points)),
    )


def _accuracy_without(
    flagged: Tensor | None, probabilities: dict[str, Tensor], labels: Tensor
) -> dict[str, float]:
    """Return the accuracy on unflagged clouds by kind of copy; empty if there are none."""
    if flagged is None or bool(flagged.all()):
        return {}
    kept = ~flagged
    return {kind: accuracy(seen[kept], labels[kept]) for kind, seen in probabilities.items()}
