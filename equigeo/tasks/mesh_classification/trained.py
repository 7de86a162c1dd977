"""Trained mesh classifier and its predictions for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from equigeo.mesh import LoadReport, PrimalDualClassifier, PrimalDualGraph, TriangleMesh, load_mesh
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import classify, ranking
from equigeo.tasks.measures.shape_geometry import (
    LARGEST_SHOWN,
    report_facts,
    shape_geometry,
)
from equigeo.tasks.measures.shape_novelty import novelty_remark, shape_novelties
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledMeshes
from equigeo.training.run_config import RunConfig
from equigeo.training.trained_model import TrainedModel

_Config = TypeVar("_Config", bound=RunConfig)
_RANKED = 5  # classes that a page shows


class TrainedMeshModel(TrainedModel[_Config]):
    """Trained network on mesh graphs."""

    model_type: ClassVar[Any]  # class of the network
    batch_size: ClassVar[int]  # meshes that are evaluated at once

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        """Build the model from its ``config``."""
        return cls.model_type.from_config(model)

    def novelties(self, meshes: Sequence[TriangleMesh]) -> list[float] | None:
        """Return novelty scores, above 1 for novel meshes; None in old or unfinished runs."""
        return shape_novelties(self.model, self.novelty, self._batches(meshes))

    def _batches(self, meshes: Sequence[TriangleMesh]) -> Iterator[PrimalDualGraph]:
        graphs = [self.model.graph(mesh) for mesh in meshes]
        source = LabelledMeshes(graphs, torch.zeros(len(graphs), dtype=torch.long))
        return (batch.inputs for batch in source.batches(self.batch_size))

    def _remark(self, mesh: TriangleMesh) -> str:
        """Return a remark for a novel mesh, else an empty string."""
        scores = self.novelties([mesh])
        return novelty_remark(self.novelty, None if scores is None else scores[0])

    def _page(
        self,
        mesh: TriangleMesh,
        report: LoadReport,
        shape: dict[str, Any],  # predictions to show on the mesh
        remark: str,
        **results: Any,  # lead and facts of the page
    ) -> bytes:
        """Render a mesh with its predictions, received attention and clusters."""
        from equigeo.report import render_report  # plotly, which the other commands do without

        name = report.path.name
        results["facts"] = [*results["facts"], *report_facts(report.summary())]
        results |= {"title": name, "warning": remark and f"{name} {remark}"}
        if mesh.num_faces <= LARGEST_SHOWN:
            results["shapes"] = [shape_geometry(self.model, name, mesh) | shape]
        return render_report(results).encode(errors="backslashreplace")  # names need not be UTF-8


class TrainedMeshClassifier(TrainedMeshModel[MeshConfig]):
    """Trained mesh classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-classification", "mesh classifier", MeshConfig
    model_type, batch_size = PrimalDualClassifier, BATCH_SIZE

    def logits(self, meshes: Sequence[TriangleMesh]) -> Tensor:
        """Return logits of meshes, (meshes, classes).

        Equivariance
        ------------
        Invariant to rotation, reflection, translation, scale, and the order of faces and vertices
        with the default preset.
        """
        if len(meshes) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, self._batches(meshes))


def classify_file(
    classifier: TrainedMeshClassifier, path: Path, top: int = 1, *, view: bool = False
) -> FilePrediction:
    """Load a mesh file, repair it and classify it; ``view`` adds a page, ``.html``."""
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    mesh, report = load_mesh(path)
    logits = classifier.logits([mesh])[0]
    ranked = ranking(classifier.classes, logits, top)
    notes = "" if report.is_clean and not report.warnings else report.summary()
    remark = classifier._remark(mesh)
    files = {}
    if view:
        shown = ranking(classifier.classes, logits, _RANKED)
        name, probability = shown[0]
        shape = {"prediction": name, "probability": probability, "unfamiliar": bool(remark)}
        files[".html"] = classifier._page(
            mesh,
            report,
            shape,
            remark,
            lead=f"Prediction of a {classifier.what} of {len(classifier.classes)} classes.",
            facts=[(name, f"{p:.1%}") for name, p in shown],
        )
    return FilePrediction(path, ranked, notes, files, remark)
