"""Path tables of the channelwise rows of the op table, and what each is for."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops import Path, PathTable, Segment


def coefficients(d1: int, d2: int, d3: int) -> Tensor:
    """Any numbers will do, some of them zero: the op does not know what they stand for."""
    numbers = (torch.arange(d1 * d2 * d3, dtype=torch.float64) + d1).sin().view(d1, d2, d3)
    return torch.where(numbers.abs() < 0.4, 0.0, numbers)


def channelwise_path(
    x: int,
    y: int,
    out: int,
    weight: int | None,
    mul: int,
    mul2: int,
    coefficients: Tensor,
    *,
    ir_mul: bool = False,
) -> Path:
    """A path between blocks at these offsets."""
    d1, d2, d3 = coefficients.shape
    segments = [(x, mul, d1), (y, mul2, d2), (out, mul, d3)]
    blocks = [Segment.block(*numbers, ir_mul=ir_mul) for numbers in segments]
    return Path(*blocks, weight, coefficients)


def odd_table() -> PathTable:
    """Odd multiplicities, copies of the second input, shared outputs, a gap in every row."""
    dims = (7 * 3 + 2 + 3 * 7 + 1, 2 * 3 + 1 + 5, 14 + 14 + 7 + 3, 7 * 5 + 3 * 9 + 2)
    paths = [
        channelwise_path(0, 0, 0, 0, 7, 2, coefficients(3, 3, 5)),
        channelwise_path(0, 7, 0, 28, 7, 1, coefficients(3, 5, 5)),
        channelwise_path(23, 6, 36, 35, 3, 1, coefficients(7, 1, 9)),
        channelwise_path(0, 0, 0, 14, 7, 2, coefficients(3, 3, 5)),
    ]
    return PathTable.from_paths(paths, dims, by_output=True)


def sparse_table() -> PathTable:
    """Weights, and numbers of every row, that belong to no path; paths of several warps.

    One has more components than pass through shared memory, one has no coefficients.
    """
    paths = [channelwise_path(0, 1, 2, 40 * n + 3, 5, 1, coefficients(1, 3, 3)) for n in (0, 2, 3)]
    paths.append(channelwise_path(7, 0, 20, 90, 3, 1, coefficients(3, 1, 5)))
    paths.append(channelwise_path(7, 0, 37, 100, 3, 1, coefficients(3, 1, 15)))
    paths.append(channelwise_path(0, 1, 2, 110, 5, 1, torch.zeros(1, 3, 3)))
    return PathTable.from_paths(paths, (17, 5, 160, 84), by_output=True)


def long_table() -> PathTable:
    """A matrix of more numbers than a warp stages at once."""
    path = channelwise_path(0, 0, 0, 0, 2, 1, coefficients(13, 1, 33))
    return PathTable.from_paths([path], (26, 1, 2, 66), by_output=True)


def broad_table() -> PathTable:
    """More channels with components inside than a warp has lanes."""
    paths = [
        channelwise_path(0, 0, 0, 0, 70, 1, coefficients(3, 3, 1)),
        channelwise_path(210, 3, 70, 70, 40, 1, coefficients(1, 1, 3)),
    ]
    return PathTable.from_paths(paths, (250, 4, 110, 190), by_output=True)


def deep_table() -> PathTable:
    """As many components of as many channels as a warp takes at once, and more than it stages.

    Two of the former follow each other, so that neighbouring warps have them.
    """
    paths = [
        channelwise_path(0, 1, 0, 64, 40, 1, coefficients(3, 1, 15)),
        channelwise_path(120, 0, 600, 0, 64, 1, coefficients(13, 1, 3)),
        channelwise_path(952, 0, 792, 104, 64, 1, coefficients(13, 1, 3)),
    ]
    return PathTable.from_paths(paths, (1784, 2, 168, 984), by_output=True)


def wide_table(*, weighted: bool) -> PathTable:
    """Whole registers, components outside, and a row that is covered."""
    dims = (16 * 4 + 37 * 5, 4, 16 * 2 + 37 if weighted else 0, 16 * 3 + 16 + 37 * 11)
    paths = [(0, 0, 16, 1, 1), (16, 48, 16, 3, 3), (64, 64, 37, 5, 11)]
    starts = (0, 16, 32)
    rows = [
        channelwise_path(
            *(x, 3 - i, out, start if weighted else None, mul, 1, coefficients(d1, 1, d3)),
            ir_mul=True,
        )
        for i, ((x, out, mul, d1, d3), start) in enumerate(
            zip([(0, 48, 16, 1, 1), (16, 0, 16, 3, 3), paths[2]], starts, strict=True)
        )
    ]
    return PathTable.from_paths(rows, dims, by_output=True)


def even_table() -> PathTable:
    """Even numbers of components, which lanes hold in registers for one more."""
    paths = [
        channelwise_path(0, 0, 0, 0, 3, 1, coefficients(3, 1, 2)),
        channelwise_path(0, 0, 6, 3, 3, 1, coefficients(3, 1, 4)),
        channelwise_path(9, 0, 18, 6, 2, 1, coefficients(1, 1, 6)),
    ]
    return PathTable.from_paths(paths, (11, 1, 8, 30), by_output=True)


def full_table() -> PathTable:
    """All of the memory of a warp: for a matrix without gaps, and for channels behind weights.

    The last path has more channels than would go there.
    """
    some = torch.zeros(1, 1, 512, dtype=torch.float64)
    some[..., ::73] = 1  # the last one too
    paths = [
        channelwise_path(0, 0, 0, None, 1, 1, some),
        channelwise_path(1, 0, 512, None, 64, 1, coefficients(3, 1, 7)),
        channelwise_path(193, 0, 960, None, 64, 1, coefficients(1, 1, 9)),
    ]
    return PathTable.from_paths(paths, (257, 1, 0, 1536), by_output=True)


def heavy_table() -> PathTable:
    """Matrices of more numbers than a block has room for, which ends among the copies of a path.

    In single precision one window fills it to the last number, with the second input of an edge.
    """
    paths = [
        channelwise_path(0, 0, 0, 0, 2, 9, coefficients(13, 1, 25)),
        channelwise_path(26, 0, 50, 18, 3, 9, coefficients(1, 1, 3)),
        channelwise_path(0, 9, 59, 45, 2, 1, coefficients(13, 3, 5)),
        channelwise_path(29, 9, 69, 47, 1, 1, coefficients(3, 3, 3)),
    ]
    return PathTable.from_paths(paths, (32, 28, 48, 72), by_output=True)


def many_table() -> PathTable:
    """More paths than a warp reads at once."""
    one = coefficients(1, 1, 1)
    paths = [channelwise_path(p, 0, p, p, 1, 1, one) for p in range(33)]
    return PathTable.from_paths(paths, (33, 1, 33, 33), by_output=True)


def turns_table() -> PathTable:
    """Segments of the first input that come by turns."""
    paths = [
        channelwise_path(6 * (p % 2), 0, 6 * p, 2 * p, 2, 1, coefficients(3, 1, 3))
        for p in range(4)
    ]
    return PathTable.from_paths(paths, (12, 1, 8, 24), by_output=True)


def gap_table() -> PathTable:
    """A first input most of which belongs to no path, in more tiles than any output has."""
    path = channelwise_path(0, 0, 0, 0, 3, 1, coefficients(1, 1, 1))
    return PathTable.from_paths([path], (768, 1, 3, 3), by_output=True)


def batch_table() -> PathTable:
    """More channels than a warp takes at once, staged for fewer edges than a batch has."""
    path = channelwise_path(0, 0, 0, 0, 110, 1, coefficients(3, 1, 1))
    return PathTable.from_paths([path], (330, 1, 110, 110), by_output=True)


def empty_table() -> PathTable:
    """Rows that belong to no path."""
    return PathTable.from_paths([], (2, 1, 0, 3), by_output=True)


TABLES = {
    "odd": odd_table(),
    "wide": wide_table(weighted=True),
    "unweighted": wide_table(weighted=False),
}
