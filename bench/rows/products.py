"""Products of features beside e3nn, cuEquivariance, sphericart and fairchem-core."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bench import products
from bench import so2_conv as orders
from bench.peers import AS_IT_IS, KINDS, Library, drawn
from bench.row import OURS, Problem, Row, library, needs
from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.groups import GLPlus
from equigeo.interop import to_e3nn
from equigeo.interop.cuequivariance import convert
from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.ops.self_test import worst_deviation
from equigeo.ops.self_test_cases import Case, all_cases
from equigeo.reps import Irreps, TensorRep

ROWS, ELEMENTS = products.ROWS, 10
SIGNALS = "16x0e+16x1o+16x2e"


def as_it_is(libraries: Mapping[str, Library], ours: str, *, bound: int | None = None) -> Problem:
    """Libraries of a recorded script without their other modes; ours has one of its names."""
    names = {ours: OURS}
    found = {
        names.get(name, name): Library(
            {AS_IT_IS: each.modes[AS_IT_IS]}, each.inputs, names.get(each.wanted or "", each.wanted)
        )
        for name, each in libraries.items()
    }
    own = found.pop(OURS)
    peers: dict[str, Library | str] = dict(found)
    return Problem(own, peers, bound or bytes_of(own))


def bytes_of(own: Library) -> int:
    """Bytes of inputs and results, each moved once."""
    with torch.no_grad():
        result = own.modes[AS_IT_IS](*own.inputs)
    return sum(x.numel() * x.element_size() for x in (*own.inputs, result))


def input_dims(layer: Any) -> list[int]:
    own = [layer.weight_numel] if layer.weight_numel and not layer.internal_weights else []
    return [layer.irreps_in1.dim, layer.irreps_in2.dim, *own]


def alone(layer: nn.Module, *dims: int, **others: nn.Module) -> Problem:
    """A layer on rows, beside the bandwidth of a copy and others with the same results."""
    given = drawn(*((ROWS, dim) for dim in dims or input_dims(layer)))
    ours = library(layer, given)
    peers = {name: library(peer, given, wanted=OURS) for name, peer in others.items()}
    return Problem(ours, peers, bytes_of(ours))


def beside_e3nn(layer: nn.Module, *dims: int) -> Problem:
    """A layer on rows, beside what it is in e3nn."""
    return alone(layer, *dims, e3nn=to_e3nn(layer))


def overhead(make: Callable[[], Any]) -> Problem:
    """A call whose problem is small, beside the cheapest call of PyTorch."""
    layer = make()
    dims = input_dims(layer) if hasattr(layer, "irreps_in1") else [layer.irreps_in.dim]
    doubled = library(lambda x: 2 * x, drawn((8, 32)))
    return Problem(library(layer, drawn(*((8, dim) for dim in dims))), bound=doubled)


def product(name: str, layout: str) -> Problem:
    """One of the models of :mod:`bench.products`, in one of its layouts."""
    libraries = products.channelwise(name, 64 if name == "small" else ROWS)
    other = next(each for each in products.LAYOUTS if each != layout)
    peer = {"mul_ir": "cuEquivariance ir_mul", "ir_mul": "e3nn"}[layout]
    kept = {n: each for n, each in libraries.items() if n not in (f"ours {other}", peer)}
    return as_it_is(kept, f"ours {layout}")


def connected_product(name: str) -> Problem:
    libraries = products.connected(name)
    return as_it_is({n: libraries[n] for n in ("ours mul_ir", "e3nn")}, "ours mul_ir")


def contraction() -> Problem:
    """128 channels, correlation 3; cuEquivariance with the same weights."""
    theirs = products.cue_contraction(ELEMENTS)
    ours = convert(theirs)
    element = torch.arange(100) % ELEMENTS
    given = drawn((len(element), ours.irreps_in.dim))
    own = library(lambda x: ours(x, element), given)
    peer = library(lambda x: theirs(x, element.int()), given, wanted=OURS)
    return Problem(own, {"cuEquivariance": peer}, bytes_of(own))


def so2_conv(lmax: int, channels: int) -> Problem:
    """As in UMA; beside fairchem-core, and our channelwise convolution with a linear layer."""
    graph = products.random_graph(128, 16)
    size = lmax, 2, channels
    ours, conv = orders.equigeo(*size, graph)
    inputs = orders.operands(*size, graph)

    irreps = Irreps([(channels, (l, (-1) ** l)) for l in range(lmax + 1)])
    filters = Irreps([(1, ir) for _, ir in irreps.terms])
    product = tp.ChannelwiseConv(irreps, filters, filters)
    linear = enn.Linear(product.irreps_out, irreps)
    harmonics = tp.SphericalHarmonics(list(range(lmax + 1)), normalize=True)
    given = [*inputs[:2], *drawn((graph.num_edges, product.weight_numel))]
    composed = library(lambda x, v, w: linear(product(x, graph, harmonics(v), w)), given)
    own = library(ours, inputs)
    peer = needs(
        "fairchem", "make bench-fairchem",
        lambda: library(orders.fairchem(conv, *size, graph), inputs, wanted=OURS),
    )  # fmt: skip
    return Problem(own, {"fairchem-core": peer, "channelwise": composed}, bytes_of(own))


def s2_activation() -> Problem:
    """Beside the transforms of e3nn, whose grid has other points."""
    from e3nn.o3 import FromS2Grid, ToS2Grid

    layer = tp.S2Activation(SIGNALS, torch.tanh)
    latitudes = layer.grid.latitudes
    grid = (latitudes + latitudes % 2, layer.grid.longitudes)
    to, back = ToS2Grid(2, grid), FromS2Grid(grid, 2)
    given = drawn((ROWS, 144))

    def theirs(x: Tensor) -> Tensor:
        return back(torch.tanh(to(x.view(-1, 16, 9)))).flatten(1)

    ours = library(layer, given)
    return Problem(ours, {"e3nn": library(theirs, given)}, bytes_of(ours))


def linear(problem: str, rows: int) -> Problem:
    """Beside a matrix product of the same size without structure, and e3nn."""
    if problem == "tensors of GL+(3)":
        vector = TensorRep(GLPlus(3))
        rep: Any = 16 * vector + 16 * vector.dual() + 4 * TensorRep(GLPlus(3), up=1, down=1)
    else:
        rep = problem
    layer = enn.Linear(rep, rep)
    given = drawn((rows, layer.rep_in.dim))
    dense = nn.Linear(layer.rep_in.dim, layer.rep_in.dim, bias=False)
    peers: dict[str, Library | str] = {"dense": library(dense, given)}
    if rep is problem:
        peers["e3nn"] = library(to_e3nn(layer), given, wanted=OURS)
    return Problem(library(layer, given), peers)


def op(case: Case) -> Problem:
    """Beside its reference, on the problem of the self-test."""
    assert worst_deviation(case, torch.device("cpu")).is_tolerated
    features = [x.float() for x in case.features]
    rest = [x.float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in case.rest]

    def of(body: Callable[..., Any]) -> Library:
        return library(lambda *x: body(*x, *rest), features)

    return Problem(of(declared(case.op)), {"reference": of(reference_of(case.op))})


def harmonics(lmax: int, points: int) -> Problem:
    found = as_it_is(products.harmonics(lmax, points), "ours")
    absent = {"sphericart": "pip install sphericart-torch"}
    return Problem(found.ours, {**absent, **found.peers}, found.bound)


def in_layers() -> dict[str, tuple[str, Callable[[], Problem]]]:
    """Problems of 1,024 rows by layer."""
    width, features = "64x0e+64x1o+64x2e", "8x0e+8x1o+8x2e"
    full, elementwise = (products.UNWEIGHTED[name] for name in ("all pairs", "elementwise"))
    paths = [(0, 0, 0, "uvw", True), (1, 1, 0, "uvw", True), (1, 0, 1, "uvu", True)]
    fours = 4, 4, 4
    mixed = "32x0e+32x1o", "8x0e+8x1o", "32x0e+32x1o"
    return {
        "FullTensorProduct": (f"{features} by 4x0e+4x1o", lambda: beside_e3nn(full("mul_ir"))),
        "ElementwiseTensorProduct": (width, lambda: beside_e3nn(elementwise("mul_ir"))),
        "TensorSquare": (features, lambda: beside_e3nn(tp.TensorSquare(features), 72)),
        "TensorProduct": ("uvw and uvu", lambda: beside_e3nn(tp.TensorProduct(*mixed, paths))),
        "GauntTensorProduct": (
            "L = 4", lambda: as_it_is(
                {n: v for n, v in products.grid_product(4).items() if n != "ours fourier"}, "ours"
            ),
        ),
        "CurlTensorProduct": (
            "L = 4", lambda: alone(
                tp.CurlTensorProduct(*fours, "grid"),
                **{"sparse paths": tp.CurlTensorProduct(*fours, "paths")},
            ),
        ),
        "MatrixTensorProduct": ("L = 4", lambda: alone(tp.MatrixTensorProduct(*fours))),
        "VectorSignalTensorProduct": ("L = 4", lambda: alone(tp.VectorSignalTensorProduct(*fours))),
        "SignalTensorProduct": (
            "gaunt, 16 channels", lambda: alone(tp.SignalTensorProduct(*[SIGNALS] * 3, "gaunt"))
        ),
        "S2Activation": (f"tanh, {SIGNALS}", s2_activation),
        "S2SwiGLU": (SIGNALS, lambda: alone(tp.S2SwiGLU(SIGNALS), 16 * 21)),
        "DegreeWeights": ("L = 4", lambda: alone(tp.DegreeWeights(4), 25)),
        "SymmetricContraction": ("128 channels, ir_mul, 100 rows", contraction),
    }  # fmt: skip


def weighted_rows() -> Iterator[Row]:
    """Products whose weights belong to rows or edges."""
    names = {"small": "64 rows", "mace-large": "1,024 rows", "nequip-water": "1,024 rows"}
    for name, layout in itertools.product(names, products.LAYOUTS):
        yield Row(
            "tensor_products.ChannelwiseTensorProduct", f"{name}, {layout}, {names[name]}",
            partial(product, name, layout), KINDS, 64 if name == "small" else ROWS, "row", "short",
        )  # fmt: skip
    yield Row(
        "tensor_products.ChannelwiseConv", "mace-large, 8,200 edges",
        lambda: as_it_is(products.convolution("mace-large"), "ours"), KINDS[:2],
        products.NODES * products.NEIGHBOURS, "edge", "short",
    )  # fmt: skip
    for name in ("diffdock-L1", "tetris-poly-1"):
        yield Row(
            "tensor_products.FullyConnectedTensorProduct", f"{name}, 1,024 rows",
            partial(connected_product, name), KINDS, ROWS, "row",
        )  # fmt: skip


def product_rows() -> Iterator[Row]:
    """Other products, harmonics and convolutions by orders."""
    grid = {"S2Activation": "The grid of e3nn has fewer points."}
    for name, (problem, make) in in_layers().items():
        yield Row(
            f"tensor_products.{name}", problem, make, KINDS[:2], ROWS, "row", "short",
            grid.get(name, ""),
        )  # fmt: skip
    slower = "Calls and reading points take most of the time; degrees above 3 are loops."
    for lmax, points in itertools.product((1, 2, 3, 4, 6, 8, 10), (1000, 10_000, 100_000)):
        yield Row(
            "tensor_products.SphericalHarmonics", f"l = 0 to {lmax}, {points:,} points",
            partial(harmonics, lmax, points), KINDS[:2], points, "point",
            "short" if lmax in (3, 8) and points == 10_000 else "usual", slower,
        )  # fmt: skip
    slower = "It mixes channels per edge; the channelwise peer mixes them per node."
    for lmax, channels in itertools.product((2, 4, 6), (32, 128)):
        yield Row(
            "tensor_products.SO2Conv", f"lmax {lmax}, mmax 2, {channels} channels",
            partial(so2_conv, lmax, channels), KINDS[:2], 2048, "edge", "short", slower,
            ("fairchem",),
        )  # fmt: skip


def small_rows() -> Iterator[Row]:
    """Layers on few rows, linear layers and ops."""
    small = "8x0e + 8x1o"
    makes: dict[str, Callable[[], nn.Module]] = {
        "tensor_products.ChannelwiseTensorProduct": partial(
            tp.ChannelwiseTensorProduct, small, "0e + 1o", small
        ),
        "tensor_products.SphericalHarmonics": partial(tp.SphericalHarmonics, [0, 1, 2], True),
        "nn.Linear": partial(enn.Linear, small, small),
    }
    for name, make in makes.items():
        yield Row(name, "8 rows, beside 2 * x", partial(overhead, make), count=8, unit="row")
    slower = "Its rows are short, and calls of PyTorch's own layers cost less."
    problems = ("16x0e+8x1o", "64x0e+64x1o+64x2e", "tensors of GL+(3)")
    for problem, rows in itertools.product(problems, (64, 4096)):
        make = partial(linear, problem, rows)
        name = f"{problem}, {rows:,} rows"
        yield Row("nn.Linear", name, make, count=rows, unit="row", why=slower)
    for case in all_cases():
        yield Row(f"ops.{case.op}", "self-test", partial(op, case), ("forward",), size="short")


def rows() -> list[Row]:
    return [*weighted_rows(), *product_rows(), *small_rows()]
