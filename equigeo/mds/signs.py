"""Signs of principal axes: all changes, those that moments or labels leave, and weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise, product

import torch
from torch import Tensor

from equigeo.mds.align import AlignedClouds, CloudRows, odd_margins, power_margin
from equigeo.ops import SignRule
from equigeo.ops.geometry.axis_flags import coordinate_errors, dependent_axis

# Second moments off the diagonal vanish in principal axes, first ones about the centroid.
LEAST_DEGREE, MOST_DEGREE = 3, 6
MOST_AXES = 10  # 1024 changes of sign
NEGLIGIBLE = 0.05
"""Coordinates below this part of the spread do not determine a direction."""


def sign_table(
    dim: int,
    like: Tensor,  # tensor with the dtype and device of the result
) -> Tensor:
    """Return all sign changes, (2 ** dim, dim), the identity first."""
    if dim > MOST_AXES:
        raise ValueError(f"sets of frames are for at most {MOST_AXES} dimensions, got {dim}")
    signs = list(product((1.0, -1.0), repeat=dim))
    return torch.tensor(signs, dtype=like.dtype, device=like.device)


def allowed_signs(
    aligned: AlignedClouds,  # right-handed for SO
) -> Tensor:  # (2 ** dim, clouds), bool
    """Return a mask of sign changes that lead to different frames of the group."""
    table = sign_table(aligned.dim, aligned.spread)
    # A null axis is only flipped to make the frame right-handed.
    fixed = aligned.null
    if aligned.group == "SO":
        fixed = fixed & ~dependent_axis(aligned.margin, aligned.null, SignRule.LAST)
    allowed = ~((table[:, None, :] < 0) & fixed).any(-1)
    return allowed & (table.prod(-1) > 0)[:, None] if aligned.group == "SO" else allowed


def residual_signs(
    aligned: AlignedClouds,
) -> tuple[Tensor, Tensor]:  # (2 ** dim, clouds) bool, (clouds,) bool
    """Return the sign changes that joint moments leave, and whether rounding cannot change them."""
    table = sign_table(aligned.dim, aligned.spread)
    left = allowed_signs(aligned)
    # Each moment above rounding determines a product of signs, unless it contradicts earlier
    # moments, which have priority.
    settled = left.new_ones(left.shape[1])
    for parity, sign, doubtful in _equations(aligned):
        # A moment of odd powers of some axes changes by the product of their signs.
        character = table[:, parity].prod(-1)[:, None]
        undecided = (left & (character > 0)).any(0) & (left & (character < 0)).any(0)
        settled = settled & ~(undecided & doubtful)
        agreeing = left & ((character == sign) | (sign == 0))
        left = torch.where(agreeing.any(0), agreeing, left)
    return left, settled


def errors_of_axes(aligned: AlignedClouds) -> Tensor:  # (clouds, dim)
    """Return relative errors of coordinates, without rotations of degenerate axes."""
    clouds = aligned.clouds
    gap = torch.where(aligned.degenerate, 1, aligned.gap)
    spread, gap, centroid = (t.detach() for t in (aligned.spread, gap, aligned.centroid))
    return coordinate_errors(spread, gap, centroid, clouds.ptr, clouds.weight, clouds.eps)


def _equations(aligned: AlignedClouds) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Yield axes, the product of their signs or 0 if undetermined, and whether rounding decided."""
    clouds, y = aligned.clouds, aligned.y.detach().double()
    size = clouds.largest(y.abs().amax(-1))
    y = y / clouds.spread_out(torch.where(size > 0, size, 1))[:, None]
    tol = clouds.by_precision(1e-9, 1e-5)  # as margins that leave signs ambiguous
    errors = errors_of_axes(aligned).double()
    powers = [torch.ones_like(y)]
    for _ in range(MOST_DEGREE):
        powers.append(powers[-1] * y)
    for parity, monomials in parity_classes(y.shape[-1]):
        sign = y.new_zeros(len(clouds.ptr) - 1)
        doubtful = sign.bool()
        for exponents in monomials:
            terms = torch.stack([powers[e][:, k] for k, e in enumerate(exponents) if e]).prod(0)
            if clouds.weight is not None:
                terms = terms * clouds.weight
            moments = clouds.add_up(torch.stack([terms, terms.abs()], -1))
            bound = (errors @ errors.new_tensor(exponents)).clamp(min=tol) * moments[:, 1]
            size = moments[:, 0].abs()
            # Errors are at most half of the bound.
            near = (size > 0.5 * bound) & (size < 1.5 * bound)
            doubtful = doubtful | ((sign == 0) & near)
            reliable = size > bound
            sign = torch.where((sign == 0) & reliable, moments[:, 0].sign(), sign)
        yield [k for k, p in enumerate(parity) if p], sign.to(aligned.y.dtype), doubtful


@lru_cache
def parity_classes(dim: int) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Return parities and exponents of monomials of degrees 3 to 6 by priority."""
    parities = sorted(
        (p for p in product((1, 0), repeat=dim) if any(p)),
        key=lambda p: (sum(p) % 2 == 0, sum(p), [-bit for bit in p]),
    )
    # By degree and then in reverse lexicographic order.
    exponents = sorted(
        (
            e
            for e in product(range(MOST_DEGREE + 1), repeat=dim)
            if LEAST_DEGREE <= sum(e) <= MOST_DEGREE
        ),
        key=lambda e: (sum(e), [-n for n in e]),
    )
    return [(p, [e for e in exponents if tuple(n % 2 for n in e) == p]) for p in parities]


def soft_weights(
    # options.softness is the skewness with a single sign; SO fixes the last
    aligned: AlignedClouds,
) -> Tensor:  # (2 ** dim, clouds)
    """Return differentiable weights of sign changes that follow the skewness, with sum one."""
    clouds, table = aligned.clouds, sign_table(aligned.dim, aligned.spread)
    margin = power_margin(aligned.y, 3, clouds)
    # Linear between the two signs: (1 + s m / softness) / 2, and one sign alone beyond.
    factor = (1 + table[:, None, :] * (margin / aligned.options.softness).clamp(-1, 1)) / 2
    constant = aligned.null
    if aligned.group == "SO":
        constant = constant | dependent_axis(aligned.margin, aligned.null, SignRule.LAST)
    weight = torch.where(constant, 1, factor).prod(-1)
    return weight * allowed_signs(aligned)


def axis_stability(
    y: Tensor,  # (rows, dim), in principal axes
    clouds: CloudRows,
) -> Tensor:  # (clouds, dim), float64
    """Return probabilities that axes keep place and sign if half of the points are dropped."""
    # Without a random half of the points, each of the others counts twice: a mean over the points
    # has the variance sum_i p_i^2 f_i^2, where p_i f_i is the influence of point i and p_i its
    # weight, to first order also through the centroid and the turn of the axes.
    unit = clouds.spread_out(clouds.add_up(y.square().double()).sum(-1, keepdim=True).sqrt())
    y = y.detach().double() / torch.where(unit == 0, 1, unit)
    part = torch.ones_like(y[:, 0]) if clouds.weight is None else clouds.weight.double()
    part = part / clouds.spread_out(torch.where(clouds.total == 0, 1, clouds.total))

    def mean(values: Tensor) -> Tensor:
        return clouds.add_up(part[:, None] * values)

    def deviation(influence: Tensor) -> Tensor:
        return clouds.add_up((part[:, None] * influence).square()).sqrt()

    def chance(value: Tensor, error: Tensor) -> Tensor:
        """Return probabilities of values with normal errors to become negative."""
        sure = error == 0
        return torch.where(sure, 0, torch.special.ndtr(-value / torch.where(sure, 1, error)))

    square, cube = mean(y.square()), mean(y**3)
    doubt = []
    for k in range(y.shape[1]):
        own = y[:, k : k + 1]
        influence = own**3 - clouds.spread_out(cube[:, k : k + 1])
        influence = influence - 3 * clouds.spread_out(square[:, k : k + 1]) * own
        lost = torch.zeros_like(cube[:, :1])
        for j in (j for j in range(y.shape[1]) if j != k):
            other = y[:, j : j + 1]
            gap = square[:, k : k + 1] - square[:, j : j + 1]
            inverse = torch.where(gap == 0, 0, 1 / torch.where(gap == 0, 1, gap))
            slope = 3 * mean(own.square() * other) * inverse
            influence = influence + clouds.spread_out(slope) * own * other
            # Axes turn by 30 degrees where a moment off the diagonal is this part of the gap.
            change = own.square() - other.square() - clouds.spread_out(gap)
            for side in (2 / 3**0.5, -2 / 3**0.5):
                error = deviation(clouds.spread_out(gap.sign()) * change + side * own * other)
                lost = lost + chance(gap.abs(), error)
        null = square[:, k : k + 1] == 0
        flips = chance(cube[:, k : k + 1].abs(), deviation(influence))
        doubt.append(torch.where(null, 0, lost + flips))
    return (1 - torch.cat(doubt, -1)).clamp(min=0)


def labelled_axes(
    aligned: AlignedClouds,  # points in the order of their labels
) -> AlignedClouds:
    """Rotate axes of equal spread and choose signs by the first points that determine them."""
    clouds, dim = aligned.clouds, aligned.dim
    here = torch.ones_like(aligned.y[:, 0], dtype=torch.bool)
    if clouds.weight is not None:
        here = clouds.weight != 0
    turns = [
        _turn(aligned.y[begin:end][here[begin:end]], int((~null).sum()), equal.tolist())
        for (begin, end), null, equal in zip(
            pairwise(clouds.ptr.tolist()), aligned.null, aligned.degenerate, strict=True
        )
    ]
    turn = torch.stack(turns) if turns else aligned.frame.new_zeros(0, dim, dim)
    frame = aligned.frame @ turn
    if aligned.group == "SO":
        last = torch.ones_like(aligned.margin)
        last[:, -1] = torch.where(torch.linalg.det(frame) < 0, -1, 1)
        turn, frame = turn * last[:, None, :], frame * last[:, None, :]
    y = aligned.seen_in(turn)
    # Labeled points leave no symmetry, so there are no flags.
    return replace(
        aligned,
        y=y,
        frame=frame,
        margin=odd_margins(y, aligned.spread, clouds, aligned.options),
        ambiguous=torch.zeros_like(aligned.ambiguous),
        degenerate=torch.zeros_like(aligned.degenerate),
    )


def _turn(y: Tensor, count: int, equal: list[bool]) -> Tensor:
    """Return the rotation of the nonnull axes, within each group of equal ones."""
    blocks, start = [], 0
    while start < count:
        end = start + 1
        while end < count and equal[end - 1]:
            end += 1
        blocks.append(_basis(y[:, start:end]))
        start = end
    return torch.block_diag(*blocks, torch.eye(y.shape[1] - count, dtype=y.dtype, device=y.device))


def _basis(rows: Tensor) -> Tensor:
    """Return orthonormal columns from the first independent rows."""
    least = NEGLIGIBLE * rows.detach().square().mean(0).sum().sqrt()
    columns: list[Tensor] = []
    rest = rows
    for _ in range(rows.shape[1]):
        able = rest.detach().norm(dim=-1) > least
        row = rest[int(able.int().argmax())]
        columns.append(row / row.norm())
        rest = rest - (rest @ columns[-1])[:, None] * columns[-1]
    return torch.stack(columns, -1)
