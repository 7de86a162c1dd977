"""Command-line task for mesh classification."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from equigeo._text import printable
from equigeo.datasets import MeshDataset
from equigeo.mesh import PrimalDualClassifier
from equigeo.tasks.arguments import Argument, natural
from equigeo.tasks.evaluation_output import (
    ALLOW_TRAINED,
    EvaluationOutput,
    describe_trained_on,
)
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import GENERATED, load_meshes, split_meshes
from equigeo.tasks.mesh_classification.evaluate import MeshEvaluation, evaluate_mesh_classifier
from equigeo.tasks.mesh_classification.report import summarize_run
from equigeo.tasks.mesh_classification.train import plan_fit
from equigeo.tasks.mesh_classification.trained import (
    TrainedMeshClassifier,
    TrainedMeshModel,
    classify_file,
)
from equigeo.tasks.repair_notes import repair_summary
from equigeo.tasks.task import Task
from equigeo.tasks.text import class_table, copies_table
from equigeo.training.loop.fit_plan import FitPlan
from equigeo.training.run_config import RunConfig

_SPLITS = ("folder", "16", "10", "5")
_SPLIT_INDEX = Argument(
    "--split-index",
    "number of the draw (default: that of the run, or 0 of another split)",
    natural,
    metavar="I",
)


_Config = TypeVar("_Config", bound=RunConfig)
_Data = TypeVar("_Data")
_Trained = TypeVar("_Trained", bound=TrainedMeshModel[Any])


class MeshTask(Task[_Config, _Data, _Trained]):
    """Base class of tasks on meshes."""

    example_data = "builtin"
    built_in: ClassVar[Collection[str]]  # names of data sets that are no path
    writes_report = True
    files = "OBJ, OFF, PLY, STL or GLB"
    suffixes = (".obj", ".off", ".ply", ".stl", ".glb")

    def resolve_data(self, data: str | None) -> str:
        """Keep the names of built-in data sets unchanged."""
        return data if data is not None and data in self.built_in else super().resolve_data(data)


class MeshClassification(MeshTask[MeshConfig, MeshDataset, TrainedMeshClassifier]):
    """Classify triangle meshes with a primal-dual network.

    Examples
    --------
    >>> MeshClassification().name
    'mesh-classification'
    """

    help = "classify triangle meshes"
    built_in = GENERATED
    data_remedy = "builtin, cubes, a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "the built-in shapes or engraved cubes, or a folder or archive"
            " <class>/{train,test}/<mesh>", metavar="builtin|cubes|DIR|ARCHIVE",
        ),
        Argument(
            "--split", "as shipped (default), or 16, 10 or 5 training meshes per class",
            choices=_SPLITS,
        ),
        _SPLIT_INDEX,
        Argument(
            "--holdout",
            "evaluate on N training meshes per class, held out, and leave the test part unseen",
            natural, metavar="N", unit="training meshes",
        ),
    )  # fmt: skip
    evaluate_arguments = (
        Argument(
            "--data", "default: the training data of the model",
            metavar="builtin|cubes|DIR|ARCHIVE",
        ),
        Argument(
            "--split", "split to evaluate on (default: that of the training); meshes: the test part"
            " of folder, 16, 10 or 5", choices=_SPLITS,
        ),
        _SPLIT_INDEX,
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )  # fmt: skip
    measures = {"test_accuracy": "{part} accuracy {value:.2%}"}  # noqa: RUF012
    written = (".html",)
    trained_type = TrainedMeshClassifier

    def load(self, config: MeshConfig) -> MeshDataset:
        """Load the whole data set; ``plan`` and ``evaluate`` split it."""
        return load_meshes(config.data)

    def describe(self, config: MeshConfig, data: MeshDataset) -> str:
        """Return the numbers of meshes, classes and repairs."""
        about = f"{len(data)} meshes of {data.num_classes} classes, {config.preset} preset"
        return ", ".join(filter(None, (about, repair_summary(data.reports))))

    def plan(
        self, config: MeshConfig, data: MeshDataset, model: PrimalDualClassifier | None = None
    ) -> FitPlan:
        """Build graphs and model."""
        return plan_fit(config, data, model)

    def preset_model(self, config: MeshConfig) -> PrimalDualClassifier:
        """Build the preset's model."""
        return PrimalDualClassifier.preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedMeshClassifier, options: argparse.Namespace
    ) -> EvaluationOutput:
        """Compute accuracy per class and on copies, and a report with shapes."""
        from equigeo.report import render_report  # plotly, which the other commands do without

        config = _configure(options, trained.config)
        dataset = load_meshes(config.data)
        _, test = split_meshes(dataset, config)
        evaluation = evaluate_mesh_classifier(trained, dataset, test, options.seed or 0)
        seen = describe_trained_on(
            evaluation.trained_on, len(test), "meshes", allowed=options.allow_trained
        )
        results = summarize_run(trained, evaluation, dataset, options.command_line, config)
        parts = (repair_summary(dataset.reports), _text(evaluation), seen)
        text = "\n\n".join(filter(None, parts))
        return EvaluationOutput(text, evaluation.to_dict(), render_report(results))

    def predict(
        self, trained: TrainedMeshClassifier, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        """Classify a mesh file after repair."""
        return classify_file(trained, path, top, view=view)


def _configure(options: argparse.Namespace, config: MeshConfig) -> MeshConfig:
    """Override the data settings of the training configuration with command-line options."""
    # Other data or another split: the test part is evaluated.
    changes: dict[str, Any] = {}
    if options.data not in (None, config.data):
        changes |= {"data": options.data, "holdout": 0}
    if options.split is not None:
        changes |= {"split": options.split, "holdout": 0}
        changes |= {} if options.split == config.split else {"split_index": 0}
    if options.split_index is not None:
        changes["split_index"] = options.split_index
    return replace(config, **changes)


def _text(evaluation: MeshEvaluation) -> str:
    lines = [
        class_table(evaluation.classes, evaluation.confusion, "meshes"),
        "",
        copies_table(evaluation.copies),
    ]
    for copy in evaluation.copies:
        lines += [f"changed when {copy.kind}: {printable(name)}" for name in copy.changed]
    if evaluation.unfamiliar is not None:
        number, total = len(evaluation.unfamiliar), len(evaluation.names)
        lines += ["", f"resemble nothing it was trained on: {number} of {total} meshes"]
        lines += [f"resembles nothing: {printable(name)}" for name in evaluation.unfamiliar]
    return "\n".join(lines)
