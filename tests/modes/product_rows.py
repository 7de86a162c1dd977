"""Rows of the layers of :mod:`equigeo.nn` and :mod:`equigeo.tensor_products`."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.groups import SL, O
from equigeo.reps import SymPower, TensorRep, Trivial
from tests.modes.row import Row, beside, randn

CHANNELS = "3x0e + 3x1o"
X, Y, OUT = "3x0e + 2x1o", "1x0e + 1x1o", "2x0e + 2x1o"
DIM_X, DIM_Y = 9, 4
VECTOR = TensorRep(SL(2))
TENSORS = VECTOR + 2 * SymPower(VECTOR, 2) + Trivial(SL(2), 2) + VECTOR
FULL = ((0, 0, 0, "uvw", True), (1, 1, 0, "uvw", True), (1, 0, 1, "uvu", True))
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
NATURAL, MIXED = "2x0e + 2x1o", "1x0e + 1x0o + 1x1o + 1x1e"
BY_ROW: dict[str, Any] = {"layout": "ir_mul", "shared_weights": False}


def product_rows() -> list[Row]:
    return [*_nn(), *_products(), *_other_paths(), *_convolutions()]


def _nn() -> list[Row]:
    gate = partial(enn.Gate, "2x0e", [torch.tanh], "2x0e", [torch.sigmoid], "2x1o")
    odd = ("2x0o", [torch.tanh], "2x0e + 1x0o", [torch.tanh] * 2, "2x1o + 1x2e")
    moved = 2 * TensorRep(O(2)) + TensorRep(O(2), up=2) + Trivial(O(2), 2)
    layer_norm, rms_norm = enn.EquivariantLayerNorm, enn.EquivariantRMSNorm
    by_degree = "2x0e + 1x0o + 2x1o", "norm"
    shapes = {
        "Linear": (partial(enn.Linear, X, OUT, biases=True), DIM_X),
        "Linear in ir_mul": (
            partial(enn.Linear, X, OUT, **BY_ROW), DIM_X, enn.Linear(X, OUT).weight_numel
        ),
        "Linear between tensors": (
            partial(enn.Linear, TENSORS, TENSORS, biases=True), TENSORS.dim
        ),
        "BilinearProduct": (
            partial(enn.BilinearProduct, TENSORS, TENSORS, TENSORS), TENSORS.dim, TENSORS.dim
        ),
        "Activation": (partial(enn.Activation, "3x0e", [torch.tanh]), 3),
        "Gate": (gate, 10),
        "Gate in ir_mul": (partial(enn.Gate, *odd, layout="ir_mul"), 16),
        "NormalizedActivation": (partial(enn.NormalizedActivation, torch.tanh), 3),
        "NormActivation": (partial(enn.NormActivation, moved, torch.tanh, bias=True), moved.dim),
        "RadialMLP": (partial(enn.RadialMLP, [3, 5, 4], act=torch.tanh), 3),
        "BesselBasis": (partial(enn.BesselBasis, 2.0, 3, trainable=True),),
        "GaussianBasis": (partial(enn.GaussianBasis, 2.0, 3, trainable=True),),
        "PolynomialCutoff": (partial(enn.PolynomialCutoff, 2.0),),
        "EquivariantLayerNorm": (partial(layer_norm, X, degrees="together"), DIM_X),
        "EquivariantLayerNorm by degree": (partial(layer_norm, *by_degree), DIM_X),
        "EquivariantRMSNorm": (partial(rms_norm, X), DIM_X),
        "EquivariantRMSNorm without centering": (
            partial(rms_norm, *by_degree, centering=False), DIM_X
        ),
    }  # fmt: skip
    return [
        Row(f"nn.{name}", make, randn(*((4, dim) for dim in dims)) if dims else randn((4,)))
        for name, (make, *dims) in shapes.items()
    ]


def _products() -> list[Row]:
    channelwise, harmonics = tp.ChannelwiseTensorProduct, "0e + 1o + 2e + 3o"
    return [
        _row(lambda: tp.S2Activation("2x0e+2x1o", torch.tanh), 8),
        _row(lambda: tp.S2SwiGLU("2x0e+2x1o"), 22),
        _row(lambda: tp.TensorProduct(X, Y, OUT, FULL)),
        _row(lambda: tp.FullTensorProduct(X, Y)),
        _row(lambda: tp.FullyConnectedTensorProduct(X, Y, OUT)),
        _row(lambda: tp.MatrixTensorProduct(2, 1, 2)),
        _row(lambda: tp.ElementwiseTensorProduct(X, X)),
        _row(lambda: tp.TensorSquare(X), DIM_X),
        _row(lambda: channelwise(X, Y, OUT, layout="mul_ir"), label=" in mul_ir"),
        _row(lambda: channelwise(X, Y, OUT, layout="ir_mul"), label=" in ir_mul"),
        _row(lambda: tp.GauntTensorProduct(2, 1, 3)),
        _row(lambda: tp.GauntTensorProduct(2, 1, 3, method="paths"), label=" by paths"),
        _row(lambda: tp.GauntTensorProduct(2, 1, 3, method="fourier"), label=" by Fourier series"),
        _row(lambda: tp.CurlTensorProduct(2, 1, 2)),
        _row(lambda: tp.CurlTensorProduct(2, 1, 2, "paths"), label=" by paths"),
        _row(lambda: tp.MatrixTensorProduct(2, 1, 2, parity="both"), label=" of both parities"),
        _row(lambda: tp.VectorSignalTensorProduct(2, 1, 2)),
        _row(
            lambda: tp.VectorSignalTensorProduct(2, 1, 2, scalars=False), label=" of vectors alone"
        ),
        _row(lambda: tp.SignalTensorProduct(*[NATURAL] * 3, "gaunt")),
        _row(lambda: tp.SignalTensorProduct(NATURAL, NATURAL, "2x1e", "curl"), label=" of curls"),
        _row(lambda: tp.SignalTensorProduct(*[MIXED] * 3, "matrix"), label=" of matrices"),
        _row(
            lambda: tp.SignalTensorProduct(*[MIXED] * 3, "gaunt+curl"),
            label=" of functions and curls",
        ),
        _row(_vector_signals, label=" of vector signals"),
        _row(lambda: tp.SphericalHarmonics(harmonics, normalize=True), 3),
        _row(lambda: tp.SphericalHarmonics(harmonics, normalize=False), 3, label=" of any length"),
        _row(lambda: tp.DegreeWeights(2), 9),
        *(
            Row(
                f"tensor_products.SymmetricContraction{label}",
                partial(tp.SymmetricContraction, *[CHANNELS] * 2, 3, 2, basis=basis),
                randn((4, 12)),
                _contract,
            )
            for basis, label in (("reduced", ""), ("original", " in the original basis"))
        ),
    ]


def _vector_signals() -> nn.Module:
    with warnings.catch_warnings():  # of terms of degree 2 that features of degree 1 do not reach
        warnings.simplefilter("ignore")
        return tp.SignalTensorProduct(MIXED, MIXED, MIXED, "vector_signal")


def _contract(layer: nn.Module, x: Tensor) -> Tensor:
    like = x if isinstance(x, Tensor) else torch.zeros(4)  # what is no tensor is to be refused
    elements = torch.arange(like.shape[0], device=like.device)
    result: Tensor = layer(x, elements % 2)
    return result


def _other_paths() -> list[Row]:
    """Layouts, methods and connections that products evaluate in other ways."""
    sparse = {"method": "sparse", "layout": "ir_mul"}
    return [
        _row(lambda: tp.TensorProduct(*EVERY, **BY_ROW), label=" of every connection in ir_mul"),
        _row(lambda: tp.FullTensorProduct(X, Y, **sparse), label=" in sparse form"),
        _row(lambda: tp.FullyConnectedTensorProduct(X, Y, OUT, **BY_ROW), label=" in ir_mul"),
        _row(lambda: tp.ElementwiseTensorProduct(X, X, layout="ir_mul"), label=" in ir_mul"),
        _row(
            lambda: tp.TensorSquare(X, "2x0e + 1x2e", layout="ir_mul"), DIM_X, label=" with weights"
        ),
    ]


def _row(make: Callable[[], Any], *dims: int, label: str = "") -> Row:
    """A layer of some inputs, by default a product of two, with weights where they are given."""
    layer = make()
    if not dims:
        dims = layer.irreps_in1.dim, layer.irreps_in2.dim
        if layer.weight_numel and not layer.internal_weights:
            dims = (*dims, layer.weight_numel)
    name = f"tensor_products.{type(layer).__name__}{label}"
    return Row(name, make, randn(*((4, dim) for dim in dims)))


def _convolutions() -> list[Row]:
    edges = torch.tensor([[0, 1, 2, 2, 3, 0], [1, 0, 1, 3, 2, 2]])
    graph = EdgeIndex.from_edges(edges, 5, 5)  # the last node has no edge
    numel = tp.ChannelwiseConv(X, Y, OUT).weight_numel

    def by_tensor(layer: nn.Module, x: Tensor, y: Tensor, w: Tensor) -> Any:
        return layer(x, beside(edges, x), y, w)

    def by_graph(layer: nn.Module, x: Tensor, y: Tensor, w: Tensor) -> Any:
        return layer(x, beside(graph, x), y, w)

    return [
        Row(
            f"tensor_products.{name}", make, randn((5, DIM_X), (6, dim_y), (6, weights)), call,
            rows=False,
        )
        for name, make, dim_y, weights, call in (
            ("ChannelwiseConv", partial(tp.ChannelwiseConv, X, Y, OUT), DIM_Y, numel, by_tensor),
            (
                "ChannelwiseConv of an EdgeIndex",
                partial(tp.ChannelwiseConv, X, Y, OUT, layout="ir_mul"), DIM_Y, numel, by_graph,
            ),
            (
                "ChannelwiseConv with hidden layer",
                partial(tp.ChannelwiseConv, X, Y, OUT, num_hidden=5), DIM_Y, 5, by_graph,
            ),
            (
                "SO2Conv",
                partial(tp.SO2Conv, X, OUT, group="SO3", modulation="order", bias=True), 3, 7,
                by_graph,
            ),
            (
                "SO2Conv with hidden layer",
                partial(tp.SO2Conv, X, OUT, num_hidden=5, sources="both"), 3, 5, by_graph,
            ),
        )
    ]  # fmt: skip
