"""Trained mesh segmenter and its predictions for files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from equigeo.mesh import PrimalDualSegmenter, TriangleMesh, load_mesh
from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.io.format_ply import format_ply
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import classify
from equigeo.tasks.mesh_classification.trained import TrainedMeshModel
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import BATCH_SIZE


class TrainedMeshSegmenter(TrainedMeshModel[SegmentationConfig]):
    """Trained mesh segmenter, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-segmentation", "mesh segmenter", SegmentationConfig
    model_type, batch_size = PrimalDualSegmenter, BATCH_SIZE

    def logits(self, meshes: Sequence[TriangleMesh]) -> list[Tensor]:
        """Return logits of every mesh, (faces, parts) each.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation and scale, and equivariant to permutations
        of faces and vertices, with the default preset.
        """
        if len(meshes) == 0:
            return []
        logits = classify(self.model, self._batches(meshes))
        return list(logits.split([mesh.num_faces for mesh in meshes]))


def segment_file(
    segmenter: TrainedMeshSegmenter, path: Path, top: int = 1, *, view: bool = False
) -> FilePrediction:
    """Load a mesh file, repair it and segment it; ``view`` adds a page, ``.parts.html``."""
    from equigeo.report.colorings import part_color  # plotly, which training does without

    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    mesh, report = load_mesh(path)
    parts = segmenter.logits([mesh])[0].argmax(dim=1)
    area = HalfEdgeGeometry.measure(mesh.vertices.double(), mesh.faces).area
    shares = torch.zeros(len(segmenter.classes), dtype=area.dtype).index_add(0, parts, area)
    shares = shares / shares.sum().clamp_min(torch.finfo(area.dtype).tiny)
    order = shares.argsort(descending=True, stable=True).tolist()
    ranking = [(segmenter.classes[i], shares[i].item()) for i in order if shares[i] > 0]
    notes = "" if report.is_clean and not report.warnings else report.summary()
    colors = torch.tensor([part_color(part) for part in range(len(segmenter.classes))])
    ply = format_ply(mesh, face_colors=colors[parts], face_labels=parts)
    files = {".parts.ply": ply}
    remark = segmenter._remark(mesh)
    if view:
        files[".parts.html"] = segmenter._page(
            mesh,
            report,
            {"predicted_parts": parts.tolist()},
            remark,
            lead=f"Parts predicted by a {segmenter.what}, with their share of the area.",
            facts=[(name, f"{share:.1%}") for name, share in ranking],
            classes=list(segmenter.classes),
        )
    return FilePrediction(path, ranking[:top], notes, files, remark)
