"""Built-in data set of engraved cubes."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage

from equigeo.datasets.cache import Arrays, cached_arrays
from equigeo.datasets.icons import ICON_TEMPLATES, IconTemplate, draw_icon, icon_generator
from equigeo.datasets.meshes import MeshDataset
from equigeo.datasets.shapes.articulated import (
    check_arguments,
    join_meshes,
    split_meshes,
)
from equigeo.datasets.shapes.remeshing import simplify_surface
from equigeo.datasets.shapes.surface import surface_defect
from equigeo.mesh.simplify import collapse_edges

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
_CELLS: Final = 32  # along an edge of the cube, before simplification
_PLAIN_FACES: Final = 1000  # on the five plain sides, of which cubes keep about 200
_SCALE: Final = (0.5, 0.85)  # longer side of the placed icon's bounding box, in edges of the cube
_MARGIN: Final = 0.05  # around the icon
_DEPTH: Final = (0.04, 0.08)  # of the engraving
_BLUR: Final = 1.0  # cells: deviation of the Gaussian that slopes the walls
_EDGE_WEIGHT: Final = 1e-5  # in simplification: flat parts are coarse, so that icons survive
_ATTEMPTS: Final = 8  # each with further random numbers
TRAIN_SHARE: Final = 0.85  # of the icons of a class, the first ones: 17 of 20
_VERSION = 1  # raise with every change that alters a generated mesh
# Rotations, (6, 3, 3), from the upper side to each side: cyclic shifts of the axes, each after
# nothing or half a turn about the first axis.
_TURNS: Final = np.stack(
    [
        np.roll(np.eye(3), shift, axis=1) @ np.diag([1.0, sign, sign])
        for shift in range(3)
        for sign in (1.0, -1.0)
    ]
)


class _Cube(NamedTuple):
    """Cube of side 1 around the origin; ``grid`` holds the vertices of its upper side."""

    vertices: Array
    faces: Indices
    grid: Indices


def engrave_cube(
    icon: Mask,  # (height, width)
    faces: int,  # even
    generator: np.random.Generator,
) -> tuple[Array, Indices]:
    """Engrave a randomly placed icon in a random side of a cube of ``faces`` faces, genus 0."""
    if not icon.any():
        raise ValueError("an icon needs a pixel inside, got an empty picture")
    cube, defect = _cube(_CELLS), None
    for _ in range(_ATTEMPTS):
        vertices = cube.vertices.copy()
        vertices[cube.grid, 2] -= generator.uniform(*_DEPTH) * _place(icon, _CELLS, generator)
        vertices, triangles = simplify_surface(vertices, cube.faces, faces, generator, _EDGE_WEIGHT)
        vertices = vertices @ _TURNS[generator.integers(len(_TURNS))].T
        defect = surface_defect(vertices, triangles, genus=0)
        if defect is None:
            return vertices, triangles
    raise RuntimeError(f"cannot engrave the icon: {defect}")


def _place(icon: Mask, cells: int, generator: np.random.Generator) -> Array:
    """Return the depth, from 0 to 1, of the placed icon at each point of a side's grid."""
    angle = generator.uniform(0.0, 2.0 * np.pi)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    pixels = np.argwhere(icon) @ turn.T
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    sizes = high - low + 1.0
    scale = generator.uniform(*_SCALE) / sizes.max()  # edges of the cube for each pixel
    room = 0.5 - _MARGIN - scale * sizes / 2
    center = generator.uniform(-room, room)
    ticks = np.linspace(-0.5, 0.5, cells + 1)
    points = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1)
    points = ((points - center) / scale + (low + high) / 2) @ turn  # back into the picture
    deviation = _BLUR / cells / scale
    padding = int(np.ceil(4.0 * deviation))  # room for the walls' slopes
    depth = ndimage.gaussian_filter(np.pad(icon, padding).astype(float), deviation)
    depth = ndimage.map_coordinates(depth, np.moveaxis(points, -1, 0) + padding, order=1)
    depth[[0, -1]] = depth[:, [0, -1]] = 0.0  # the cube keeps its edges
    return np.asarray(depth, np.float64)


@lru_cache(maxsize=1)
def _cube(cells: int) -> _Cube:
    """Build the cube with a grid on top and coarser faces below."""
    ticks = np.arange(cells + 1)
    first, second = np.meshgrid(ticks, ticks, indexing="ij")
    upper = np.stack([first, second, np.full_like(first, cells)], axis=-1) - cells / 2
    sides = np.stack([upper @ turn.T for turn in _TURNS]) + cells / 2
    corners, indices = np.unique(
        np.rint(sides).astype(np.int64).reshape(-1, 3), axis=0, return_inverse=True
    )
    faces = np.concatenate([_triangles(grid) for grid in indices.reshape(6, *first.shape)])
    vertices, faces, _ = collapse_edges(
        corners / cells - 0.5, faces, 2 * cells**2 + _PLAIN_FACES, fixed=corners[:, 2] == cells
    )
    above = np.flatnonzero(vertices[:, 2] == 0.5)
    row, column = np.rint((vertices[above, :2] + 0.5) * cells).astype(np.int64).T
    grid = np.empty_like(first)
    grid[row, column] = above
    return _Cube(vertices, faces, grid)


def _triangles(grid: Indices) -> Indices:
    """Split the squares of a grid along alternating diagonals."""
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    is_odd = (np.indices(a.shape).sum(axis=0) % 2 == 1)[..., None]
    first = np.where(is_odd, np.stack([a, b, d], -1), np.stack([a, b, c], -1))
    second = np.where(is_odd, np.stack([b, c, d], -1), np.stack([a, c, d], -1))
    return np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)])


def engraved_cubes(
    seed: int = 0,
    *,
    classes: int = len(ICON_TEMPLATES),
    icons: int = 20,
    placements: int = 10,
    faces: int = 500,
    cache: Path | None = None,
) -> MeshDataset:
    """Generate cubes with an icon engraved in one side, or read them from the cache.

    A class is a family of icons: letters, tools, figures. Icons vary in size, stretch and smooth
    deformation; a placement rotates, scales and moves an icon on a random side of the cube, and
    simplifies the cube with its own connectivity. Every mesh is closed, connected, manifold,
    oriented outward and of genus 0. As in the engraved cubes of MeshCNN, no icon is in both the
    training and the test part.

    Parameters
    ----------
    seed : int
        Not negative. A mesh does not depend on the numbers of classes, icons and placements.
    classes : int
        Number of classes, from 2 to 22: the first in alphabetical order.
    icons : int
        Icons per class, at least 2; all placements of the first 85 % are marked as training meshes.
    placements : int
        Cubes per icon, positive.
    faces, cache
        See `articulated_shapes`.

    Returns
    -------
    MeshDataset
        Meshes by class and icon, classes in alphabetical order; the placements of an icon are a
        group. By default there are 3,740 training and 660 test meshes.

    References
    ----------
    Hanocka et al., "MeshCNN: a network with an edge", 2019 (the original collection).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cubes = engraved_cubes(classes=3, icons=2, placements=2, cache=Path(folder))
    >>> cubes, cubes.names[2]
    (MeshDataset(12 meshes of 3 classes, 6 to train), 'arrowhead/1/0')
    """
    check_arguments(seed, faces, icons=icons)
    if not 2 <= classes <= len(ICON_TEMPLATES):
        raise ValueError(f"classes must be from 2 to {len(ICON_TEMPLATES)}, got {classes}")
    if placements < 1:
        raise ValueError(f"placements must be positive, got {placements}")
    templates = ICON_TEMPLATES[:classes]
    meshes = cached_arrays(
        f"engraved_cubes-v{_VERSION}-seed{seed}-{classes}x{icons}x{placements}x{faces}.npz",
        cache,
        partial(_generate, seed, templates, icons, placements, faces),
        partial(split_meshes, number=classes * icons * placements, faces=faces),
    )
    groups = torch.arange(classes * icons).repeat_interleave(placements)
    names = tuple(template.name for template in templates)
    return MeshDataset(
        meshes=tuple(meshes),
        labels=groups // icons,
        classes=names,
        names=tuple(
            f"{name}/{icon}/{placement}"
            for name in names
            for icon in range(icons)
            for placement in range(placements)
        ),
        in_train=groups % icons < int(TRAIN_SHARE * icons),
        groups=groups,
    )


def _generate(
    seed: int, templates: tuple[IconTemplate, ...], icons: int, placements: int, faces: int
) -> Arrays:
    """Generate all cubes and join them in the stored layout."""
    return join_meshes(
        [
            engrave_cube(picture, faces, icon_generator(template, seed, icon, 1 + placement))
            for template in templates
            for icon in range(icons)
            for picture in [draw_icon(template, seed, icon)]
            for placement in range(placements)
        ]
    )
