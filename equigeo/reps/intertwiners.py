"""All equivariant linear maps between two representations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from equigeo._core.cache import kept
from equigeo._core.tensors import plain_tensors
from equigeo.groups import SO, Group, O
from equigeo.reps.irreps import Irreps
from equigeo.reps.permutation import PlanarIrrep, Trivial
from equigeo.reps.representation import Representation, Restricted, require_linear_parts

# Singular values of normalized conditions. Those of maps that are equivariant are rounding, 1e-15
# times the number of components; those of other maps are of the order of weights, near one.
ZERO = 1e-9
# Squares of singular values, of which rounding leaves half of the digits: a first selection.
SMALL_SQUARE = 1e-6
# Rows whose lengths differ by rounding count as equally long, so that the first is chosen.
TIE = 1e-6
FEW = 256
"""Entries of maps up to which a null space on all of them is found fastest."""
LARGE = 1024
"""Entries of maps above which irreps are faster than a null space, whose cost is their cube."""
KNOWN: tuple[Group, ...] = (O(2), SO(2), O(3), SO(3))
"""Groups whose irreps the library has."""


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


@kept
def equivariant_maps(
    rep_in: Representation, rep_out: Representation
) -> Tensor:  # (dimension, rep_out.dim, rep_in.dim), float64
    """Return an orthonormal basis of the equivariant maps; a cached table, do not modify."""
    return solve_conditions(_conditions(rep_out), _conditions(rep_in))


def _conditions(rep: Representation) -> Tensor:
    """Return matrices (conditions, dim, dim) that every equivariant map commutes with."""
    # A map commutes with a group if it does with the generators of its Lie algebra and with one
    # element of every component: each is a linear condition L A = A R.
    return torch.cat([rep.generators(), rep.matrix(rep.group.components()[1:])])


def solve_conditions(
    left: Tensor,  # (conditions, m, m)
    right: Tensor,  # (conditions, n, n)
) -> Tensor:  # (dimension, m, n)
    """Return an orthonormal basis of the matrices with ``left[k] A = A right[k]`` for all k."""
    m, n = left.shape[-1], right.shape[-1]
    if m * n == 0:
        return left.new_zeros(0, m, n)
    # conditions of norm one, without those of norm zero
    norms = torch.stack([torch.linalg.matrix_norm(x, 2) for x in (left, right)]).amax(0)
    left, right = (x[norms > 0] / norms[norms > 0, None, None] for x in (left, right))
    squares, vectors = torch.linalg.eigh(_gram(left, right))
    maps = vectors[:, squares < SMALL_SQUARE].mT.unflatten(-1, (m, n))
    # few candidates are left: singular values themselves, instead of squares, keep all digits
    residual = (left[:, None] @ maps - maps @ right[:, None]).movedim(1, -1).flatten(0, -2)
    if len(residual):
        whole = len(residual) < residual.shape[1]
        _, values, rows = torch.linalg.svd(residual, full_matrices=whole)
        values = torch.nn.functional.pad(values, (0, len(rows) - len(values)))
        maps = torch.einsum("kd,dij->kij", rows[values < ZERO], maps)
    return unique_basis(maps)


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum of squares of all conditions, (m n, m n), on entries in row-major order."""
    m, n = left.shape[-1], right.shape[-1]
    eye_out, eye_in = torch.eye(m).to(left), torch.eye(n).to(left)
    squares = torch.einsum("kab,kac,ij->bicj", left, left, eye_in)
    squares = squares + torch.einsum("ab,kij,klj->aibl", eye_out, right, right)
    mixed = torch.einsum("kab,kij->aibj", left, right)
    return (squares - mixed - mixed.permute(2, 3, 0, 1)).flatten(2).flatten(0, 1)


def unique_basis(maps: Tensor) -> Tensor:  # (d, m, n), orthonormal for tr(A^T B)
    """Return the orthonormal basis of a span that does not depend on the given basis."""
    span = maps.flatten(1).mT.clone()
    basis = torch.zeros_like(span)
    # Cholesky factor of the projector with complete pivoting (Higham, 1990, "Analysis of the
    # Cholesky decomposition of a semi-definite matrix"); ties take the first entry. Eigenvectors of
    # multiple eigenvalues differ between libraries, this basis only by rounding.
    for k in range(span.shape[1]):
        reach = span.square().sum(1)
        pivot = int((reach >= (1 - TIE) * reach.max()).int().argmax())
        direction = span[pivot] / reach[pivot].sqrt()
        basis[:, k] = span @ direction
        span = span - torch.outer(basis[:, k], direction)
    # exact zeros leave rounding behind
    basis = torch.where(basis.abs() < 1e-13, 0.0, basis)
    return basis.mT.unflatten(-1, maps.shape[1:])


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
    """Return whether two linear representations of a group differ by a change of basis only."""
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


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Irreducible summands of a representation and the change of basis to them."""

    rep: Representation
    irreps: Representation
    basis: Tensor  # rep.matrix(g) @ basis == basis @ irreps.matrix(g)


def decompose(rep: Representation) -> Decomposition:
    """Decompose a representation of O(2), SO(2), O(3) or SO(3) into irreducible ones.

    Other groups, affine actions and inconsistent matrices raise. See Serre, "Linear Representations
    of Finite Groups", 1977, chapter 2.

    Returns
    -------
    Decomposition
        With attributes ``rep``; ``irreps``, the direct sum: Irreps for O(3), their restriction for
        SO(3), frequencies in the plane, by degree or frequency, odd before even; and ``basis``
        (dim, dim), float64, whose columns are the new unit vectors: ``x = basis @ y`` for features
        ``y`` of ``irreps``. It is orthogonal if ``rep`` is, and the same on every machine up to
        rounding.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> from equigeo.reps import TensorRep
    >>> found = decompose(TensorRep(O(3), up=2))
    >>> str(found.irreps)  # trace, antisymmetric part, traceless symmetric part
    '1x0e+1x1e+1x2e'
    >>> x = torch.eye(3, dtype=torch.float64).flatten()
    >>> (found.basis.mT @ x).round(decimals=6).nonzero().tolist()  # the identity is its trace alone
    [[0]]
    """
    require_linear_parts("decomposition", (rep,))
    found: dict[Representation, list[Tensor]] = {irrep: [] for irrep, _ in multiplicities(rep)}
    for atom, positions in rep.summands():
        for irrep, maps in irreducible_maps(atom):
            for place in positions:
                columns = maps.new_zeros(len(maps), rep.dim, irrep.dim)
                columns[:, place] = maps
                found[irrep].extend(columns)
    terms = [(irrep, len(maps)) for irrep, maps in found.items()]
    nothing = torch.zeros(rep.dim, 0, dtype=torch.float64)
    basis = torch.cat([nothing, *chain.from_iterable(found.values())], 1)
    return Decomposition(rep, _direct_sum(rep, terms), basis)


@kept
def irreducible_maps(
    rep: Representation,
) -> list[tuple[Representation, Tensor]]:  # (irrep, (copies, rep.dim, irrep.dim) float64)
    """Return maps from irreps with independent images that span all features; do not modify."""
    # All columns together are orthonormal if rep is orthogonal.
    found = []
    for irrep, count in multiplicities(rep):
        # Of few unknowns all conditions at once are faster.
        large = rep.group.n == 3 and irrep.dim * rep.dim > FEW
        maps = maps_of_irrep(irrep, rep) if large else equivariant_maps(irrep, rep)
        if is_complex(irrep):
            maps = _over_complex_numbers(irrep, maps)
        if len(maps) != count:
            raise ArithmeticError(
                f"{rep} holds {irrep} {count} times by its character, but {len(maps)} times by "
                "its generators: its matrix and its algebra do not belong together"
            )
        # by Schur's lemma A^T B is a multiple of one, of trace one or zero: columns of length one
        found.append((irrep, maps * irrep.dim**0.5))
    return found


def maps_of_irrep(
    irrep: Representation, rep: Representation
) -> Tensor:  # (dimension, rep.dim, irrep.dim), float64
    """Return an orthonormal basis of the equivariant maps from an irrep of O(3) or SO(3)."""
    left, right = _conditions(rep), _conditions(irrep)
    # The image of an irrep is in an eigenspace of the Casimir operator: the cost is cubic in the
    # size of that space only.
    value = (right[:3] @ right[:3]).sum(0)[0, 0]
    shifted = (left[:3] @ left[:3]).sum(0) - value * torch.eye(rep.dim, dtype=left.dtype)
    _, values, rows = torch.linalg.svd(shifted)
    # Eigenvalues l (l + 1) are at least 2 apart.
    space = rows[values < TIE * max(1.0, float(values.max()))].mT
    within = space.mT @ left @ space
    # Conditions are normalized later, which would turn rounding of zeros into conditions.
    within = torch.where(within.abs() < ZERO * left.abs().amax(), 0.0, within)
    maps = solve_conditions(within, right)
    return unique_basis(space @ maps)


def _over_complex_numbers(irrep: Representation, maps: Tensor) -> Tensor:
    """Return half of the maps; quarter turns of the irrep generate the others."""
    rate = irrep.generators()[0]
    quarter = rate / torch.linalg.matrix_norm(rate, 2)  # its square is -1
    chosen = []
    while len(maps):
        chosen.append(maps[0])
        used = torch.stack([maps[0], maps[0] @ quarter]).flatten(1)
        # the rest is orthogonal to both: the null space of their coefficients
        _, _, rows = torch.linalg.svd(used @ maps.flatten(1).mT, full_matrices=True)
        maps = unique_basis(torch.einsum("kd,dij->kij", rows[2:], maps))
    return torch.stack(chosen)


def _direct_sum(rep: Representation, terms: list[tuple[Representation, int]]) -> Representation:
    """Return the direct sum of copies of irreps, as Irreps for O(3) and SO(3)."""
    if not terms:
        return Trivial(rep.group, 0)
    if rep.group.n == 3:
        irreps = Irreps([(count, _degree_and_parity(irrep)) for irrep, count in terms])
        return irreps.restrict(rep.group)
    first, *others = [count * irrep for irrep, count in terms]
    return sum(others, first)


def _degree_and_parity(irrep: Representation) -> tuple[int, int]:
    """Return degree and parity of an irrep of O(3), or of a restriction to SO(3)."""
    whole: Any = irrep.rep if isinstance(irrep, Restricted) else irrep
    ((_, ir),) = Irreps(whole)
    return ir


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


def _weights(rep: Representation, *, proper: bool) -> Tensor:
    """Return multiplicities of frequencies about the last axis, of rotations or their negatives."""
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
