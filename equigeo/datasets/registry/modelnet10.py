"""Conversion of ModelNet10's meshes to point clouds."""

from __future__ import annotations

import heapq
import math
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from equigeo.datasets.cache import save_arrays
from equigeo.datasets.class_folders import data_folder
from equigeo.datasets.registry.catalogue import MODELNET_CLASSES
from equigeo.mesh import MeshError
from equigeo.mesh.io.read_mesh_file import read_mesh_file

Array = NDArray[np.float64]
CANDIDATES = 5
"""Random points for every one that is kept, as in the recorded clouds."""
_ALPHA, _BETA, _GAMMA = 8, 0.65, 1.5  # of Yuksel's weights
POINTS = 1024
PARTS = {"train": "modelnet10_train.npz", "test": "modelnet10_test_a.npz"}
_LARGEST = 32767  # of int16
_NAME = re.compile(r"_(\d+)\.off", re.IGNORECASE)
Progress = Callable[[int, int], None]


_NUMBERS = {
    "bathtub": "107 109 110 111 112 113 115 117 119 120 122 123 129 132 134 135 138 141 144 "
    "146 147 149 150 154 156",
    "bed": "520 522 527 528 529 530 531 532 537 539 540 541 545 547 548 549 550 551 553 "
    "554 558 560 562 565 566 567 571 572 578 580 581 582 586 588 589 590 592 593 "
    "595 596 597 599 601 602 604 605 609 613 614 615",
    "chair": "890 894 895 897 898 901 903 905 907 910 911 913 917 919 920 921 923 924 925 "
    "926 928 929 931 934 935 939 944 945 947 949 952 954 956 958 959 962 963 966 "
    "968 969 971 972 976 979 982 984 985 987 988 989",
    "desk": "203 208 209 210 212 217 218 219 220 221 224 225 226 230 233 234 236 239 241 "
    "242 245 246 247 248 249 252 255 257 258 259 261 264 266 267 268 269 270 274 "
    "275 276 278 282 286",
    "dresser": "202 204 205 206 210 212 213 215 218 219 220 221 222 225 226 227 230 231 232 "
    "235 239 243 245 246 248 249 254 256 258 260 265 267 270 271 274 275 276 277 "
    "282 283 284 285 286",
    "monitor": "466 468 469 470 475 476 477 478 480 484 486 487 489 490 494 497 499 502 503 "
    "507 509 510 511 515 516 517 520 521 523 524 528 529 530 531 535 536 544 546 "
    "547 548 549 550 551 553 554 556 557 561 563 564",
    "night_stand": "202 204 206 211 215 218 219 222 223 225 226 227 229 233 234 235 237 238 239 "
    "241 243 246 250 251 252 253 254 255 256 262 265 266 267 268 269 274 275 277 "
    "279 280 282 283 285",
    "sofa": "683 684 685 686 687 688 689 692 693 695 696 698 699 704 705 710 711 713 718 "
    "720 722 723 724 725 726 728 730 731 734 735 737 738 739 740 742 747 748 749 "
    "750 752 756 758 759 763 764 767 771 774 775 779",
    "table": "394 395 397 406 407 409 410 412 417 418 421 422 423 424 426 427 429 430 432 "
    "433 434 435 436 438 440 441 442 444 445 446 447 450 452 454 458 459 460 461 "
    "463 470 474 475 477 481 482 485 486 489 490 492",
    "toilet": "347 348 351 354 355 356 359 360 367 369 371 372 373 377 378 379 382 383 384 "
    "385 386 387 389 390 391 392 393 394 396 398 399 407 409 410 412 414 418 427 "
    "428 429 430 433 436 437 438 440 441 442 443 444",
}
FIRST_HALF: Final = {
    name: frozenset(map(int, numbers.split())) for name, numbers in _NUMBERS.items()
}
"""Numbers in the names of the files, by class; 454 of 908."""


def surface_samples(
    corners: Array,  # (triangles, 3, 3)
    number: int,
    random: np.random.Generator,
    candidates: int = CANDIDATES,  # uniform points per sample
) -> Array:
    """Sample blue-noise points on triangles, (number, 3)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    total = float(areas.sum())
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"the triangles must have an area, got {total}")
    # Yuksel, "Sample elimination for generating Poisson disk sample sets", 2015.
    chosen = random.choice(len(areas), candidates * number, p=areas / total)
    root, along = np.sqrt(random.random((len(chosen), 1))), random.random((len(chosen), 1))
    weights = (1 - root, root * (1 - along), root * along)
    points = sum(w * x[chosen] for w, x in zip(weights, (a, b, c), strict=True))
    return np.asarray(points)[_spread(np.asarray(points), number, total)]


def _spread(points: Array, number: int, area: float) -> NDArray[np.int64]:
    """Remove the most crowded point repeatedly."""
    if number >= len(points):
        return np.arange(len(points))
    radius = 2 * math.sqrt(area / number / (2 * math.sqrt(3)))
    least = radius * _BETA * (1 - (number / len(points)) ** _GAMMA)
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
    distances = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    shares = (1 - np.maximum(distances, least) / radius) ** _ALPHA
    weights = np.bincount(pairs.ravel(), np.repeat(shares, 2), len(points)).tolist()
    neighbors: list[list[tuple[int, float]]] = [[] for _ in points]
    for (i, j), share in zip(pairs.tolist(), shares.tolist(), strict=True):
        neighbors[i].append((j, share))
        neighbors[j].append((i, share))
    heap = [(-weight, k) for k, weight in enumerate(weights)]
    heapq.heapify(heap)
    is_left = np.ones(len(points), dtype=np.bool_)
    left = len(points)
    while left > number:
        weight, k = heap[0]
        if -weight > weights[k]:  # out of date: weights only become smaller
            heapq.heapreplace(heap, (-weights[k], k))
            continue
        heapq.heappop(heap)
        is_left[k] = False
        left -= 1
        for j, share in neighbors[k]:
            weights[j] -= share
    return np.flatnonzero(is_left)


class _Shape(NamedTuple):
    path: Path
    label: int
    number: int
    part: str


def convert_modelnet10(
    source: Path,  # ModelNet10.zip or its folder
    target: Path,
    progress: Progress | None = None,  # called with (done, total) shapes
    points: int = POINTS,  # per cloud
) -> list[str]:
    """Sample the meshes, about 0.5 s each, and return the names of the two written files."""
    root = data_folder(source, lambda folder: (folder / MODELNET_CLASSES[0]).is_dir())
    shapes = list(_shapes(root, source))
    clouds = []
    for k, shape in enumerate(shapes):
        clouds.append(_sampled(shape, points))
        if progress is not None:
            progress(k + 1, len(shapes))
    for part, name in PARTS.items():
        rows = [k for k, shape in enumerate(shapes) if shape.part == part]
        save_arrays(target / name, _arrays([shapes[k] for k in rows], [clouds[k] for k in rows]))
    return list(PARTS.values())


def _shapes(root: Path, given: Path) -> Iterator[_Shape]:
    for label, name in enumerate(MODELNET_CLASSES):
        for part in ("train", "test"):
            paths = sorted((root / name / part).glob("*.[oO][fF][fF]"))
            if not paths:
                raise ValueError(
                    f"{given}: found no {name}/{part}/*.off; expected the archive of ModelNet10"
                )
            for path in paths:
                match = _NAME.search(path.name)
                if match is None:
                    raise ValueError(f"{path}: expected a name such as {name}_0001.off")
                number = int(match[1])
                if part == "train" or number in FIRST_HALF[name]:
                    yield _Shape(path, label, number, part)


def _sampled(shape: _Shape, points: int) -> NDArray[np.float64]:
    name = f"modelnet10/{MODELNET_CLASSES[shape.label]}"
    seed = np.random.SeedSequence([0, zlib.crc32(name.encode()), shape.number])
    try:
        mesh = read_mesh_file(shape.path)
        triangles, _ = mesh.fan_triangles()
        corners = np.asarray(mesh.vertices, dtype=np.float64)[triangles]
        return surface_samples(corners, points, np.random.default_rng(seed))
    except (MeshError, ValueError) as error:
        raise ValueError(f"{shape.path}: cannot be sampled: {error}") from error


def _arrays(shapes: list[_Shape], clouds: list[Any]) -> dict[str, NDArray[np.generic]]:
    stacked = np.stack(clouds) if clouds else np.zeros((0, POINTS, 3))
    low, high = stacked.min(1, initial=np.inf), stacked.max(1, initial=-np.inf)
    center, scale = (low + high) / 2, ((high - low) / 2).max(1)
    fractions = (stacked - center[:, None]) / scale[:, None, None]
    return {
        "points": np.rint(fractions * _LARGEST).astype(np.int16),
        "center": center.astype(np.float32),
        "scale": scale.astype(np.float32),
        "label": np.array([shape.label for shape in shapes], dtype=np.uint8),
        "index": np.array([shape.number for shape in shapes], dtype=np.int16),
        "classes": np.array(MODELNET_CLASSES),
    }
