"""Trained mesh classifier and its predictions for files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigeo.mesh import LoadReport, PrimalDualClassifier, PrimalDualGraph, TriangleMesh, load_mesh
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import classify
from equigeo.tasks.measures.shape_geometry import (
    LARGEST_SHOWN,
    report_facts,
    shape_geometry,
)
from equigeo.tasks.measures.shape_novelty import novelty_remark, shape_novelties
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledGraphs
from equigeo.tasks.sphere_trial import sphere_trial
from equigeo.training.trained_model import TrainedModel

_RANKED = 5  # classes that a page shows


class TrainedMeshClassifier(TrainedModel[MeshConfig]):
    """Trained mesh classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-classification", "mesh classifier", MeshConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> PrimalDualClassifier:
        """Build the model from its ``config``."""
        return PrimalDualClassifier.from_config(model)

    def trial(self) -> tuple[str, Callable[[], Any]]:
        """Run the model on the graph of a bumpy sphere."""
        return sphere_trial(self.model)

    def logits(self, meshes: Sequence[TriangleMesh]) -> Tensor:
        """Classify meshes.

        Returns
        -------
        Tensor, (meshes, classes)
            Logits.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation, scale, and the order of faces and vertices
        with the default preset.
        """
        if len(meshes) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, self._batches(meshes))

    def novelties(self, meshes: Sequence[TriangleMesh]) -> list[float] | None:
        """Compute novelty scores of meshes relative to the training data.

        Returns
        -------
        list of float, optional
            Above 1, a mesh resembles nothing that the model was trained on. None where the
            checkpoint cannot say: of an unfinished run, or of an earlier version.

        Equivariance
        ------------
        That of the logits.
        """
        return shape_novelties(self.model, self.novelty, self._batches(meshes))

    def _batches(self, meshes: Sequence[TriangleMesh]) -> Iterator[PrimalDualGraph]:
        graphs = [self.model.graph(mesh) for mesh in meshes]
        source = LabelledGraphs(graphs, torch.zeros(len(graphs), dtype=torch.long))
        return (batch.inputs for batch in source.batches(BATCH_SIZE))


def classify_file(
    classifier: TrainedMeshClassifier, path: Path, top: int = 1, *, view: bool = False
) -> FilePrediction:
    """Load a mesh file, repair it and classify it.

    Parameters
    ----------
    classifier : TrainedMeshClassifier
        What to ask.
    path : Path
        An OBJ, OFF, PLY, STL or GLB file.
    top : int
        How many classes to give.
    view : bool
        Add a page, ``.html``, that shows the mesh and what pooling merged of it.

    Raises
    ------
    MeshError
        If the file cannot be used; the message names it.
    ValueError
        If ``top`` is not positive.

    Examples
    --------
    >>> import tempfile, trimesh
    >>> model = PrimalDualClassifier.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshClassifier(model, ("cat", "dog"), MeshConfig("builtin"), "0.2.0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ball.ply"
    ...     _ = trimesh.creation.icosphere(1).export(path)
    ...     prediction = classify_file(trained, path, top=2)
    >>> sorted(name for name, _ in prediction.ranking)
    ['cat', 'dog']
    >>> round(sum(probability for _, probability in prediction.ranking), 6)
    1.0
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    mesh, report = load_mesh(path)
    probabilities = classifier.logits([mesh])[0].double().softmax(dim=0)
    best = probabilities.topk(min(top, len(probabilities)))
    ranking = [
        (classifier.classes[i], p)
        for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    notes = "" if report.is_clean and not report.warnings else report.summary()
    novelties = classifier.novelties([mesh])
    novelty = None if novelties is None else novelties[0]
    files = {".html": _page(classifier, mesh, report, novelty)} if view else {}
    return FilePrediction(path, ranking, notes, files, novelty_remark(classifier.novelty, novelty))


def _page(
    classifier: TrainedMeshClassifier,
    mesh: TriangleMesh,
    report: LoadReport,
    novelty: float | None,
) -> bytes:
    """Render a mesh with its likeliest classes, received attention and clusters."""
    from equigeo.report import render_report  # plotly, which the other commands do without

    probabilities = classifier.logits([mesh])[0].double().softmax(dim=0)
    best = probabilities.topk(min(_RANKED, len(probabilities)))
    ranking = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    facts = [(classifier.classes[i], f"{p:.1%}") for p, i in ranking]
    remark = novelty_remark(classifier.novelty, novelty)
    results: dict[str, Any] = {
        "title": report.path.name,
        "lead": f"What a {classifier.what} of {len(classifier.classes)} classes makes of it.",
        "facts": [*facts, *report_facts(report.summary())],
        "warning": remark and f"{report.path.name} {remark}",
    }
    if mesh.num_faces <= LARGEST_SHOWN:
        shape = shape_geometry(classifier.model, report.path.name, mesh)
        shape |= {"prediction": facts[0][0], "probability": float(best.values[0])}
        shape["unfamiliar"] = bool(remark)
        results["shapes"] = [shape]
    return render_report(results).encode(errors="backslashreplace")  # names need not be UTF-8
