"""Selection of a neighbor-list backend, its self-test and its memory bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Final

import numpy as np

from equigeo.graphs.backends import (
    ALWAYS_THERE,
    BYTES_PER_EDGE,
    Backend,
    available_bytes,
    brute_force,
    check_size,
    cluster_radius,
    plain_tree,
    scipy_tree,
    with_images,
)
from equigeo.graphs.edge_search import find_edges
from equigeo.graphs.periodic import SearchBox, heights, search_box
from equigeo.graphs.systems import Candidates, Doubles, PointSystem

PREFERRED: Final = "scipy"  # by `auto`: the fastest for many points of one system
ON_CARD: Final = "cells"  # by `auto` for CUDA tensors, which stay there
_MOST_BINS: Final = 64  # along each of up to three axes: counts that a cache holds


def choose_backend(
    name: str,  # one of `BACKENDS`, or "auto"
    periodic: bool,
    device: str = "cpu",  # type of the device of the points
) -> Backend:
    """Return a backend by name; raise if it cannot return the correct list."""
    if not isinstance(name, str) or name not in {"auto", *BACKENDS}:
        raise ValueError(f"backend must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    preferred = ON_CARD if device == "cuda" else PREFERRED
    backend = BACKENDS[preferred if name == "auto" else name]
    if periodic and not backend.periodic:
        others = ", ".join(other.name for other in BACKENDS.values() if other.periodic)
        raise ValueError(f"backend {name!r} lists no periodic images: take one of {others}")
    if backend.module is not None:
        _admit(backend.name)
    return backend


@cache
def _admit(name: str) -> None:
    """Import the package of a backend and run its self-test, once per process."""
    backend = BACKENDS[name]
    require_package(backend)
    case = failed_case(backend)
    if case is not None:
        raise RuntimeError(
            f"backend {name!r} is unusable: {backend.package} {version(backend.package)} returns a "
            f"wrong list for {case}; take another version, or backend='scipy'"
        )


def require_package(backend: Backend) -> None:
    """Import the package of a backend; raise with the pip command if it is missing or too old."""
    package = backend.package
    try:
        import_module(backend.module or package)
    except (ImportError, OSError) as error:
        raise ImportError(
            f"backend {backend.name!r} needs {package}, which cannot be imported ({error}): "
            f"pip install {package}, or take backend='scipy'"
        ) from error
    found = version(package)
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < backend.oldest:
        wanted = ".".join(map(str, backend.oldest))
        raise ImportError(
            f"backend {backend.name!r} is unusable: {package} {found} is older than {wanted}, the "
            f"oldest that has passed the conformance suite: pip install --upgrade {package}, "
            "or take backend='scipy'"
        )


def failed_case(backend: Backend) -> str | None:
    """Return the name of the first case with another result than brute force, or None."""
    reference = Backend("brute", brute_force)
    for name, system in _cases():
        if system.pbc.any() and not backend.periodic:
            continue
        try:
            found = find_edges(system, backend)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return name
        wanted = find_edges(system, reference)
        if not (
            np.array_equal(found.pairs, wanted.pairs)
            and np.array_equal(found.shifts, wanted.shifts)
        ):
            return name
    return None


def _cases() -> Iterator[tuple[str, PointSystem]]:
    few, many = _scattered(12), _scattered(90)
    skewed = np.array([[4.0, 0.0, 0.0], [3.6, 3.2, 0.0], [-2.5, 1.0, 4.4]])
    all_axes, no_axis = np.ones(3, np.bool_), np.zeros(3, np.bool_)
    slab, wire = np.array([True, True, False]), np.array([False, True, False])
    yield "one point with its own images", PointSystem(few[:1], np.eye(3), all_axes, 2.2)
    yield "a skewed cell", PointSystem(few @ skewed, skewed, all_axes, 2.5)
    yield "a left-handed cell", PointSystem(few @ skewed, skewed[::-1].copy(), all_axes, 2.5)
    yield "points outside of the cell", PointSystem(40 * few - 30, 4 * np.eye(3), all_axes, 2.5)
    yield "a slab", PointSystem(9 * few - 20, skewed, slab, 3.0)
    yield "a wire", PointSystem(9 * few - 20, skewed, wire, 3.0)
    yield "coincident points", PointSystem(np.ones((3, 3)), 9 * np.eye(3), all_axes, 3.0)
    yield "no cell", PointSystem(9 * few - 20, np.zeros((3, 3)), no_axis, 4.0)
    # So many that libraries sort them into cells, and more neighbors than a default holds.
    yield "many points in a cell", PointSystem(10 * many, 10 * np.eye(3), all_axes, 2.4)
    yield "many points", PointSystem(2 * many, np.zeros((3, 3)), no_axis, 1.5)


def _scattered(count: int) -> Doubles:
    """Return a Weyl sequence of points in the unit cube."""
    return np.asarray(np.arange(1, count + 1)[:, None] * np.sqrt([2.0, 3.0, 5.0]) % 1.0, np.float64)


def check_edge_count(box: SearchBox) -> None:
    """Raise before any large allocation if the edges of a search do not fit in memory."""
    images = np.where(box.pbc, 2 * np.ceil(box.cutoff / heights(box.cell)) + 1, 1.0)
    if float(len(box.points)) ** 2 * np.prod(images) * BYTES_PER_EDGE <= ALWAYS_THERE:
        return
    there = available_bytes()
    if there is not None and most_edges(box) * BYTES_PER_EDGE > there:
        check_size(float(count_pairs(box)), BYTES_PER_EDGE / 8, "edges")


def most_edges(box: SearchBox) -> float:
    """Bound the number of edges by point counts in bins of at least the cutoff."""
    # About six times the number of edges at uniform density.
    axes = min(box.points.shape[1], 3)
    ratio = heights(box.cell)[:axes] / box.cutoff
    bins = np.clip(np.floor(ratio), 1, _MOST_BINS).astype(np.int64)
    fractions = (box.points @ np.linalg.inv(box.cell))[:, :axes]
    where = np.clip(np.floor(fractions * bins), 0, bins - 1).astype(np.int64)
    flat = np.ravel_multi_index(tuple(where.T), tuple(bins))
    counts = np.bincount(flat, minlength=int(bins.prod())).reshape(bins).astype(np.float64)
    near = counts
    for axis in range(axes):
        if bins[axis] > 1:
            near = near + np.roll(near, 1, axis) + np.roll(near, -1, axis)
        elif box.pbc[axis]:
            near = near * (2 * np.ceil(1 / ratio[axis]) + 1)
    return float((counts * near).sum())


def count_pairs(box: SearchBox) -> int:
    """Count the directed pairs within the cutoff of a box without listing them."""
    points, _, _ = with_images(box)
    near = plain_tree(box.points).count_neighbors(plain_tree(points), box.cutoff)
    return int(near) - len(box.points)


def _boxed(search: Callable[[SearchBox], Candidates]) -> Callable[[PointSystem], Candidates]:
    def candidates(system: PointSystem) -> Candidates:
        box = search_box(system)
        check_edge_count(box)
        return box.given_terms(search(box))

    return candidates


BACKENDS: Final = {
    backend.name: backend
    for backend in (
        Backend("scipy", _boxed(scipy_tree)),
        Backend(
            "torch-cluster",
            _boxed(cluster_radius),
            "torch_cluster",
            "torch-cluster",
            (1, 6),
            periodic=False,
        ),
        Backend("brute", brute_force),
        Backend("cells", brute_force, on_device=True),
    )
}
