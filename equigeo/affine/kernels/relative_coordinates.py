"""Coordinates of relative group elements, which all that is equivariant may read."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups import GroupSamples


def relative_points(samples: GroupSamples, points: Tensor) -> Tensor:
    r"""Displacements as the samples see them, :math:`h_o^{-1} y_q`.

    Parameters
    ----------
    samples : GroupSamples
        The ``N`` elements ``h_o``.
    points : Tensor, (Q, n), floating
        Displacements.

    Returns
    -------
    Tensor, (N, Q, n), floating
        In the dtype of ``points``.

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> quarters = equidistant_rotations(4)  # the second one turns (1, 0) to (0, 1)
    >>> relative_points(quarters, torch.eye(2).double())[1, 1].round()
    tensor([1., 0.], dtype=torch.float64)
    """
    return torch.einsum("oab,qb->oqa", samples.h_inv.to(points), points)


def relative_coordinates(outputs: GroupSamples, inputs: GroupSamples) -> Tensor:
    r"""Global coordinates of :math:`h_o^{-1} \tilde h_i`.

    Parameters
    ----------
    outputs, inputs : GroupSamples
        ``No`` and ``Ni`` elements of one group.

    Returns
    -------
    Tensor, (No, Ni, dimension), dtype of the samples
        Symmetric coordinates, then those of the rotation.

    Raises
    ------
    ValueError
        If the samples are of different groups.

    Equivariance
    ------------
    Multiplying all samples by one element from the left changes nothing.

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> samples = equidistant_rotations(4)
    >>> relative_coordinates(samples, samples)[1, 2].item()  # a quarter turn
    1.5707963267948966
    """
    if outputs.group != inputs.group:
        raise ValueError(f"samples must be of one group, got {outputs.group} and {inputs.group}")
    group = inputs.group
    # Nothing else of the two elements may be read: left multiplication of both leaves this alone.
    products = outputs.h_inv[:, None] @ inputs.h[None]
    return group.coordinates(products)
