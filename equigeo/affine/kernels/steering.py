"""Kernels between fields of tensors and scalar features on a group."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups import GroupSamples, LinearGroup
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
