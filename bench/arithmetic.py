"""Multiply-accumulate operations and bytes of an op, from its arguments.

Counts are of the algorithm that the kernels follow, by formulas that stand here; those of sampled
transforms, eigenvalues and attention are the estimates by which the CPU's kernels are cut into
chunks (``csrc/register/cpu/run.h``), exponentials and roots counted as eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from torch import Tensor

Arguments = dict[str, Any]


def paths_of(args: Arguments) -> Iterator[dict[str, int]]:
    """Copies and components of the segments of every path, and its coefficients."""
    for row in args["paths"].tolist():
        (_, mul1, d1), (_, mul2, d2), (_, mul3, d3) = row[0:3], row[5:8], row[10:13]
        first, last = row[16:18]
        yield {
            **{"mul1": mul1, "d1": d1, "mul2": mul2, "d2": d2, "mul3": mul3, "d3": d3},
            "coefficients": last - first,
        }


def channelwise(args: Arguments) -> int:
    """Of every edge the matrices (d3, d1), and these times the weighted channels."""
    return len(args["y"]) * sum(
        p["mul2"] * (p["coefficients"] + p["mul1"] * p["d1"] * (1 + p["d3"]))
        for p in paths_of(args)
    )


def channelwise_backward(args: Arguments) -> int:
    """The matrices and their gradients, the channels times both, and the weights."""
    return len(args["y"]) * sum(
        p["mul2"] * (2 * p["coefficients"] + p["mul1"] * (2 * p["d1"] * (p["d3"] + 1) + p["d3"]))
        for p in paths_of(args)
    )


def radial(args: Arguments) -> int:
    """A convolution whose weights are made from hidden numbers of each edge."""
    return channelwise(args) + args["hidden"].shape[0] * args["radial"].numel()


def spline(args: Arguments) -> int:
    """A convolution whose weights are splines: of every edge the functions, and their sums."""
    return channelwise(args) + of_splines(args)


def spline_backward(args: Arguments) -> int:
    """The same of its gradients, with derivatives of the functions and one dot product."""
    weights = len(args["position"]) * args["coefficients"].shape[2]
    return channelwise_backward(args) + 2 * of_splines(args) + weights


def of_splines(args: Arguments) -> int:
    """Of every edge polynomials for the functions, and these times rows of coefficients."""
    basis = args["basis"]
    weights = basis.shape[1] * args["coefficients"].shape[2]
    return len(args["position"]) * (basis.numel() + weights)


def copywise(args: Arguments) -> int:
    """Of every pair of copies the products of components, their couplings and the weights."""
    return len(args["x"]) * sum(
        (p["mul1"] if p["mul3"] != p["mul1"] * p["mul2"] else p["mul1"] * p["mul2"])
        * (p["d1"] * p["d2"] + p["coefficients"] + p["d3"])
        for p in paths_of(args)
    )


def fully_connected(args: Arguments) -> int:
    """Of every row the couplings of pairs of copies, and these times the weights."""
    return len(args["x"]) * sum(
        p["mul2"] * p["coefficients"] + p["mul1"] * p["mul2"] * p["d3"] * (p["d1"] + p["mul3"])
        for p in paths_of(args)
    )


def block_linear(args: Arguments) -> int:
    """Of every row each block's matrix times its components."""
    return len(args["x"]) * sum(
        mul * mul_out * d for _, mul, _, mul_out, d, _ in args["blocks"].tolist()
    )


def contraction(args: Arguments) -> int:
    """Of every channel the products of monomials, and the sums of terms, groups and polynomials."""
    tables = ("products", "polynomials", "groups", "nodes")
    dims_in = sum(args["dims_in"])
    return args["x"].numel() // dims_in * sum(len(args[name]) for name in tables)


def harmonics(args: Arguments) -> int:
    """Of every point the recurrences, and its length."""
    return len(args["x"]) * (4 * (max(args["degrees"]) + 1) ** 2 + 16)


def orders(args: Arguments) -> int:
    """Of every edge both rotations of its orders, the mixing of these, and their modulation."""
    ends, highest = (args["terms_in"], args["terms_out"]), args["mmax"]
    terms = [[row[i : i + 3] for i in range(0, len(row), 3)] for row in ends]
    turned = sum(
        mul * (2 * l + 1) * (2 * min(l, highest) + 1) for side in terms for mul, l, _ in side
    )
    mixed = 0
    for m in range(highest + 1):
        width_in, width_out = (sum(mul for mul, l, _ in side if l >= m) for side in terms)
        # A complex number times a complex matrix is three real products.
        mixed += width_in * width_out * (1 if m == 0 else 3 if args["complex_weights"] else 2)
    mapped = 0 if args["radial"] is None else args["radial"].numel()
    return len(args["source"]) * (turned + mixed + mapped)


def grid(args: Arguments) -> int:
    """Separable transforms of both inputs and the output, and the product at every point."""
    pairs = [(args[f"legendre_{n}"].shape, args[f"trig_{n}"].shape) for n in "xyz"]
    (_, _, latitudes), (_, _, longitudes) = pairs[0]
    count = max(legendre[0] for legendre, _ in pairs) * latitudes * longitudes
    for (number, coefficients, _), (_, orders, _) in pairs:
        count += number * latitudes * (coefficients + orders * longitudes)
    return len(args["x"]) * count


def gather(args: Arguments) -> int:
    """One addition for every edge and channel."""
    return len(args["index"]) * prod(args["x"].shape[1:])


def attention(args: Arguments) -> int:
    """Of every edge and head the channels and an exponential."""
    _, heads, channels = args["values"].shape
    return len(args["source"]) * heads * (channels + 8)


def attention_conv(args: Arguments) -> int:
    """Of every edge the attention, of every target both matrices."""
    scores = args["logits"] if "logits" in args else args["attention"]
    matrices = [args[name] for name in ("weight", "self_weight") if args[name] is not None]
    per_target = sum(matrix.numel() for matrix in matrices)
    per_edge = scores.shape[1] * (args["x"].shape[1] + 8)
    return len(scores) * per_edge + (len(args["ptr"]) - 1) * per_target


def clouds(args: Arguments) -> int:
    """Second moments of points, and the eigenvectors of every cloud."""
    points = args["x"] if "x" in args else args["y"]
    return 16 * points.numel() + 256 * (len(args["ptr"]) - 1)


MULTIPLY_ACCUMULATES: dict[str, tuple[Callable[[Arguments], int], int]] = {
    "attention_conv": (attention_conv, 1),
    "attention_conv_backward": (attention_conv, 2),
    "axis_flags": (lambda args: 32 * args["spread"].numel(), 1),
    "block_linear": (block_linear, 1),
    "block_linear_backward": (block_linear, 2),
    "channelwise_conv": (channelwise, 1),
    "channelwise_conv_backward": (channelwise_backward, 1),
    # Gradients in dual numbers, whose products are three.
    "channelwise_conv_double_backward": (channelwise_backward, 3),
    "channelwise_product": (channelwise, 1),
    "channelwise_product_backward": (channelwise_backward, 1),
    "channelwise_product_double_backward": (channelwise_backward, 3),
    "copywise_product": (copywise, 1),
    "copywise_product_backward": (copywise, 3),
    # Pairs are coupled along the inputs and along the weights, and each of both goes back.
    "copywise_product_double_backward": (copywise, 6),
    "fully_connected_product": (fully_connected, 1),
    "fully_connected_product_backward": (fully_connected, 3),
    # Weights and their tangents are mixed forward and back, and weights have a derivative.
    "fully_connected_product_double_backward": (fully_connected, 5),
    "gather_sum": (gather, 1),
    "grid_product": (grid, 1),
    "principal_axes": (clouds, 1),
    "principal_axes_backward": (clouds, 1),
    "radial_conv": (radial, 1),
    # Mean, deviation and the map, each once through the numbers.
    "relu_batch_norm": (lambda args: 4 * args["x"].numel(), 1),
    "relu_batch_norm_backward": (lambda args: 4 * args["x"].numel(), 2),
    "segment_attention": (attention, 1),
    "segment_attention_backward": (attention, 2),
    "so2_conv": (orders, 1),
    "so2_conv_backward": (orders, 3),
    "spherical_harmonics": (harmonics, 1),
    "spherical_harmonics_backward": (harmonics, 2),
    "spherical_harmonics_double_backward": (harmonics, 4),
    "spline_conv": (spline, 1),
    "spline_conv_backward": (spline_backward, 1),
    "symmetric_contraction": (contraction, 1),
    "symmetric_contraction_backward": (contraction, 3),
    "symmetric_contraction_double_backward": (contraction, 9),
    "symmetric_eigen": (lambda args: 256 * len(args["matrix"]), 1),
}
"""A formula for every op, and how many times as much its derivatives take."""


def multiply_accumulates(op: str, args: Arguments) -> int:
    """Operations of one call of an op, arguments by the names of its schema."""
    count, times = MULTIPLY_ACCUMULATES[op]
    return times * count(args)


def compulsory_bytes(args: Arguments, results: list[Tensor]) -> int:
    """Of all arguments and results, each moved once."""
    tensors = [x for x in args.values() if isinstance(x, Tensor)] + results
    return sum(x.numel() * x.element_size() for x in tensors)
