"""Data of mesh classification: loading, splits and batches of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from equigeo._brief import brief_fields, shown
from equigeo.datasets import (
    MeshDataset,
    articulated_shapes,
    engraved_cubes,
    load_mesh_folder,
    split_indices,
)
from equigeo.mesh import PrimalDualGraph, TriangleMesh
from equigeo.tasks.copied_as_bytes import restore_from_bytes, state_as_bytes
from equigeo.tasks.divide_by_faces import batches_by_faces, divide_by_faces
from equigeo.tasks.hold_out import hold_out
from equigeo.tasks.mesh_classification.config import MeshConfig
from equigeo.tasks.repair_notes import warn_of_lost_area
from equigeo.training.labelled_source import LabelledBatch, LabelledSource, digest

BUILTIN: Final = "builtin"
GENERATED: Final[Mapping[str, Callable[[], MeshDataset]]] = {
    BUILTIN: articulated_shapes, "cubes": engraved_cubes,
}  # fmt: skip
BATCH_SIZE: Final = 32  # meshes that are classified at once
PADDING: Final = -2  # label behind the last face of a mesh


def load_meshes(data: str) -> MeshDataset:
    """Load ``"builtin"``, ``"cubes"``, or a folder or archive in the MeshCNN layout.

    A warning is logged if meshes lack more than 1 % of the area of their files.

    Examples
    --------
    >>> import tempfile, trimesh
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ball/train", "ball/test", "box/train", "box/test"):
    ...         Path(folder, name).mkdir(parents=True)
    ...         create = trimesh.creation.box if "box" in name else trimesh.creation.icosphere
    ...         _ = create().export(Path(folder, name, "0.obj"))
    ...     load_meshes(folder)
    MeshDataset(4 meshes of 2 classes, 2 to train)
    """
    if data in GENERATED:
        return GENERATED[data]()
    dataset = load_mesh_folder(data)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_meshes(dataset: MeshDataset, config: MeshConfig) -> tuple[Tensor, Tensor]:
    """Return increasing positions of the training and of the evaluated meshes of a configuration.

    With ``holdout``, both are training meshes. Raises ``ValueError`` if a class lacks meshes in a
    part.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> in_train = torch.tensor([True, True, False])
    >>> dataset = MeshDataset((mesh,) * 3, torch.zeros(3).long(), ("cat",), tuple("abc"), in_train)
    >>> train, test = split_meshes(dataset, MeshConfig("memory"))
    >>> train.tolist(), test.tolist()
    ([0, 1], [2])
    """
    train, test = split_indices(dataset, config.split, config.split_index)
    if config.holdout > 0:
        train, test = hold_out(
            dataset.labels, train, config.holdout, config.split_index, groups=dataset.groups
        )
    # A class without a training mesh is never predicted, and without an evaluated mesh its
    # accuracy is undefined.
    for purpose, part in (("train on", train), ("evaluate on", test)):
        present = set(dataset.labels[part].tolist())
        for label, name in enumerate(dataset.classes):
            if label not in present:
                raise ValueError(
                    f"class {shown(name)} has no mesh to {purpose} under split {config.split!r} "
                    f"with holdout {config.holdout}; add meshes or choose another split"
                )
    return train, test


def mesh_digests(shapes: Iterable[TriangleMesh | PrimalDualGraph]) -> Tensor:
    """Return digests of positions and faces, independent of winding, (meshes,)."""
    found = []
    for shape in shapes:
        surface = shape.surface if isinstance(shape, PrimalDualGraph) else shape
        if surface is None:
            raise ValueError("a pooled graph has no surface to compute a digest of")
        found.append(digest(surface.vertices.double(), surface.faces.sort(dim=1).values))
    return torch.tensor(found, dtype=torch.long)


@dataclass(frozen=True, eq=False)
class LabelledMeshes(LabelledSource):
    """Source of mesh graphs with one label per mesh, or one per face."""

    graphs: Sequence[PrimalDualGraph]  # on the CPU
    labels: Any  # (meshes,), or a sequence of (faces,) per mesh, -1 if unknown
    jitter: float = 0.0  # see `PrimalDualGraph.deform`, as stretch
    stretch: float = 0.0
    resampled: Sequence[LabelledMeshes] = ()  # the meshes at other resolutions, drawn uniformly

    __repr__ = brief_fields
    __getstate__, __setstate__ = state_as_bytes, restore_from_bytes

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        """Iterate over all meshes in order, with limited batch size and number of faces."""
        sizes = (graph.num_primal for graph in self.graphs)
        return (self.batch(chosen) for chosen in batches_by_faces(sizes, batch_size))

    def digests(self) -> Tensor:
        """Return digests of the meshes and of their labels."""
        labels = self.labels
        if not isinstance(labels, Tensor):
            labels = torch.tensor([digest(of_faces) for of_faces in labels])
        return torch.stack([mesh_digests(self.graphs), labels], dim=1)

    def split(self, indices: Sequence[int]) -> list[list[int]]:
        """Divide a training batch by faces, independent of the drawn resolution."""
        versions = (self, *self.resampled)
        faces = [max(one.graphs[i].num_primal for one in versions) for i in indices]
        return divide_by_faces(indices, faces)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> PrimalDualGraph:
        """Batch some graphs; with noise, draw the resolution of each mesh and deform it."""
        graph: PrimalDualGraph = self.batch(chosen.tolist(), None, generator).inputs
        return graph

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Assemble a batch; labels of faces are (meshes, most faces), padded by ``PADDING``."""
        drawn: Sequence[LabelledMeshes] = [self] * len(indices)
        if generator is not None and self.resampled:  # else noise does not depend on versions
            versions = [self, *self.resampled]
            numbers = torch.randint(len(versions), (len(indices),), generator=generator)
            drawn = [versions[number] for number in numbers.tolist()]
        chosen = list(zip(drawn, indices, strict=True))
        graph = PrimalDualGraph.batch([source.graphs[i] for source, i in chosen])
        if generator is not None and (self.jitter or self.stretch):
            graph = graph.deform(stretch=self.stretch, jitter=self.jitter, generator=generator)
        if isinstance(self.labels, Tensor):
            labels = self.labels[torch.as_tensor(indices, dtype=torch.long)]
        else:
            rows = [source.labels[i] for source, i in chosen]
            labels = pad_sequence(rows, batch_first=True, padding_value=PADDING)
        return LabelledBatch(graph, labels, len(indices) if total is None else total)
