"""Evaluation and command-line task of point clouds."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor, nn

from equigeo.datasets import PointClouds
from equigeo.datasets.clouds import CLOUD_SUFFIXES
from equigeo.tasks.common.arguments import Argument, class_table, copies_table, natural, positive
from equigeo.tasks.common.classification import accuracy, confusion_matrix, relative_change
from equigeo.tasks.common.copies import CLOUD_COPIES, CopyResult, cloud_copies
from equigeo.tasks.pointcloud.run import (
    POINT_MODELS,
    PointConfig,
    TrainedPointClassifier,
    classify_cloud,
    cloud_digests,
    fewer_points,
    load_clouds,
    plan_fit,
    whole_clouds,
)
from equigeo.tasks.task import (
    ALLOW_TRAINED,
    Evaluation,
    EvaluationOutput,
    FilePrediction,
    Task,
    describe_trained_on,
)
from equigeo.training.plan import FitPlan


@dataclass(frozen=True, repr=False)
class PointEvaluation(Evaluation):
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


_Clouds: TypeAlias = tuple[PointClouds, PointClouds]


class PointCloudClassification(Task[PointConfig, _Clouds, TrainedPointClassifier]):
    """Classify point clouds after training on upright ones.

    Examples
    --------
    >>> PointCloudClassification().name
    'pointcloud'
    """

    help = "classify point clouds after training on upright ones"
    example_data = "my_scans"
    data_remedy = "a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "folder with modelnet10_train.npz, or folder or archive"
            " <class>/{train,test}/<cloud or mesh>", metavar="DIR|ARCHIVE",
        ),
        Argument(
            "--model", "family of the model (default: affine); plain is mds without the embedding",
            choices=tuple(POINT_MODELS),
        ),
        Argument("--no-embedding", "--model plain", constant="plain", dest="model"),
        Argument(
            "--points", "points of every cloud", positive, metavar="N", unit="points"
        ),
        Argument(
            "--holdout",
            "evaluate on N training clouds per class, held out, and leave the test part unseen",
            natural, metavar="N", unit="training clouds",
        ),
    )  # fmt: skip
    evaluate_arguments = (
        Argument("--data", "default: the training data of the model", metavar="DIR|ARCHIVE"),
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )
    measures = {  # noqa: RUF012
        "test_accuracy": "{part} accuracy {value:.2%}",
        "rotated_accuracy": "rotated accuracy {value:.2%}",
        "logit_change": "equivariance error {value:.3f}: change of the logits / deviation",
    }
    files = "NPY, NPZ, XYZ, OBJ, OFF, PLY, STL or GLB"
    suffixes = CLOUD_SUFFIXES
    trained_type = TrainedPointClassifier

    def load(self, config: PointConfig) -> _Clouds:
        return load_clouds(config)

    def describe(self, config: PointConfig, data: _Clouds) -> str:
        return (
            f"clouds of {config.data}, {config.points} points each, {config.model} model, "
            f"{config.preset} preset"
        )

    def plan(self, config: PointConfig, data: _Clouds, model: nn.Module | None = None) -> FitPlan:
        return plan_fit(config, data, model)

    def preset_model(self, config: PointConfig) -> Any:
        return POINT_MODELS[config.model].preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedPointClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
        evaluation = evaluate_point_classifier(trained, data=options.data, seed=options.seed or 0)
        seen = describe_trained_on(
            evaluation.trained_on, len(evaluation.labels), "clouds", allowed=options.allow_trained
        )
        text = (
            f"{class_table(evaluation.classes, evaluation.confusion, 'clouds')}\n\n"
            f"{copies_table(evaluation.copies, evaluation.logit_changes)}\n\n"
            "equivariance error: change of the logits / their deviation across upright clouds\n\n"
            f"{_summary(evaluation)}\n{seen}"
        )
        return EvaluationOutput(text, evaluation.to_dict())

    def predict(
        self, trained: TrainedPointClassifier, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        if view:
            raise ValueError("--view shows meshes; a point cloud has no faces")
        return classify_cloud(trained, path, top)


def _summary(evaluation: PointEvaluation) -> str:
    """Summarize the main results in a few lines."""
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
