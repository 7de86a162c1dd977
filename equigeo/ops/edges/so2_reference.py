"""Steps of the convolution by orders, in PyTorch alone."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.ops.edges.so2_table import SO2Table, Term

Orders = list[Tensor]
"""Numbers in the frame by order: (edges, 1, width) of order 0, else (edges, 2, width)."""


def to_orders(
    rows: Tensor,  # (edges, components), ir_mul
    rotations: list[Tensor],  # Wigner matrices from edge_matrices
    terms: tuple[Term, ...],  # layout of the rows
    mmax: int,  # largest order that is kept
) -> Orders:
    """Rotate rows into the frames of their edges and return the components by order."""
    found: list[list[Tensor]] = [[] for _ in range(mmax + 1)]
    offset = 0
    for mul, l, swapped in terms:
        size = mul * (2 * l + 1)
        block = rows.narrow(1, offset, size).unflatten(1, (2 * l + 1, mul))
        offset += size
        top = min(l, mmax)
        turned = rotations[l][:, l - top : l + top + 1] @ block
        found[0].append(turned[:, top : top + 1])
        for m in range(1, top + 1):
            plus, minus = turned[:, top + m], turned[:, top - m]
            pair = (-minus, plus) if swapped else (plus, minus)
            found[m].append(torch.stack(pair, dim=1))
    empty = rows.new_zeros(rows.shape[0], 2, 0)
    return [torch.cat([empty[:, : 1 + (m > 0)], *parts], dim=2) for m, parts in enumerate(found)]


def from_orders(
    orders: Orders, rotations: list[Tensor], terms: tuple[Term, ...], mmax: int
) -> Tensor:
    """Apply the transpose of :func:`to_orders`, (edges, components)."""
    parts = []
    offsets = [0] * (mmax + 1)
    for mul, l, swapped in terms:
        top = min(l, mmax)
        here = [orders[m].narrow(2, offsets[m], mul) for m in range(top + 1)]
        plus, minus = [here[0][:, 0]], []
        for m in range(1, top + 1):
            pair = here[m].unbind(1)
            plus.append(pair[1] if swapped else pair[0])
            minus.append(-pair[0] if swapped else pair[1])
        framed = torch.stack([*minus[::-1], *plus], dim=1)
        rows = rotations[l][:, l - top : l + top + 1]
        parts.append((rows.mT @ framed).flatten(1))
        for m in range(top + 1):
            offsets[m] += mul
    return torch.cat([orders[0].new_zeros(orders[0].shape[0], 0), *parts], dim=1)


def split_matrices(weight: Tensor, table: SO2Table) -> list[tuple[Tensor, Tensor | None]]:
    """Return views of the weight matrices by order: real part, and imaginary part or None."""
    sizes = [rows * columns for _, rows, columns in table.matrices]
    views = [
        part.unflatten(0, (rows, columns))
        for part, (_, rows, columns) in zip(weight.split(sizes), table.matrices, strict=True)
    ]
    if not table.complex_weights:
        return [(view, None) for view in views]
    pairs: list[tuple[Tensor, Tensor | None]] = [(views[0], None)]
    return pairs + list(zip(views[1::2], views[2::2], strict=True))


def mix(orders: Orders, matrices: list[tuple[Tensor, Tensor | None]]) -> Orders:
    """Multiply each order by its complex matrix."""
    found = []
    for part, (real, imaginary) in zip(orders, matrices, strict=True):
        # (A + iB)(a + ib) = (A a - B b) + i (A b + B a)
        mixed = part @ real.mT
        if imaginary is not None:
            plus, minus = (part @ imaginary.mT).unbind(1)
            mixed = mixed + torch.stack([-minus, plus], dim=1)
        found.append(mixed)
    return found


def transposed(
    matrices: list[tuple[Tensor, Tensor | None]],
) -> list[tuple[Tensor, Tensor | None]]:
    """Return the matrices of the adjoint map."""
    return [(real.mT, None if imag is None else -imag.mT) for real, imag in matrices]


def outer(left: Orders, right: Orders, table: SO2Table) -> Tensor:
    """Return the weight gradient from that of the result of :func:`mix`, (weight_numel,)."""
    parts = []
    for m, (arriving, sent) in enumerate(zip(left, right, strict=True)):
        parts.append(torch.einsum("esn,esk->nk", arriving, sent))
        if table.complex_weights and m > 0:
            (plus, minus), (a, b) = arriving.unbind(1), sent.unbind(1)
            parts.append(minus.mT @ a - plus.mT @ b)
    return torch.cat([part.flatten() for part in parts])


def modulation(scale: Tensor | None, radial: Tensor | None, table: SO2Table) -> list[Tensor] | None:
    """Return the factors of the source components per edge, (edges, 1, width) by order, or None."""
    if scale is None:
        return None
    factors = scale if radial is None else scale @ radial
    if table.by_order:
        return [part.unsqueeze(1) for part in factors.split(list(table.widths_in), dim=1)]
    copies = factors.split([mul for mul, _, _ in table.terms_in], dim=1)
    return [
        torch.cat(
            [factors[:, :0], *(c for c, (_, l, _) in zip(copies, table.terms_in, strict=True)
                               if l >= m)],
            dim=1,
        ).unsqueeze(1)
        for m in range(table.mmax + 1)
    ]  # fmt: skip


def sum_of_orders(orders: Orders, table: SO2Table) -> Tensor:
    """Apply the transpose of :func:`modulation` to products by order."""
    summed = [part.sum(1) for part in orders]
    if table.by_order:
        return torch.cat(summed, dim=1)
    parts, offsets = [], [0] * len(summed)
    for mul, l, _ in table.terms_in:
        total = summed[0].narrow(1, offsets[0], mul)
        for m in range(1, min(l, table.mmax) + 1):
            total = total + summed[m].narrow(1, offsets[m], mul)
        for m in range(min(l, table.mmax) + 1):
            offsets[m] += mul
        parts.append(total)
    return torch.cat([summed[0][:, :0], *parts], dim=1)
