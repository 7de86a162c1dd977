"""Classify eight Tetris pieces, including a pair of mirror images.

    python -m equigeo.examples.tetris --product gaunt+curl

A network whose products make only even paths, such as the Gaunt product, does not distinguish a
piece from its mirror image and stops at 7 of 8; every product of ``tp.make`` can replace it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from equigeo import tensor_products as tp
from equigeo.groups import SO
from equigeo.nn import Gate, Linear
from equigeo.nn.module import allow_unreached
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps

PIECES = (  # cubes of each piece; the first two are mirror images
    ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)),
    ((1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 0, 1)),
    ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)),
    ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1)),
    ((0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0)),
)
REACH = 1.1  # between the centers of cubes that touch
LMAX_EDGES = 2


class TetrisLayer(nn.Module):
    """Messages along edges, averaged at targets, gated and joined with the node features."""

    def __init__(
        self,
        irreps_in: Irreps,
        irreps_out: Irreps,
        product: str,  # name for `tp.make`
    ) -> None:
        super().__init__()
        scalars = irreps_out.filter(lmax=0)
        gated = irreps_out.filter(drop=scalars)
        gates = Irreps([(gated.num_irreps, (0, 1))])
        acts = [nn.functional.silu if p == 1 else torch.tanh for _, (_, p) in scalars]
        self.gate = Gate(scalars, acts, gates, [torch.sigmoid], gated)
        with allow_unreached():  # some products leave 0o and 1e at zero
            self.product = tp.make(product, Irreps.signal(LMAX_EDGES), irreps_in, irreps_out)
            self.scale = Linear("1x0e", Irreps([(irreps_out.num_irreps, (0, 1))]))
            self.mix = Linear(irreps_out, self.gate.irreps_in)
            self.join = Linear(Irreps([*irreps_in, *self.gate.irreps_out]), irreps_out)
        sizes = torch.tensor([2 * l + 1 for mul, (l, _) in irreps_out for _ in range(mul)])
        self.positions = IndexTables(copies=torch.repeat_interleave(sizes))

    def forward(
        self,
        nodes: Tensor,  # (nodes, irreps_in.dim)
        edges: Tensor,  # (2, edges): source, target
        harmonics: Tensor,  # (edges, 9) of directions from source to target
        lengths: Tensor,  # (edges, 1) in cube sides
    ) -> Tensor:
        """Update node features, (nodes, irreps_out.dim)."""
        source, target = edges
        messages = self.product(harmonics, nodes[source])
        messages = messages * self.scale(lengths)[:, self.positions["copies"]]
        count = torch.bincount(target, minlength=len(nodes)).clamp(min=1)
        sums = messages.new_zeros(len(nodes), messages.shape[1]).index_add(0, target, messages)
        update = self.gate(self.mix(sums / count[:, None]))
        return self.join(torch.cat([nodes, update], dim=-1))


class TetrisNet(nn.Module):
    """Classify pieces from the positions of their cubes."""

    def __init__(
        self,
        product: str,
        lmax: int = 1,  # of hidden features, which have both parities
        multiplicity: int = 8,  # copies of each hidden irrep
        layers: int = 3,
    ) -> None:
        super().__init__()
        degrees = range(lmax + 1)
        hidden = Irreps([(multiplicity, (l, p)) for l in degrees for p in (1, -1)])
        sizes = [Irreps("16x0e"), *[hidden] * layers]
        self.layers = nn.ModuleList(TetrisLayer(a, b, product) for a, b in pairwise(sizes))
        # One pseudoscalar and seven scalars per piece. The logits of the mirror images are the
        # pseudoscalar with both signs times the first scalar: inversion swaps them.
        self.readout = Linear(hidden, "1x0o+7x0e")

    def forward(
        self,
        positions: Tensor,  # (pieces, 4, 3) cube centers in cube sides
    ) -> Tensor:
        """Return logits, (pieces, 8)."""
        near = torch.cdist(positions, positions) < REACH
        piece, source, target = (near & ~torch.eye(4, dtype=torch.bool)).nonzero(as_tuple=True)
        vectors = positions[piece, target] - positions[piece, source]
        edges = torch.stack([4 * piece + source, 4 * piece + target])
        degrees = list(range(LMAX_EDGES + 1))
        harmonics = tp.spherical_harmonics(degrees, vectors, True, "component")
        lengths = vectors.norm(dim=-1, keepdim=True)
        nodes = positions.new_ones(4 * len(positions), 16)
        for layer in self.layers:
            nodes = layer(nodes, edges, harmonics, lengths)
        odd, first, *even = self.readout(nodes).unflatten(0, (-1, 4)).sum(1).unbind(-1)
        return torch.stack([odd * first, -odd * first, *even], dim=-1)


@dataclass(frozen=True)
class TetrisResult:
    """Result of a training."""

    model: TetrisNet
    accuracies: tuple[float, ...]  # on rotated pieces, before each step
    seconds: float


def tetris_pieces(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the centered pieces, (8, 4, 3); the label of a piece is its index."""
    positions = torch.tensor(PIECES, dtype=dtype)
    return positions - positions.mean(1, keepdim=True)


def train_tetris(
    product: str,
    *,
    lmax: int = 1,
    multiplicity: int = 8,
    steps: int = 200,
    learning_rate: float = 1e-2,
    seed: int = 0,  # of initial weights and rotations
) -> TetrisResult:
    """Train on the eight pieces with a random rotation in every step, reproducibly."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn again below
        model = TetrisNet(product, lmax, multiplicity)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    pieces, labels = tetris_pieces(), torch.arange(len(PIECES))
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    accuracies = []
    start = time.perf_counter()
    for _ in range(steps):
        rotation = SO(3).haar(1, generator=generator)[0].to(pieces.dtype)
        logits = model(pieces @ rotation.mT)
        accuracies.append(float((logits.argmax(-1) == labels).float().mean()))
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()
    return TetrisResult(model.eval(), tuple(accuracies), time.perf_counter() - start)


def main(arguments: list[str] | None = None) -> None:
    """Train and print which pieces are classified correctly, also after reflection."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--product", default="gaunt+curl", choices=tp.product_names())
    parser.add_argument("--lmax", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    result = train_tetris(given.product, lmax=given.lmax, steps=given.steps, seed=given.seed)
    pieces = tetris_pieces()
    with torch.no_grad():
        seen, reflected = (result.model(x).argmax(-1).tolist() for x in (pieces, -pieces))
    right = sum(label == piece for piece, label in enumerate(seen))
    sys.stdout.write(
        f"{given.product}: {right} of {len(seen)} after {given.steps} steps, "
        f"{result.seconds:.1f} s\n"
        f"predicted            {seen}\npredicted, reflected {reflected}\n"
    )


if __name__ == "__main__":
    main()
