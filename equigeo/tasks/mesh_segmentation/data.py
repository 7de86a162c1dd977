"""Data of segmentation: loading, splits and batches of graphs with labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from equigeo._brief import brief_fields
from equigeo.datasets import SegmentedMeshDataset, articulated_parts, load_segmentation_folder
from equigeo.mesh import PrimalDualGraph
from equigeo.tasks.copied_as_bytes import restore_from_bytes, state_as_bytes
from equigeo.tasks.divide_by_faces import batches_by_faces, divide_by_faces
from equigeo.tasks.mesh_classification.data import mesh_digests
from equigeo.tasks.mesh_segmentation.config import SegmentationConfig
from equigeo.tasks.mesh_segmentation.objective import PADDING
from equigeo.tasks.repair_notes import warn_of_lost_area
from equigeo.training.labelled_source import LabelledBatch, LabelledSource, digest
from equigeo.training.random_state import seed_sequence

BUILTIN: Final = "builtin"
BATCH_SIZE: Final = 16  # meshes that are segmented at once


def load_segmented_meshes(data: str) -> SegmentedMeshDataset:
    """Load the built-in data set, or a folder or archive of meshes with labels.

    Parameters
    ----------
    data : str
        ``"builtin"``, or a path.

    Raises
    ------
    ValueError
        If the path holds no usable data set; the message names the file and the remedy.

    Examples
    --------
    >>> import tempfile, trimesh
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "seg"):
    ...         Path(folder, part).mkdir()
    ...     _ = trimesh.creation.box().export(Path(folder, "train", "box.obj"))
    ...     np.save(Path(folder, "seg", "box.npy"), np.arange(12) // 6)  # one part per half
    ...     load_segmented_meshes(folder)
    SegmentedMeshDataset(1 meshes with labelled faces, 2 classes, 1 to train)
    """
    if data == BUILTIN:
        return articulated_parts()
    dataset = load_segmentation_folder(data)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_segmented_meshes(
    dataset: SegmentedMeshDataset, config: SegmentationConfig
) -> tuple[Tensor, Tensor]:
    """Return the training and test meshes, or hold out training meshes.

    Returns
    -------
    train, evaluated : Tensor, (meshes of the part,), int64
        Increasing positions. With ``holdout``, both are training meshes and the test meshes stay
        unseen; which ones are held out does not depend on the seed of the run.

    Raises
    ------
    ValueError
        If one of the parts is empty.

    Examples
    --------
    >>> from equigeo.mesh import TriangleMesh
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> labels, in_train = (torch.tensor([0]),) * 3, torch.tensor([True, True, False])
    >>> dataset = SegmentedMeshDataset((mesh,) * 3, labels, ("part",), tuple("abc"), in_train)
    >>> train, test = split_segmented_meshes(dataset, SegmentationConfig("memory"))
    >>> train.tolist(), test.tolist()
    ([0, 1], [2])
    """
    train = dataset.in_train.nonzero().flatten()
    test = (~dataset.in_train).nonzero().flatten()
    if config.holdout > 0:
        order = np.random.default_rng(seed_sequence(0, "holdout")).permutation(len(train))
        held = torch.from_numpy(order[: config.holdout]).sort().values
        kept = torch.from_numpy(order[config.holdout :]).sort().values
        train, test = train[kept], train[held]
    for purpose, part in (("train on", train), ("evaluate on", test)):
        if len(part) == 0:
            raise ValueError(
                f"no mesh to {purpose} with holdout {config.holdout}; add meshes or change it"
            )
    return train, test


@dataclass(frozen=True, eq=False)
class LabelledFaces(LabelledSource):
    """Source of mesh graphs with labelled faces."""

    graphs: Sequence[PrimalDualGraph]  # on the CPU
    face_labels: Sequence[Tensor]  # (faces,) per mesh, -1 if unknown
    jitter: float = 0.0  # see `PrimalDualGraph.deform`, as stretch
    stretch: float = 0.0
    resampled: Sequence[LabelledFaces] = ()  # the same meshes at other resolutions, drawn uniformly

    __repr__ = brief_fields
    __getstate__, __setstate__ = state_as_bytes, restore_from_bytes

    def __len__(self) -> int:
        """Return the number of meshes."""
        return len(self.graphs)

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        """Iterate over all meshes in order, with limited batch size and number of faces."""
        sizes = (graph.num_primal for graph in self.graphs)
        return (self.batch(chosen) for chosen in batches_by_faces(sizes, batch_size))

    def digests(self) -> Tensor:
        """Return digests of the meshes and of their labels."""
        labels = torch.tensor([digest(labels) for labels in self.face_labels])
        return torch.stack([mesh_digests(self.graphs), labels], dim=1)

    def split(self, indices: Sequence[int]) -> list[list[int]]:
        """Divide a training batch by faces, independent of the drawn resolution."""
        versions = (self, *self.resampled)
        faces = [max(one.graphs[i].num_primal for one in versions) for i in indices]
        return divide_by_faces(indices, faces)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> PrimalDualGraph:
        """Join the graphs of a batch."""
        graph: PrimalDualGraph = self.batch(chosen.tolist(), None, generator).inputs
        return graph

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Assemble a batch with labels (meshes, most faces), padded by ``PADDING``."""
        versions = [self, *(self.resampled if generator is not None else ())]
        drawn = [self] * len(indices)
        if len(versions) > 1:  # noise stays what it is without other versions
            numbers = torch.randint(len(versions), (len(indices),), generator=generator)
            drawn = [versions[number] for number in numbers.tolist()]
        chosen = list(zip(drawn, indices, strict=True))
        graph = PrimalDualGraph.batch([source.graphs[i] for source, i in chosen])
        if generator is not None and (self.jitter or self.stretch):
            graph = graph.deform(stretch=self.stretch, jitter=self.jitter, generator=generator)
        labels = pad_sequence(
            [source.face_labels[i] for source, i in chosen],
            batch_first=True,
            padding_value=PADDING,
        )
        return LabelledBatch(graph, labels, len(indices) if total is None else total)
