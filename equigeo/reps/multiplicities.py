"""Multiplicities of irreps in a representation, by characters."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo.groups import SO, Group, O
from equigeo.reps.irreps import Irreps
from equigeo.reps.planar_irrep import PlanarIrrep
from equigeo.reps.representation import Representation

KNOWN: tuple[Group, ...] = (O(2), SO(2), O(3), SO(3))
"""Groups whose irreps the library has."""


# Characters of compact groups are orthonormal: the integral of a product of two counts what both
# have in common. For rotations of the plane and of space it is a sum over multiples of one angle,
# so that sums over equidistant angles are exact.


def multiplicities(rep: Representation) -> list[tuple[Representation, int]]:
    """Return the irreps in a representation of O(2), SO(2), O(3) or SO(3) and their counts."""
    if rep.group not in KNOWN:
        names = ", ".join(map(str, KNOWN))
        raise ValueError(f"irreps are known of {names}, got {rep.group}; use restrict")
    if rep.dim == 0:
        return []
    found = _of_plane(rep) if rep.group.n == 2 else _of_space(rep)
    total = sum(irrep.dim * count for irrep, count in found)
    if total != rep.dim:
        raise ArithmeticError(
            f"{rep} has {rep.dim} features, but irreps of dimension {total} by its character: "
            "its matrix and its algebra do not belong together"
        )
    # By degree or frequency, odd before even.
    return [(irrep, count) for irrep, count in found if count]


def maps_by_characters(rep_in: Representation, rep_out: Representation) -> int | None:
    """Return the dimension of the space of equivariant maps, or None without known characters."""
    if rep_in.group in KNOWN:
        there = dict(multiplicities(rep_out))
        # by Schur's lemma one map for each pair of copies, or two where the irrep is complex
        return sum(
            count * there.get(irrep, 0) * (2 if is_complex(irrep) else 1)
            for irrep, count in multiplicities(rep_in)
        )
    if rep_in.group.dimension == 0:
        g = rep_in.group.components()
        pairs = rep_out.character(g) * rep_in.character(rep_in.group.inverse(g))
        return _whole(pairs.mean())
    return None


def is_complex(irrep: Representation) -> bool:
    """Return whether more than multiples of one commute with an irrep: rotations of the plane."""
    return irrep.group == SO(2) and irrep.dim == 2


def _of_plane(rep: Representation) -> list[tuple[Representation, int]]:
    group = rep.group
    counts = [_whole(count) for count in _weights(rep, proper=True)]
    invariants: list[tuple[Representation, int]] = [(PlanarIrrep(group, 0), counts[0])]
    if group == O(2):
        # reflections have trace zero but on invariants, where it is the parity
        even = _whole((counts[0] + rep.character(group.components()[1])) / 2)
        pseudo = PlanarIrrep(group, 0, -1)
        invariants = [(pseudo, counts[0] - even), (PlanarIrrep(group, 0), even)]
    return invariants + [(PlanarIrrep(group, k), n) for k, n in enumerate(counts) if k > 0]


def _of_space(rep: Representation) -> list[tuple[Representation, int]]:
    proper = _weights(rep, proper=True)
    parities = {1: proper}
    if rep.group == O(3):
        improper = _weights(rep, proper=False)
        parities = {p: (proper + p * improper) / 2 for p in (-1, 1)}
    found: list[tuple[Representation, int]] = []
    for l in range(len(proper)):
        for p, weights in parities.items():
            # every degree above l has the order l too
            above = weights[l + 1] if l + 1 < len(weights) else 0.0
            irrep: Representation = Irreps([(1, (l, p))]).restrict(rep.group)
            found.append((irrep, _whole(weights[l] - above)))
    return found


def _weights(
    rep: Representation,
    *,
    proper: bool,  # whether to use rotations, or rotations times the inversion
) -> Tensor:
    """Return the multiplicity of each frequency of rotations about the last axis."""
    generator = rep.generators()[-1]
    highest = round(float(torch.linalg.eigvals(generator).imag.abs().max()))
    # 2 k + 1 angles separate frequencies up to k; two more detect inconsistent characters
    count = 2 * highest + 3
    angles = torch.arange(count, dtype=torch.float64) * (2 * math.pi / count)
    g = rep.group.exp(angles[:, None, None] * rep.group.generators()[-1])
    traces = rep.character(g if proper else -g)
    orders = torch.arange(highest + 1, dtype=torch.float64)
    return (torch.cos(orders[:, None] * angles) * traces).mean(1)


def _whole(count: Tensor | float) -> int:
    """Return a multiplicity rounded to an integer."""
    value = float(count)
    if abs(value - round(value)) > 1e-6 or round(value) < 0:
        raise ArithmeticError(f"a multiplicity must be a whole number, got {value}: no character")
    return round(value)
