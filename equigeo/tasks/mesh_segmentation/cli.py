"""Command-line task for mesh segmentation."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from equigeo._text import printable
from equigeo.datasets import SegmentedMeshDataset
from equigeo.mesh import PrimalDualSegmenter
from equigeo.tasks.arguments import Argument, natural
from equigeo.tasks.evaluation_output import (
    ALLOW_TRAINED,
    EvaluationOutput,
    describe_trained_on,
)
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.segmentation import MESH_FACE_ACCURACY
from equigeo.tasks.mesh_classification.cli import MeshTask
from equigeo.tasks.mesh_classification.data import BUILTIN
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import (
    load_segmented_meshes,
    split_segmented_meshes,
)
from equigeo.tasks.mesh_segmentation.evaluate import (
    SegmentationEvaluation,
    evaluate_mesh_segmenter,
)
from equigeo.tasks.mesh_segmentation.report import summarize_segmentation
from equigeo.tasks.mesh_segmentation.train import plan_fit
from equigeo.tasks.mesh_segmentation.trained import TrainedMeshSegmenter, segment_file
from equigeo.tasks.text import class_table, copies_table
from equigeo.training.loop.fit_plan import FitPlan


class MeshSegmentation(MeshTask[SegmentationConfig, SegmentedMeshDataset, TrainedMeshSegmenter]):
    """Segment triangle meshes with a primal-dual network.

    Examples
    --------
    >>> MeshSegmentation().name
    'mesh-segmentation'
    """

    help = "segment triangle meshes"
    built_in = (BUILTIN,)
    data_remedy = "builtin, a folder or an archive"
    train_arguments = (
        Argument(
            "--data", "the built-in shapes, or a folder or archive {train,test}/<mesh> with"
            " seg/<mesh>.eseg, .seg, .txt or .npy", metavar="builtin|DIR|ARCHIVE",
        ),
        Argument(
            "--holdout",
            "evaluate on N training meshes, held out, and leave the test part unseen",
            natural, metavar="N", unit="training meshes",
        ),
    )  # fmt: skip
    evaluate_arguments = (
        Argument(
            "--data", "default: the training data of the model", metavar="builtin|DIR|ARCHIVE"
        ),
        Argument("--seed", "seed of transformed copies (default: 0)", natural),
        ALLOW_TRAINED,
    )
    measures = {"test_accuracy": f"{{part}} {MESH_FACE_ACCURACY} {{value:.2%}}"}  # noqa: RUF012
    writes_files = True
    written = (".parts.ply", ".parts.html")
    trained_type = TrainedMeshSegmenter

    def load(self, config: SegmentationConfig) -> SegmentedMeshDataset:
        """Load the whole data set; ``plan`` and ``evaluate`` split it."""
        return load_segmented_meshes(config.data)

    def describe(self, config: SegmentationConfig, data: SegmentedMeshDataset) -> str:
        """Return the numbers of meshes and parts."""
        return f"{len(data)} meshes with {data.num_classes} parts, {config.preset} preset"

    def plan(
        self,
        config: SegmentationConfig,
        data: SegmentedMeshDataset,
        model: PrimalDualSegmenter | None = None,
    ) -> FitPlan:
        """Build graphs and model."""
        return plan_fit(config, data, model)

    def preset_model(self, config: SegmentationConfig) -> PrimalDualSegmenter:
        """Build the preset's model."""
        return PrimalDualSegmenter.preset(config.preset, num_classes=2)

    def evaluate(
        self, trained: TrainedMeshSegmenter, options: argparse.Namespace
    ) -> EvaluationOutput:
        """Compute accuracy per part and on copies, and a report with shapes."""
        from equigeo.report import render_report  # plotly, which the other commands do without

        config = trained.config
        if options.data not in (None, config.data):
            config = replace(config, data=options.data, holdout=0)
        dataset = load_segmented_meshes(config.data)
        _, test = split_segmented_meshes(dataset, config)
        evaluation = evaluate_mesh_segmenter(trained, dataset, test, options.seed or 0)
        seen = describe_trained_on(
            evaluation.trained_on, len(test), "meshes", allowed=options.allow_trained
        )
        command = options.command_line
        results = summarize_segmentation(trained, evaluation, dataset, command, config)
        text = f"{_text(evaluation)}\n\n{seen}"
        return EvaluationOutput(text, evaluation.to_dict(), render_report(results))

    def predict(
        self, trained: TrainedMeshSegmenter, path: Path, top: int = 1, *, view: bool = False
    ) -> FilePrediction:
        """Segment a mesh file after repair."""
        return segment_file(trained, path, top, view=view)


def _text(evaluation: SegmentationEvaluation) -> str:
    lines = [class_table(evaluation.classes, evaluation.confusion, "faces"), ""]
    width = max(map(len, evaluation.measures))
    lines += [f"{name:<{width}}  {value:.2%}" for name, value in evaluation.measures.items()]
    lines += ["", copies_table(evaluation.copies)]
    for copy in evaluation.copies:
        lines += [f"changed when {copy.kind}: {printable(name)}" for name in copy.changed]
    return "\n".join(lines)
