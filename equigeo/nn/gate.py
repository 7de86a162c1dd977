"""Gated nonlinearity for features of any degree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equigeo.nn.activation import Activation, Function, same_function
from equigeo.nn.channel_mixing import cut_pieces
from equigeo.nn.module import IrrepsLayer, IrrepsLike, irreps_argument
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout, Term

# Span: start and size of adjacent channels in a row. Act: whether a function is one of the gates,
# and its index. For Gate("8x0e", [silu], "16x0e", [sigmoid], "8x1o+8x1e"), with rows of 24x0e, 8x1o
# and 8x1e, the plan is: pieces of 8, 16 and 48 numbers; silu of the first and sigmoid of the second
# piece; one product of the third piece, as 16 channels of 3 components, with the 16 gates.
Span = tuple[int, int]
Act = tuple[bool, int]


class Channels(NamedTuple):
    """Channels of one term of the input."""

    term: int
    start: int
    mul: int


class Run(NamedTuple):
    """Adjacent channels for one function, and the pieces that its result is split into."""

    piece: int
    act: Act
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


class Gated(NamedTuple):
    """Copies of irreps that are multiplied, and the offset of their gates."""

    piece: int
    mul: int
    dim: int
    start: int
    used: int
    gates: tuple[int, ...]


class GatePlan:
    """Order of function calls and products of a gate, with adjacent channels merged."""

    def __init__(
        self,
        irreps_in: Irreps,
        # where the scalars are, and how many each function takes
        scalars: tuple[Sequence[Channels], Sequence[int]],
        # where the gates are, and how many each function takes
        gates: tuple[Sequence[Channels], Sequence[int]],
        gated: Sequence[Channels],  # one per product
        same: Callable[[Act, Act], bool],  # whether two functions are the same
    ) -> None:
        self._starts = [part.start for part in irreps_in.slices()]
        self._terms = [(mul, 2 * l + 1) for mul, (l, _) in irreps_in]
        self._by_irrep = irreps_in.layout == "mul_ir"
        of_scalars, of_gates = (
            _share([(self._starts[c.term] + c.start, c.mul) for c in places], muls)
            for places, muls in (scalars, gates)
        )
        acts = [((False, n), ranges) for n, ranges in enumerate(of_scalars)]
        acts += [((True, n), ranges) for n, ranges in enumerate(of_gates)]
        runs = _runs(acts, same)
        ends = {start + size for (start, size), _ in runs}  # no part goes beyond
        self._uses = _join([part for ranges in of_scalars for part in ranges], ends)
        self.scalars = [start for start, _ in self._uses]
        shares = _share([part for ranges in of_gates for part in ranges], [c.mul for c in gated])
        parts = self._multiplied(gated, shares, ends)
        self.sizes, number = cut_pieces(
            [*(place for place, _ in runs), *(place for place, _, _ in parts)], irreps_in.dim
        )
        self.gated = [
            Gated(number[start], *shape, tuple(gate for gate, _ in found))
            for (start, _), shape, found in parts
        ]
        self.runs = [
            Run(number[start], act, *self._parts_of(start, size)) for (start, size), act in runs
        ]

    def _multiplied(
        self, gated: Sequence[Channels], shares: Sequence[Sequence[Span]], ends: set[int]
    ) -> list[tuple[Span, tuple[int, int, int, int], list[Span]]]:
        """Return the multiplied pieces with their shape, channels and gates."""
        parts: list[tuple[Span, tuple[int, int, int, int], list[Span]]] = []
        for channels, share in zip(gated, shares, strict=True):
            mul, dim = self._terms[channels.term]
            place, found = self._starts[channels.term], _join(share, ends)
            shape = (mul, dim, channels.start, channels.mul)
            if self._by_irrep or dim == 1:
                place, shape = place + channels.start * dim, (channels.mul, dim, 0, channels.mul)
            if not channels.mul:
                continue
            last = parts[-1] if parts else None
            joined = _join([*last[2], *found], ends) if last else []
            if (
                last
                and self._by_irrep
                and last[1][1] == dim
                and sum(last[0]) == place
                and len(joined) == len(last[2]) == 1
            ):
                mul = last[1][0] + channels.mul
                parts[-1] = ((last[0][0], mul * dim), (mul, dim, 0, mul), joined)
            else:
                parts.append(((place, shape[0] * dim), shape, found))
        self._uses += [gate for _, _, found in parts for gate in found]
        return parts

    def _parts_of(self, start: int, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the channels that are used of the result of a run, in order."""
        used = sorted(part for part in self._uses if start <= part[0] < start + size)
        return tuple(part for part, _ in used), tuple(count for _, count in used)


def _share(ranges: Sequence[Span], counts: Sequence[int]) -> list[list[Span]]:
    """Split the positions of ranges into parts of the given counts."""
    left = [part for part in ranges if part[1]]
    shares: list[list[Span]] = []
    for count in counts:
        share: list[Span] = []
        while count:
            start, size = left.pop(0)
            taken = min(size, count)
            share.append((start, taken))
            count -= taken
            if taken < size:
                left.insert(0, (start + taken, size - taken))
        shares.append(share)
    return shares


def _join(ranges: Iterable[Span], ends: set[int]) -> list[Span]:
    """Join adjacent channels, except across the given ends."""
    joined: list[Span] = []
    for start, size in ranges:
        if joined and sum(joined[-1]) == start and start not in ends:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((start, size))
    return joined


def _runs(
    acts: Sequence[tuple[Act, list[Span]]], same: Callable[[Act, Act], bool]
) -> list[tuple[Span, Act]]:
    """Join adjacent channels with the same function."""
    runs: list[tuple[Span, Act]] = []
    for place, act in sorted((place, act) for act, ranges in acts for place in ranges):
        if runs and sum(runs[-1][0]) == place[0] and same(runs[-1][1], act):
            (start, size), first = runs[-1]
            runs[-1] = ((start, size + place[1]), first)
        else:
            runs.append((place, act))
    return runs


class Gate(IrrepsLayer):
    r"""Apply functions to scalars and multiply other features by functions of scalars.

    .. math::
        \Bigl(\bigoplus_i \phi_i(x_i)\Bigr) \oplus \Bigl(\bigoplus_j \phi_j(g_j)\, y_j\Bigr)

    (Weiler et al., "3D steerable CNNs", 2018). Irreps and their order are those of
    ``e3nn.nn.Gate``: ``irreps_in`` is all three kinds of features sorted and merged, ``irreps_out``
    the scalars followed by the gated features. Functions are scaled exactly, see
    :class:`NormalizedActivation`. Equivariant under O(3), improper elements included.

    Parameters
    ----------
    irreps_scalars, irreps_gates : Irreps, e3nn.o3.Irreps or str
        Scalars :math:`x`, and gates :math:`g`, one per irrep of ``irreps_gated``.
    act_scalars, act_gates : sequence of (callable or None)
        One function per term; odd scalars need even or odd functions.
    irreps_gated : Irreps, e3nn.o3.Irreps or str
        Features :math:`y`.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term, the same on both sides.

    Examples
    --------
    >>> gate = Gate("16x0o", [torch.tanh], "32x0o", [torch.tanh], "16x1e + 16x1o")
    >>> str(gate.irreps_in), str(gate.irreps_out)
    ('48x0o+16x1o+16x1e', '16x0o+16x1o+16x1e')
    """

    def __init__(
        self,
        irreps_scalars: IrrepsLike,
        act_scalars: Sequence[Function | None],
        irreps_gates: IrrepsLike,
        act_gates: Sequence[Function | None],
        irreps_gated: IrrepsLike,
        *,
        layout: Layout = "mul_ir",
    ) -> None:
        super().__init__()
        scalars = irreps_argument("irreps_scalars", irreps_scalars, layout)
        gates = irreps_argument("irreps_gates", irreps_gates, layout)
        gated = irreps_argument("irreps_gated", irreps_gated, layout)
        _check_numbers(scalars, gates, gated)
        self.act_scalars = Activation(scalars, act_scalars, layout=layout)
        self.act_gates = Activation(gates, act_gates, layout=layout)
        self.irreps_scalars = scalars.simplify()
        self.irreps_gates = gates.simplify()
        self.irreps_gated = gated.simplify()
        parts = [self.irreps_scalars, self.irreps_gates, self.irreps_gated]
        self.irreps_in, places = _merge(Irreps([t for part in parts for t in part], layout))
        ends = [0, *accumulate(len(part.terms) for part in parts)]
        scalar_places, gate_places, gated_places = (
            places[start:end] for start, end in pairwise(ends)
        )
        opened = _align(self.irreps_gated, self.act_gates.irreps_out.simplify(), gated_places)
        self._plan = GatePlan(
            self.irreps_in,
            (scalar_places, [mul for mul, _ in scalars]),
            (gate_places, [mul for mul, _ in gates]),
            [place for place, _ in opened],
            lambda a, b: same_function(self._act(a), self._act(b)),
        )
        self.irreps_out = Irreps(
            [*self.act_scalars.irreps_out, *(term for _, term in opened)], layout
        )

    def forward(self, features: Tensor) -> Tensor:
        """Map features ``(..., irreps_in.dim)`` to ``(..., irreps_out.dim)``."""
        self.irreps_in.check_features(features)
        pieces = features.split(self._plan.sizes, -1)
        acted: dict[int, Tensor] = {}
        for run in self._plan.runs:
            whole = self._act(run.act)(pieces[run.piece])
            parts = whole.split(run.sizes, -1) if len(run.sizes) > 1 else [whole]
            acted.update(zip(run.starts, parts, strict=True))
        out = [acted[start] for start in self._plan.scalars]
        for part in self._plan.gated:
            gates = [acted[start] for start in part.gates]
            gate = gates[0] if len(gates) == 1 else torch.cat(gates, dim=-1)
            out.append(self._multiply(pieces[part.piece], gate, part))
        return torch.cat(out or [features], dim=-1)

    def _act(self, act: Act) -> nn.Module:
        of_gates, number = act
        return (self.act_gates if of_gates else self.act_scalars).acts[number]

    def _multiply(self, piece: Tensor, gate: Tensor, part: Gated) -> Tensor:
        """Multiply every component of the channels by their gate."""
        if part.dim == 1:
            return piece * gate
        batch = piece.shape[:-1]
        if self.irreps_in.layout == "mul_ir":
            product = piece.reshape(*batch, part.mul, part.dim) * gate.unsqueeze(-1)
        else:
            channels = piece.reshape(*batch, part.dim, part.mul).narrow(-1, part.start, part.used)
            product = channels * gate.unsqueeze(-2)
        return product.flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.irreps_in} -> {self.irreps_out}"


def _check_numbers(scalars: Irreps, gates: Irreps, gated: Irreps) -> None:
    for name, irreps in (("irreps_scalars", scalars), ("irreps_gates", gates)):
        if any(l > 0 for _, (l, _) in irreps):
            raise ValueError(f"{name} must be scalars, got {irreps}")
    have, want = (sum(mul for mul, _ in irreps) for irreps in (gates, gated))
    if have != want:
        raise ValueError(
            f"irreps_gates must have one scalar for each of the {want} irreps of irreps_gated "
            f"{gated}, got {have} in {gates}"
        )


def _merge(parts: Irreps) -> tuple[Irreps, list[Channels]]:
    """Sort and merge terms; return them with the new position of each."""
    order = parts.sort()[1]
    merged: list[Term] = []
    places: dict[int, Channels] = {}
    for old in order:
        mul, ir = parts.terms[old]
        if not merged or merged[-1][1] != ir:
            merged.append((0, ir))
        places[old] = Channels(len(merged) - 1, merged[-1][0], mul)
        merged[-1] = (merged[-1][0] + mul, ir)
    return Irreps(merged, parts.layout), [places[i] for i in range(len(order))]


def _align(gated: Irreps, gates: Irreps, places: Sequence[Channels]) -> list[tuple[Channels, Term]]:
    """Split gated terms at the ends of gate terms; return channels and output term per part."""
    left = [[mul, p] for mul, (_, p) in gates]
    out: list[tuple[Channels, Term]] = []
    for (mul, (l, p)), place in zip(gated, places, strict=True):
        done = 0
        while done < mul:
            cut = min(mul - done, left[0][0])
            term = (cut, (l, p * left[0][1]))  # an odd gate flips the parity
            out.append((Channels(place.term, place.start + done, cut), term))
            done += cut
            left[0][0] -= cut
            if left[0][0] == 0:
                left.pop(0)
    return out
