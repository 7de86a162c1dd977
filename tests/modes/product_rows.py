"""Rows of the layers of :mod:`equigeo.nn` and :mod:`equigeo.tensor_products`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.groups import SL
from equigeo.reps import SymPower, TensorRep, Trivial
from tests.modes.row import Row, apply, beside, randn

CHANNELS = "3x0e + 3x1o"
X, Y, OUT = "3x0e + 2x1o", "1x0e + 1x1o", "2x0e + 2x1o"
DIM_X, DIM_Y = 9, 4
VECTOR = TensorRep(SL(2))
TENSORS = VECTOR + 2 * SymPower(VECTOR, 2) + Trivial(SL(2), 2) + VECTOR


def product_rows() -> list[Row]:
    return [
        Row(
            "nn.Linear",
            lambda: enn.Linear(X, OUT, biases=True),
            randn((4, DIM_X)),
            apply,
            "nn.Linear",
        ),
        Row(
            "nn.Linear in ir_mul",
            lambda: enn.Linear(X, OUT, shared_weights=False, layout="ir_mul"),
            randn((4, DIM_X), (4, enn.Linear(X, OUT).weight_numel)),
            apply,
            "nn.Linear",
        ),
        Row(
            "nn.Linear between tensors",
            lambda: enn.Linear(TENSORS, TENSORS, biases=True),
            randn((4, TENSORS.dim)),
            apply,
            "nn.Linear",
        ),
        Row(
            "nn.BilinearProduct",
            lambda: enn.BilinearProduct(TENSORS, TENSORS, TENSORS),
            randn((4, TENSORS.dim), (4, TENSORS.dim)),
            apply,
            "nn.BilinearProduct",
        ),
        Row(
            "nn.Activation",
            lambda: enn.Activation("3x0e", [torch.tanh]),
            randn((4, 3)),
            apply,
            "nn.Activation",
        ),
        Row("nn.Gate", _gate, randn((4, 10)), apply, "nn.Gate"),
        Row(
            "nn.Gate in ir_mul",
            lambda: enn.Gate(
                "2x0o",
                [torch.tanh],
                "2x0e + 1x0o",
                [torch.tanh] * 2,
                "2x1o + 1x2e",
                layout="ir_mul",
            ),
            randn((4, 16)),
            apply,
            "nn.Gate",
        ),
        Row(
            "nn.NormalizedActivation",
            lambda: enn.NormalizedActivation(torch.tanh),
            randn((4, 3)),
            apply,
            "nn.NormalizedActivation",
        ),
        Row(
            "nn.RadialMLP",
            lambda: enn.RadialMLP([3, 5, 4], act=torch.tanh),
            randn((4, 3)),
            apply,
            "nn.RadialMLP",
        ),
        *_spheres(),
        *_radial(),
        *_norms(),
        *_products(),
        *_signals(),
        *_convolutions(),
        _row(
            "SphericalHarmonics",
            lambda: tp.SphericalHarmonics("0e + 1o + 2e + 3o", normalize=True),
            randn((4, 3)),
        ),
        _row(
            "SphericalHarmonics",
            lambda: tp.SphericalHarmonics("0e + 1o + 2e + 3o", normalize=False),
            randn((4, 3)),
            label=" of any length",
        ),
        _row("DegreeWeights", lambda: tp.DegreeWeights(2), randn((4, 9))),
        *(
            Row(
                f"tensor_products.SymmetricContraction{label}",
                lambda basis=basis: tp.SymmetricContraction(*[CHANNELS] * 2, 3, 2, basis=basis),
                randn((4, 12)),
                _contract,
                "tensor_products.SymmetricContraction",
            )
            for basis, label in (("reduced", ""), ("original", " in the original basis"))
        ),
        *_other_paths(),
    ]


def _radial() -> list[Row]:
    makes: dict[str, Callable[[], nn.Module]] = {
        "BesselBasis": lambda: enn.BesselBasis(2.0, 3, trainable=True),
        "GaussianBasis": lambda: enn.GaussianBasis(2.0, 3, trainable=True),
        "PolynomialCutoff": lambda: enn.PolynomialCutoff(2.0),
    }
    inputs = randn((4,))
    return [Row(f"nn.{name}", make, inputs, apply, f"nn.{name}") for name, make in makes.items()]


def _spheres() -> list[Row]:
    return [
        _row("S2Activation", lambda: tp.S2Activation("2x0e+2x1o", torch.tanh), randn((4, 8))),
        _row("S2SwiGLU", lambda: tp.S2SwiGLU("2x0e+2x1o"), randn((4, 22))),
    ]


def _norms() -> list[Row]:
    layer_norm, rms_norm = enn.EquivariantLayerNorm, enn.EquivariantRMSNorm
    makes: dict[str, Callable[[], nn.Module]] = {
        "": lambda: layer_norm(X, degrees="together"),
        " by degree": lambda: layer_norm("2x0e + 1x0o + 2x1o", "norm"),
    }
    others: dict[str, Callable[[], nn.Module]] = {
        "": lambda: rms_norm(X),
        " without centering": lambda: rms_norm("2x0e + 1x0o + 2x1o", "norm", centering=False),
    }
    inputs = randn((4, DIM_X))
    return [
        Row(f"nn.{name}{label}", make, inputs, apply, f"nn.{name}")
        for name, found in (("EquivariantLayerNorm", makes), ("EquivariantRMSNorm", others))
        for label, make in found.items()
    ]


def _gate() -> nn.Module:
    return enn.Gate("2x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")


def _contract(layer: nn.Module, x: Tensor) -> Tensor:
    like = x if isinstance(x, Tensor) else torch.zeros(4)  # what is no tensor is to be refused
    elements = torch.arange(like.shape[0], device=like.device)
    result: Tensor = layer(x, elements % 2)
    return result


def _products() -> list[Row]:
    full = ((0, 0, 0, "uvw", True), (1, 1, 0, "uvw", True), (1, 0, 1, "uvu", True))
    makes: dict[str, Callable[[], nn.Module]] = {
        "TensorProduct": lambda: tp.TensorProduct(X, Y, OUT, full),
        "FullTensorProduct": lambda: tp.FullTensorProduct(X, Y),
        "FullyConnectedTensorProduct": lambda: tp.FullyConnectedTensorProduct(X, Y, OUT),
        "MatrixTensorProduct": lambda: tp.MatrixTensorProduct(2, 1, 2),
    }
    shapes = {"MatrixTensorProduct": ((4, 9), (4, 4))}
    rows = [
        _row(name, make, randn(*shapes.get(name, ((4, DIM_X), (4, DIM_Y)))))
        for name, make in makes.items()
    ]
    weighted = tp.ChannelwiseTensorProduct(X, Y, OUT)
    return [
        *rows,
        _row(
            "ElementwiseTensorProduct",
            lambda: tp.ElementwiseTensorProduct(X, X),
            randn((4, 9), (4, 9)),
        ),
        _row("TensorSquare", lambda: tp.TensorSquare(X), randn((4, DIM_X))),
        *(
            _row(
                "ChannelwiseTensorProduct",
                lambda layout=layout: tp.ChannelwiseTensorProduct(X, Y, OUT, layout=layout),
                randn((4, DIM_X), (4, DIM_Y), (4, weighted.weight_numel)),
                label=f" in {layout}",
            )
            for layout in ("mul_ir", "ir_mul")
        ),
    ]


def _signals() -> list[Row]:
    two = randn((4, 9), (4, 4))
    return [
        _row("GauntTensorProduct", lambda: tp.GauntTensorProduct(2, 1, 3), two),
        _row(
            "GauntTensorProduct",
            lambda: tp.GauntTensorProduct(2, 1, 3, method="paths"),
            two,
            label=" by paths",
        ),
        _row(
            "GauntTensorProduct",
            lambda: tp.GauntTensorProduct(2, 1, 3, method="fourier"),
            two,
            label=" by Fourier series",
        ),
        _row("CurlTensorProduct", lambda: tp.CurlTensorProduct(2, 1, 2), two),
        _row(
            "CurlTensorProduct",
            lambda: tp.CurlTensorProduct(2, 1, 2, "paths"),
            two,
            label=" by paths",
        ),
        _product(lambda: tp.MatrixTensorProduct(2, 1, 2, parity="both"), " of both parities"),
        _product(lambda: tp.VectorSignalTensorProduct(2, 1, 2)),
        _product(lambda: tp.VectorSignalTensorProduct(2, 1, 2, scalars=False), " of vectors alone"),
        *(
            _product(lambda kind=kind, sides=sides: tp.SignalTensorProduct(*sides, kind), label)
            for kind, sides, label in (
                ("gaunt", [NATURAL] * 3, ""),
                ("curl", [NATURAL, NATURAL, "2x1e"], " of curls"),
                ("matrix", [MIXED] * 3, " of matrices"),
                ("gaunt+curl", [MIXED] * 3, " of functions and curls"),
            )
        ),
        _product(_vector_signals, " of vector signals"),
    ]


NATURAL, MIXED = "2x0e + 2x1o", "1x0e + 1x0o + 1x1o + 1x1e"


def _vector_signals() -> nn.Module:
    with warnings.catch_warnings():  # of terms of degree 2 that features of degree 1 do not reach
        warnings.simplefilter("ignore")
        return tp.SignalTensorProduct(MIXED, MIXED, MIXED, "vector_signal")


def _other_paths() -> list[Row]:
    """Layouts, methods and connections that products evaluate in other ways."""
    rows: dict[str, Any] = {"layout": "ir_mul", "shared_weights": False}
    return [
        _product(lambda: tp.TensorProduct(*EVERY, **rows), " of every connection in ir_mul"),
        _product(
            lambda: tp.FullTensorProduct(X, Y, method="sparse", layout="ir_mul"), " in sparse form"
        ),
        _product(lambda: tp.FullyConnectedTensorProduct(X, Y, OUT, **rows), " in ir_mul"),
        _product(lambda: tp.ElementwiseTensorProduct(X, X, layout="ir_mul"), " in ir_mul"),
        _row(
            "TensorSquare",
            lambda: tp.TensorSquare(X, "2x0e + 1x2e", layout="ir_mul"),
            randn((4, DIM_X)),
            label=" with weights",
        ),
    ]


EVERY = (
    "2x0e + 2x1o",
    "2x0e + 2x1o",
    "2x0e + 2x1o + 4x1o + 1x1e",
    [
        (0, 0, 0, "uvw", True),
        (0, 0, 0, "uvu", True),
        (1, 0, 1, "uvv", True),
        (1, 1, 0, "uuu", True),
        (0, 1, 2, "uvuv", True),
        (1, 1, 3, "uuw", True),
        (1, 1, 3, "uvu<v", True),
        (1, 1, 3, "u<vw", True),
    ],
)


def _product(make: Callable[[], Any], label: str = "") -> Row:
    """A product of two features, with weights where its caller gives them."""
    product = make()
    dims = [product.irreps_in1.dim, product.irreps_in2.dim]
    if product.weight_numel and not product.internal_weights:
        dims.append(product.weight_numel)
    return _row(type(product).__name__, make, randn(*((4, dim) for dim in dims)), label=label)


def _row(
    name: str,
    make: Callable[[], nn.Module],
    inputs: Callable[[], tuple[Tensor, ...]],
    label: str = "",
) -> Row:
    covers = f"tensor_products.{name}"
    return Row(covers + label, make, inputs, apply, covers)


def _convolutions() -> list[Row]:
    edges = torch.tensor([[0, 1, 2, 2, 3, 0], [1, 0, 1, 3, 2, 2]])
    graph = EdgeIndex.from_edges(edges, 5, 5)  # the last node has no edge
    numel = tp.ChannelwiseConv(X, Y, OUT).weight_numel

    def by_tensor(layer: nn.Module, x: Tensor, y: Tensor, w: Tensor) -> Any:
        return layer(x, beside(edges, x), y, w)

    def by_graph(layer: nn.Module, x: Tensor, y: Tensor, w: Tensor) -> Any:
        return layer(x, beside(graph, x), y, w)

    conv = randn((5, DIM_X), (6, DIM_Y), (6, numel))

    def in_frames(layer: nn.Module, x: Tensor, r: Tensor, w: Tensor) -> Any:
        return layer(x, beside(graph, x), r, w)

    names = "tensor_products.ChannelwiseConv", "tensor_products.RadialChannelwiseConv"
    return [
        Row(names[0], lambda: tp.ChannelwiseConv(X, Y, OUT), conv, by_tensor, names[0], rows=False),
        Row(
            f"{names[0]} of an EdgeIndex",
            lambda: tp.ChannelwiseConv(X, Y, OUT, layout="ir_mul"),
            conv,
            by_graph,
            names[0],
            rows=False,
        ),
        Row(
            names[1],
            lambda: tp.RadialChannelwiseConv(X, Y, OUT, 5),
            randn((5, DIM_X), (6, DIM_Y), (6, 5)),
            by_graph,
            names[1],
            rows=False,
        ),
        Row(
            "tensor_products.SO2Conv",
            lambda: tp.SO2Conv(X, OUT, group="SO3", modulation="order", bias=True),
            randn((5, DIM_X), (6, 3), (6, 7)),
            in_frames,
            "tensor_products.SO2Conv",
            rows=False,
        ),
        Row(
            "tensor_products.RadialSO2Conv",
            lambda: tp.RadialSO2Conv(X, OUT, 5, sources="both", weights="paths"),
            randn((5, DIM_X), (6, 3), (6, 5)),
            in_frames,
            "tensor_products.RadialSO2Conv",
            rows=False,
        ),
    ]
