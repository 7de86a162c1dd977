"""Gated nonlinearity for features of any degree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn

from equigeo.nn.activation import Activation, Function, same_function
from equigeo.nn.channel_mixing import cut_pieces
from equigeo.nn.module import IrrepsLayer, IrrepsLike, irreps_argument
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout, Term


class Channels(NamedTuple):
    """Channels of one term of the input."""

    term: int
    start: int
    mul: int


class Span(NamedTuple):
    """Adjacent channels of a row, and the number of their function, scalars before gates."""

    start: int
    mul: int
    act: int


class Gated(NamedTuple):
    """Adjacent copies of irreps that are multiplied by as many gates."""

    offset: int  # of a piece of the row
    mul: int
    dim: int
    first: int  # of the channels that are used
    used: int


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
        acted = [*scalars, *gates]
        self.irreps_in, places = _merge(Irreps([*acted, *self.irreps_gated], layout))
        of_acts, of_gated = places[: len(acted)], places[len(acted) :]
        opened = _align(self.irreps_gated, self.act_gates.irreps_out.simplify(), of_gated)
        self.irreps_out = Irreps(
            [*self.act_scalars.irreps_out, *(term for _, term in opened)], layout
        )
        starts = [part.start for part in self.irreps_in.slices()] or [0]
        spans = [Span(starts[c.term] + c.start, c.mul, n) for n, c in enumerate(of_acts) if c.mul]
        self._scalars = [span for span in spans if span.act < len(scalars.terms)]
        self._gated = _products(self.irreps_in, [place for place, _ in opened])
        self._gates = _share(spans[len(self._scalars) :], [part.used for part in self._gated])
        runs = self._joined([*self._scalars, *chain.from_iterable(self._gates)])
        ranges = [(run[0].start, sum(span.mul for span in run)) for run in runs]
        self._sizes, self._pieces = cut_pieces(
            [*ranges, *((part.offset, part.mul * part.dim) for part in self._gated)],
            self.irreps_in.dim,
        )
        self._runs = [
            (self._pieces[starts[0]], acts[0], starts, sizes)
            for starts, sizes, acts in (zip(*run, strict=True) for run in runs)
        ]

    def _joined(self, spans: Sequence[Span]) -> list[list[Span]]:
        """Join adjacent channels with the same function."""
        acts = self._acts()
        runs: list[list[Span]] = []
        for span in sorted(spans):
            last = runs[-1][-1] if runs else span
            adjacent = last.start + last.mul == span.start
            if adjacent and same_function(acts[last.act], acts[span.act]):
                runs[-1].append(span)
            else:
                runs.append([span])
        return runs

    def _acts(self) -> list[nn.Module]:
        """Return the functions of the scalars and then of the gates."""
        return [*self.act_scalars.acts, *self.act_gates.acts]

    def forward(self, features: Tensor) -> Tensor:
        """Map features ``(..., irreps_in.dim)`` to ``(..., irreps_out.dim)``."""
        self.irreps_in.check_features(features)
        pieces, acts = features.split(self._sizes, -1), self._acts()
        acted: dict[int, Tensor] = {}
        for piece, act, starts, sizes in self._runs:
            whole = acts[act](pieces[piece])
            parts = whole.split(sizes, -1) if len(sizes) > 1 else [whole]
            acted.update(zip(starts, parts, strict=True))
        out = [acted[span.start] for span in self._scalars]
        for part, spans in zip(self._gated, self._gates, strict=True):
            gates = [acted[span.start] for span in spans]
            gate = gates[0] if len(gates) == 1 else torch.cat(gates, dim=-1)
            out.append(self._multiply(pieces[self._pieces[part.offset]], gate, part))
        return torch.cat(out or [features], dim=-1)

    def _multiply(self, piece: Tensor, gate: Tensor, part: Gated) -> Tensor:
        """Multiply every component of the channels by their gate."""
        if part.dim == 1:
            return piece * gate
        batch = piece.shape[:-1]
        if self.irreps_in.layout == "mul_ir":
            product = piece.reshape(*batch, part.mul, part.dim) * gate.unsqueeze(-1)
        else:
            channels = piece.reshape(*batch, part.dim, part.mul).narrow(-1, part.first, part.used)
            product = channels * gate.unsqueeze(-2)
        return product.flatten(-2)


def _share(gates: Sequence[Span], counts: Sequence[int]) -> list[list[Span]]:
    """Split gates into parts of the given counts."""
    left, shares = list(gates), []
    for count in counts:
        share: list[Span] = []
        while count:
            start, mul, act = left.pop(0)
            taken = min(mul, count)
            share.append(Span(start, taken, act))
            count -= taken
            if taken < mul:
                left.insert(0, Span(start + taken, mul - taken, act))
        shares.append(share)
    return shares


def _products(irreps_in: Irreps, gated: Sequence[Channels]) -> list[Gated]:
    """Return the products with gates, joined where copies with as many components are adjacent."""
    found: list[Gated] = []
    for place in gated:
        mul, (l, _) = irreps_in.terms[place.term]
        part = Gated(irreps_in.slices()[place.term].start, mul, 2 * l + 1, place.start, place.mul)
        if not place.mul:
            continue
        if irreps_in.layout == "mul_ir" or l == 0:
            offset = part.offset + place.start * part.dim
            part = Gated(offset, place.mul, part.dim, 0, place.mul)
            last = found[-1] if found else None
            if last and last.dim == part.dim and last.offset + last.mul * last.dim == offset:
                mul = found.pop().mul + place.mul
                part = Gated(last.offset, mul, part.dim, 0, mul)
        found.append(part)
    return found


def _check_numbers(scalars: Irreps, gates: Irreps, gated: Irreps) -> None:
    for name, irreps in (("irreps_scalars", scalars), ("irreps_gates", gates)):
        if any(l > 0 for _, (l, _) in irreps):
            raise ValueError(f"{name} must be scalars, got {irreps}")
    have, want = (irreps.num_irreps for irreps in (gates, gated))
    if have != want:
        raise ValueError(
            f"irreps_gates must have one scalar for each of the {want} irreps of irreps_gated "
            f"{gated}, got {have} in {gates}"
        )


def _merge(parts: Irreps) -> tuple[Irreps, list[Channels]]:
    """Sort and merge terms; return them with the new position of each."""
    order = parts.sort().inv
    merged: list[Term] = []
    places: dict[int, Channels] = {}
    for old in order:
        mul, ir = parts.terms[old]
        if not mul:
            places[old] = Channels(0, 0, 0)
            continue
        if not merged or merged[-1][1] != ir:
            merged.append((0, ir))
        places[old] = Channels(len(merged) - 1, merged[-1][0], mul)
        merged[-1] = (merged[-1][0] + mul, ir)
    return Irreps(merged, parts.layout), [places[n] for n in range(len(order))]


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
