"""Gated nonlinearity for features of any degree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from equigeo.nn._irreps_argument import IrrepsLike, irreps_argument
from equigeo.nn.activation import Activation, Function
from equigeo.nn.gate_plan import Act, Channels, Gated, GatePlan
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.nn.normalized_activation import same_function
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout, Term


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
        """Return the options for ``print(module)``."""
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
