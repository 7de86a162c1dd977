"""The convolution that rotates edges onto an axis and mixes components order by order."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equigeo.ops.edges.edge_frames import edge_matrices, has_direction
from equigeo.ops.edges.so2_conv_backward import gradients
from equigeo.ops.edges.so2_reference import (
    from_orders,
    mix,
    modulation,
    split_matrices,
    to_orders,
)
from equigeo.ops.edges.so2_table import SO2Table
from equigeo.ops.products.channelwise_conv import check_graph
from equigeo.ops.runtime.autocast import computes_in_float32
from equigeo.ops.runtime.checks import check_device, check_dtype, check_features, check_row
from equigeo.ops.runtime.declare import declare
from equigeo.ops.runtime.each_of_a_batch import each_of_a_batch

SCHEMA = (
    "so2_conv(Tensor x, Tensor vectors, Tensor weight, Tensor? bias, Tensor? scale, "
    "Tensor? radial, Tensor? envelope, Tensor source, Tensor ptr, Tensor order, Tensor target, "
    "Tensor back_order, Tensor back_ptr, int[] terms_in, int[] terms_out, int mmax, "
    "bool complex_weights, bool by_order) -> Tensor"
)


@computes_in_float32
def so2_conv(  # noqa: PLR0913 - one parameter for each tensor
    x: Tensor,
    vectors: Tensor,
    weight: Tensor,
    graph: tuple[Tensor, ...],
    table: SO2Table,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    radial: Tensor | None = None,
    envelope: Tensor | None = None,
) -> Tensor:
    r"""Rotate each edge onto the y axis, mix components order by order, rotate back and sum.

    .. math:: z_t = \sum_{e: s \to t} c_e\, D(u_e)^T \bigl(W (s_e \odot P D(u_e)\, x_s) + b\bigr)

    where P keeps orders up to ``table.mmax`` and W mixes components of equal order (Passaro and
    Zitnick, ICML 2023). The frame of an edge is fixed up to a roll about the axis, which commutes
    with W. No value of an edge is stored: gradients compute it again, that of an edge by the torque
    on it, without derivatives of rotations. Edges of length zero have no direction and are skipped.
    Equivariant under SO(3) for any weights; under O(3) where the matrices and swapped terms follow
    parities. Returns a tensor (targets, table.dim_out).

    Parameters
    ----------
    x : Tensor, (sources, table.dim_in)
        Features of the sources, in the layout ``ir_mul``.
    vectors : Tensor, (edges, 3)
        Edges in space, of any length.
    weight : Tensor, (table.weight_numel,)
        Matrices (copies out, copies in) by order, the real part before the imaginary one; columns
        are copies of degree at least the order, term by term.
    graph : tuple of Tensor, int64
        As in :func:`equigeo.ops.channelwise_conv`.
    table : SO2Table
        The terms.
    bias : Tensor, (copies out,), optional
        Added to order 0.
    scale : Tensor, (edges, table.scale_numel) or (edges, numbers), optional
        Modulation s of each edge, or the numbers that ``radial`` maps to it.
    radial : Tensor, (numbers, table.scale_numel), optional
        That linear map; its results are never stored.
    envelope : Tensor, (edges,), optional
        Factor c of each message.

    Examples
    --------
    >>> import torch
    >>> table = SO2Table(((1, 0, False),), ((1, 1, False),), mmax=0)
    >>> edge = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0])
    >>> back = torch.tensor([0]), torch.tensor([0]), torch.tensor([0, 1])
    >>> one, vectors = torch.ones(1, 1), torch.tensor([[3.0, 0.0, 4.0]])
    >>> so2_conv(one, vectors, torch.ones(1), (*edge, *back), table)  # the direction
    tensor([[0.6000, 0.0000, 0.8000]])
    """
    named = check_graph(x, graph)
    edges = named["source"].shape[0]
    optional = {"bias": bias, "scale": scale, "radial": radial, "envelope": envelope}
    features = {"x": x, "vectors": vectors, "weight": weight}
    features |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    _check_shapes(features, table, edges)
    check_device(**features, **named)
    terms_in, terms_out = table.flat_terms
    return _op(
        x, vectors, weight, bias, scale, radial, envelope, *graph,
        terms_in, terms_out, table.mmax, table.complex_weights, table.by_order,
    )  # fmt: skip


def _check_shapes(features: dict[str, Tensor], table: SO2Table, edges: int) -> None:
    x = features["x"]
    if "radial" in features and "scale" not in features:
        raise ValueError("radial needs scale, the numbers that it maps")
    numbers = table.scale_numel
    if "radial" in features:
        numbers = features["radial"].shape[0] if features["radial"].ndim else 0
    wanted = {
        "x": (x.shape[0] if x.ndim else 0, table.dim_in),
        "vectors": (edges, 3),
        "weight": (table.weight_numel,),
        "bias": (table.widths_out[0],),
        "scale": (edges, numbers),
        "radial": (numbers, table.scale_numel),
        "envelope": (edges,),
    }
    for name, tensor in features.items():
        check_features(name, tensor, ("rows", "components")[: len(wanted[name])])
        check_dtype(name, tensor, "x", x)
        if tuple(tensor.shape) != wanted[name]:
            raise ValueError(f"{name} must be {wanted[name]}, got {tuple(tensor.shape)}")


def so2_conv_reference(  # noqa: PLR0913 - one parameter for each tensor
    x: Tensor, vectors: Tensor, weight: Tensor, bias: Tensor | None, scale: Tensor | None,
    radial: Tensor | None, envelope: Tensor | None, source: Tensor, ptr: Tensor, order: Tensor,
    target: Tensor, terms_in: list[int], terms_out: list[int], mmax: int, **flags: Any,
) -> Tensor:  # fmt: skip
    """Reference implementation of :func:`so2_conv`, differentiable by PyTorch alone."""
    by_order, complex_weights = flags["by_order"], flags["complex_weights"]
    table = SO2Table.from_ints(
        terms_in, terms_out, mmax, complex_weights=complex_weights, by_order=by_order
    )
    edges = vectors[order]
    rotations = edge_matrices(edges, table.lmax)
    sent = to_orders(x[source], rotations, table.terms_in, mmax)
    factors = modulation(None if scale is None else scale[order], radial, table)
    if factors is not None:
        sent = [z * s for z, s in zip(sent, factors, strict=True)]
    mixed = mix(sent, split_matrices(weight, table))
    if bias is not None:
        mixed[0] = mixed[0] + bias
    messages = from_orders(mixed, rotations, table.terms_out, mmax)
    if envelope is not None:
        messages = messages * envelope[order].unsqueeze(-1)
    messages = messages.where(has_direction(edges), 0)
    return messages.new_zeros(ptr.shape[0] - 1, messages.shape[1]).index_add(0, target, messages)


def _fake(x: Tensor, ptr: Tensor, terms_out: list[int]) -> Tensor:
    muls, degrees = terms_out[::3], terms_out[1::3]
    dim = sum(mul * (2 * l + 1) for mul, l in zip(muls, degrees, strict=True))
    return x.new_empty(ptr.shape[0] - 1, check_row(dim))


_op = declare(
    SCHEMA,
    reference=so2_conv_reference,
    fake=_fake,
    backward=gradients,
    batch=each_of_a_batch("so2_conv"),
)
