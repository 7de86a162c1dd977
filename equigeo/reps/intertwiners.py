"""All equivariant linear maps between two representations."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._kept import kept, plain_tensors
from equigeo.reps.decompose import irreducible_maps
from equigeo.reps.equivariant_maps import equivariant_maps, solve_conditions, unique_basis
from equigeo.reps.multiplicities import KNOWN, is_complex, maps_by_characters
from equigeo.reps.representation import Representation, require_linear_parts

LARGE = 1024
"""Entries of maps above which irreps are faster than a null space, whose cost is their cube."""


def intertwiners(
    rep_in: Representation, rep_out: Representation, *, elements: Tensor | None = None
) -> Tensor:
    r"""Return an orthonormal basis of the linear maps that commute with a group.

    .. math:: \rho_\mathrm{out}(g)\, A = A\, \rho_\mathrm{in}(g) \quad\text{for all } g,
              \qquad \operatorname{tr}(A_i^T A_j) = \delta_{ij}

    The null space of these conditions on generators and one element of each component (Finzi,
    Welling, Wilson, "A Practical Method for Constructing Equivariant Multilayer Perceptrons for
    Arbitrary Matrix Groups", 2021) is computed once for each pair of summands. The basis is the
    same on every machine up to rounding.

    Parameters
    ----------
    rep_in, rep_out : Representation
        Linear, of one group, compact or not.
    elements : Tensor, (k, size, size), float64, optional
        Generators of a subgroup that alone has to commute, such as the samples of a
        :class:`Regular` representation, which has no generators.

    Returns
    -------
    Tensor, (dimension, rep_out.dim, rep_in.dim), float64
        By summands of the input, of the output, then by copies; may have no rows.

    Raises
    ------
    ArithmeticError
        If the dimension is not that of the characters: matrices and algebra of a representation do
        not belong together.

    Examples
    --------
    >>> from equigeo.groups import SL
    >>> from equigeo.reps import Irreps, TensorRep
    >>> intertwiners(Irreps("2x0e + 1o"), Irreps("0e + 1o")).shape  # Schur: 2 + 1 maps
    torch.Size([3, 4, 5])
    >>> vector = TensorRep(SL(2))
    >>> (area,) = intertwiners(vector, vector.dual()) * 2**0.5
    >>> area.tolist()  # vectors and covectors are isomorphic under maps that preserve areas
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    require_linear_parts("space of intertwiners", (rep_in, rep_out))
    if elements is not None:
        rep_in.group.check_shape(elements)
        elements = elements.double()
        return solve_conditions(rep_out.matrix(elements), rep_in.matrix(elements))
    return _spread_maps(rep_in, rep_out)


@plain_tensors()
def _spread_maps(rep_in: Representation, rep_out: Representation) -> Tensor:
    """Embed the maps of all pairs of summands at their positions."""
    found = [torch.zeros(0, rep_out.dim, rep_in.dim, dtype=torch.float64)]
    for atom_in, places_in in rep_in.summands():
        for atom_out, places_out in rep_out.summands():
            maps = maps_of_summands(atom_in, atom_out)
            for columns in places_in:
                for rows in places_out:
                    part = maps.new_zeros(len(maps), rep_out.dim, rep_in.dim)
                    part[:, rows[:, None], columns] = maps
                    found.append(part)
    return torch.cat(found)


@kept
def maps_of_summands(
    rep_in: Representation, rep_out: Representation
) -> Tensor:  # (dimension, rep_out.dim, rep_in.dim), float64
    """Return the cached table behind :func:`intertwiners` for two summands; do not modify."""
    if rep_in.group in KNOWN and rep_in.dim * rep_out.dim > LARGE:
        return maps_by_irreps(rep_in, rep_out)
    maps = equivariant_maps(rep_in, rep_out)
    expected = maps_by_characters(rep_in, rep_out)
    if expected not in (None, len(maps)):
        raise ArithmeticError(
            f"{expected} maps must commute by the characters of {rep_in} and {rep_out}, got "
            f"{len(maps)} by generators: matrix and algebra of one do not belong together"
        )
    return maps


def maps_by_irreps(
    rep_in: Representation, rep_out: Representation
) -> Tensor:  # (dimension, rep_out.dim, rep_in.dim), float64
    """Return equivariant maps by Schur's lemma: from each copy of an irrep to each equal copy."""
    targets = dict(irreducible_maps(rep_out))
    sources = irreducible_maps(rep_in)
    whole = torch.cat([columns for _, maps in sources for columns in maps], 1)
    rows = torch.linalg.inv(whole).split([irrep.dim for irrep, m in sources for _ in m])
    found = [whole.new_zeros(0, rep_out.dim, rep_in.dim)]
    start = 0
    for irrep, copies in sources:
        inputs = torch.stack(rows[start : start + len(copies)])
        start += len(copies)
        commuting = [torch.eye(irrep.dim, dtype=torch.float64)]
        commuting += [irrep.generators()[0]] if is_complex(irrep) else []
        for outputs in targets.get(irrep, ()):
            found += [outputs @ middle @ inputs for middle in commuting]
    maps = torch.cat(found).flatten(1)
    q, _ = torch.linalg.qr(maps.mT)  # already orthogonal where both representations are
    return unique_basis(q.mT.unflatten(-1, (rep_out.dim, rep_in.dim)))


def is_isomorphic(rep: Representation, other: Representation) -> bool:
    """Return whether two linear representations of a group differ by a change of basis only.

    Examples
    --------
    >>> from equigeo.groups import GLPlus, SL
    >>> from equigeo.reps import TensorRep
    >>> [is_isomorphic(TensorRep(g), TensorRep(g).dual()) for g in (SL(2), GLPlus(2))]
    [True, False]
    """
    require_linear_parts("space of intertwiners", (rep, other))
    if rep.dim != other.dim or rep.dim == 0:
        return rep.dim == other.dim
    # A generic map is invertible if one is: all but a set of measure zero are.
    maps = intertwiners(rep, other)
    if not len(maps):
        return False
    weights = torch.cos(1.0 + torch.arange(len(maps), dtype=torch.float64))  # without pattern
    values = torch.linalg.svdvals(torch.einsum("k,kij->ij", weights, maps))
    return bool(values[-1] > 1e-9 * values[0])
