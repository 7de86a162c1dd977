"""Meshes with numbers to predict, per mesh, face or vertex."""

from __future__ import annotations

import csv
import math
import os
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equigeo.datasets.class_folders import MeshFiles, files_by_stem, load_members, warn_of_unused
from equigeo.datasets.meshes import check_parts, marks_of
from equigeo.datasets.segmentation.labels import read_numbers
from equigeo.mesh import LoadReport, TriangleMesh, load_mesh, subdivide
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES
from equigeo.mesh.load_mesh import means_of_known, property_values

TargetsAt = Literal["mesh", "faces", "vertices"]
TABLE = "targets.csv"
_FIELDS = "targets"  # folder of numbers per face or vertex
_SUFFIXES = (".npy", ".txt")
_LAYOUT = (
    f"{{train,val,test}}/<name>.{{{','.join(s[1:] for s in MESH_SUFFIXES)}}} and {TABLE}; or, for "
    f"targets of faces or vertices, {_FIELDS}/<name>.{{npy,txt}} or properties of <name>.ply"
)
_STREAM = zlib.crc32(b"ellipsoid")
_SPREAD = 0.4  # deviation of the logarithms of the axes and of the size of ellipsoids


@dataclass(frozen=True, eq=False)
class MeshRegressionDataset:
    """Meshes with target values and the training, validation and test split of their source.

    Parameters
    ----------
    meshes : tuple of TriangleMesh
    targets : tuple of Tensor, (1, faces or vertices of the mesh; targets), float64
        NaN if unknown.
    target_names : tuple of str
        They may come from files, so whatever displays them must escape them.
    names, in_train, in_val, reports
        See `MeshDataset`.
    targets_at : {"mesh", "faces", "vertices"}
        Elements with a row of targets.

    Examples
    --------
    >>> mesh = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    >>> target = (torch.tensor([[0.5]], dtype=torch.float64),)
    >>> MeshRegressionDataset((mesh,), target, ("area",), ("a",), torch.tensor([True]))
    MeshRegressionDataset(1 meshes with area per mesh, 1 to train)
    """

    meshes: tuple[TriangleMesh, ...]
    targets: tuple[Tensor, ...]
    target_names: tuple[str, ...]
    names: tuple[str, ...]
    in_train: Tensor
    targets_at: TargetsAt = "mesh"
    reports: tuple[LoadReport, ...] = ()
    in_val: Tensor | None = None

    def __post_init__(self) -> None:
        """Validate the fields."""
        _check_elements(self.targets_at)
        number = len(self.meshes)
        if number == 0:
            raise ValueError("a data set needs at least one mesh, got none")
        for field in ("targets", "names", "reports"):
            found = len(getattr(self, field))
            if found != number and (found or field != "reports"):
                raise ValueError(f"{field} must be of {number} meshes, got {found}")
        check_parts(self.in_train, self.in_val, number)
        if not self.target_names or len(set(self.target_names)) != len(self.target_names):
            raise ValueError(f"target_names must be different names, got {self.target_names}")
        for mesh, values, name in zip(self.meshes, self.targets, self.names, strict=True):
            shape = number_of_elements(mesh, self.targets_at), len(self.target_names)
            if values.shape != shape or values.dtype != torch.float64:
                raise ValueError(
                    f"{name}: targets must be {torch.float64} {shape}, "
                    f"got {values.dtype} {tuple(values.shape)}"
                )
            if values.isinf().any():
                raise ValueError(f"{name}: targets must be finite, or NaN if unknown, got infinity")

    def __repr__(self) -> str:
        each = {"mesh": "mesh", "faces": "face", "vertices": "vertex"}[self.targets_at]
        return (
            f"MeshRegressionDataset({len(self)} meshes with {', '.join(self.target_names)} per "
            f"{each}, {int(self.in_train.sum())} to train)"
        )

    def __len__(self) -> int:
        """Return the number of meshes."""
        return len(self.meshes)

    @property
    def labels(self) -> tuple[Tensor, ...]:
        """``targets``, under the name of other data sets."""
        return self.targets

    @property
    def classes(self) -> tuple[str, ...]:
        """``target_names``, under the name of other data sets."""
        return self.target_names


def _check_elements(targets_at: str) -> None:
    if targets_at not in get_args(TargetsAt):
        raise ValueError(f"targets_at must be one of {get_args(TargetsAt)}, got {targets_at!r}")


def number_of_elements(surface: Any, elements: str) -> int:
    """Return the number of rows of targets of an object with faces and vertices."""
    return 1 if elements == "mesh" else len(getattr(surface, elements))


def load_regression_folder(
    path: str | os.PathLike[str],
    targets: Sequence[str] = (),
    targets_at: TargetsAt = "mesh",
    split: Sequence[float] = (),
    **loading: Any,
) -> MeshRegressionDataset:
    """Load meshes in ``{train,val,test}`` with their targets.

    Targets of whole meshes are columns of ``targets.csv``, whose first column names the meshes by
    path below the folder, file name or stem; empty cells are unknown. Targets of faces or vertices
    are numbers in ``targets/<name>.npy`` or ``.txt``, a row per face or vertex of the file, or
    properties of a ``.ply`` file. Vertex properties are averaged to faces. Values follow every
    repair of the mesh; those of vertices that it merges are averaged.

    Parameters
    ----------
    path : path-like
        Folder or archive, as in `load_mesh_folder`.
    targets : sequence of str, optional
        Columns or properties; by default all columns. Names of PLY properties are needed.
    targets_at : {"mesh", "faces", "vertices"}
    split : sequence of float, optional
        See `load_mesh_folder`; drawn over all meshes.
    **loading
        Options of `equigeo.mesh.load_mesh`.

    Returns
    -------
    MeshRegressionDataset
        Training, validation and test meshes, each by name.

    Raises
    ------
    ValueError
        If the layout is wrong, or a mesh or its targets are missing or unusable.

    Examples
    --------
    >>> load_regression_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    _check_elements(targets_at)
    given = Path(path)
    root, paths, names, parts = MeshFiles.find(given, _LAYOUT, {_FIELDS}, split)
    wanted = tuple(targets)
    if targets_at == "mesh":
        wanted, rows = _of_table(root, given, names, wanted)
        loaded = load_members(names, lambda i: (*load_mesh(paths[i], **loading), rows[i]), given)
    else:
        files = files_by_stem(root / _FIELDS, _SUFFIXES)
        copies = Counter(path.stem for path in paths)
        unused = files.keys() - copies.keys()
        warn_of_unused("target files", (file.name for stem in unused for file in files[stem]))
        shared = {stem for stem in files if copies[stem] > 1}
        read = partial(
            _with_fields, files=files, shared=shared, wanted=wanted, at=targets_at, loading=loading
        )
        loaded = load_members(names, lambda i: read(paths[i]), given)
        width = max(rows.shape[1] for _, _, rows in loaded)
        wanted = wanted or tuple(f"target {k}" for k in range(width))
    return MeshRegressionDataset(
        meshes=tuple(mesh for mesh, _, _ in loaded),
        targets=tuple(rows for _, _, rows in loaded),
        target_names=wanted,
        names=tuple(names),
        targets_at=targets_at,
        reports=tuple(report for _, report, _ in loaded),
        **marks_of(parts),
    )


def _of_table(
    root: Path, given: Path, names: Sequence[str], wanted: tuple[str, ...]
) -> tuple[tuple[str, ...], list[Tensor]]:
    """Return the names of the targets and the values of each mesh, (1, targets)."""
    wanted, table = _read_table(root / TABLE, given, wanted)
    keys = [(name, Path(name).name, Path(name).stem) for name in names]
    number = Counter(key for each in keys for key in dict.fromkeys(each))

    def row(i: int) -> Tensor:
        found = [key for key in dict.fromkeys(keys[i]) if key in table]
        if len(found) > 1:
            rows = " and ".join(map(repr, found))
            raise ValueError(f"{TABLE} has the rows {rows} for it; keep one of them")
        if not found or number[found[0]] > 1:
            why = f"{found[0]!r} is several meshes" if found else "it has no row"
            raise ValueError(f"in {TABLE}, {why}; name it {names[i]!r} in the first column")
        return torch.tensor([table[found[0]]], dtype=torch.float64)

    values = load_members(names, row, given)
    warn_of_unused(f"rows of {TABLE}", table.keys() - {key for each in keys for key in each})
    return wanted, values


def _read_table(
    path: Path, given: Path, wanted: tuple[str, ...]
) -> tuple[tuple[str, ...], dict[str, list[float]]]:
    """Read the values of each row by the name in its first column."""
    if not path.is_file():
        raise ValueError(f"{given}: found no {TABLE}; expected {_LAYOUT}")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(map(str.strip, line))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: is no table of comma-separated values ({error})") from error
    header = [name.strip() for name in lines[0]] if lines else []
    wanted = wanted or tuple(header[1:])
    missing = [
        name or "a column without a name"
        for name in wanted
        if not name or header[1:].count(name) != 1
    ]
    if missing or not wanted:
        raise ValueError(
            f"{path}: must have a column of files, then one column per target, got {header}"
            + (f"; asked for {', '.join(missing)}" if missing else "")
        )
    columns = [header.index(name, 1) for name in wanted]
    table: dict[str, list[float]] = {}
    for number, line in enumerate(lines[1:], 2):
        name = line[0].strip()
        if len(line) != len(header) or name in table:
            why = f"{name!r} occurs twice" if name in table else f"{len(line)} cells"
            raise ValueError(f"{path}: row {number} has {why}; the header has {len(header)}")
        table[name] = [_number(line[k].strip(), f"{path}: row {number}") for k in columns]
    return wanted, table


def _number(text: str, where: str) -> float:
    try:
        # Python takes _ for a separator of digits.
        value = math.inf if "_" in text else float(text or "nan")
    except ValueError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(
            f"{where}: a target must be a finite number or empty, got {text!r}; "
            "name the columns to predict"
        )
    return value


def _with_fields(
    path: Path,
    files: dict[str, list[Path]],
    shared: set[str],  # stems of several meshes
    wanted: tuple[str, ...],
    at: TargetsAt,
    loading: dict[str, Any],
) -> tuple[TriangleMesh, LoadReport, Tensor]:
    """Load a mesh with the targets of its faces or vertices, (elements, targets)."""
    found = files.get(path.stem, [])
    if path.stem in shared:
        raise ValueError("another mesh has the same name, and so the same targets")
    if len(found) > 1:
        raise ValueError(f"has {' and '.join(file.name for file in found)}; keep one of them")
    mesh, report = load_mesh(path, **loading)
    if not found:
        if not wanted:
            raise ValueError(
                f"has no file {_FIELDS}/{path.stem}.npy or .txt; to read properties of the mesh "
                f"file, name them as targets: {report.attributes.summary() or 'it has none'}"
            )
        elements = cast(Literal["faces", "vertices"], at)
        return mesh, report, property_values(mesh, report, wanted, elements)
    where = f"{_FIELDS}/{found[0].name}"
    try:
        values = torch.from_numpy(np.atleast_1d(read_numbers(found[0])))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    rows = report.file_faces if at == "faces" else report.file_vertices
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != rows or (wanted and values.shape[1] != len(wanted)):
        columns = len(wanted) or "any number of"
        raise ValueError(
            f"{where}: must hold a row for each of {rows} {at} of the file and {columns} columns, "
            f"got {tuple(values.shape)}"
        )
    if at == "faces":
        return mesh, report, values[report.kept_faces]
    used = report.vertex_map >= 0
    means = means_of_known(values[used], report.vertex_map[used], mesh.num_vertices)
    return mesh, report, means[report.vertex_map[report.kept_vertices]]


def ellipsoids(
    targets_at: TargetsAt = "mesh", seed: int = 0, *, number: int = 80, subdivisions: int = 3
) -> MeshRegressionDataset:
    """Generate turned ellipsoids of random axes and sizes, with targets known by formulas.

    Faces are wound outwards.
    Targets of a mesh are its ``sphericity`` (the area of the ball of equal volume over its own) and
    its ``volume``, which depends on scale. The target of faces and vertices is ``mean_curvature``
    of the smooth ellipsoid of unit area. Three quarters of the meshes are training meshes.

    Parameters
    ----------
    targets_at : {"mesh", "faces", "vertices"}
    seed : int
    number : int, meshes
    subdivisions : int
        Of an octahedron: a mesh has ``8 * 4**subdivisions`` faces.

    Examples
    --------
    >>> ellipsoids("faces", number=4, subdivisions=1)
    MeshRegressionDataset(4 meshes with mean_curvature per face, 3 to train)
    """
    if seed < 0 or number < 2 or not 0 <= subdivisions <= 8:
        raise ValueError(
            "seed, number and subdivisions must be at least 0, at least 2 and 0 to 8, "
            f"got {seed}, {number} and {subdivisions}"
        )
    ball = unit_sphere(subdivisions)
    made = [
        _ellipsoid(
            ball, targets_at, np.random.default_rng(np.random.SeedSequence([seed, _STREAM, i]))
        )
        for i in range(number)
    ]
    return MeshRegressionDataset(
        meshes=tuple(mesh for mesh, _ in made),
        targets=tuple(values for _, values in made),
        target_names=("sphericity", "volume") if targets_at == "mesh" else ("mean_curvature",),
        names=tuple(f"ellipsoid {i}" for i in range(number)),
        in_train=torch.arange(number) < (3 * number) // 4,
        targets_at=targets_at,
    )


def unit_sphere(
    subdivisions: int,  # of an octahedron
) -> TriangleMesh:
    """Return a sphere of ``8 * 4**subdivisions`` faces, wound outwards."""
    ball = TriangleMesh(torch.cat([torch.eye(3), -torch.eye(3)]), torch.tensor(_OCTAHEDRON))
    for _ in range(subdivisions):
        finer = subdivide(ball)
        ball = TriangleMesh(nn.functional.normalize(finer.vertices), finer.faces)
    return ball


def random_turn(random: np.random.Generator) -> NDArray[np.float64]:
    """Draw a rotation (3, 3); a reflection would wind the faces of a surface inwards."""
    turn, _ = np.linalg.qr(random.normal(size=(3, 3)))
    return turn * np.sign(np.linalg.det(turn))


def _ellipsoid(
    ball: TriangleMesh, targets_at: TargetsAt, random: np.random.Generator
) -> tuple[TriangleMesh, Tensor]:
    turns = [torch.from_numpy(random_turn(random)) for _ in range(2)]
    axes = torch.from_numpy(np.exp(_SPREAD * random.normal(size=3)))
    scale = math.exp(_SPREAD * random.normal())
    mesh = TriangleMesh(ball.act(turns[0]).vertices * axes, ball.faces)
    corner = mesh.vertices[mesh.faces]
    normal = torch.linalg.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]) / 2
    area, volume = normal.norm(dim=1).sum(), (normal * corner[:, 0]).sum() / 3
    moved = mesh.act(scale * turns[1])
    if targets_at == "mesh":
        sphericity = math.pi ** (1 / 3) * (6 * volume) ** (2 / 3) / area
        return moved, torch.stack([sphericity, scale**3 * volume])[None]
    at = corner.mean(dim=1) if targets_at == "faces" else mesh.vertices
    at = at / (at / axes).norm(dim=1, keepdim=True)  # of faces: on the smooth surface
    # H = |x² - a² - b² - c²| / (2 a² b² c² |x / a²|³)
    spread = (at.square().sum(dim=1) - axes.square().sum()).abs()
    curvature = spread / (2 * axes.prod() ** 2 * (at / axes**2).norm(dim=1) ** 3)
    return moved, (area.sqrt() * curvature)[:, None]


_OCTAHEDRON = [
    [x, y, z] if (x + y + z) % 2 else [x, z, y] for x in (0, 3) for y in (1, 4) for z in (2, 5)
]
