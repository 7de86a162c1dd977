"""Reader for folders of meshes with labeled faces or edges."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equigeo.datasets.class_folders import (
    MeshFiles,
    files_by_stem,
    load_members,
    raise_failures,
    warn_of_unused,
)
from equigeo.datasets.meshes import marks_of
from equigeo.datasets.segmentation.dataset import UNLABELLED, EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.segmentation.labels import LabelledMesh, load_labelled_mesh
from equigeo.mesh import MeshError
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES
from equigeo.mesh.repair.repair import MERGE

_LABEL_SUFFIXES = (".eseg", ".npy", ".seg", ".txt")
_LAYOUT = (
    f"{{train,val,test}}/<name>.{{{','.join(s[1:] for s in MESH_SUFFIXES)}}} and "
    f"seg/<name>.{{{','.join(s[1:] for s in _LABEL_SUFFIXES)}}}, or labels in <name>.ply"
)
_refuse = partial(raise_failures, "meshes or their labels", MeshError)


class _Member(NamedTuple):
    name: str
    mesh: Path
    labels: Path | None  # None: a property of the mesh file
    soft: Path | None


def load_segmentation_folder(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    strict: bool = False,
    merge: float = MERGE,
    min_component: float = 0.0,
    inputs: Sequence[str] = (),
    split: Sequence[float] = (),
) -> SegmentedMeshDataset:
    """Load meshes with part labels in the layout of COSEG and the human bodies.

    Meshes are in ``train``, ``test`` and, optionally, ``val``; labels of ``train/<name>.obj`` in
    ``seg/<name>.eseg``, and optional soft labels of its edges in ``sseg/<name>.seseg``. An
    ``.eseg`` file has one label per edge, counted from 1 (MeshCNN), or one per face, counted from 0
    (PD-MeshNet); the number of lines decides, and a number that fits both raises. Alternatively,
    ``seg/<name>.seg`` or ``.txt`` (one integer per line) or ``.npy`` label the faces of the file in
    order, and so does a property ``label`` (or ``class``, ``part``, ``segment``) of the faces or
    vertices of a ``.ply`` file without a file in ``seg``. The label -1 stands for none; the others
    that occur are the classes. Columns of soft labels start at class 1, at class 0 or at the
    smallest class of the folder, whichever agrees with the labels. Labels of edges and of vertices
    are converted to labels of faces by majority; in a tie, the longest edge or the corner with the
    widest angle decides. Labels follow every repair of the mesh.

    Parameters
    ----------
    path : path-like
        Folder or archive, as in `load_mesh_folder`.
    classes : sequence of str, optional
        Names of the parts in the order of their labels, by default the numbers in the files.
    strict, merge, min_component, inputs
        See `equigeo.mesh.load_mesh`.
    split : sequence of float, optional
        See `load_mesh_folder`; drawn over all meshes.

    Returns
    -------
    SegmentedMeshDataset
        With labels of faces; training, validation and test meshes, each by name. ``names`` are
        paths below the folder. ``edge_labels`` exist if a file has any.

    Raises
    ------
    ValueError
        If the layout is wrong, some labels are of edges and some of faces, or a mesh or its labels
        are unusable (`MeshError`).

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019; Milano et al., "Primal-Dual Mesh
    Convolutional Neural Networks", 2020 (the layouts).

    Examples
    --------
    >>> load_segmentation_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    given = Path(path)
    files = MeshFiles.find(given, _LAYOUT, ("seg", "sseg"), split)
    members = _members(files, given)
    options: dict[str, Any] = {"strict": strict, "merge": merge, "min_component": min_component}
    options["inputs"] = inputs

    def load(i: int) -> LabelledMesh:
        return load_labelled_mesh(members[i].mesh, members[i].labels, members[i].soft, **options)

    loaded = load_members(files.names, load, given)
    first = _first_label(members, loaded, given)
    numbers, names = _class_names(members, loaded, first, given, classes)
    column = _first_column(loaded, first, len(names))
    labels = [_renumber(part, numbers, column) for part in loaded]
    has_edges = any(edges.hard is not None or edges.soft is not None for _, edges in labels)
    return SegmentedMeshDataset(
        meshes=tuple(part.mesh for part in loaded),
        labels=tuple(of_faces for of_faces, _ in labels),
        classes=names,
        names=tuple(files.names),
        edge_labels=tuple(edges for _, edges in labels) if has_edges else (),
        reports=tuple(part.report for part in loaded),
        **marks_of(files.parts),
    )


def _members(files: MeshFiles, given: Path) -> list[_Member]:
    """List every mesh with its label files."""
    root, meshes, names, _ = files
    hard = files_by_stem(root / "seg", _LABEL_SUFFIXES)
    soft = files_by_stem(root / "sseg", (".seseg",))
    copies = Counter(path.stem for path in meshes)
    problems = []
    for name, path in zip(names, meshes, strict=True):
        found, expected = hard.get(path.stem, []), f"seg/{path.stem}.eseg (or .npy, .seg, .txt)"
        if copies[path.stem] > 1:
            problems.append(f"{name}: another mesh has the same name, and so the same labels")
        elif len(found) != 1 and (found or path.suffix.lower() != ".ply"):
            has = " and ".join(label.name for label in found) or "no labels"
            problems.append(f"{name}: has {has}; expected one file {expected}")
        elif soft and path.stem not in soft:
            problems.append(f"{name}: has no soft labels; expected sseg/{path.stem}.seseg")
    _refuse(problems, len(meshes), str(given))
    every = {stem: hard.get(stem, []) + soft.get(stem, []) for stem in {**hard, **soft}}
    unused = every.keys() - copies.keys()
    warn_of_unused("label files", (path.name for stem in unused for path in every[stem]))
    return [
        _Member(
            name,
            path,
            hard[path.stem][0] if path.stem in hard else None,
            soft[path.stem][0] if soft else None,
        )
        for name, path in zip(names, meshes, strict=True)
    ]


def _first_label(members: list[_Member], loaded: list[LabelledMesh], given: Path) -> int:
    """Return the number of the first class in the files."""
    files: dict[str, str] = {}
    for member, part in zip(members, loaded, strict=True):
        files.setdefault(part.labelled, _source(member))
    if len(files) > 1:
        raise ValueError(
            f"{given}: labels must all be of edges or all of faces; {files['edges']} has one "
            f"for each edge of its mesh, {files['faces']} one for each face"
        )
    # MeshCNN counts classes from the smallest number in the set, which is normally 1.
    return _known(loaded, given)[0] if "edges" in files else 0


def _source(member: _Member) -> str:
    """Return the name of the file with the labels of a mesh."""
    return member.name if member.labels is None else f"seg/{member.labels.name}"


def _known(loaded: list[LabelledMesh], given: Path) -> list[int]:
    """Return the labels that occur, in increasing order, or raise if there are none."""
    found = torch.cat([part.values.unique() for part in loaded]).unique().tolist()
    known = [label for label in found if label != UNLABELLED]
    if not known:
        raise ValueError(f"{given}: nothing is labeled, all labels are {UNLABELLED}")
    return known


def _class_names(
    members: list[_Member],
    loaded: list[LabelledMesh],
    first: int,
    given: Path,
    classes: Sequence[str] | None,
) -> tuple[list[int], tuple[str, ...]]:
    """Return the label of each class, and the given names or the labels, after a check."""
    numbers = _known(loaded, given)
    # Columns of soft labels and given names are of consecutive classes.
    if classes is not None:
        numbers = list(range(first, first + len(classes)))
    elif any(member.soft is not None for member in members):
        numbers = list(range(first, numbers[-1] + 1))
    last = max(numbers, default=first - 1)
    problems = []
    for member, part in zip(members, loaded, strict=True):
        found, soft = int(part.values.max()), part.edge_labels.soft
        if found > last:
            problems.append(
                f"{_source(member)}: label {found} is out of range, {len(numbers)} classes "
                f"are numbered from {first} to {last}"
            )
        if member.soft is not None and soft is not None and soft.shape[1] < len(numbers):
            problems.append(
                f"sseg/{member.soft.name}: has {soft.shape[1]} columns, too few for the "
                f"{len(numbers)} classes"
            )
    _refuse(problems, len(members), str(given))
    return numbers, tuple(map(str, numbers)) if classes is None else tuple(classes)


def _first_column(loaded: list[LabelledMesh], first: int, number: int) -> int:
    """Return the soft-label column of the first class."""
    found: dict[int, int] = {}  # labeled edges around which their own label occurs
    for column in dict.fromkeys((max(first - 1, 0), first, 0)):
        pairs = [part.edge_labels[:2] for part in loaded]
        if any(soft is not None and soft.shape[1] < column + number for _, soft in pairs):
            continue
        found[column] = 0
        for hard, soft in pairs:
            if hard is not None and soft is not None:
                known = hard >= 0
                own = soft[known].gather(1, (hard[known] - first + column)[:, None])
                found[column] += int((own > 0).sum())
    return max(found, key=found.__getitem__)


def _renumber(
    part: LabelledMesh,
    numbers: list[int],  # label of each class
    column: int,
) -> tuple[Tensor, EdgeLabels]:
    """Convert labels to positions of classes."""
    position = torch.full((numbers[-1] + 2,), UNLABELLED)  # the last entry is that of UNLABELLED
    position[numbers] = torch.arange(len(numbers))
    edges = part.edge_labels
    if edges.soft is not None:
        edges = edges._replace(soft=edges.soft[:, column:])
    if edges.hard is not None:
        edges = edges._replace(hard=position[edges.hard])
    return position[part.face_labels], edges
