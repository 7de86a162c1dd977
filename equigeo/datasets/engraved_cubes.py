"""Built-in data set of engraved cubes, and the random icons that are engraved."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from equigeo._core.checks import checked_integer
from equigeo.datasets.cache import Arrays, cached_arrays
from equigeo.datasets.meshes import MeshDataset
from equigeo.datasets.shapes.articulated import check_arguments, join_meshes, split_meshes
from equigeo.datasets.shapes.remeshing import simplify_surface
from equigeo.datasets.shapes.surface import surface_defect
from equigeo.mesh.simplify import collapse_edges

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Point = tuple[float, float]
_RADII: Final = 0.15  # largest relative change of a radius, either way
_THICKNESS: Final = 0.2  # of a thickness
_STEEPNESS: Final = 4.0  # of the flanks of square lobes: about a fifth of their period each
SIZE: Final = 128  # pixels along a side of the picture
_REACH: Final = 1.4  # the picture shows the square of this half side
_STRETCH: Final = 0.15  # largest relative change of each side of an icon
_WAVES: Final = 6  # of random direction, which displace every point
_WAVE_NUMBERS: Final = (1.0, 5.0)  # radians per unit: up to about two waves along an icon
_DISPLACEMENT: Final = 0.05  # deviation in all
_CLOSING: Final = 2  # pixels
_DILATION: Final = (1, 3)  # pixels, so that strokes survive simplification
_LEAST_PIXELS: Final = 400  # of an icon; smaller ones are in pieces
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


@dataclass(frozen=True)
class Stroke:
    """Region within a distance of a polyline."""

    points: tuple[Point, ...]
    radius: float  # half the thickness

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for a random thickness."""
        radius = _vary(self.radius, _THICKNESS, generator)
        inside = np.zeros(points.shape[:-1], bool)
        corners = np.array(self.points)
        for start, span in zip(corners[:-1], np.diff(corners, axis=0), strict=True):
            offset = points - start
            along = np.clip(offset @ span / (span @ span), 0.0, 1.0)
            inside |= np.sum((offset - along[..., None] * span) ** 2, axis=-1) <= radius**2
        return inside


@dataclass(frozen=True)
class Ellipse:
    """Axis-aligned superellipse."""

    center: Point
    radii: Point  # half axes
    exponent: float = 2.0  # larger values are closer to a rectangle

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for random half axes of the same ratio."""
        radii = np.array(self.radii) * _vary(1.0, _RADII, generator)
        scaled = np.abs(points - np.array(self.center)) / radii
        inside: Mask = np.sum(scaled**self.exponent, axis=-1) <= 1.0
        return inside


@dataclass(frozen=True)
class Polygon:
    """Simple closed polygon."""

    corners: tuple[Point, ...]  # at least three, in either direction

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for a random size around the mean corner."""
        corners = np.array(self.corners)
        middle = corners.mean(axis=0)
        corners = middle + _vary(1.0, _RADII, generator) * (corners - middle)
        inside = np.zeros(points.shape[:-1], bool)
        x, y = np.moveaxis(points, -1, 0)
        for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if y0 != y1:  # a ray to the right crosses this side
                inside ^= ((y0 <= y) != (y1 <= y)) & (x < x0 + (x1 - x0) * (y - y0) / (y1 - y0))
        return inside


@dataclass(frozen=True)
class Lobes:
    """Region inside a closed curve around the origin with a periodic radius."""

    count: int  # number of lobes, equal for all icons of a class
    inner: float  # smallest radius
    outer: float  # largest radius
    profile: Literal["round", "pointed", "square"] = "round"  # cosine, triangle, square wave

    def contains(self, points: Array, generator: np.random.Generator) -> Mask:
        """Return which points, (..., 2), are inside for random radii."""
        inner = _vary(self.inner, _RADII, generator)
        outer = _vary(self.outer, _RADII, generator)
        x, y = np.moveaxis(points, -1, 0)
        wave = np.cos(self.count * np.arctan2(x, y))
        if self.profile == "pointed":
            wave = 1.0 - 2.0 * np.arccos(wave) / np.pi
        elif self.profile == "square":
            wave = np.tanh(_STEEPNESS * wave) / np.tanh(_STEEPNESS)
        inside: Mask = np.hypot(x, y) <= inner + (outer - inner) * (1.0 + wave) / 2.0
        return inside


Part = Stroke | Ellipse | Polygon | Lobes


@dataclass(frozen=True)
class IconTemplate:
    """Class of icons: the union of parts minus the cuts, within about one unit of the origin."""

    name: str
    parts: tuple[Part, ...]
    cuts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        return f"IconTemplate({self.name!r}, {len(self.parts)} parts, {len(self.cuts)} cuts)"


def _vary(size: float, share: float, generator: np.random.Generator) -> float:
    return size * generator.uniform(1.0 - share, 1.0 + share)


def draw_icon(template: IconTemplate, seed: int, instance: int) -> Mask:
    """Draw an icon with random sizes, stretch and smooth deformation as a mask, (128, 128)."""
    # The stream depends only on seed, class name and instance.
    generator = icon_generator(template, seed, instance, 0)
    points = _deform(_pixels(), generator)
    mask = np.zeros(points.shape[:-1], bool)
    for part in template.parts:
        mask |= part.contains(points, generator)
    for cut in template.cuts:
        mask &= ~cut.contains(points, generator)
    mask = scipy.ndimage.binary_closing(mask, _disc(_CLOSING))
    low, high = _DILATION
    mask = scipy.ndimage.binary_dilation(mask, _disc(int(generator.integers(low, high + 1))))
    icon = _largest_component(mask)
    if icon.sum() < _LEAST_PIXELS:
        raise RuntimeError(f"icon {template.name!r} number {instance} has {icon.sum()} pixels")
    return icon


def icon_generator(
    template: IconTemplate, seed: int, instance: int, stream: int
) -> np.random.Generator:
    """Return the generator of an icon: stream 0 draws it, stream 1 + k places it."""
    name = zlib.crc32(template.name.encode())
    return np.random.default_rng(np.random.SeedSequence([seed, name, instance, stream]))


def _pixels() -> Array:
    """Return the pixel positions, (128, 128, 2): x to the right, y up."""
    middles = _REACH * (2.0 * (np.arange(SIZE) + 0.5) / SIZE - 1.0)
    return np.stack(np.meshgrid(middles, middles[::-1]), axis=-1)


def _deform(points: Array, generator: np.random.Generator) -> Array:
    """Stretch the axes and displace every point by a sum of waves."""
    points = points / generator.uniform(1.0 - _STRETCH, 1.0 + _STRETCH, 2)
    angles, phases = generator.uniform(0.0, 2.0 * np.pi, (2, _WAVES))
    numbers = generator.uniform(*_WAVE_NUMBERS, _WAVES)
    waves = np.stack([np.cos(angles), np.sin(angles)]) * numbers
    # a sine has the variance 1/2
    amplitudes = generator.standard_normal((_WAVES, 2)) * _DISPLACEMENT * (2.0 / _WAVES) ** 0.5
    moved: Array = points + np.sin(points @ waves + phases) @ amplitudes
    return moved


def _disc(radius: int) -> Mask:
    steps = np.arange(-radius, radius + 1)
    disc: Mask = np.hypot(steps[:, None], steps) <= radius
    return disc


def _largest_component(mask: Mask) -> Mask:
    parts, number = scipy.ndimage.label(mask)
    if number < 2:
        return mask
    largest: Mask = parts == 1 + np.bincount(parts.reshape(-1))[1:].argmax()
    return largest


def _heart() -> tuple[Point, ...]:
    """Sample a heart-shaped closed curve."""
    t = 2.0 * np.pi * np.arange(48) / 48
    x = 16.0 * np.sin(t) ** 3
    y = 13.0 * np.cos(t) - 5.0 * np.cos(2 * t) - 2.0 * np.cos(3 * t) - np.cos(4 * t)
    return tuple(zip((x / 17.0).tolist(), (y / 17.0).tolist(), strict=True))


def _spiral() -> tuple[Point, ...]:
    """Sample an Archimedean spiral of 1.75 turns."""
    t = np.sqrt(np.linspace(0.0, 1.0, 40))  # corners at about even distances
    turn, radius = 3.5 * np.pi * t, 0.95 * t
    x, y = radius * np.cos(turn), radius * np.sin(turn)
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


# In alphabetical order of the names.
ICON_TEMPLATES = (
    IconTemplate("arrowhead", (Stroke(((-0.9, 0.0), (0.8, 0.0)), 0.13),
        Stroke(((0.15, -0.7), (0.8, 0.0), (0.15, 0.7)), 0.13))),
    IconTemplate("bone", (Stroke(((-0.7, 0.0), (0.7, 0.0)), 0.15),
        *(Ellipse((0.66 * a, 0.28 * b), (0.28, 0.28)) for a in (-1, 1) for b in (-1, 1)))),
    IconTemplate("crescent", (
        Ellipse((0.0, 0.0), (0.9, 0.9)),), (Ellipse((0.5, 0.0), (0.75, 0.75)),)),
    IconTemplate("cross", (Stroke(((-0.8, 0.0), (0.8, 0.0)), 0.17),
        Stroke(((0.0, -0.8), (0.0, 0.8)), 0.17))),
    IconTemplate("fish", (Ellipse((-0.25, 0.0), (0.65, 0.42)),
        Polygon(((0.15, 0.0), (0.9, 0.65), (0.7, 0.0), (0.9, -0.65))))),
    IconTemplate("fork", (Stroke(((-0.95, 0.0), (-0.05, 0.0)), 0.16),
        Stroke(((-0.05, -0.6), (-0.05, 0.6)), 0.13),
        *(Stroke(((-0.05, y), (0.85, y)), 0.12) for y in (-0.6, 0.0, 0.6)))),
    IconTemplate("gear", (Lobes(7, 0.55, 1.0, "square"),), (Ellipse((0.0, 0.0), (0.26, 0.26)),)),
    IconTemplate("hammer", (Stroke(((0.0, -0.85), (0.0, 0.5)), 0.13),
        Ellipse((0.0, 0.45), (0.8, 0.38), 8.0))),
    IconTemplate("heart", (
        Polygon(_heart()),), (Polygon(((-0.2, 0.95), (0.2, 0.95), (0.0, -0.05))),)),
    IconTemplate("hut", (Ellipse((0.0, -0.35), (0.55, 0.5), 8.0),
        Polygon(((-0.85, 0.05), (0.85, 0.05), (0.0, 0.9)))),
        (Ellipse((0.0, -0.7), (0.17, 0.45), 8.0),)),
    IconTemplate("key", (Ellipse((-0.45, 0.0), (0.55, 0.55)),
        Stroke(((-0.1, 0.0), (0.95, 0.0)), 0.13),
        *(Stroke(((x, 0.0), (x, -0.45)), 0.11) for x in (0.48, 0.92))),
        (Ellipse((-0.5, 0.0), (0.26, 0.26)),)),
    IconTemplate("letter e", (Stroke(((0.55, -0.8), (-0.5, -0.8), (-0.5, 0.8), (0.55, 0.8)), 0.13),
        Stroke(((-0.5, 0.0), (0.45, 0.0)), 0.13))),
    IconTemplate("letter l", (Stroke(((-0.5, 0.85), (-0.5, -0.7), (0.6, -0.7)), 0.18),)),
    IconTemplate("letter t", (
        # with serifs, or it would be an L where a half of its bar is short
        Stroke(((-0.8, 0.4), (-0.8, 0.75), (0.8, 0.75), (0.8, 0.4)), 0.14),
        Stroke(((0.0, 0.75), (0.0, -0.85)), 0.14),
    )),
    IconTemplate("letter u", (
        Stroke(
            tuple(
                (0.55 * float(np.cos(a)), -0.25 + 0.6 * float(np.sin(a)))
                for a in np.linspace(np.pi, 2 * np.pi, 13)
            ),
            0.17,
        ),
        Stroke(((-0.55, -0.25), (-0.55, 0.8)), 0.17),
        Stroke(((0.55, -0.25), (0.55, 0.8)), 0.17),
    )),
    IconTemplate("lightning", (
        Polygon(((-0.3, 0.95), (0.5, 0.95), (0.1, 0.25), (0.7, 0.25), (-0.4, -0.95), (-0.1, -0.15),
         (-0.7, -0.15))),)),
    IconTemplate("ring", (
        Ellipse((0.0, 0.0), (0.85, 0.85)),), (Ellipse((0.0, 0.0), (0.48, 0.48)),)),
    IconTemplate("spiral", (Stroke(_spiral(), 0.11),)),
    IconTemplate("star", (Lobes(5, 0.36, 0.95, "pointed"),)),
    IconTemplate("superellipse", (Ellipse((0.0, 0.0), (0.8, 0.6), 4.0),)),
    IconTemplate("three lobes", (Lobes(3, 0.3, 0.9),)),
    IconTemplate("two lobes", (Lobes(2, 0.16, 0.95),)),
)  # fmt: skip


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
    depth = scipy.ndimage.gaussian_filter(np.pad(icon, padding).astype(float), deviation)
    depth = scipy.ndimage.map_coordinates(depth, np.moveaxis(points, -1, 0) + padding, order=1)
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
    check_arguments(seed, faces={"faces": faces}, icons=icons)
    if not 2 <= checked_integer("classes", classes) <= len(ICON_TEMPLATES):
        raise ValueError(f"classes must be from 2 to {len(ICON_TEMPLATES)}, got {classes}")
    if checked_integer("placements", placements) < 1:
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
