"""Adjacent features of a gate that share one function call or one product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from equigeo.nn.pieces import cut_pieces
from equigeo.reps import Irreps

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
