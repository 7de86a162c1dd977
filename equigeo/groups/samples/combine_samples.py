"""Samples of stretches and of rotations, made into samples of a whole group."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.inclusions import CompactFactor, PolarForm, Stretches
from equigeo.groups.samples.group_samples import GroupSamples


def pair_samples(stretches: GroupSamples, rotations: GroupSamples) -> GroupSamples:
    """Combine the i-th stretch with the i-th rotation: ``h_i = P_i R_i``.

    Enough for averages over draws; :func:`multiply_samples` has quadrature accuracy. Weights are
    those of the stretches times those of the rotations over their mean.

    Parameters
    ----------
    stretches : GroupSamples
        N samples of the group, without rotation.
    rotations : GroupSamples
        N samples of its compact factor, or of the rotations in it.

    Examples
    --------
    >>> from equigeo.groups import SL, equidistant_rotations, sample_stretches
    >>> pair_samples(sample_stretches(SL(2), 10, 0.2), equidistant_rotations(10)).group
    SL(2)
    """
    _check_factors(stretches, rotations)
    if len(stretches) != len(rotations):
        raise ValueError(
            f"pairs need equal numbers, got {len(stretches)} stretches and "
            f"{len(rotations)} rotations; use multiply_samples for all combinations"
        )
    weight = stretches.weight * rotations.mean_weight * len(rotations)
    return _combined(stretches, rotations, torch.arange(len(stretches)), weight)


def multiply_samples(stretches: GroupSamples, rotations: GroupSamples) -> GroupSamples:
    """Combine every stretch with every rotation: ``h = P R``, stretches slowest.

    Arguments are those of :func:`pair_samples`, of any numbers M and N. Returns M N samples with
    products of the weights.

    Examples
    --------
    >>> from equigeo.groups import SL, equidistant_rotations, grid_stretches
    >>> len(multiply_samples(grid_stretches(SL(2), 1.5, 7), equidistant_rotations(8)))
    392
    """
    _check_factors(stretches, rotations)
    pairs = torch.cartesian_prod(torch.arange(len(stretches)), torch.arange(len(rotations)))
    weight = torch.outer(stretches.weight, rotations.weight).flatten()
    repeated = stretches.select(pairs[:, 0].to(stretches.h.device))
    return _combined(repeated, rotations, pairs[:, 1], weight)


def _combined(
    stretches: GroupSamples, rotations: GroupSamples, order: Tensor, weight: Tensor
) -> GroupSamples:
    """Return products of stretches with rotations in a given order, exact for exact rotations."""
    group = stretches.group
    order = order.to(rotations.h.device)
    stretch = stretches.coordinates[:, : group.symmetric_dimension]
    return GroupSamples(
        group,
        stretches.h @ rotations.h[order],
        rotations.h_inv[order] @ stretches.h_inv,
        weight,
        torch.cat([stretch, rotations.coordinates[order]], dim=-1),
    )


def _check_factors(stretches: GroupSamples, rotations: GroupSamples) -> None:
    factor, n = stretches.group.compact_factor, stretches.group.n
    compact = PolarForm(n, Stretches.NONE, factor)
    if factor is CompactFactor.TRIVIAL or not rotations.group.polar_form.lies_in(compact):
        name = None if factor is CompactFactor.TRIVIAL else f"{factor.value}({n})"
        raise ValueError(
            f"stretches of {stretches.group} need rotations in {name}, "
            f"got samples of {rotations.group}"
        )
    if bool((stretches.coordinates[:, stretches.group.symmetric_dimension :] != 0).any()):
        raise ValueError("stretches must be positive definite, got some with a rotation")
    if stretches.h.dtype != rotations.h.dtype:
        raise ValueError(
            f"stretches and rotations must agree in type, got {stretches.h.dtype} and "
            f"{rotations.h.dtype}"
        )
