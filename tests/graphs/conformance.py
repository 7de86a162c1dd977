"""Systems that neighbor lists were wrong for, with what is right."""

import importlib.util
import math
import os
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from equigeo.graphs import NeighborList
from equigeo.graphs.backend_choice import BACKENDS

Array = NDArray[np.float64]

ALL, NONE = (True, True, True), (False, False, False)
NO_CELL = np.zeros((3, 3))


@dataclass(frozen=True)
class Case:
    """A system, and its edges by number, to own images, and by length."""

    name: str
    positions: Array
    cell: Array | None
    pbc: tuple[bool, bool, bool]
    cutoff: float
    edges: int
    own: int
    length: float


def weyl(count: int, cell: Array) -> Array:
    """Points that fill a cell evenly."""
    return (np.arange(1, count + 1)[:, None] * np.sqrt([2.0, 3.0, 5.0]) % 1.0) @ cell


def rotation(angle: float = 0.7, axis: tuple[float, ...] = (1.0, 2.0, 3.0)) -> Array:
    """Return a rotation for row vectors."""
    turn = angle * np.array(axis) / np.linalg.norm(axis)
    return Rotation.from_rotvec(turn).as_matrix().T


FCC = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
HALVES = (1 - np.eye(3)) / 2
ONE = np.zeros((1, 3))
ETHANOL = np.array([
    [1.168181, -0.382461, 0], [0, 0.559462, 0], [-1.190083, -0.227669, 0],
    [-1.946623, 0.381525, 0], [0.042557, 1.207508, 0.886933], [0.042557, 1.207508, -0.886933],
    [2.115891, 0.1448, 0], [1.128599, -1.037234, 0.885881], [1.128599, -1.037234, -0.885881],
])  # fmt: skip
SLAB = np.array([[0.1, 0.2, 0.3], [1.9, 1.4, 1.5], [0.4, 0.3, 3.4], [1.6, 2.1, 4.7]])
SLAB_ROWS = np.array([[3.2, 0.0, 0.0], [0.9, 3.3, 0.0]])
WIRE = np.array([[0.2, 0.1, 0.0], [1.3, 1.5, 0.7], [2.6, 2.3, -0.6]])
FLAT = np.array([[10.0, 0, 0], [9.6, 1.2, 0], [0.5, 0.3, 5.0]])
LARGE = np.array([[11.0, 0, 0], [4, 9, 0], [-3, 2.5, 8]])


@cache
def cases() -> list[Case]:
    """All systems, by number."""
    # crystals
    copper, molybdenum, silicon, salt = 3.615, 3.147, 5.431, 5.64
    cubic = copper * np.eye(3)
    many = (FCC + np.argwhere(np.ones((3, 3, 3)))[:, None]).reshape(-1, 3) @ cubic
    hexagonal = np.array([[3.2, 0, 0], [-1.6, 1.6 * math.sqrt(3), 0], [0, 0, 5.2]])
    hcp = np.array([[0, 0, 0], [1 / 3, 2 / 3, 0.5]]) @ hexagonal
    rocksalt = np.concatenate([FCC, FCC + np.array([0.5, 0, 0])]) * salt
    moved = (FCC + np.array([[3, -7, 12], [0, 0, 0], [-5, 1, 2], [9, -10, 4]])) @ cubic
    shells = (158.62315721, 634.49262884, 17131.30097866, 2800.09679405)
    bcc = (1 - 2 * np.eye(3)) / 2
    si = np.array([[0, 0, 0], [0.25, 0.25, 0.25]]) * silicon
    found = [
        Case("1 fcc Cu, primitive", ONE, HALVES * copper, ALL, 5, 42, 42, shells[0]),
        Case("2 fcc Cu, cubic", FCC @ cubic, cubic, ALL, 5, 168, 24, shells[1]),
        Case("3 fcc Cu, 3 x 3 x 3", many, 3 * cubic, ALL, 5, 4536, 0, shells[2]),
        Case("4 fcc Cu, far", ONE, HALVES * copper, ALL, 10, 368, 368, shells[3]),
        Case("5 bcc Mo", ONE, bcc * molybdenum, ALL, 5, 26, 26, 94.09141654),
        Case("6 diamond Si", si, HALVES * silicon, ALL, 5, 56, 24, 219.05619758),
        Case("7 hcp", hcp, hexagonal, ALL, 5, 36, 12, 130.89213628),
        Case("8 rock salt", rocksalt, salt * np.eye(3), ALL, 6, 256, 48, 1101.53642536),
        Case("18 outside of the cell", moved, cubic, ALL, 5, 168, 24, shells[1]),
        Case("19 far outside", moved + 1e4 * copper, cubic, ALL, 5, 168, 24, shells[1]),
    ]
    # lattices of one atom
    sheared = np.array([[1.0, 0, 0], [5, 1, 0], [-7, 3, 1]])
    left = sheared[[1, 0, 2]]
    total = 1771.25882848
    needle = np.array([[0, 0, 0], [0.5, 0.5, 15.0]])
    above = float(np.nextafter(2.0, 3.0))
    found += [
        Case("9 a shell at the cut-off", ONE, np.eye(3), ALL, 2, 26, 26, 36.82696921),
        Case("10 a shell just inside", ONE, np.eye(3), ALL, above, 32, 32, 48.82696921),
        Case("12 many images", ONE, np.eye(3), ALL, 5, 484, 484, total),
        Case("13 a sheared basis", ONE, sheared, ALL, 5, 484, 484, total),
        Case("14 a left-handed basis", ONE, left, ALL, 5, 484, 484, total),
        Case("15 a rotated basis", ONE, sheared @ rotation(), ALL, 4.9, 484, 484, total),
        Case("16 a needle", needle, np.diag([1, 1, 30.0]), ALL, 5, 136, 136, 429.46846689),
        Case("17 a flat cell", weyl(5, FLAT), FLAT, ALL, 4, 118, 30, 365.62209),
        Case("39 as wide as the cut-off", ONE, 5 * np.eye(3), ALL, 5, 0, 0, 0),
        Case("40 coincident", np.ones((2, 3)), 9 * np.eye(3), ALL, 3, 2, 0, 0),
    ]
    # molecules
    x, wide = ETHANOL, 50 * np.eye(3)
    right = (58, 0, 111.13272264)
    found += [
        Case("11 exactly at the cut-off", np.diag([0, 0, 3.0])[1:], NO_CELL, NONE, 3, 0, 0, 0),
        Case("20 no cell", x, None, NONE, 3, *right),
        Case("21 a cell of zeros", x, NO_CELL, NONE, 3, *right),
        Case("22 a cell of length one", x, np.eye(3), NONE, 3, *right),
        Case("23 outside of a cell", x + 70, wide, NONE, 3, *right),
        Case("24 negative", x - 100, np.eye(3), NONE, 3, *right),
        Case("25 periodic", x, wide, ALL, 3, *right),
        Case("26 across the border", x + np.array([49.5, 0.3, 50]), wide, ALL, 3, *right),
        Case("37 no atoms", np.zeros((0, 3)), np.eye(3), ALL, 5, 0, 0, 0),
        Case("38 one atom", ONE, NO_CELL, NONE, 5, 0, 0, 0),
    ]
    # layers
    a = 1.42 * math.sqrt(3)
    rows = np.array([[a, 0, 0], [a / 2, a * math.sqrt(3) / 2, 0], [0, 0, 0]])
    graphene = np.array([[0, 0, 0], [a / 2, a / (2 * math.sqrt(3)), 0]])
    turned = rows[[1, 0, 2]] @ rotation()
    carbon = (24, 12, 55.07414576)
    flat, up = (True, True, False), np.array([0, 0, 1.0])
    slab = (44, 16, 133.63506683)
    upright, tilted, parallel = (
        np.vstack([SLAB_ROWS, third]) for third in (up, np.array([2.5, 1.7, 1]), SLAB_ROWS[0])
    )
    moved = SLAB - 20 + np.array([[2, 0], [-3, 1], [0, 0], [1, -2]]) @ SLAB_ROWS
    other = np.roll(np.roll(upright, 1, 0), 1, 1)
    found += [
        Case("27 graphene", graphene, rows, flat, 3, *carbon),
        Case("28 graphene, left-handed", graphene @ rotation(), turned, flat, 3, *carbon),
        Case("29 a slab", SLAB, upright, flat, 4, *slab),
        Case("30 a slab, tilted", SLAB, tilted, flat, 4, *slab),
        Case("31 a slab, parallel", SLAB, parallel, flat, 4, *slab),
        Case("32 a slab, other axes", np.roll(SLAB, 1, 1), other, (False, True, True), 4, *slab),
        Case("33 a slab, unwrapped", moved, upright, flat, 4, *slab),
    ]
    # wires
    cell, short = np.zeros((2, 3, 3))
    cell[0], short[0], short[2] = (2.4, 2.4, 0), (0.9, 0, 0), (0.3, 0, 0)
    turned = WIRE @ rotation(), short @ rotation()
    first, right, shorter = (True, False, False), (20, 6, 51.50456019), (92, 30, 271.83642722)
    found += [
        Case("34 a wire", WIRE, cell, first, 5, *right),
        Case("35 a wire, second axis", WIRE, cell[[1, 0, 2]], (False, True, False), 5, *right),
        Case("36 a wire, short", *turned, first, 5, *shorter),
    ]
    # many points
    x, twice, mixed = weyl(200, LARGE), 2 * LARGE, (True, False, True)
    away = x + np.array([7, -9, 4]) @ LARGE
    found += [
        Case("41 many, periodic", x, LARGE, ALL, 4.5, 17616, 0, 58441.78737494),
        Case("42 many, mixed", x, LARGE, mixed, 4.5, 14102, 0, 45990.30381353),
        Case("43 many, open", x, LARGE, NONE, 4.5, 9388, 0, 29832.90865567),
        Case("44 many, away", away, LARGE, flat, 4.5, 14456, 0, 47736.73490675),
        Case("45 more", weyl(800, twice), twice, ALL, 3.5, 17724, 0, 46913.00268563),
    ]
    return found


def assert_same(found: NeighborList, want: NeighborList) -> None:
    """Equal in every bit."""
    for name in ("edge_index", "shifts", "vectors"):
        mine, theirs = getattr(found, name), getattr(want, name)
        assert torch.equal(mine, theirs), name
        assert torch.equal(mine.signbit(), theirs.signbit()), name  # of zeros
    assert (found.cutoff, found.num_nodes) == (want.cutoff, want.num_nodes)


def scalar_edges(case: Case) -> set[tuple[int, ...]]:
    """Loops over numbers, with a range of images from areas and volumes: nothing is shared."""
    rows = NO_CELL if case.cell is None else case.cell
    cell, periodic = rows.tolist(), np.flatnonzero(case.pbc).tolist()
    most = [0, 0, 0]
    for k in periodic:
        others = [j for j in periodic if j != k]
        height = abs(np.linalg.qr(rows[[*others, k]].T)[1][-1, -1])  # above the span of the others
        spread = 0.0 if len(case.positions) == 0 else float(np.ptp(case.positions, axis=0).sum())
        most[k] = int((case.cutoff + spread) / height) + 1
    found = set()
    points = case.positions.tolist()
    for n in np.ndindex(*(2 * m + 1 for m in most)):
        shift = [n[k] - most[k] for k in range(3)]
        moved = [sum(shift[k] * cell[k][c] for k in range(3)) for c in range(3)]
        for s, a in enumerate(points):
            for t, b in enumerate(points):
                square = sum((b[c] - a[c] + moved[c]) ** 2 for c in range(3))
                if square < case.cutoff**2 and (s != t or any(shift)):
                    found.add((t, s, *shift))
    return found


# `make test-cluster` names those that must not be left out.
REQUIRED = os.environ.get("EQUIGEO_TEST_BACKENDS", "").split()


def installed(name: str) -> bool:
    module = BACKENDS[name].module
    return module is None or importlib.util.find_spec(module.partition(".")[0]) is not None


def available(name: str) -> object:
    """A name as parameter of a test, skipped where the package is not installed."""
    absent = "its package is not installed: make test-cluster installs it"
    skipped = not installed(name) and name not in REQUIRED
    return pytest.param(name, marks=pytest.mark.skipif(skipped, reason=absent))


EVERY = [available(name) for name in BACKENDS]
PERIODIC = [available(name) for name, backend in BACKENDS.items() if backend.periodic]
