"""Configuration, data, fit and trained model of mesh classification."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from equigeo._core.brief import brief_fields, shown
from equigeo._core.config import Range
from equigeo.datasets import (
    MeshDataset,
    articulated_shapes,
    engraved_cubes,
    load_mesh_folder,
    split_indices,
)
from equigeo.datasets.meshes import parts_of
from equigeo.datasets.regression import number_of_elements
from equigeo.datasets.segmentation.labels import transfer_face_labels
from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, TriangleMesh
from equigeo.mesh.damage import random_damage
from equigeo.mesh.subdivide import with_resolution
from equigeo.tasks.common.measures import classify
from equigeo.tasks.common.mesh_data import (
    BUILTIN,
    MeshRunConfig,
    batches_by_faces,
    divide_by_faces,
    has_validation,
    hold_out,
    warn_of_lost_area,
)
from equigeo.training.config import Recipe, RunConfig
from equigeo.training.data import LabelledBatch, LabelledSource, digest
from equigeo.training.novelty import Novelty
from equigeo.training.process import derived_generator
from equigeo.training.trained_model import TrainedModel

MESH_RECIPES: Final[dict[str, Recipe]] = {
    "default": Recipe(
        epochs=50, batch_size=16, learning_rate=4e-3, optimizer="adamw", schedule="one_cycle",
        weight_decay=0.01, label_smoothing=0.1, update_bn=True,
    ),
    # As released with PD-MeshNet: Adam at a constant rate, nothing else.
    "paper": Recipe(
        epochs=200, batch_size=16, learning_rate=2e-4, optimizer="adam", schedule="constant",
    ),
}  # fmt: skip

GENERATED: Final[Mapping[str, Callable[[], MeshDataset]]] = {
    BUILTIN: articulated_shapes, "cubes": engraved_cubes,
}  # fmt: skip


@dataclass(frozen=True)
class MeshConfig(MeshRunConfig):
    """Configuration of a run on meshes, saved as ``config.json``.

    Parameters
    ----------
    data : str
        ``"builtin"`` for articulated shapes, ``"cubes"`` for engraved cubes, or the path of a
        folder or archive in the MeshCNN layout.
    recipe, seed, devices, evaluate_every
        See ``RunConfig``.
    merge, min_component
        See ``equigeo.mesh.load_mesh``.
    sizes, inputs
        See ``equigeo.mesh.ClassifierConfig``.
    preset : {"default", "paper"}, model and recipe
    split : str
        Protocol that splits the data, see ``equigeo.datasets.split_indices``, or the fractions of
        ``equigeo.datasets.load_mesh_folder``, separated by commas.
    split_index : int, number of the seeded draw
    holdout : int
        If positive, evaluate on this number of training meshes (or groups) per class instead of the
        test meshes.

    Examples
    --------
    >>> config = MeshConfig("builtin", recipe=MESH_RECIPES["paper"], preset="paper")
    >>> MeshConfig.from_dict(config.to_dict()) == config
    True
    """

    recipe: Recipe = MESH_RECIPES["default"]
    preset: Literal["default", "paper"] = "default"
    split_index: int = 0
    holdout: int = 0

    splits: ClassVar[Sequence[str]] = ("folder", "16", "10", "5")
    built_in: ClassVar[Collection[str]] = GENERATED
    recipes: ClassVar[Mapping[str, Recipe]] = MESH_RECIPES
    unused: ClassVar[tuple[str, ...]] = ("resample",)
    samples: ClassVar[str] = "meshes"
    ranges: ClassVar[Mapping[str, Range]] = {
        **MeshRunConfig.ranges,
        "split_index": Range(0, 10**6),
        "holdout": Range(0, 10**6),
    }


BATCH_SIZE: Final = 32  # meshes that are classified at once
PADDING: Final = -2  # label behind the last face of a mesh; targets are padded by infinity


def load_meshes(data: str, **loading: Any) -> MeshDataset:
    """Load ``"builtin"``, ``"cubes"``, or a folder or archive in the MeshCNN layout.

    ``loading`` are arguments of ``load_mesh``. A warning is logged if meshes lack more than 1 % of
    the area of their files.

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
    dataset = load_mesh_folder(data, **loading)
    warn_of_lost_area(dataset.names, dataset.reports)
    return dataset


def split_meshes(
    dataset: MeshDataset, config: MeshConfig, *, validate: bool = False
) -> tuple[Tensor, Tensor]:
    """Return increasing positions of the training and of the evaluated meshes of a configuration.

    With ``holdout``, both are training meshes. With ``validate``, a validation split of the source
    replaces its test meshes. Raises ``ValueError`` if a class lacks meshes in a
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
    named = "folder" if config.fractions else config.split
    has_val = named == "folder" and has_validation(dataset.in_val, config.holdout)
    if validate and has_val:
        train, test = (part.nonzero().flatten() for part in parts_of(dataset)[:2])
    else:
        train, test = split_indices(dataset, named, config.split_index)
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


Shape: TypeAlias = TriangleMesh | PrimalDualGraph


def mesh_digests(shapes: Iterable[Shape]) -> Tensor:
    """Return digests of positions, faces and inputs, independent of winding, (meshes,)."""
    found = []
    for shape in shapes:
        surface = shape.surface if isinstance(shape, PrimalDualGraph) else shape
        if surface is None:
            raise ValueError("a pooled graph has no surface to compute a digest of")
        more = surface.inputs
        if isinstance(more, Mapping):
            more = torch.stack([*more.values()], dim=1) if more else None
        values = (surface.vertices.double(), surface.faces.sort(dim=1).values)
        found.append(digest(*values, *(() if more is None else (more,))))
    return torch.tensor(found, dtype=torch.long)


@dataclass(frozen=True, eq=False)
class LabelledMeshes(LabelledSource):
    """Source of mesh graphs with one label per mesh, or one per face."""

    graphs: Sequence[PrimalDualGraph]  # on the CPU
    # (meshes,), or per mesh (faces,), -1 if unknown, or (elements, targets), NaN if unknown
    labels: Any
    jitter: float = 0.0  # see `PrimalDualGraph.deform`, as stretch
    stretch: float = 0.0
    resampled: Sequence[LabelledMeshes] = ()  # the meshes at other resolutions, drawn uniformly

    __repr__ = brief_fields

    # torch.multiprocessing shares every tensor through a file descriptor, and the tensors of all
    # graphs exceed the limit on open files. The bytes are from another process of the run.
    def __getstate__(self) -> bytes:
        return pickle.dumps(vars(self))

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(pickle.loads(state))

    def batches(self, batch_size: int) -> Iterator[LabelledBatch]:
        sizes = (graph.num_primal for graph in self.graphs)
        return (self.batch(chosen) for chosen in batches_by_faces(sizes, batch_size))

    def digests(self) -> Tensor:
        labels = self.labels
        if not isinstance(labels, Tensor):
            labels = torch.tensor([digest(of_faces) for of_faces in labels])
        return torch.stack([mesh_digests(self.graphs), labels], dim=1)

    def split(self, indices: Sequence[int]) -> list[list[int]]:
        versions = (self, *self.resampled)
        faces = [max(one.graphs[i].num_primal for one in versions) for i in indices]
        return divide_by_faces(indices, faces)

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> PrimalDualGraph:
        graph: PrimalDualGraph = self.batch(chosen.tolist(), None, generator).inputs
        return graph

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
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
            padding = math.inf if rows[0].is_floating_point() else PADDING
            labels = pad_sequence(rows, batch_first=True, padding_value=padding)
        return LabelledBatch(graph, labels, len(indices) if total is None else total)


def mesh_sources(
    config: RunConfig,
    model: Any,  # with `graph` and `fit_standardization`
    dataset: Any,  # with labels of meshes or of faces
    parts: tuple[Tensor, Tensor],  # positions to train and to evaluate on
) -> tuple[LabelledMeshes, LabelledMeshes]:
    """Build the training source, with noise, and the evaluated one; fit the standardization."""
    train, test = (labelled_meshes(model, dataset, part) for part in parts)
    recipe = config.recipe
    resampled = _resampled(config, model, dataset, parts[0])
    train = replace(train, jitter=recipe.jitter, stretch=recipe.stretch, resampled=resampled)
    # Training meshes only: evaluated meshes must not influence the weights.
    if not (model.standardize_primal.is_fitted or model.standardize_dual.is_fitted):
        versions = (train, *resampled)
        model.fit_standardization([graph for version in versions for graph in version.graphs])
    return train, test


def labelled_meshes(
    model: Any, dataset: Any, part: Tensor, versions: Sequence[TriangleMesh] | None = None
) -> LabelledMeshes:
    """Build the labeled graphs of some meshes, or of versions of them with other faces."""
    chosen, labels = part.tolist(), dataset.labels
    meshes: Sequence[TriangleMesh] = [dataset.meshes[i] for i in chosen]
    labels = labels[part] if isinstance(labels, Tensor) else [labels[i] for i in chosen]
    if versions is not None:
        if not isinstance(labels, Tensor):
            labels = list(map(transfer_face_labels, meshes, labels, versions))
        meshes = versions
    return LabelledMeshes([model.graph(mesh) for mesh in meshes], labels)


def _resampled(config: RunConfig, model: Any, dataset: Any, part: Tensor) -> list[LabelledMeshes]:
    """Build graphs and labels of all training meshes at each resolution, and damaged."""
    # Before training: one simplification takes as long as a training step.
    recipe = config.recipe
    changes: list[tuple[Callable[..., TriangleMesh], str, int]] = [
        (partial(with_resolution, factor=share), "resolution", number)
        for number, share in enumerate(recipe.resolutions)
    ] + [(random_damage, "damage", number) for number in range(recipe.damaged)]
    found = []
    for change, name, number in changes:
        meshes = [
            change(dataset.meshes[i], generator=derived_generator(config.seed, name, number, i))
            for i in part.tolist()
        ]
        found.append(labelled_meshes(model, dataset, part, meshes))
    return found


def mesh_novelty(train: LabelledMeshes, batch_size: int, model: Any) -> Novelty | None:
    """Fit the novelty to all training meshes without noise, at all training resolutions."""
    versions = (train, *train.resampled)
    batches = chain.from_iterable(version.batches(batch_size) for version in versions)
    vectors = classify(model, (batch.inputs for batch in batches), model.embed)
    # Meshes with labeled faces are of one kind.
    labels = train.labels if isinstance(train.labels, Tensor) else torch.zeros(len(train)).long()
    number = len(versions)
    origins = torch.arange(len(train)).repeat(number)
    return Novelty.fit(vectors, labels.repeat(number), origins)


_Config = TypeVar("_Config", bound=RunConfig)


class TrainedMeshModel(TrainedModel[_Config]):
    """Trained network on mesh graphs."""

    model_type: ClassVar[Any]  # class of the network
    batch_size: ClassVar[int]  # meshes that are evaluated at once

    @classmethod
    def build(cls, model: dict[str, Any], config: Any) -> Any:
        return cls.model_type.from_config(model)

    def novelties(self, meshes: Sequence[Shape]) -> list[float] | None:
        """Return novelty scores, above 1 for novel meshes; None in old or unfinished runs."""
        if self.novelty is None:
            return None
        if len(meshes) == 0:
            return []
        vectors = classify(self.model, self._batches(meshes), self.model.embed)
        return list(self.novelty(vectors).tolist())

    def outputs(self, meshes: Sequence[Shape]) -> list[Tensor]:
        """Return the outputs at the elements of each mesh or graph of a mesh."""
        if len(meshes) == 0:
            return []
        at = getattr(self.model.config, "outputs_at", "mesh")
        surfaces = [m.surface if isinstance(m, PrimalDualGraph) else m for m in meshes]
        found = classify(self.model, self._batches(meshes))
        return list(found.split([number_of_elements(surface, at) for surface in surfaces]))

    def _batches(self, meshes: Sequence[Shape]) -> Iterator[PrimalDualGraph]:
        graphs = [
            mesh if isinstance(mesh, PrimalDualGraph) else self.model.graph(mesh) for mesh in meshes
        ]
        source = LabelledMeshes(graphs, torch.zeros(len(graphs), dtype=torch.long))
        return (batch.inputs for batch in source.batches(self.batch_size))


class TrainedMeshClassifier(TrainedMeshModel[MeshConfig]):
    """Trained mesh classifier, as ``equigeo evaluate`` and ``predict`` load it."""

    task, what, config_type = "mesh-classification", "mesh classifier", MeshConfig
    model_type, batch_size = PrimalDualClassifier, BATCH_SIZE

    def logits(self, meshes: Sequence[Shape]) -> Tensor:
        """Return logits of meshes or of their graphs, (meshes, classes).

        Equivariance
        ------------
        Invariant to rotation, reflection, translation, scale, and the order of faces and vertices
        with the default preset.
        """
        if len(meshes) == 0:
            return torch.zeros(0, len(self.classes))
        return classify(self.model, self._batches(meshes))
