"""Labeled point clouds, and readers of clouds and folders of clouds."""

from __future__ import annotations

import hashlib
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.cache import (
    DAMAGE,
    MAX_BYTES,
    cached_arrays,
    check_unpacked_size,
    read_arrays,
)
from equigeo.datasets.class_folders import PARTS as FOLDER_PARTS
from equigeo.datasets.class_folders import ClassFolders
from equigeo.datasets.meshes import check_labels
from equigeo.datasets.registry.modelnet10 import LARGEST, PARTS, surface_samples
from equigeo.mesh import MeshError
from equigeo.mesh.io.file_mesh import FileMesh
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES, read_mesh_file

_KINDS = {"points": "int16", "label": "uint8", "classes": "text"}
Points = NDArray[np.float64]
CLOUD_SUFFIXES: Final = tuple(sorted((".npy", ".npz", ".xyz", *MESH_SUFFIXES)))
"""Endings of the files that are read, in lower case."""
_FARTHEST = 1e15  # of a coordinate: squares of distances stay finite in float32
MOST_POINTS: Final = 1024  # that are kept of every cloud where fewer are asked for, to draw from


@dataclass(frozen=True, eq=False)
class PointClouds:
    """Labeled point clouds of equal size.

    Parameters
    ----------
    points : Tensor, (clouds, points, 3), floating
    labels : Tensor, (clouds,), int64
        Positions in ``classes``.
    classes : tuple of str
        Class names. They come from files, so whatever displays them must escape them.

    Examples
    --------
    >>> clouds = PointClouds(torch.zeros(2, 5, 3), torch.tensor([0, 1]), ("chair", "table"))
    >>> len(clouds), clouds.num_classes
    (2, 2)
    """

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Validate the fields."""
        shape = tuple(self.points.shape)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or not self.points.is_floating_point():
            raise ValueError(
                f"points must be floating (clouds, points, 3), got {self.points.dtype} {shape}"
            )
        if not bool(self.points.isfinite().all()):
            raise ValueError("points must be finite")
        check_labels(self.labels, self.classes, shape[0])

    def __repr__(self) -> str:
        points = self.points.shape[1]
        return f"PointClouds({len(self)} of {points} points, {self.num_classes} classes)"

    def __len__(self) -> int:
        """Return the number of clouds."""
        return len(self.points)

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without clouds."""
        return len(self.classes)


def load_modelnet_points(
    folder: str | Path, part: Literal["train", "test"] = "train"
) -> PointClouds:
    """Load one part of ModelNet10, sampled to 1024 points per shape.

    Parameters
    ----------
    folder : path
        Holds ``modelnet10_train.npz`` (3991 shapes, the official training set) and
        ``modelnet10_test_a.npz`` (454 shapes, one half of the official test set).
    part : {"train", "test"}

    Returns
    -------
    PointClouds
        float32, each cloud in a box centered at the origin whose largest side is 2. Any random
        subset of the points is spread evenly.

    References
    ----------
    Wu et al., "3D ShapeNets: a deep representation for volumetric shapes", 2015.

    Examples
    --------
    >>> load_modelnet_points("nowhere")
    Traceback (most recent call last):
        ...
    ValueError: nowhere/modelnet10_train.npz: no such file; ...
    """
    if part not in PARTS:
        raise ValueError(f"part must be train or test, got {part!r}")
    path = Path(folder) / PARTS[part]
    if not path.is_file():
        names = " and ".join(PARTS.values())
        raise ValueError(f"{path}: no such file; expected a folder with {names}")
    arrays = read_arrays(path, _KINDS, "point clouds")
    try:
        points = torch.from_numpy(arrays["points"].astype(np.float32)) / LARGEST
        labels = torch.from_numpy(arrays["label"].astype(np.int64))
        classes = tuple(str(name) for name in arrays["classes"].reshape(-1))
        return PointClouds(points, labels, classes)
    except ValueError as error:
        raise ValueError(f"{path}: cannot be read as point clouds: {error}") from error


def read_cloud(path: Path, number: int) -> Points:
    """Read the points of a file, or sample points of its surface.

    Parameters
    ----------
    path : Path
        ``.npy`` array (points, 3 or more); ``.npz`` with such an array, named ``points`` or the
        only one; ``.xyz`` text with one point per line, separated by spaces or commas; or a file
        of `equigeo.mesh.load_mesh`. Columns after the third are ignored.
    number : int
        Points to sample on a mesh with faces, by weighted sample elimination (blue noise). Samples
        depend only on the content of the file and are cached. Meshes without faces give their
        vertices.

    Returns
    -------
    array, (points, 3), float64
        In the units of the file.

    Raises
    ------
    ValueError
        If the file is unusable. The message does not name the file.

    Examples
    --------
    >>> read_cloud(Path("scan.las"), 100)
    Traceback (most recent call last):
        ...
    ValueError: has the extension '.las'; expected .3mf, .glb, .gltf, .npy, ...
    """
    suffix = path.suffix.lower()
    if suffix not in CLOUD_SUFFIXES:
        known = ", ".join(CLOUD_SUFFIXES)
        raise ValueError(f"has the extension {path.suffix!r}; expected {known}")
    if suffix in MESH_SUFFIXES:
        return _of_mesh(path, number)
    if not path.is_file():
        raise ValueError("is no regular file" if path.exists() else "does not exist")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES} bytes")
    try:
        points = _of_text(path) if suffix == ".xyz" else _of_arrays(path)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error})") from error
    return _checked(points)


def _of_mesh(path: Path, number: int) -> Points:
    mesh = read_mesh_file(path)
    vertices = _checked(np.asarray(mesh.vertices, dtype=np.float64))
    if not len(mesh.sizes):
        return vertices
    data = path.read_bytes()
    if path.suffix.lower() == ".gltf":  # the numbers may be in another file
        data = vertices.tobytes() + mesh.corners.tobytes()
    content = hashlib.sha256(data).hexdigest()
    return cached_arrays(
        f"surface_2_{content[:32]}_{number}.npz",  # 1: concave polygons folded over
        None,
        lambda: {"points": _sampled(mesh, vertices, number, content)},
        lambda arrays: _checked(arrays["points"]),
    )


def _sampled(mesh: FileMesh, vertices: Points, number: int, content: str) -> Points:
    triangles, _ = mesh.triangles()
    if not len(triangles):
        raise MeshError("has faces, and no triangle among them")
    if triangles.min() < 0 or triangles.max() >= len(vertices):
        raise MeshError(f"has a face with a vertex that is none of its {len(vertices)}")
    seed = np.random.SeedSequence([0, zlib.crc32(content.encode()), number])
    try:
        return surface_samples(vertices[triangles], number, np.random.default_rng(seed))
    except ValueError as error:
        raise MeshError(f"cannot be sampled: {error}") from error


def _of_arrays(path: Path) -> NDArray[np.generic]:
    try:
        if path.suffix.lower() == ".npz":
            check_unpacked_size(path)
        if path.suffix.lower() == ".npy":
            # As a map of the file, whose size its header must not exceed.
            return np.array(np.load(path, allow_pickle=False, mmap_mode="r"))
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            name = "points" if "points" in found.files else "".join(found.files[:1])
            if name != "points" and len(found.files) != 1:
                raise ValueError(f"has {len(found.files)} arrays, none of them called 'points'")
            return np.asarray(found[name])
    except OSError:
        raise
    except (*DAMAGE, MemoryError) as error:
        raise ValueError(f"cannot be read as an array: {error}") from error


def _of_text(path: Path) -> NDArray[np.generic]:
    rows = []
    for number, line in enumerate(path.read_bytes().removeprefix(BOM_UTF8).splitlines(), 1):
        text = line.partition(b"#")[0].strip()
        words = text.replace(b",", b" ").split()
        if not words:
            continue
        if len(words) > 3 and any(len(part.split()) > 1 for part in text.split(b",")[1:]):
            raise ValueError(
                f"line {number} has commas and blanks between numbers; write 1.5, not 1,5"
            )
        if b"_" in text:  # which Python takes for a separator of digits
            raise ValueError(f"line {number} has a coordinate that is no number")
        try:
            rows.append([float(word) for word in words[:3]])
        except ValueError:
            raise ValueError(f"line {number} has a coordinate that is no number") from None
        if len(words) < 3:
            raise ValueError(f"line {number} has {len(words)} coordinates, expected 3")
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _checked(points: NDArray[np.generic]) -> Points:
    """Validate a cloud and return its coordinates."""
    if points.ndim != 2 or points.shape[1] < 3 or points.dtype.kind not in "fiu":
        raise ValueError(
            f"must have numbers (points, 3 or more), got {points.dtype} {tuple(points.shape)}"
        )
    if len(points) == 3 and points.shape[1] > 16:
        raise ValueError(f"must have a point per row, got {tuple(points.shape)}; transpose it")
    found = points[:, :3].astype(np.float64)
    if not len(found):
        raise ValueError("has no points")
    if not np.isfinite(found).all() or np.abs(found).max() > _FARTHEST:
        raise ValueError(f"has coordinates that are not finite, or beyond {_FARTHEST:g}")
    return found


def load_cloud_folder(
    path: str | os.PathLike[str], points: int = MOST_POINTS, split: Sequence[float] = ()
) -> tuple[PointClouds, PointClouds]:
    """Load labeled point clouds laid out as ``<class>/{train,val,test}/<file>``.

    ``val`` is optional and not returned. Files are those of `equigeo.datasets.read_cloud`; surfaces
    are sampled. All clouds are cut to the size of the smallest one, at most the larger of
    ``points`` and 1024, by a random choice that is the same for every call.

    Parameters
    ----------
    path : path-like
        Folder or archive, as in `load_mesh_folder`.
    points : int
        Least number of points per cloud.
    split : sequence of float, optional
        Fractions of training, optionally validation, and test files, as in `load_mesh_folder`.

    Returns
    -------
    train, test : PointClouds
        float32, each cloud in a box centered at the origin whose largest side is 2.

    Raises
    ------
    ValueError
        If the layout is wrong or files are unusable; the message counts them and names the first.

    Examples
    --------
    >>> load_cloud_folder("no/such/folder")
    Traceback (most recent call last):
        ...
    ValueError: no/such/folder: no such file or folder
    """
    parts = load_cloud_parts(path, points, split)
    return parts["train"], parts["test"]


def load_cloud_parts(
    path: str | os.PathLike[str], points: int = MOST_POINTS, split: Sequence[float] = ()
) -> dict[str, PointClouds]:
    """Load ``train``, ``test`` and, if a class has one, ``val`` of a folder of clouds."""
    folders = ClassFolders.find(Path(path), CLOUD_SUFFIXES, "cloud", split)
    wanted = max(points, MOST_POINTS)
    clouds = folders.load(lambda member: _read_folder(member.path, wanted, points), ValueError)
    kept = min(wanted, *map(len, clouds))
    names = map(folders.name, folders.members)
    tensors = [_normalized(_drawn(x, kept, name)) for x, name in zip(clouds, names, strict=True)]
    stacked, labels = torch.stack(tensors), torch.tensor([m.label for m in folders.members])
    parts = {}
    for part in FOLDER_PARTS:
        chosen = torch.tensor([member.part == part for member in folders.members])
        if bool(chosen.any()):
            parts[part] = PointClouds(stacked[chosen], labels[chosen], folders.classes)
        elif part != "val":
            raise ValueError(f"{path}: no class has a file in {part}")
    return parts


def normalized_cloud(points: Points, number: int, name: str = "") -> Tensor:
    """Sample points and scale them into the box of side 2, as ``load_cloud_folder`` does."""
    return _normalized(_drawn(_with_extent(points), number, name))


def _read_folder(path: Path, wanted: int, least: int) -> Points:
    found = _with_extent(read_cloud(path, wanted))
    if len(found) < least:
        raise ValueError(f"has {len(found)} points, expected {least}; ask for fewer")
    return found


def _with_extent(points: Points) -> Points:
    if not (np.ptp(points, axis=0).max() > 0):
        raise ValueError("has all its points in one place")
    return points


def _drawn(points: Points, number: int, name: str) -> Points:
    """Draw points without replacement, with a random stream per file."""
    if len(points) <= number:
        return points
    seed = np.random.SeedSequence([0, zlib.crc32(name.encode(errors="surrogateescape"))])
    return points[np.random.default_rng(seed).permutation(len(points))[:number]]


def _normalized(points: Points) -> Tensor:
    low, high = points.min(axis=0), points.max(axis=0)
    half = (high - low).max() / 2 or 1.0  # of those that were drawn, all may be one
    return torch.from_numpy((points - (low + high) / 2) / half).float()
