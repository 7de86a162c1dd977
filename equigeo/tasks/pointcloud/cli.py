"""Command-line task for point clouds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from torch import nn

from equigeo.datasets import PointClouds
from equigeo.datasets.read_cloud import CLOUD_SUFFIXES
from equigeo.tasks.arguments import Argument, natural, positive
from equigeo.tasks.evaluation_output import (
    ALLOW_TRAINED,
    EvaluationOutput,
    describe_trained_on,
)
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.pointcloud.config import PointConfig
from equigeo.tasks.pointcloud.data import load_clouds
from equigeo.tasks.pointcloud.evaluate import PointEvaluation, evaluate_point_classifier
from equigeo.tasks.pointcloud.models import POINT_MODELS
from equigeo.tasks.pointcloud.train import plan_fit
from equigeo.tasks.pointcloud.trained import TrainedPointClassifier, classify_cloud
from equigeo.tasks.task import Task
from equigeo.tasks.text import class_table, copies_table
from equigeo.training.loop.fit_plan import FitPlan

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
        """Load training and evaluation clouds."""
        return load_clouds(config)

    def describe(self, config: PointConfig, data: _Clouds) -> str:
        """Return the names of data and model."""
        return (
            f"clouds of {config.data}, {config.points} points each, {config.model} model, "
            f"{config.preset} preset"
        )

    def plan(self, config: PointConfig, data: _Clouds, model: nn.Module | None = None) -> FitPlan:
        """Build the model."""
        return plan_fit(config, data, model)

    def preset_model(self, config: PointConfig) -> Any:
        """Build the preset's model."""
        return POINT_MODELS[config.model].preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedPointClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
        """Compute accuracy per class and the effect of transformations."""
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
        """Classify the points, or sampled surface, of a file."""
        if view:
            raise ValueError("--view shows meshes; a point cloud has no faces")
        return classify_cloud(trained, path, top)


def _summary(evaluation: PointEvaluation) -> str:
    """Summarise the main results in a few lines."""
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
