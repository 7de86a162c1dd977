"""The seven gradients of the convolution by orders."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equigeo.ops.edges.edge_frames import edge_matrices, has_direction, largest_component
from equigeo.ops.edges.so2_reference import (
    from_orders,
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
from equigeo.ops.runtime.each_of_a_batch import each_of_a_batch

SCHEMA = (
    "so2_conv_backward(Tensor grad, Tensor x, Tensor vectors, Tensor weight, Tensor? bias, "
    "Tensor? scale, Tensor? radial, Tensor? envelope, Tensor source, Tensor ptr, Tensor order, "
    "Tensor target, Tensor back_order, Tensor back_ptr, int[] terms_in, int[] terms_out, int mmax, "
    "bool complex_weights, bool by_order, bool of_vectors, bool of_weights) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)

FEATURES = ("x", "vectors", "weight", "bias", "scale", "radial", "envelope")


def so2_conv_backward_reference(  # noqa: PLR0913 - one parameter for each tensor
    grad: Tensor, x: Tensor, vectors: Tensor, weight: Tensor, bias: Tensor | None,
    scale: Tensor | None, radial: Tensor | None, envelope: Tensor | None, source: Tensor,
    order: Tensor, target: Tensor, terms_in: list[int], terms_out: list[int], mmax: int,
    complex_weights: bool, by_order: bool, of_vectors: bool, of_weights: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients of :func:`~equigeo.ops.so2_conv` in the order of its tensors."""
    flags = {"complex_weights": complex_weights, "by_order": by_order}
    table = SO2Table.from_ints(terms_in, terms_out, mmax, **flags)
    # By edges sorted by target.
    edges = vectors[order]
    rotations = edge_matrices(edges, table.lmax)
    sent, arriving = x[source], torch.where(has_direction(edges), grad[target], 0)
    matrices = split_matrices(weight, table)
    factors = modulation(None if scale is None else scale[order], radial, table)

    framed = to_orders(sent, rotations, table.terms_in, mmax)
    modulated = framed
    if factors is not None:
        modulated = [z * s for z, s in zip(framed, factors, strict=True)]
    mixed = mix(modulated, matrices)
    if bias is not None:
        mixed[0] = mixed[0] + bias
    message = from_orders(mixed, rotations, table.terms_out, mmax)
    to_envelope = (arriving * message).sum(1)
    if envelope is not None:
        arriving = arriving * envelope[order].unsqueeze(-1)

    pulled = to_orders(arriving, rotations, table.terms_out, mmax)
    to_modulated = mix(pulled, transposed(matrices))
    products = [g * z for g, z in zip(to_modulated, framed, strict=True)]
    if factors is not None:
        to_modulated = [g * s for g, s in zip(to_modulated, factors, strict=True)]
    to_sent = from_orders(to_modulated, rotations, table.terms_in, mmax)

    # No Wigner matrix is differentiated: the gradient of an edge is (tau x u) / |r| with the torque
    # tau_k = g . G_k y - gx . G_k x, where y is the message and gx its gradient by the features.
    turned = torque(arriving, message, table.terms_out) - torque(to_sent, sent, table.terms_in)
    to_scale, to_radial = _of_modulation(sum_of_orders(products, table), scale, radial, order)
    given = torch.zeros_like(order).index_copy(0, order, torch.arange(order.shape[0]).to(order))
    missing = to_sent[:0, :0]  # of another result, so that it is differentiated like one
    kept = 1 if of_weights else 0
    return (
        torch.zeros_like(x).index_add(0, source, to_sent),
        (1 if of_vectors else 0) * _edge_gradient(edges, turned)[given],
        kept * outer(pulled, modulated, table),
        missing if bias is None else kept * pulled[0].sum((0, 1)),
        missing if to_scale is None else to_scale[given],
        missing if to_radial is None else kept * to_radial,
        missing if envelope is None else to_envelope[given],
    )


def _of_modulation(
    factors: Tensor, scale: Tensor | None, radial: Tensor | None, order: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of scale and radial from those of the factors, sorted by target."""
    if scale is None:
        return None, None
    if radial is None:
        return factors, None
    return factors @ radial.mT, scale[order].mT @ factors


def _edge_gradient(edges: Tensor, total: Tensor) -> Tensor:
    pole = edges.new_tensor([0.0, 1.0, 0.0])
    alive = has_direction(edges)
    safe = torch.where(alive, edges, pole)
    unit = largest_component(safe)
    scaled = safe / unit
    across = torch.linalg.cross(total, scaled) / scaled.square().sum(-1, keepdim=True)
    turned: Tensor = torch.where(alive, across / unit, 0)
    return turned


def gradients(
    grad: Tensor, *, x: Tensor, vectors: Tensor, needed: set[str], **rest: Any
) -> dict[str, Tensor | None]:
    """Backward rule of :func:`equigeo.ops.so2_conv`; computes only the needed gradients."""
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
