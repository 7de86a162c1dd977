"""Trajectories of heat, waves and elastic sheets on random closed surfaces, by finite elements."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log
from typing import Any, Final, Literal, get_args

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import checked_integer
from equigeo.datasets.regression import random_turn, unit_sphere
from equigeo.mesh import TriangleMesh

Equation = Literal["heat", "wave", "sheet"]
Tessellation = Literal["octahedral", "relaxed", "stretched"]
Array = NDArray[np.float64]
Matrix = Any  # scipy.sparse.csc_array
STATES: Final[dict[str, str]] = {"heat": "0e", "wave": "2x0e", "sheet": "2x1o"}
STEP: Final[dict[str, float]] = {"heat": 0.02, "wave": 0.1, "sheet": 0.05}
"""Time between two states of a trajectory; surfaces are of about the size of the unit sphere."""
_PARTS = 4  # steps of the solver between two states
_STREAM = zlib.crc32(b"dynamics")
_LAME = 0.5, 0.5  # first and second coefficient of the sheet, for mass 1 per area
_SPEED = 2.0  # bounds that of waves in a sheet, also if it is stretched
_AXES, _LUMPS, _WAVES = 0.2, 0.15, 6  # spread of axes and radii, and terms of a random function
_STRETCH = 2.5  # of the sphere before its points are moved back onto it
_PUSH = 0.15  # mean velocity of the sheet at the start
_FACES = (8, 200_000)
_LEAST_RANDOM = 32  # faces between random points: fewer are slivers, or flat


@dataclass(frozen=True, eq=False)
class MeshTrajectories:
    """States of one equation over time, on one mesh each.

    Parameters
    ----------
    equation : {"heat", "wave", "sheet"}
    meshes : tuple of TriangleMesh
        Closed surfaces, wound outwards; that of a sheet is at rest.
    states : tuple of Tensor, (steps + 1, vertices, dim), float64
        Temperature; height and its rate; or displacement and velocity.

    Examples
    --------
    >>> found = mesh_dynamics("wave", number=2, faces=32, steps=3)
    >>> found, found.states[0].shape
    (MeshTrajectories(2 of wave, 3 steps of 0.1), torch.Size([4, 18, 2]))
    """

    equation: Equation
    meshes: tuple[TriangleMesh, ...]
    states: tuple[Tensor, ...]

    @property
    def irreps(self) -> str:
        """Irreps of the state of a vertex."""
        return STATES[self.equation]

    @property
    def step(self) -> float:
        """Time between two states."""
        return STEP[self.equation]

    def __len__(self) -> int:
        """Return the number of trajectories."""
        return len(self.meshes)

    def __repr__(self) -> str:
        steps = len(self.states[0]) - 1 if self.states else 0
        return f"MeshTrajectories({len(self)} of {self.equation}, {steps} steps of {self.step})"


def mesh_dynamics(
    equation: Equation = "heat",
    seed: int = 0,
    *,
    number: int = 16,
    faces: int = 512,
    steps: int = 20,
    tessellation: Tessellation = "octahedral",
    first: int = 0,
) -> MeshTrajectories:
    """Simulate one trajectory on each of some random closed surfaces.

    Surfaces are lumpy ellipsoids of about the size of the unit sphere. Surface and initial state
    depend on the seed and the number of the trajectory alone, so that other tessellations and
    numbers of faces show the same problem.

    Parameters
    ----------
    equation : {"heat", "wave", "sheet"}
        ``heat``: du/dt is the Laplacian of u, by cotangent finite elements, lumped masses and
        implicit Euler steps. ``wave``: the same for the second derivative, by Newmark's average
        acceleration, which conserves energy. ``sheet``: an elastic membrane (St. Venant-Kirchhoff)
        with masses at its vertices, by velocity-Verlet steps.
    seed : int
    number, steps : int
        Trajectories, and steps of each.
    faces : int
        ``8 * 4**k`` for ``octahedral``; even and at least 32 otherwise.
    tessellation : {"octahedral", "relaxed", "stretched"}
        A subdivided octahedron, random points moved apart, or such points of a stretched sphere.
    first : int
        Number of the first trajectory; those of different numbers are independent.

    Raises
    ------
    ValueError
        If a name is unknown or a number out of range.

    References
    ----------
    Pinkall, Polthier, "Computing discrete minimal surfaces and their conjugates", 1993; Newmark,
    "A method of computation for structural dynamics", 1959.

    Examples
    --------
    >>> fine = mesh_dynamics("heat", number=1, faces=200, steps=2, tessellation="relaxed")
    >>> fine.meshes[0].num_faces, fine.states[0].std(1)[2].item() < fine.states[0].std(1)[0].item()
    (200, True)
    """
    for name, value, known in (
        ("equation", equation, get_args(Equation)),
        ("tessellation", tessellation, get_args(Tessellation)),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    least = {"seed": (seed, 0), "number": (number, 1), "steps": (steps, 1), "first": (first, 0)}
    for name, (count, bound) in least.items():
        checked_integer(name, count, bound)
    _check_faces(checked_integer("faces", faces), tessellation)
    numbers = range(first, first + number)
    made = [_trajectory(equation, seed, i, faces, steps, tessellation) for i in numbers]
    meshes, states = zip(*made, strict=True)
    return MeshTrajectories(equation, meshes, states)


def _check_faces(faces: int, tessellation: Tessellation) -> None:
    low, high = _FACES
    if faces % 2 or not low <= faces <= high:
        raise ValueError(f"faces must be even, from {low} to {high}, got {faces}")
    if tessellation != "octahedral" and faces < _LEAST_RANDOM:
        raise ValueError(
            f"faces of a {tessellation} mesh must be at least {_LEAST_RANDOM}, got {faces}"
        )
    if tessellation == "octahedral" and 8 * 4 ** round(log(faces / 8, 4)) != faces:
        raise ValueError(f"faces of an octahedral mesh must be 8, 32, 128, 512, ..., got {faces}")


def _trajectory(
    equation: Equation, seed: int, i: int, faces: int, steps: int, tessellation: Tessellation
) -> tuple[TriangleMesh, Tensor]:
    """Return a surface and its states (steps + 1, vertices, dim)."""
    random = np.random.default_rng(np.random.SeedSequence([seed, _STREAM, i]))
    shape = _Shape.draw(random)
    points, triangles = _sphere_points(faces, tessellation, random)
    mesh = TriangleMesh(torch.from_numpy(shape.surface(points)), torch.from_numpy(triangles))
    start = np.stack([field(points) for field in shape.fields], axis=1)
    if equation == "sheet":
        sheet = Sheet(mesh)
        push = _PUSH * start[:, :3]
        found = sheet.run(np.concatenate([np.zeros_like(push), push], 1), STEP[equation], steps)
    elif equation == "wave":
        found = run_wave(*cotangent_matrices(mesh), start[:, :2], STEP[equation], steps)
    else:
        found = run_heat(*cotangent_matrices(mesh), start[:, :1], STEP[equation], steps)
    return mesh, torch.from_numpy(np.stack(list(found)))


@dataclass(frozen=True, eq=False)
class _Shape:
    """A smooth star-shaped surface over the unit sphere, and smooth functions on the sphere."""

    matrix: Array  # (3, 3)
    radius: Callable[[Array], Array]
    fields: tuple[Callable[[Array], Array], ...]

    @classmethod
    def draw(cls, random: np.random.Generator) -> _Shape:
        """Draw a surface that is turned at random."""
        axes = np.exp(_AXES * random.normal(size=3))
        turn = random_turn(random)
        axes /= np.prod(axes) ** (1 / 3)
        radius, *fields = (_random_function(random) for _ in range(4))
        return cls(turn * axes, radius, tuple(fields))

    def surface(self, points: Array) -> Array:
        """Return the points of the surface over points of the sphere (n, 3)."""
        scaled: Array = points * np.exp(_LUMPS * self.radius(points))[:, None] @ self.matrix.T
        return scaled


def _random_function(random: np.random.Generator) -> Callable[[Array], Array]:
    """Return a sum of plane waves on the sphere, with mean square of about one."""
    waves, phases = 2 * random.normal(size=(_WAVES, 3)), 2 * np.pi * random.uniform(size=_WAVES)

    def evaluate(points: Array) -> Array:
        values: Array = np.sin(points @ waves.T + phases).sum(1) * np.sqrt(2 / _WAVES)
        return values

    return evaluate


def _sphere_points(
    faces: int, tessellation: Tessellation, random: np.random.Generator
) -> tuple[Array, NDArray[np.int64]]:
    """Return points of the unit sphere and triangles between them, wound outwards."""
    if tessellation == "octahedral":
        ball = unit_sphere(round(log(faces / 8, 4)))
        return ball.vertices.numpy(), ball.faces.numpy()
    points = _around_center(random.normal(size=(faces // 2 + 2, 3)))
    for _ in range(6):  # towards the means of their neighbors
        sides = _hull(points)[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        near = scipy.sparse.coo_array((np.ones(len(sides)), sides.T), (len(points),) * 2).tocsr()
        points = _around_center(near @ points / near.sum(1)[:, None])
    if tessellation == "stretched":
        points = _normalized(points * np.array([1.0, 1.0, _STRETCH]))
    return points, _hull(points)


def _around_center(points: Array) -> Array:
    """Project points about their mean onto the sphere, so that their hull contains its center."""
    # Means of neighbors alone draw few points to one side, where the hull has no outward winding.
    return _normalized(points - points.mean(0))


def _normalized(points: Array) -> Array:
    found: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return found


def _hull(points: Array) -> NDArray[np.int64]:
    """Return the faces of the convex hull of points of the sphere, wound outwards."""
    faces = scipy.spatial.ConvexHull(points).simplices.astype(np.int64)
    inwards = np.linalg.det(points[faces]) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return faces


def cotangent_matrices(mesh: TriangleMesh) -> tuple[Matrix, Array]:
    """Return the stiffness matrix of linear finite elements and the lumped masses of vertices."""
    vertices, faces = mesh.vertices.numpy(), mesh.faces.numpy()
    rows, columns, values = [], [], []
    for k in range(3):
        i, j, corner = faces[:, (k + 1) % 3], faces[:, (k + 2) % 3], vertices[faces[:, k]]
        one, other = vertices[i] - corner, vertices[j] - corner
        double_area = np.linalg.norm(np.cross(one, other), axis=1)
        half = (one * other).sum(1) / double_area / 2
        rows += [i, j, i, j]
        columns += [j, i, i, j]
        values += [-half, -half, half, half]
    size = (len(vertices),) * 2
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    mass: Array = np.zeros(len(vertices))
    np.add.at(mass, faces, double_area[:, None] / 6)
    return scipy.sparse.coo_array(entries, size).tocsc(), mass


def run_heat(
    stiffness: Matrix, mass: Array, u: Array, step: float, steps: int, parts: int = _PARTS
) -> Iterator[Array]:
    """Yield temperatures (vertices, 1) by implicit Euler: (M + h K) u' = M u."""
    inertia = scipy.sparse.diags_array(mass)
    solve = scipy.sparse.linalg.splu((inertia + step / parts * stiffness).tocsc()).solve
    yield u
    for _ in range(steps):
        for _ in range(parts):
            u = solve(mass[:, None] * u)
        yield u


def run_wave(
    stiffness: Matrix, mass: Array, state: Array, step: float, steps: int, parts: int = _PARTS
) -> Iterator[Array]:
    """Yield heights and rates (vertices, 2) by Newmark's method of average acceleration."""
    # u' = u + h (v + v') / 2 and M (v' - v) = -h K (u + u') / 2, which conserve energy.
    h = step / parts
    inertia = scipy.sparse.diags_array(mass)
    quarter = h**2 / 4 * stiffness
    solve = scipy.sparse.linalg.splu((inertia + quarter).tocsc()).solve
    u, v = state.T
    yield state
    for _ in range(steps):
        for _ in range(parts):
            after = solve(mass * v - quarter @ v - h * (stiffness @ u))
            u, v = u + h / 2 * (v + after), after
        yield np.stack([u, v], axis=1)


class Sheet:
    """Elastic membrane of St. Venant-Kirchhoff material whose rest shape is a mesh."""

    def __init__(self, mesh: TriangleMesh) -> None:
        self.rest, self.faces = mesh.vertices.numpy(), mesh.faces.numpy()
        one, other = self._sides(self.rest).swapaxes(0, 2).swapaxes(1, 2)
        length = np.linalg.norm(one, axis=1)
        along = (one * other).sum(1) / length
        height = np.linalg.norm(np.cross(one, other), axis=1) / length
        self.area = length * height / 2
        # Sides at rest in a plane of the face: columns (length, 0) and (along, height).
        self.inverse = np.zeros((len(self.faces), 2, 2))
        self.inverse[:, 0, 0], self.inverse[:, 1, 1] = 1 / length, 1 / height
        self.inverse[:, 0, 1] = -along / (length * height)
        corners = np.repeat(self.area / 3, 3)
        self.mass = np.bincount(self.faces.ravel(), corners, len(self.rest))
        longest = np.linalg.norm(
            self.rest[self.faces] - self.rest[np.roll(self.faces, 1, 1)], axis=2
        )
        self.narrowest = (2 * self.area / longest.max(1)).min()

    def _sides(self, x: Array) -> Array:  # (faces, 3, 2)
        """Return two sides of each face as columns."""
        corners = x[self.faces]
        return np.stack([corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]], axis=2)

    def _strain(self, x: Array) -> tuple[Array, Array, Array]:
        """Return deformation gradients F, Green's strains and their traces."""
        gradient = self._sides(x) @ self.inverse
        strain = (gradient.swapaxes(1, 2) @ gradient - np.eye(2)) / 2
        return gradient, strain, np.trace(strain, axis1=1, axis2=2)

    def energy(self, x: Array) -> float:
        """Return the elastic energy of positions (vertices, 3)."""
        _, strain, trace = self._strain(x)
        density = _LAME[1] * (strain**2).sum((1, 2)) + _LAME[0] / 2 * trace**2
        return float(self.area @ density)

    def forces(self, x: Array) -> Array:
        """Return minus the gradient of the energy, (vertices, 3)."""
        gradient, strain, trace = self._strain(x)
        stress = 2 * _LAME[1] * strain + _LAME[0] * trace[:, None, None] * np.eye(2)
        on_sides = -self.area[:, None, None] * gradient @ stress @ self.inverse.swapaxes(1, 2)
        total = np.zeros_like(x)
        np.add.at(total, self.faces[:, 1], on_sides[:, :, 0])
        np.add.at(total, self.faces[:, 2], on_sides[:, :, 1])
        np.subtract.at(total, self.faces[:, 0], on_sides.sum(2))
        return total

    def run(self, state: Array, step: float, steps: int) -> Iterator[Array]:
        """Yield displacements and velocities (vertices, 6) by velocity-Verlet steps."""
        # A fifth of the time in which a wave crosses the narrowest face.
        parts = max(_PARTS, ceil(step * _SPEED / (0.2 * self.narrowest)))
        h, mass = step / parts, self.mass[:, None]
        moved, v = state[:, :3], state[:, 3:]
        force = self.forces(self.rest + moved) / mass
        yield state
        for _ in range(steps):
            for _ in range(parts):
                v = v + h / 2 * force
                moved = moved + h * v
                force = self.forces(self.rest + moved) / mass
                v = v + h / 2 * force
            yield np.concatenate([moved, v], axis=1)
