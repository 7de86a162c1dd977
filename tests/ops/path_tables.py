"""Path tables of the op table, and what each is for."""

import torch
from torch import Tensor

from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.self_test_cases import example_coefficients as coefficients


def path_between(x: Segment, y: Segment, out: Segment, weight: int | None) -> Path:
    return Path(x, y, out, weight, coefficients(x.d, y.d, out.d))


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


def channelwise(
    dims: tuple[int, ...], *paths: tuple[int | None, ...], ir_mul: bool = False
) -> PathTable:
    """Paths by offsets of x, y, output and weights, copies of x and y, and components."""
    found = [channelwise_path(*p[:6], coefficients(*p[6:]), ir_mul=ir_mul) for p in paths]
    return PathTable.from_paths(found, dims, by_output=True)


def sparse_table() -> PathTable:
    """Weights, and numbers of every row, that belong to no path; paths of several warps."""
    paths = [channelwise_path(0, 1, 2, 40 * n + 3, 5, 1, coefficients(1, 3, 3)) for n in (0, 2, 3)]
    paths.append(channelwise_path(7, 0, 20, 90, 3, 1, coefficients(3, 1, 5)))
    paths.append(channelwise_path(7, 0, 37, 100, 3, 1, coefficients(3, 1, 15)))
    paths.append(channelwise_path(0, 1, 2, 110, 5, 1, torch.zeros(1, 3, 3)))
    return PathTable.from_paths(paths, (17, 5, 160, 84), by_output=True)


def full_table() -> PathTable:
    """All of the memory of a warp: for a matrix without gaps, and for channels behind weights."""
    some = torch.zeros(1, 1, 512, dtype=torch.float64)
    some[..., ::73] = 1  # the last one too
    paths = [
        channelwise_path(0, 0, 0, None, 1, 1, some),
        channelwise_path(1, 0, 512, None, 64, 1, coefficients(3, 1, 7)),
        channelwise_path(193, 0, 960, None, 64, 1, coefficients(1, 1, 9)),
    ]
    return PathTable.from_paths(paths, (257, 1, 0, 1536), by_output=True)


def natural_table(lmax: int) -> PathTable:
    """One copy of each degree, every number of the output reached once."""
    paths, place = [], 0
    for l1 in range(lmax + 1):
        for l2 in range(lmax + 1):
            for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                inputs = (Segment.block(l * l, 1, 2 * l + 1) for l in (l1, l2))
                paths.append(path_between(*inputs, Segment.block(place, 1, 2 * l3 + 1), None))
                place += 2 * l3 + 1
    return PathTable.from_paths(paths, ((lmax + 1) ** 2, (lmax + 1) ** 2, 0, place))


def strided_table() -> PathTable:
    """Components outside, and outputs of two paths that interleave."""
    x, y = Segment.block(0, 3, 3, ir_mul=True), Segment.block(1, 2, 3, ir_mul=True)
    first, second = Segment(0, 6, 5, 1, 9), Segment(6, 3, 5, 1, 9)
    paths = [
        path_between(x, y, first, 0),
        path_between(x, Segment.block(0, 1, 1), second, 6),
        path_between(x, x, Segment.block(45, 3, 1), 9),
    ]
    return PathTable.from_paths(paths, (9, 9, 12, 48))


def connected(
    dims: tuple[int, ...], *paths: tuple[tuple[int, int, int] | int, ...], ir_mul: bool = False
) -> PathTable:
    """Paths by blocks of x, y and the output, and the offset of their weights."""
    found = [
        path_between(*(Segment.block(*block, ir_mul=ir_mul) for block in blocks), weight)
        for *blocks, weight in paths
    ]
    return PathTable.from_paths(found, dims)


def very_broad_table(*, ir_mul: bool) -> PathTable:
    """More channels than registers hold, of every number of components; nothing has gaps."""
    paths: list[tuple[tuple[int, int, int] | int, ...]] = []
    place, weights = {"x": 0, "out": 0}, 0

    def block(of: str, mul: int, d: int) -> tuple[int, int, int]:
        place[of] += mul * d
        return place[of] - mul * d, mul, d

    for d in (1, 3, 5, 7, 9, 11, 13):
        x, out = block("x", 17 if d == 1 else 2, 14 - d), block("out", 67 if d < 7 else 33, d)
        paths.append((x, (0, 2, 3), out, weights))
        weights += x[1] * 2 * out[1]
    return connected((place["x"], 6, weights, place["out"]), *paths, ir_mul=ir_mul)


# Whole registers, components outside, and a row that is covered.
WIDE = [
    (0, 3, 48, 0, 16, 1, 1, 1, 1),
    (16, 2, 0, 16, 16, 1, 3, 1, 3),
    (64, 1, 64, 32, 37, 1, 5, 1, 11),
]
CHANNELWISE = {
    # Odd multiplicities, copies of the second input, shared outputs, a gap in every row.
    "odd": channelwise(
        (45, 12, 38, 64),
        (0, 0, 0, 0, 7, 2, 3, 3, 5),
        (0, 7, 0, 28, 7, 1, 3, 5, 5),
        (23, 6, 36, 35, 3, 1, 7, 1, 9),
        (0, 0, 0, 14, 7, 2, 3, 3, 5),
    ),
    "wide": channelwise((249, 4, 69, 471), *WIDE, ir_mul=True),
    "unweighted": channelwise(
        (249, 4, 0, 471), *((*p[:3], None, *p[4:]) for p in WIDE), ir_mul=True
    ),
}
LARGE = {
    # More channels with components inside than a warp has lanes.
    "broad": channelwise(
        (250, 4, 110, 190), (0, 0, 0, 0, 70, 1, 3, 3, 1), (210, 3, 70, 70, 40, 1, 1, 1, 3)
    ),
    # As many components of as many channels as a warp takes at once, and more than it stages. Two
    # of the former follow each other, so that neighboring warps have them.
    "deep": channelwise(
        (1784, 2, 168, 984),
        (0, 1, 0, 64, 40, 1, 3, 1, 15),
        (120, 0, 600, 0, 64, 1, 13, 1, 3),
        (952, 0, 792, 104, 64, 1, 13, 1, 3),
    ),
}
SPARSE = {
    "sparse": sparse_table(),
    # Matrices of more numbers than a block has room for, which ends among the copies of a path. In
    # single precision one window fills it to the last number, with the second input of an edge.
    "heavy": channelwise(
        (32, 28, 48, 72),
        (0, 0, 0, 0, 2, 9, 13, 1, 25),
        (26, 0, 50, 18, 3, 9, 1, 1, 3),
        (0, 9, 59, 45, 2, 1, 13, 3, 5),
        (29, 9, 69, 47, 1, 1, 3, 3, 3),
    ),
}
OF_KERNELS = {
    # A matrix of more numbers than a warp stages at once.
    "long": channelwise((26, 1, 2, 66), (0, 0, 0, 0, 2, 1, 13, 1, 33)),
    # Even numbers of components, which lanes hold in registers for one more.
    "even": channelwise(
        (11, 1, 8, 30),
        (0, 0, 0, 0, 3, 1, 3, 1, 2),
        (0, 0, 6, 3, 3, 1, 3, 1, 4),
        (9, 0, 18, 6, 2, 1, 1, 1, 6),
    ),
    "full": full_table(),
    # More paths than a warp reads at once.
    "many": channelwise((33, 1, 33, 33), *((p, 0, p, p, 1, 1, 1, 1, 1) for p in range(33))),
    # Segments of the first input that come by turns.
    "by turns": channelwise(
        (12, 1, 8, 24), *((6 * (p % 2), 0, 6 * p, 2 * p, 2, 1, 3, 1, 3) for p in range(4))
    ),
    # A first input most of which belongs to no path, in more tiles than any output has.
    "gap": channelwise((768, 1, 3, 3), (0, 0, 0, 0, 3, 1, 1, 1, 1)),
    # More channels than a warp takes at once, staged for fewer edges than a batch has.
    "batch": channelwise((330, 1, 110, 110), (0, 0, 0, 0, 110, 1, 3, 1, 1)),
    # Rows that belong to no path.
    "no paths": channelwise((2, 1, 0, 3)),
}
COPYWISE = {
    # All pairs of copies and matched ones, some into one segment, a gap in every row.
    "pairs": connected(
        (13, 13, 25, 71),
        ((1, 3, 3), (0, 2, 5), (2, 6, 5), 0),
        ((1, 3, 3), (10, 3, 1), (32, 3, 7), 6),
        ((10, 3, 1), (0, 2, 5), (2, 6, 5), 9),
        ((1, 3, 3), (0, 2, 5), (53, 6, 1), 15),
        ((0, 1, 1), (0, 2, 5), (60, 2, 5), 22),
    ),
    "natural": natural_table(2),
    "strided": strided_table(),
    # Some copies, and some weights, of one path are those of another one.
    "overlapping": connected(
        (9, 6, 6, 30), ((0, 3, 3), (0, 2, 3), (0, 6, 5), 0), ((3, 1, 3), (0, 2, 3), (10, 2, 5), 2)
    ),
}
# Copies of the second input, a shared output, a gap in every row.
SHARED = [
    ((1, 3, 1), (0, 2, 3), (9, 2, 3), 0),
    ((4, 2, 3), (0, 2, 3), (0, 3, 1), 12),
    ((1, 3, 1), (6, 1, 1), (0, 3, 1), 24),
    ((4, 2, 3), (7, 1, 5), (4, 1, 5), 33),
    ((4, 2, 3), (0, 2, 3), (4, 1, 5), 36),
]
MIXED = {
    "mul_ir": connected((10, 12, 41, 15), *SHARED),
    "ir_mul": connected((10, 12, 41, 15), *SHARED, ir_mul=True),
    # More pairs of copies than a warp couples at once.
    "many pairs": connected((33, 9, 66, 10), ((0, 11, 3), (0, 3, 3), (0, 2, 5), 0)),
}
