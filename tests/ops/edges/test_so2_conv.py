"""SO(2) convolutions compared with their reference, on sizes that the op table lacks."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.graphs import EdgeIndex
from equigeo.ops import SO2Table, kernels_info
from equigeo.ops.edges.so2_conv import FEATURES
from equigeo.ops.runtime.declare import reference_of
from equigeo.testing import tolerance
from tests.ops.graph_rows import COMPLEX, NUMBERS, REAL, flags
from tests.ops.simulated import needs_simulator, run

pytestmark = pytest.mark.kernels

F64 = torch.float64
OPTIONAL = ("bias", "scale", "radial", "envelope")


def every_degree(lmax: int, mmax: int, **options: bool) -> SO2Table:
    """All degrees on both sides, in other orders and of other copies, both kinds of terms."""
    rising = tuple((1 + l % 2, l, l % 3 == 1) for l in range(lmax + 1))
    falling = tuple((1 + l // 2 % 3, l, l % 2 == 1) for l in range(lmax, -1, -1))
    return SO2Table(rising, falling, mmax, **options)


@dataclass(frozen=True)
class Problem:
    """A table, what is given of the optional arguments, and a graph of rows without edges too."""

    table: SO2Table
    given: tuple[str, ...] = OPTIONAL
    edges: int = 11
    sources: int = 4
    targets: int = 5
    isolated: int = 1
    of_vectors: bool = True
    of_weights: bool = True
    numbers: int = NUMBERS

    def graph(self) -> EdgeIndex:
        generator = torch.Generator().manual_seed(self.edges)
        ends = [
            torch.randint(max(1, rows - self.isolated), (self.edges,), generator=generator)
            for rows in (self.sources, self.targets)
        ]
        return EdgeIndex.from_edges(torch.stack(ends), self.sources, self.targets)

    def features(self, dtype: torch.dtype) -> list[Tensor | None]:
        """The gradient that arrives, and all arguments of the op; among edges one that has no
        length, both poles and what is next to one."""
        table = self.table
        numbers = self.numbers if "radial" in self.given else table.scale_numel
        shapes: list[tuple[int, ...]] = [
            (self.targets, table.dim_out), (self.sources, table.dim_in), (self.edges, 3),
            (table.weight_numel,), (table.widths_out[0],), (self.edges, numbers),
            (self.numbers, table.scale_numel), (self.edges,),
        ]  # fmt: skip
        generator = torch.Generator().manual_seed(0)
        found = [torch.randn(s, dtype=F64, generator=generator).to(dtype) for s in shapes]
        special = torch.tensor([[0, 0, 0], [0, 2, 0], [0, -0.5, 0], [1e-9, -1, 0]], dtype=dtype)
        count = min(self.edges, len(special))
        found[2][:count] = special[:count]
        return [
            x if name in (*FEATURES[:3], *self.given, "grad") else None
            for name, x in zip(("grad", *FEATURES), found, strict=True)
        ]


ONE = SO2Table(((1, 1, False),), ((1, 1, False),), 1)
PROBLEMS = {
    "degree 3, all orders": Problem(every_degree(3, 3)),
    "degree 5, order 2, real": Problem(every_degree(5, 2, complex_weights=False)),
    "degree 6, order 0": Problem(every_degree(6, 0), ("bias", "envelope")),
    "degree 10, all orders": Problem(every_degree(10, 10, by_order=False)),
    "degree 10, order 3": Problem(every_degree(10, 3), ("scale",)),
    "one term of degree 10": Problem(
        SO2Table(((3, 10, True),), ((1, 10, False),), 10, False), ("bias",)
    ),
    "more terms than one launch takes": Problem(
        SO2Table(tuple((1, n % 3, n % 2 == 0) for n in range(25)), ((2, 1, False),), 1)
    ),
    "more copies than a tile": Problem(
        SO2Table(((67, 1, False), (1, 2, True)), ((37, 2, True), (33, 0, False)), 1)
    ),
    "scalars alone": Problem(SO2Table(((5, 0, False),), ((3, 0, True),), 0)),
    "nothing comes in": Problem(SO2Table(((0, 1, False),), ((2, 1, False), (1, 0, False)), 0)),
    "nothing goes out": Problem(SO2Table(((2, 1, False),), ((0, 2, False),), 0)),
    "no numbers to map": Problem(COMPLEX, numbers=0),
    "a hub of sources": Problem(COMPLEX, edges=40, sources=1, isolated=0),
    "a hub of targets": Problem(REAL, ("bias", "scale"), edges=40, targets=1, isolated=0),
    "one edge without length": Problem(COMPLEX, edges=1, sources=1, targets=1, isolated=0),
    "no edges": Problem(COMPLEX, edges=0),
    "no sources": Problem(COMPLEX, edges=0, sources=0),
    "no targets": Problem(COMPLEX, edges=0, targets=0),
    "gradients of features alone": Problem(COMPLEX, of_vectors=False, of_weights=False),
    "gradients but of weights": Problem(COMPLEX, of_weights=False),
    "gradients but of edges": Problem(COMPLEX, of_vectors=False),
    "sums of weights by parts": Problem(ONE, edges=600, sources=40, targets=30),
    # Of more numbers than are in memory at once, on a card.
    "several chunks": Problem(
        SO2Table(((1, 0, False),), ((33_000, 0, False),), 0), ("bias",), 70, 3, 3
    ),
}  # fmt: skip


def results(problem: Problem, dtype: torch.dtype, *, reference: bool) -> list[Tensor]:
    """The values and the seven gradients."""
    graph, table = problem.graph(), problem.table
    computed = F64 if reference else dtype
    grad, *features = (x if x is None else x.to(computed) for x in problem.features(dtype))
    lists = [graph.source, graph.ptr, graph.order, graph.target, graph.back_order, graph.back_ptr]
    rest: list[Any] = [*lists, *flags(table)]
    asked = [problem.of_vectors, problem.of_weights]
    ops = torch.ops.equigeo
    forward, backward = ops.so2_conv.default, ops.so2_conv_backward.default
    if reference:
        forward, backward = reference_of("so2_conv"), reference_of("so2_conv_backward")
    return [forward(*features, *rest), *backward(grad, *features, *rest, *asked)]


def assert_agrees(problem: Problem, dtype: torch.dtype) -> None:
    got = results(problem, dtype, reference=False)
    table = problem.table
    terms = max(1, problem.edges) * (table.dim_in + table.dim_out)
    for name, one, want in zip(
        ("value", *FEATURES), got, results(problem, dtype, reference=True), strict=True
    ):
        scale = max(1.0, float(want.abs().max())) if want.numel() else 1.0
        if want.numel() == 0 == one.numel():  # of an argument that is missing
            continue
        bound = tolerance(dtype, terms)
        message = f"{name}: ".__add__
        assert_close(one.double() / scale, want / scale, **bound, msg=message)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("label", PROBLEMS)
def test_values_and_gradients_are_those_of_the_reference(label, dtype):
    if label == "several chunks" and dtype != F64:
        pytest.skip("chunks of half of these numbers hold all edges")
    assert_agrees(PROBLEMS[label], dtype)


def test_another_weight_would_be_seen(monkeypatch):
    problem = PROBLEMS["degree 10, order 3"]
    right, given = Problem.features, problem.features(F64)

    def moved(self, dtype):
        found = right(self, dtype)
        if given:  # of the op, which is called first
            found[3][-1] += 1e-6
            given.clear()
        return found

    monkeypatch.setattr(Problem, "features", moved)
    with pytest.raises(AssertionError, match="value"):
        assert_agrees(problem, F64)
    assert_agrees(problem, F64)


def test_the_same_bits_every_time():
    problem = PROBLEMS["sums of weights by parts"]
    first, second = (results(problem, torch.float32, reference=False) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@needs_simulator
@pytest.mark.skipif(kernels_info()["cuda"] is not None, reason="they are loaded here")
def test_the_kernels_for_cards_agree_on_the_simulator(tmp_path):
    code = (
        "import pytest, sys; from equigeo._core.tensors import has_kernel; "
        "assert has_kernel('so2_conv', 'CPU') and has_kernel('so2_conv_backward', 'CPU'); "
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {__file__!r}]))"
    )
    variables = {"EQUIGEO_CUDA_SELF_TEST": "0", "EQUIGEO_SIMULATE_ORDER": "1"}  # any order
    found = run("import equigeo.ops; " + code, tmp_path, **variables)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr
