"""Neighbor-list backends, and the memory that they may take."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import scipy
import torch

from equigeo.graphs.periodic import SearchBox, complete_cell, heights
from equigeo.graphs.systems import Candidates, Doubles, Integers, PointSystem, Shifts

# At the peak of a search by cells, or by trees with gradients; without, by trees half of it.
BYTES_PER_EDGE: Final = 128
ALWAYS_THERE: Final = 2**28  # bytes that are allocated without a check of the available memory
_AT_ONCE: Final = 2**20  # pairs
_CPU: Final = torch.device("cpu")
# Images per point above which pairs of two images cost more than a search that lists none of them.
_MANY_IMAGES: Final = 3


@dataclass(frozen=True)
class Backend:
    """Backend that lists candidate edges, with its capabilities."""

    name: str
    candidates: Callable[[PointSystem], Candidates]  # returns pairs that include all edges
    module: str | None = None  # module to import, if any
    package: str = ""  # package to install for it
    oldest: tuple[int, ...] = ()  # oldest version that passed the conformance suite
    periodic: bool = True  # supports periodic images
    on_device: bool = False  # searches tensors on their device, not by candidates


def brute_force(system: PointSystem) -> Candidates:
    """Return all pairs and images within about the cutoff, unsorted."""
    x, cell, cutoff = system.positions, system.cell, system.cutoff
    images = _images(system)
    count = len(x)
    check_size(float(count) ** 2 * len(images), 1)
    per_step = max(_AT_ONCE // max(count**2, 1), 1)
    found = []
    difference = x[None, :] - x[:, None]
    bound = (cutoff * (1 + 1e-9)) ** 2
    for start in range(0, len(images), per_step):
        n = images[start : start + per_step]
        # The order of sums is that of the predicate, so that both round equally.
        moved = n.astype(np.float64)[:, :, None] * cell
        vectors = difference + moved.sum(axis=1)[:, None, None]
        near = (vectors * vectors).sum(axis=-1) < bound
        image, source, target = np.nonzero(near)
        found.append((np.stack([source, target]), n[image].T))
    pairs, shift = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    return Candidates(pairs, shift if system.pbc.any() else None)


def _images(system: PointSystem) -> Integers:
    """Return every image n for which a pair can be near, (images, dim)."""
    if not system.pbc.any():
        return np.zeros((1, system.positions.shape[1]), np.int64)
    cell = complete_cell(system.cell, system.pbc)
    # An edge has |f + n| h < cutoff along every axis, with fractional difference f and cell height
    # h; lengths of lattice vectors do not matter.
    fractions = system.positions @ np.linalg.inv(cell)
    spread = np.ptp(fractions, axis=0) if len(fractions) else np.zeros(len(cell))
    most = np.where(system.pbc, system.cutoff / heights(cell) + spread, 0.0) * (1 + 1e-9) + 1e-9
    check_size(float(np.prod(2 * np.floor(most) + 1)), len(cell))
    axes = [np.arange(-int(m), int(m) + 1) for m in most]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(cell))


def scipy_tree(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box, unsorted."""
    count = len(box.points)
    points, atom, image = with_images(box)
    if len(points) > _MANY_IMAGES * count:
        return _to_images(box, points, atom, image)
    first, second = plain_tree(points).query_pairs(box.cutoff, output_type="ndarray").T
    # The first of each pair comes first among the points: only pairs of two images begin with one.
    inside = second < count
    crossing = np.flatnonzero((first < count) & ~inside)
    near, far = first.take(crossing), second.take(crossing) - count
    if not inside.all():
        first, second = first[inside], second[inside]
    pairs = np.empty((2, 2 * len(first) + len(near)), np.int64)
    np.concatenate([first, second, near], out=pairs[0])
    np.concatenate([second, first, atom.take(far)], out=pairs[1])
    if not box.pbc.any():
        return Candidates(pairs, None)
    shift = np.zeros((image.shape[1], pairs.shape[1]), np.int32)
    for axis in np.nonzero(box.pbc)[0]:
        shift[axis, 2 * len(first) :] = image[:, axis].take(far)
    return Candidates(pairs, shift)


def _to_images(box: SearchBox, points: Doubles, atom: Integers, image: Shifts) -> Candidates:
    """Search from the points alone, for boxes where most pairs would join two images."""
    near = plain_tree(box.points).sparse_distance_matrix(
        plain_tree(points), box.cutoff, output_type="ndarray"
    )
    count = len(box.points)
    everywhere = np.concatenate([np.arange(count), atom])
    shift = np.concatenate([np.zeros((count, image.shape[1]), np.int32), image])
    pairs = np.stack([near["i"], everywhere.take(near["j"])]).astype(np.int64, copy=False)
    return Candidates(pairs, np.ascontiguousarray(shift.take(near["j"], 0).T))


def plain_tree(points: Doubles) -> scipy.spatial.cKDTree:
    """Build an unbalanced tree, twice as fast as a balanced one with equally fast queries."""
    return scipy.spatial.cKDTree(points, balanced_tree=False, compact_nodes=False)


def with_images(box: SearchBox) -> tuple[Doubles, Integers, Shifts]:
    """Append all images near any point; return points, the origin of each image, and its shift."""
    points, cell = box.points, box.cell
    dim = points.shape[1]
    count = len(points)
    atom = np.arange(count)
    shift = np.zeros((count, dim), np.int32)
    fractions = points @ np.linalg.inv(cell) if box.pbc.any() else points
    reach = box.cutoff / heights(cell) * (1 + 1e-9) + 1e-9
    for axis in np.nonzero(box.pbc)[0]:
        along = fractions[:, axis]
        low = np.ceil(along.min() - reach[axis] - along)
        copies = np.floor(along.max() + reach[axis] - along) - low + 1
        check_size(float(copies.take(atom).sum()), 3 * dim)
        repeats = copies.take(atom).astype(np.int64)
        before = np.repeat(repeats.cumsum() - repeats, repeats)
        step = np.arange(len(before)) - before
        atom, shift = np.repeat(atom, repeats), np.repeat(shift, repeats, axis=0)
        shift[:, axis] = low.take(atom) + step
    is_image = shift.any(axis=1)
    atom, shift = atom[is_image], shift[is_image]
    images = points.take(atom, 0) + shift.astype(np.float64) @ cell
    return np.concatenate([points, images]), atom, shift


def cluster_radius(box: SearchBox) -> Candidates:
    """Return pairs within the cutoff of a box without periodic axes, unsorted."""
    x = torch.from_numpy(box.points)
    # The default limit silently drops neighbors beyond 32.
    pairs = import_module("torch_cluster").radius(x, x, box.cutoff, max_num_neighbors=len(x))
    return Candidates(pairs.flip(0).numpy(), None)


def cluster_nearest(
    points: Doubles,  # (points, dim)
    count: int,
) -> Integers:
    """Return the nearest points of each point, itself included, (points, count), unsorted."""
    x = torch.from_numpy(points)
    target, source = import_module("torch_cluster").knn(x, x, count)
    if len(source) != len(x) * count or not bool((target.diff() >= 0).all()):
        raise RuntimeError(f"torch-cluster did not list {count} neighbors of every point")
    return source.view(len(x), count).numpy()


def check_size(
    rows: float,
    numbers: float,  # doubles per row
    what: str = "images of points",  # name of the rows, for the message
    argument: str = "cutoff",  # argument to reduce, for the message
    device: torch.device = _CPU,
) -> None:
    """Raise if rows of doubles do not fit in the available memory."""
    wanted = 8 * rows * numbers
    if wanted <= ALWAYS_THERE:
        return
    there = memory_of(device)
    if there is not None and wanted > there:
        raise ValueError(
            f"{argument} must be smaller: it reaches {rows:.3g} {what}, which take "
            f"{wanted / 1e9:.2g} GB of memory where {there / 1e9:.2g} GB are available"
        )


def memory_of(device: torch.device) -> int | None:
    """Return the available memory of a device, unused blocks of PyTorch included."""
    if device.type != "cuda":
        return available_bytes()
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


def available_bytes() -> int | None:
    """Return the available memory of the machine or control group; None if unknown."""
    known = [size for size in (_of_machine(), _of_control_group()) if size is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    info = Path("/proc/meminfo")
    if info.exists():
        lines = (line.split() for line in info.read_text().splitlines())
        sizes = {words[0]: int(words[1]) for words in lines if len(words) > 1}
        if "MemAvailable:" in sizes:
            return 1024 * sizes["MemAvailable:"]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _of_control_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        most = (folder / "memory.max").read_text().strip()
        used = (folder / "memory.current").read_text().strip()
    except OSError:
        return None
    return None if most == "max" else max(int(most) - int(used), 0)
