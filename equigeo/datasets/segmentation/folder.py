"""Reader for folders of meshes with labeled faces or edges."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo.datasets.class_folders import (
    MESH_SUFFIXES,
    PARTS,
    data_folder,
    has_parts,
    raise_failures,
    visible_folders,
)
from equigeo.datasets.segmentation.dataset import UNLABELLED, EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.segmentation.labels import LabelledMesh, load_labelled_mesh
from equigeo.mesh import MeshError

_LABEL_SUFFIXES = (".eseg", ".npy", ".seg", ".txt")
_FOLDERS = frozenset({*PARTS, "seg", "sseg"})
_LAYOUT = (
    f"{{train,test}}/<name>.{{{','.join(s[1:] for s in MESH_SUFFIXES)}}} and "
    f"seg/<name>.{{{','.join(s[1:] for s in _LABEL_SUFFIXES)}}}"
)
_refuse = partial(raise_failures, "meshes or their labels", MeshError)


class _Member(NamedTuple):
    name: str
    mesh: Path
    in_train: bool
    labels: Path
    soft: Path | None


def load_segmentation_folder(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[str] | None = None,
    strict: bool = False,
) -> SegmentedMeshDataset:
    """Load meshes with part labels in the layout of COSEG and the human bodies.

    Meshes are in ``train`` and ``test``, labels of ``train/<name>.obj`` in ``seg/<name>.eseg``, and
    optional soft labels of its edges in ``sseg/<name>.seseg``. An ``.eseg`` file has one label per
    edge, counted from 1 (MeshCNN), or one per face, counted from 0 (PD-MeshNet); the number of
    lines decides, and a number that fits both raises. Alternatively, ``seg/<name>.seg`` or ``.txt``
    (one integer per line) or ``.npy`` label the faces of the file in order, counted from 0. Columns
    of soft labels start at class 1, at class 0 or at the smallest class of the folder, whichever
    agrees with the labels. Labels of edges are converted to labels of faces by majority, or by the
    longest edge in a tie. Labels follow every repair of the mesh.

    Parameters
    ----------
    path : path-like
        Folder or archive, as in `load_mesh_folder`.
    classes : sequence of str, optional
        Names of the parts in the order of their labels, by default the numbers in the files.
    strict : bool
        Raise for meshes that need repair, as in `equigeo.mesh.load_mesh`.

    Returns
    -------
    SegmentedMeshDataset
        With labels of faces; training meshes first, then by name. ``names`` are paths below the
        folder. ``edge_labels`` exist if a file has any.

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
    root = data_folder(given, has_parts)
    members = _members(root, given)
    loaded = _load_all(members, given, strict)
    first = _first_label(members, loaded, given)
    names = _class_names(members, loaded, first, given, classes)
    column = _first_column(loaded, first, len(names))
    labels = [_renumber(part, first, column) for part in loaded]
    has_edges = any(edges.hard is not None or edges.soft is not None for _, edges in labels)
    return SegmentedMeshDataset(
        meshes=tuple(part.mesh for part in loaded),
        labels=tuple(of_faces for of_faces, _ in labels),
        classes=names,
        names=tuple(member.name for member in members),
        in_train=torch.tensor([member.in_train for member in members]),
        edge_labels=tuple(edges for _, edges in labels) if has_edges else (),
        reports=tuple(part.report for part in loaded),
    )


def _members(root: Path, given: Path) -> list[_Member]:
    """List every mesh with its label files."""
    if not has_parts(root) or not (root / "seg").is_dir():
        raise ValueError(f"{given}: found no train or test, or no seg; expected {_LAYOUT}")
    for folder in visible_folders(root):
        if folder.name not in _FOLDERS:
            raise ValueError(f"{given}: unknown folder {folder.name!r}; expected {_LAYOUT}")
    meshes = [path for part in PARTS for path in _files(root / part, MESH_SUFFIXES)]
    if not meshes:
        raise ValueError(f"{given}: found no mesh files; expected {_LAYOUT}")
    hard, soft = _by_stem(root / "seg", _LABEL_SUFFIXES), _by_stem(root / "sseg", (".seseg",))
    names = [path.relative_to(root).as_posix() for path in meshes]
    copies = Counter(path.stem for path in meshes)
    problems = []
    for name, path in zip(names, meshes, strict=True):
        found, expected = hard.get(path.stem, []), f"seg/{path.stem}.eseg (or .npy, .seg, .txt)"
        if copies[path.stem] > 1:
            problems.append(f"{name}: another mesh has the same name, and so the same labels")
        elif len(found) != 1:
            has = " and ".join(label.name for label in found) or "no labels"
            problems.append(f"{name}: has {has}; expected one file {expected}")
        elif soft and path.stem not in soft:
            problems.append(f"{name}: has no soft labels; expected sseg/{path.stem}.seseg")
    _refuse(problems, len(meshes), str(given))
    return [
        _Member(
            name,
            path,
            path.parent.name == "train",
            hard[path.stem][0],
            soft[path.stem][0] if soft else None,
        )
        for name, path in zip(names, meshes, strict=True)
    ]


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """List visible files with some suffixes by name; empty if the folder does not exist."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in found if p.suffix.lower() in suffixes and not p.name.startswith("."))


def _by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in _files(folder, suffixes):
        found.setdefault(path.stem, []).append(path)
    return found


def _load_all(members: list[_Member], given: Path, strict: bool) -> list[LabelledMesh]:
    """Load every member, or raise one error that lists all failures."""
    loaded, problems = [], []
    for member in members:
        try:
            part = load_labelled_mesh(member.mesh, member.labels, member.soft, strict=strict)
            loaded.append(part)
        except (ValueError, OSError) as error:
            problems.append(f"{member.name}: {error}")
    _refuse(problems, len(members), str(given))
    return loaded


def _first_label(members: list[_Member], loaded: list[LabelledMesh], given: Path) -> int:
    """Return the number of the first class in the files."""
    files: dict[str, Path] = {}
    for member, part in zip(members, loaded, strict=True):
        files.setdefault(part.labelled, member.labels)
    if len(files) > 1:
        raise ValueError(
            f"{given}: labels must all be of edges or all of faces; {files['edges'].name} has one "
            f"for each edge of its mesh, {files['faces'].name} one for each face"
        )
    # MeshCNN counts classes from the smallest number in the set, which is normally 1.
    return min(int(part.values.min()) for part in loaded) if "edges" in files else 0


def _class_names(
    members: list[_Member],
    loaded: list[LabelledMesh],
    first: int,
    given: Path,
    classes: Sequence[str] | None,
) -> tuple[str, ...]:
    """Return the given class names, or the class numbers, after a check of all labels."""
    largest = max(int(part.values.max()) for part in loaded)
    names = tuple(map(str, range(first, largest + 1))) if classes is None else tuple(classes)
    problems = []
    for member, part in zip(members, loaded, strict=True):
        found, soft = int(part.values.max()), part.edge_labels.soft
        if found >= first + len(names):
            last = first + len(names) - 1
            problems.append(
                f"seg/{member.labels.name}: label {found} is out of range, {len(names)} classes "
                f"are numbered from {first} to {last}"
            )
        if member.soft is not None and soft is not None and soft.shape[1] < len(names):
            problems.append(
                f"sseg/{member.soft.name}: has {soft.shape[1]} columns, too few for the "
                f"{len(names)} classes"
            )
    _refuse(problems, len(members), str(given))
    return names


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


def _renumber(part: LabelledMesh, first: int, column: int) -> tuple[Tensor, EdgeLabels]:
    """Shift labels so that classes start at 0."""
    edges = part.edge_labels
    if edges.soft is not None:
        edges = edges._replace(soft=edges.soft[:, column:])
    if edges.hard is not None:
        edges = edges._replace(hard=_shift(edges.hard, first))
    return _shift(part.face_labels, first), edges


def _shift(labels: Tensor, first: int) -> Tensor:
    return torch.where(labels >= 0, labels - first, UNLABELLED)
