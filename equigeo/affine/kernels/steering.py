"""Kernels between fields of tensors and scalar features on a group.

A field of type ``rho`` moves as ``rho(A) f(A^-1 x)``. Seen by the sample ``h`` it is
``rho(h^-1) f``, whose components are scalars on the group: the frame moves with the field. A kernel
that reads a field, or writes one, therefore holds ``rho`` of its sample, and nothing else changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups import GroupSamples, LinearGroup
from equigeo.reps import Representation, Trivial


def field_representation(rep: Representation | None, group: LinearGroup) -> Representation:
    """Check the representation of a field.

    Parameters
    ----------
    rep : Representation or None
        Of the values of one field; None for a scalar.
    group : LinearGroup
        Group of the layer.

    Returns
    -------
    Representation
        Of that group.

    Raises
    ------
    TypeError
        If it is no representation.
    ValueError
        If it is not linear, or the group does not map to its group.
    """
    if rep is None:
        return Trivial(group, 1)
    if not isinstance(rep, Representation):
        raise TypeError(f"the values of a field have a Representation, got {rep!r}")
    if not rep.is_linear:
        raise ValueError(f"the values of a field need a linear representation, got {rep}")
    if not group.maps_to(rep.group):
        raise ValueError(f"{rep} is of {rep.group}, to which {group} does not map")
    return rep.restrict(group)


def seen_by_samples(rep: Representation, samples: GroupSamples) -> Tensor:
    """Matrices that take the values of a field to what each sample sees.

    Parameters
    ----------
    rep : Representation
        Of the values.
    samples : GroupSamples
        ``N`` samples of its group.

    Returns
    -------
    Tensor, (N, dim, dim), dtype of the samples
        ``rho(h^-1)``.

    Examples
    --------
    >>> from equigeo.groups import SO, equidistant_rotations
    >>> from equigeo.reps import TensorRep
    >>> seen_by_samples(TensorRep(SO(2)), equidistant_rotations(4))[1].round().int().tolist()
    [[0, 1], [-1, 0]]
    """
    return rep.matrix(samples.h_inv)


def read_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Let a kernel read fields.

    Parameters
    ----------
    values : Tensor, (N, *, channels * dim), floating
        Kernel for the components that each sample sees.
    rep : Representation
        Of the values of a field.
    samples : GroupSamples
        The ``N`` samples.

    Returns
    -------
    Tensor, (N, *, channels * dim), dtype of ``values``
        Kernel for the components of the field.
    """
    if isinstance(rep, Trivial):
        return values
    matrices = seen_by_samples(rep, samples).to(values)
    split = values.unflatten(-1, (-1, rep.dim))
    return torch.einsum("n...e,ned->n...d", split, matrices).flatten(-2)


def write_field(values: Tensor, rep: Representation, samples: GroupSamples) -> Tensor:
    """Let a kernel write fields.

    Parameters
    ----------
    values : Tensor, (N, *, dim, channels), floating
        Kernel for the components that each sample sees.
    rep : Representation
        Of the values of a field.
    samples : GroupSamples
        The ``N`` samples.

    Returns
    -------
    Tensor, (N, *, dim, channels), dtype of ``values``
        Kernel for the components of the field.
    """
    if isinstance(rep, Trivial):
        return values
    matrices = rep.matrix(samples.h).to(values)
    return torch.einsum("nde,n...ec->n...dc", matrices, values)
