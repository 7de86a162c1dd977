"""A trained mesh classifier with the names of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualClassifier, TriangleMesh
from equigeo.training.classify import classify
from equigeo.training.meshes.labelled_graphs import LabelledGraphs
from equigeo.training.meshes.train_config import TrainConfig
from equigeo.training.run_config import RunConfig
from equigeo.training.trained_model import TrainedModel

TASK: Final = "mesh-classification"


@dataclass(frozen=True, eq=False)
class TrainedClassifier(TrainedModel):
    """What a run on meshes produces and ``equigeo evaluate`` and ``predict`` load.

    Parameters
    ----------
    model : PrimalDualClassifier
        In evaluation mode, on the CPU.
    config : TrainConfig
        How it was trained.
    classes, version, history
        As for ``TrainedModel``.
    """

    model: PrimalDualClassifier
    config: TrainConfig

    task: ClassVar[str] = TASK
    what: ClassVar[str] = "mesh classifier"
    config_type: ClassVar[type[RunConfig]] = TrainConfig

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
        return classify(self.model, (batch.inputs for batch in source.batches(32)))
