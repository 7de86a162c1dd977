"""Kernels between fields of tensors and scalar features on a group."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo.groups import GroupSamples, LinearGroup
from equigeo.groups.samples import split_component
from equigeo.reps import Representation, Trivial

# A field of type rho moves as rho(A) f(A^-1 x). In the frame of the sample h it is rho(h^-1) f,
# whose components are scalars on the group. Kernels that read or write a field multiply by rho of
# their sample.


def field_representation(
    rep: Representation | None,  # None for a scalar field
    group: LinearGroup,
) -> Representation:
    """Return the representation of a field restricted to the group of a layer."""
    if rep is None:
        return Trivial(group, 1)
    if not isinstance(rep, Representation):
        raise TypeError(f"the values of a field have a Representation, got {rep!r}")
    if not rep.is_linear:
        raise ValueError(f"the values of a field need a linear representation, got {rep}")
    if not group.maps_to(rep.group):
        raise ValueError(f"{rep} is of {rep.group}, to which {group} does not map")
    return rep.restrict(group)


def read_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Convert a kernel for components in the frame of each sample to one for field components."""
    if isinstance(rep, Trivial):
        return values
    matrices = rep.matrix(samples.h_inv).to(values)
    split = values.unflatten(-1, (-1, rep.dim))  # (N, *, channels, dim)
    return torch.einsum("n...e,ned->n...d", split, matrices).flatten(-2)


def write_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Convert a kernel with outputs in the frame of each sample to one with field outputs."""
    if isinstance(rep, Trivial):
        return values
    matrices = rep.matrix(samples.h).to(values)
    return torch.einsum("nde,n...ec->n...dc", matrices, values)  # (N, *, dim, channels)


def relative_points(
    samples: GroupSamples,  # N elements h_o
    points: Tensor,  # (Q, n), displacements y_q
) -> Tensor:  # (N, Q, n)
    """Return displacements relative to the samples, :math:`h_o^{-1} y_q`."""
    return torch.einsum("oab,qb->oqa", samples.h_inv.to(points), points)


def relative_coordinates(outputs: GroupSamples, inputs: GroupSamples) -> Tensor:
    """Return coordinates (outputs, inputs, dimension) of ``h_o^-1 h_i``, with determinant signs."""
    # Half turns have the axis whose first nonzero component is positive.
    if outputs.group != inputs.group:
        raise ValueError(f"samples must be of one group, got {outputs.group} and {inputs.group}")
    group = inputs.group
    # Equivariant layers read only h_o^-1 h_i, which is invariant to left multiplication of both.
    products = outputs.h_inv[:, None] @ inputs.h[None]
    proper, mirror = split_component(group, products)
    coordinates = group.coordinates(proper)
    if not group.has_rotations:
        return coordinates
    stretch, rotation = coordinates.tensor_split([group.symmetric_dimension], dim=-1)
    signs = mirror[..., : int(group.has_reflections)]
    return torch.cat([stretch, _one_half_turn(rotation), signs], dim=-1)


def _one_half_turn(w: Tensor) -> Tensor:  # (..., 1 or 3)
    """Move rotations near half turns to one side of the cut of the logarithm."""
    # Samples that are closed under half turns have products that are half turns up to rounding.
    margin = torch.finfo(w.dtype).eps ** 0.5
    angle = torch.linalg.vector_norm(w, dim=-1, keepdim=True)
    nearly_half = angle > math.pi - margin
    angle = torch.where(nearly_half, angle, 1.0)
    axis = w / angle
    clear = axis.abs() > margin
    first = axis.gather(-1, clear.int().argmax(-1, keepdim=True))
    # An angle t about -a is the angle 2 pi - t about a.
    return torch.where(nearly_half & (first < 0), w * (1 - 2 * math.pi / angle), w)
