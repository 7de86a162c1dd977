"""Op-table rows of clouds, functions on the sphere, linear maps by blocks, and polynomials."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equigeo import ops
from equigeo.graphs import EdgeIndex
from equigeo.ops import PolynomialTable
from equigeo.ops.self_test_cases import example_polynomials
from equigeo.tensor_products.sphere.spherical_harmonics import harmonics_table
from tests.ops.op import Op, op_row
from tests.ops.problems import Problem


def table_rows() -> Iterator[Op]:
    yield from sphere_rows()
    yield from cloud_rows()
    yield from contraction_rows()
    yield from linear_rows()


def sphere_rows() -> Iterator[Op]:
    """Rows that fill registers and rows that do not; with gaps between degrees; at any length."""
    for label, lmaxs, grid, summands, of_kernels in (
        ("", (2, 1, 3), (4, 7), (1, 1, 1), False),
        (" of gradients", (1, 2, 0), (3, 5), (2, 2, 1), False),
        (" in two stages", (0, 1, 8), (29, 57), (1, 2, 2), False),
        (" of more coefficients than are staged", (77, 0, 4), (2, 3), (1, 1, 1), True),
    ):
        yield grid_row(f"grid_product{label}", lmaxs, grid, summands, of_kernels)
    value, gradient = "spherical_harmonics", "spherical_harmonics_backward"
    for name, features in ((value, ("x",)), (gradient, ("grad", "x"))):
        yield harmonics_row(name, features, [0, 1], True)
        yield harmonics_row(name, features, [0, 1, 2, 3], True)
        yield harmonics_row(name, features, [1, 4], False)
        yield harmonics_row(name, features, [6], True)
    # As many degrees as are staged in single precision and are not in double.
    yield harmonics_row(value, ("x",), list(range(15)), True, of_kernels=True)
    # Each derivative of the last one is taken by PyTorch through einsums, slowly where it traces
    # them.
    second = "spherical_harmonics_double_backward", ("along", "grad", "x")
    yield harmonics_row(*second, [0, 1, 2], True, blas=True)
    yield harmonics_row(*second, [1, 3], False, blas=True)


def grid_row(
    label: str,
    lmaxs: tuple[int, ...],
    grid: tuple[int, int],
    summands: tuple[int, ...],
    of_kernels: bool,
) -> Op:
    """Any numbers will do: the op does not know what the tables stand for."""
    tables = []
    for lmax, count in zip(lmaxs, summands, strict=True):
        for size, points in (((lmax + 1) ** 2, grid[0]), (2 * lmax + 1, grid[1])):
            numbers = torch.arange(count * size * points, dtype=torch.float64)
            tables.append((numbers + size).sin().view(count, size, points))
    x, y = ((lmax + 1) ** 2 for lmax in lmaxs[:2])
    terms = max(summands) * grid[0] * grid[1] * (78 if of_kernels else 1)
    return op_row(
        "grid_product", label, lambda p: {"x": (p.sources, x), "y": (p.sources, y)},
        lambda graph: tables, terms=terms, of_kernels=of_kernels,
    )  # fmt: skip


def harmonics_row(
    name: str, features: Sequence[str], degrees: list[int], normalize: bool, **options: Any
) -> Op:
    sizes = {"along": 3, "grad": sum(2 * l + 1 for l in degrees), "x": 3}
    label = f"{name} of degrees {degrees}, {'unit' if normalize else 'any'} length"
    return op_row(
        name, label, lambda p: {feature: (p.sources, sizes[feature]) for feature in features},
        lambda graph: [harmonics_table(max(degrees), "component")], degrees, normalize, **options,
    )  # fmt: skip


POINTS = 8  # for each source
NULL_TOL, SMOOTHING = 1e-6, 1e-12
FAR = 2.0**15
# Sums are over points, but what amplifies rounding is the gap of the spectra below.
TERMS = 20_000


def cloud_rows() -> Iterator[Op]:
    """Rows of every dimension, rule for signs and scale."""
    for dim, signs, scale, center in (
        (1, 1, 1, True), (2, 3, 2, True), (3, 1, 0, True), (3, 2, 1, False), (3, 3, 3, True),
        (4, 1, 1, True),
    ):  # fmt: skip
        name = "principal_axes" if dim <= 3 else "principal_axes_nd"
        label = f"{name} of {dim} components, signs {signs}, scale {scale}, center {center}"
        yield axes_row(label, dim, center, signs, scale)
    # Points that weigh one each.
    label = "principal_axes without weights"
    yield axes_row(label, 2, None, True, 1, 1, rest=lambda graph: cloud_rest(graph)[:1])
    yield stray_row()
    for dim in (1, 2, 3):
        yield axes_backward_row(dim, scale=dim)
    for dim, signs in ((3, 3), (1, 1), (4, 2)):
        yield flags_row(dim, signs)
    for size in (2, 3):
        yield eigen_row(size)


def count_points(sources: int, targets: int) -> int:
    return POINTS * sources if targets else 0


def cloud_rest(graph: EdgeIndex) -> list[Tensor]:
    points, clouds = count_points(graph.num_sources, graph.num_targets), graph.num_targets
    weight = (torch.arange(points, dtype=torch.float64) * 0.7).sin() + 1.2
    weight[3::7] = 0
    offsets = torch.linspace(0, points, clouds + 1, dtype=torch.float64).round().long()
    return [offsets, weight]


def spectrum(dim: int) -> Tensor:
    return 2.0 ** -torch.arange(dim, dtype=torch.float64)


def axes_row(
    label: str,
    dim: int,
    *constants: Any,
    null_tol: float = NULL_TOL,
    rest: Callable[[EdgeIndex], list[Tensor]] = cloud_rest,
    **options: Any,
) -> Op:
    return op_row(
        "principal_axes" if dim <= 3 else "principal_axes_nd", label,
        lambda p: {"x": (count_points(p.sources, p.targets), dim)},
        rest, *constants, null_tol, SMOOTHING, call=ops.principal_axes, results=range(5),
        changes={"x": lambda x: (x + 0.3 * x.square()) * spectrum(dim)},
        blas=dim > 3, terms=TERMS, stored=True, **options,
    )  # fmt: skip


def stray_row() -> Op:
    """Clouds far from the origin where there are digits for it, and infinite where none counts."""

    def rest(graph: EdgeIndex) -> list[Tensor]:
        offsets, weight = cloud_rest(graph)
        weight[offsets[:-1][-1:].sum() :] = 0  # no point of the last cloud counts
        return [offsets, weight]

    def features(problem: Problem, dtype: torch.dtype) -> list[Tensor]:
        (x,) = row.features(problem, dtype)
        x += FAR * (dtype == torch.float64)
        x[3::7] = torch.inf
        return [x]

    # The tolerance is of how far away they are, which is no null axis.
    row = axes_row(
        "principal_axes of stray points", 2, True, 1, 1, null_tol=1e-9, rest=rest, of_kernels=True
    )
    return replace(row, features=features)


def axes_backward_row(dim: int, scale: int) -> Op:
    def shapes(p: Problem) -> dict[str, tuple[int, ...]]:
        points, clouds = count_points(p.sources, p.targets), p.targets
        of = {"y": (points, dim), "frame": (clouds, dim, dim), "centroid": (clouds, dim)}
        of |= {"spread": (clouds, dim), "scale": (clouds, 1)}
        kept = {name: shape for name, shape in of.items() if name != "centroid"}
        return {f"grad_{name}": shape for name, shape in of.items()} | kept

    name = "principal_axes_backward"
    return op_row(
        name, f"{name} of {dim} components, scale {scale}", shapes, cloud_rest, True, scale,
        SMOOTHING, terms=TERMS, stored=True,
        changes={
            "spread": lambda x: spectrum(dim) * (1 + 0.1 * x.sigmoid()),
            "scale": lambda x: x.sigmoid() + 0.5,
        },
    )  # fmt: skip


def eigen_row(size: int) -> Op:
    return op_row(
        "symmetric_eigen", f"symmetric_eigen of {size} rows",
        lambda p: {"matrix": (p.sources, size, size)}, lambda graph: [], terms=TERMS,
        changes={"matrix": lambda x: 0.1 * x + torch.diag(spectrum(size))},
    )  # fmt: skip


def flags_row(dim: int, signs: int) -> Op:
    def rest(graph: EdgeIndex) -> list[Tensor]:
        rows = torch.arange(graph.num_targets * dim, dtype=torch.float64).view(-1, dim)
        return [(0.7 * rows).sin(), (1.3 * rows).cos(), *cloud_rest(graph)]

    def call(*given: Any) -> Any:
        return ops.axis_flags(*given[:6], given[6:])

    return op_row(
        "axis_flags", f"axis_flags of {dim} components, signs {signs}",
        lambda p: {"spread": (p.targets, dim)}, rest, signs, 1e-7, 1e-4, 1e-5, call=call,
        results=[0],  # the others are flags, which a test of their own compares
        changes={"spread": lambda x: spectrum(dim) * (1 + 0.3 * x.sigmoid())}, stored=True,
    )  # fmt: skip


@dataclass(frozen=True)
class Blocks:
    """The blocks of a map, and the lengths of its rows; sums have ``terms`` terms, of each row."""

    blocks: Tensor
    factors: Tensor
    dim: int
    weights: int
    dim_out: int
    terms: int = 1


# Two segments into one, one into two, a gap in every row, more copies than a tile has rows.
SMALL = Blocks(
    torch.tensor(
        [
            [1, 3, 0, 19, 1, 0],
            [4, 17, 0, 19, 1, 57],
            [21, 5, 19, 2, 3, 380],
            [21, 5, 27, 33, 3, 391],
            [36, 1, 126, 1, 5, 556],
            [41, 2, 131, 2, 7, 557],
        ]
    ),
    torch.tensor([0.5, -1.0, 2.0, 0.25, 1.0, 3.0], dtype=torch.float64),
    dim=56,
    weights=562,
    dim_out=146,
)
# More copies, and more components, than a tile of any kernel has; more tiles of the input than of
# the output.
LARGE = Blocks(
    torch.tensor([[1, 131, 0, 3, 1, 1], [133, 2, 3, 1, 65, 394]]),
    torch.tensor([0.5, 2.0], dtype=torch.float64),
    dim=263,
    weights=396,
    dim_out=69,
    terms=131,
)
NONE = Blocks(
    torch.empty(0, 6, dtype=torch.int64), torch.empty(0, dtype=torch.float64), 3, 2, dim_out=4
)
# So little that there may be many rows.
LITTLE = Blocks(
    torch.tensor([[0, 2, 0, 1, 1, 0]]), torch.ones(1, dtype=torch.float64), 2, weights=2, dim_out=1
)


def linear_rows() -> Iterator[Op]:
    for backward in (False, True):
        for ir_mul in (False, True):
            yield linear_row("shared weights", SMALL, ir_mul, backward)
            yield linear_row("weights of rows", SMALL, ir_mul, backward, by_row=True)
            yield linear_row("large blocks", LARGE, ir_mul, backward)
        yield linear_row("no blocks", NONE, False, backward, of_kernels=True)
    # More rows than are summed in one part.
    yield linear_row("many rows", LITTLE, False, True, repeats=30, of_kernels=True)
    yield linear_row("by x alone", SMALL, False, True, wanted=(True, False))
    yield linear_row("by weights alone", SMALL, True, True, by_row=True, wanted=(False, True))


def linear_row(
    label: str,
    of: Blocks,
    ir_mul: bool,
    backward: bool,
    *,
    by_row: bool = False,
    wanted: tuple[bool, bool] = (True, True),
    repeats: int = 1,
    **options: Any,
) -> Op:
    def shapes(p: Problem) -> dict[str, tuple[int, ...]]:
        rows = p.edges * repeats
        grad = {"grad": (rows, of.dim_out)} if backward else {}
        return {**grad, "x": (rows, of.dim), "weight": (p.edges if by_row else 1, of.weights)}

    def call(*given: Any) -> Tensor:
        return ops.block_linear(*given[:-1], ir_mul=given[-1])

    name = "block_linear_backward" if backward else "block_linear"
    constants = (ir_mul, *wanted) if backward else (of.dim_out, ir_mul)
    return op_row(
        name, f"{name}, {label}, {'ir_mul' if ir_mul else 'mul_ir'}", shapes,
        lambda graph: [of.blocks, of.factors], *constants, call=None if backward else call,
        terms=of.terms, **options,
    )  # fmt: skip


WEIGHTS = 4


def table(degrees: Sequence[int], dims_in: tuple[int, ...], dims_out: tuple[int, ...]):
    found = example_polynomials(degrees, sum(dims_in), sum(dims_out), least=0.95)
    return PolynomialTable.from_polynomials(found, dims_in, dims_out)


TABLES = {
    "components inside": table([1, 2, 4], (1, 3), (3, 1)),
    "components outside": table([3, 1], (1, 1, 1), (1, 1)),
    "one block": table([2, 1], (9,), (4,)),
    "high degree": table([5, 7], (2,), (2,)),
}


def contraction_rows() -> Iterator[Op]:
    gradients, second = ("grad", "x", "weight"), ("grad_tangent", "x_tangent", "weight_tangent")
    for name in TABLES:
        yield contraction_row("", name, ("x", "weight"))
        yield contraction_row("_backward", name, gradients, False)
    for name in ("components inside", "components outside"):
        yield contraction_row("_backward", name, gradients, True, more=", of x alone")
        yield contraction_row("_double_backward", name, (*gradients, *second))
    # Sets that begin inside the run of another one.
    yield contraction_row(
        "_backward", "one block", gradients, False, more=", many rows", repeats=3, of_kernels=True
    )


def arrays(t: PolynomialTable) -> list[Tensor]:
    return [t.products, t.polynomials, t.groups, t.nodes, t.values]


def lists(t: PolynomialTable) -> tuple[list[int], ...]:
    return list(t.levels), list(t.dims_in), list(t.dims_out)


def contraction_row(
    suffix: str,
    name: str,
    names: tuple[str, ...],
    *constants: bool,
    more: str = "",
    repeats: int = 1,
    **options: Any,
) -> Op:
    t = TABLES[name]

    def shapes(p: Problem) -> dict[str, tuple[int, ...]]:
        rows, channels = p.edges * repeats, p.channels
        # References hold every term of every row and channel: many rows are kept narrow.
        channels = channels if rows < 1000 else 2
        found = {
            "grad": (rows, channels * sum(t.dims_out)),
            "x": (rows, channels * sum(t.dims_in)),
            "weight": (p.targets, WEIGHTS, channels),
        }
        return {name: found[name.removesuffix("_tangent")] for name in names}

    def rest(graph: EdgeIndex) -> list[Tensor]:
        """Row e takes the set of the target of edge e, and again so; gradients have rows by set."""
        if not suffix:
            return [graph.edge_index[1], *arrays(t)]
        again = torch.arange(repeats) * graph.num_edges
        return [(graph.order[:, None] + again).flatten(), graph.ptr * repeats, *arrays(t)]

    def call(x: Tensor, weight: Tensor, index: Tensor, *given: Any) -> Tensor:
        return ops.symmetric_contraction(x, weight, index, PolynomialTable(*given))

    op = f"symmetric_contraction{suffix}"
    return op_row(
        op, f"{op}, {name}{more}", shapes, rest, *lists(t), *constants,
        call=None if suffix else call, **options,
    )  # fmt: skip
