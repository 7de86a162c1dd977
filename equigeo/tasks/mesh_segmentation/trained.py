"""Trained mesh segmenter and its predictions for files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equigeo.mesh import LoadReport, PrimalDualGraph, PrimalDualSegmenter, TriangleMesh, load_mesh
from equigeo.mesh.geometry.half_edge_geometry import HalfEdgeGeometry
from equigeo.mesh.io.format_ply import format_ply
from equigeo.tasks.file_prediction import FilePrediction
from equigeo.tasks.measures.classification import classify
from equigeo.tasks.measures.shape_geometry import LARGEST_SHOWN, report_facts, shape_geometry
from equigeo.tasks.measures.shape_novelty import novelty_remark, shape_novelties
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.data import BATCH_SIZE, LabelledFaces
from equigeo.tasks.sphere_trial import sphere_trial
from equigeo.training.trained_model import TrainedModel


class TrainedMeshSegmenter(TrainedModel[SegmentationConfig]):
    """Trained mesh segmenter, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-segmentation", "mesh segmenter", SegmentationConfig

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> PrimalDualSegmenter:
        """Build the model from its ``config``."""
        return PrimalDualSegmenter.from_config(model)

    def trial(self) -> tuple[str, Callable[[], Any]]:
        """Run the model on the graph of a bumpy sphere."""
        return sphere_trial(self.model)

    def logits(self, meshes: Sequence[TriangleMesh]) -> list[Tensor]:
        """Segment meshes.

        Returns
        -------
        list of Tensor, (faces, parts)
            Logits of every mesh.

        Equivariance
        ------------
        Invariant to rotation, reflection, translation and scale, and follows every order of faces
        and vertices, with the default preset.
        """
        if len(meshes) == 0:
            return []
        logits = classify(self.model, self._batches(meshes))
        return list(logits.split([mesh.num_faces for mesh in meshes]))

    def novelties(self, meshes: Sequence[TriangleMesh]) -> list[float] | None:
        """Compute novelty scores of meshes relative to the training data.

        Returns
        -------
        list of float, optional
            Above 1, a mesh resembles nothing that the model was trained on. None where the
            checkpoint cannot say: of an unfinished run, or of an earlier version.

        Equivariance
        ------------
        That of the logits, and invariant to the order of faces and vertices.
        """
        return shape_novelties(self.model, self.novelty, self._batches(meshes))

    def _batches(self, meshes: Sequence[TriangleMesh]) -> Iterator[PrimalDualGraph]:
        graphs = [self.model.graph(mesh) for mesh in meshes]
        source = LabelledFaces(graphs, [torch.zeros(0, dtype=torch.long)] * len(graphs))
        return (batch.inputs for batch in source.batches(BATCH_SIZE))


def segment_file(
    segmenter: TrainedMeshSegmenter, path: Path, top: int = 1, *, view: bool = False
) -> FilePrediction:
    """Load a mesh file, repair it and segment it.

    Parameters
    ----------
    segmenter : TrainedMeshSegmenter
        What to ask.
    path : Path
        An OBJ, OFF, PLY, STL or GLB file.
    top : int
        How many parts to give; those that the mesh has not are left out.
    view : bool
        Add a page, ``.parts.html``, that shows the parts and what pooling merged.

    Returns
    -------
    FilePrediction
        Parts by their share of the area, and the file ``.parts.ply``: the mesh as it was used,
        every face with the colour and the number of its part.

    Raises
    ------
    MeshError
        If the file cannot be used; the message names it.
    ValueError
        If ``top`` is not positive.

    Examples
    --------
    >>> import tempfile, trimesh
    >>> model = PrimalDualSegmenter.preset("default", num_classes=2).eval()  # not trained
    >>> trained = TrainedMeshSegmenter(model, ("arm", "leg"), SegmentationConfig("a"), "0.2.0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ball.ply"
    ...     _ = trimesh.creation.icosphere(1).export(path)
    ...     prediction = segment_file(trained, path, top=2)
    >>> round(sum(share for _, share in prediction.ranking), 6), list(prediction.files)
    (1.0, ['.parts.ply'])
    """
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
    novelties = segmenter.novelties([mesh])
    remark = novelty_remark(segmenter.novelty, None if novelties is None else novelties[0])
    if view:
        files[".parts.html"] = _page(segmenter, mesh, parts, ranking, report, remark)
    return FilePrediction(path, ranking[:top], notes, files, remark)


def _page(
    segmenter: TrainedMeshSegmenter,
    mesh: TriangleMesh,
    parts: Tensor,
    ranking: list[tuple[str, float]],
    report: LoadReport,
    remark: str,
) -> bytes:
    """Render the parts of a mesh."""
    from equigeo.report import render_report  # plotly, which the other commands do without

    results: dict[str, Any] = {
        "title": report.path.name,
        "lead": f"Parts that a {segmenter.what} tells, with their share of the area.",
        "facts": [(name, f"{share:.1%}") for name, share in ranking]
        + report_facts(report.summary()),
        "classes": list(segmenter.classes),
        "warning": remark and f"{report.path.name} {remark}",
    }
    if mesh.num_faces <= LARGEST_SHOWN:
        shape = shape_geometry(segmenter.model, report.path.name, mesh)
        results["shapes"] = [shape | {"predicted_parts": parts.tolist()}]
    return render_report(results).encode(errors="backslashreplace")  # names need not be UTF-8
