"""The seven gradients of the convolution by orders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.edges.so2_reference import (
    edge_matrices,
    from_orders,
    has_direction,
    mix,
    modulation,
    outer,
    split_matrices,
    sum_of_orders,
    to_orders,
    transposed,
)
from equigeo.ops.edges.so2_table import SO2Table
from equigeo.ops.edges.torque import torque
from equigeo.ops.runtime.declare import declare, like
from equigeo.ops.segments.attention_conv_backward import each_of_a_batch

SCHEMA = (
    "so2_conv_backward(Tensor grad, Tensor x, Tensor vectors, Tensor weight, Tensor? bias, "
    "Tensor? scale, Tensor? radial, Tensor? envelope, Tensor source, Tensor ptr, Tensor order, "
    "Tensor target, Tensor back_order, Tensor back_ptr, int[] terms_in, int[] terms_out, int mmax, "
    "bool complex_weights, bool by_order, bool of_vectors, bool of_weights) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)

FEATURES = ("x", "vectors", "weight", "bias", "scale", "radial", "envelope")


def so2_conv_backward_reference(  # noqa: PLR0913 - the arguments of the op
    grad: Tensor,
    x: Tensor,
    vectors: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    radial: Tensor | None,
    envelope: Tensor | None,
    source: Tensor,
    order: Tensor,
    target: Tensor,
    terms_in: list[int],
    terms_out: list[int],
    mmax: int,
    complex_weights: bool,
    by_order: bool,
    of_vectors: bool,
    of_weights: bool,
) -> tuple[Tensor, ...]:
    r"""Gradients of :func:`~equigeo.ops.so2_conv`, in the order of its tensors.

    That of an edge is the balance of torques: turning it is turning everything else back. With
    y the message of an edge and gx its gradient of the features,

    .. math::

        \tau_k = g \cdot G_k y - g_x \cdot G_k x, \qquad
        \frac{\partial L}{\partial r} = \frac{\tau \times u}{|r|}

    so that no matrix is differentiated. Optional arguments that are missing have an empty gradient,
    and those of edges or of the weights are zero where they are not asked for.
    """
    table = SO2Table.from_ints(
        terms_in, terms_out, mmax, complex_weights=complex_weights, by_order=by_order
    )
    # By edges sorted by target.
    edges = vectors[order]
    alive = has_direction(edges)
    rotations = edge_matrices(edges, table.lmax)
    sent, arriving = x[source], torch.where(alive, grad[target], 0)
    matrices = split_matrices(weight, table)
    factors = modulation(None if scale is None else scale[order], radial, table)
    lent = None if envelope is None else envelope[order].unsqueeze(-1)

    framed = to_orders(sent, rotations, table.terms_in, mmax)
    modulated = framed
    if factors is not None:
        modulated = [z * s for z, s in zip(framed, factors, strict=True)]
    mixed = mix(modulated, matrices)
    if bias is not None:
        mixed[0] = mixed[0] + bias
    message = from_orders(mixed, rotations, table.terms_out, mmax)
    to_envelope = None if lent is None else (arriving * message).sum(1)
    if lent is not None:
        arriving = arriving * lent

    pulled = to_orders(arriving, rotations, table.terms_out, mmax)
    to_weight = outer(pulled, modulated, table)
    to_modulated = mix(pulled, transposed(matrices))
    to_factors = None
    if factors is not None:
        products = [g * z for g, z in zip(to_modulated, framed, strict=True)]
        to_factors = sum_of_orders(products, table)
        to_modulated = [g * s for g, s in zip(to_modulated, factors, strict=True)]
    to_sent = from_orders(to_modulated, rotations, table.terms_in, mmax)

    to_vectors = _edge_gradient(
        edges,
        torque(arriving, message, table.terms_out) - torque(to_sent, sent, table.terms_in),
    )
    empty = to_sent[:0, :0]  # of another result, so that it is differentiated like one
    to_scale = to_radial = empty
    if to_factors is not None and scale is not None:
        to_scale = to_factors if radial is None else to_factors @ radial.mT
        if radial is not None:
            to_radial = scale[order].mT @ to_factors
    back = torch.empty_like(order).index_copy(0, order, torch.arange(len(order)).to(order))
    found = [
        torch.zeros_like(x).index_add(0, source, to_sent),
        to_vectors[back] if of_vectors else 0 * to_vectors,
        to_weight,
        empty if bias is None else pulled[0].sum((0, 1)),
        to_scale if scale is None else to_scale[back],
        to_radial,
        empty if to_envelope is None else to_envelope[back],
    ]
    if not of_weights:
        for position in (2, 3, 5):
            found[position] = 0 * found[position]
    return tuple(found)


def _edge_gradient(edges: Tensor, total: Tensor) -> Tensor:
    pole = edges.new_tensor([0.0, 1.0, 0.0])
    alive = has_direction(edges)
    safe = torch.where(alive, edges, pole)
    square = safe.square().sum(-1, keepdim=True)
    turned: Tensor = torch.where(alive, torch.linalg.cross(total, safe) / square, 0)
    return turned


def gradients(
    grad: Tensor, *, x: Tensor, vectors: Tensor, needed: set[str], **rest: Any
) -> dict[str, Tensor | None]:
    """Backward of :func:`equigeo.ops.so2_conv`, of what is needed."""
    of_weights = not needed.isdisjoint(("weight", "bias", "radial"))
    found = so2_conv_backward(grad, x, vectors, *rest.values(), "vectors" in needed, of_weights)
    return {name: to for name, to in zip(FEATURES, found, strict=True) if name in needed}


so2_conv_backward = declare(
    SCHEMA,
    reference=so2_conv_backward_reference,
    fake=like(*FEATURES),
    backward=("grad", *FEATURES),
    batch=each_of_a_batch("so2_conv_backward"),
)
