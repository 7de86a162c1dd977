"""A trained mesh classifier, and what it says of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualClassifier, TriangleMesh, load_mesh
from equigeo.tasks.measures.classification import classify
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.mesh_classification.data import BATCH_SIZE, LabelledGraphs
from equigeo.tasks.task import FilePrediction
from equigeo.training.trained_model import TrainedModel


class TrainedMeshClassifier(TrainedModel[MeshConfig]):
    """What a run on meshes produces and ``equigeo evaluate`` and ``predict`` load."""

    task, what, config_type = "mesh-classification", "mesh classifier", MeshConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> PrimalDualClassifier:
        """Build the model from its ``config``."""
        return PrimalDualClassifier.from_config(model)

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
        graphs = [self.model.graph(mesh) for mesh in meshes]
        source = LabelledGraphs(graphs, torch.zeros(len(graphs), dtype=torch.long))
        return classify(self.model, (batch.inputs for batch in source.batches(BATCH_SIZE)))


def classify_file(classifier: TrainedMeshClassifier, path: Path, top: int = 1) -> FilePrediction:
    """Load a mesh file, repair it where needed, and classify it.

    Parameters
    ----------
    classifier : TrainedMeshClassifier
        What to ask.
    path : Path
        An OBJ, OFF, PLY, STL or GLB file.
    top : int
        How many classes to give.

    Raises
    ------
    MeshError
        If the file cannot be used; the message names it.
    ValueError
        If ``top`` is not positive.
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
    return FilePrediction(path, ranking, notes)
