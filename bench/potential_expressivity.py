"""How many equivariant bilinear maps the messages of a potential reach with each product.

    python -m bench.potential_expressivity [--output bench/results/potential_expressivity.json]

The potentials are those of ``bench.potential_products``, their channels too. For the messages of
each layer, at one distance, whose weights are then free numbers, ``equigeo.tensor_products.
expressivity`` gives the dimension of the set of maps from a feature and a direction to the sum that
the nonlinearity reads, over all weights of the layer: those of the linear layers before and behind,
and those of the product. It does so for one channel, which is what the published comparison counts,
and for all channels of the model. Rotations allow one map for each pair of channels and each path,
of whatever parity, and of whatever degree of the direction.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from bench.potential_products import equal_channels
from bench.potentials import configure
from bench.recorder import Record, output_arguments
from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.groups import SO
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.potentials.config import ProductName
from equigeo.potentials.interaction import EdgeFeatures, Interaction
from equigeo.reps import Irreps, Representation
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid

SPECIES = (1, 6, 8)  # of ethanol and of aspirin


class MessageProduct(Product):
    """What one edge of one length sends, as a product of its feature and of harmonics.

    Where messages read directions and not harmonics, the map of directions is expanded in these, by
    an integral over the sphere.

    Parameters
    ----------
    layer : Interaction
        Of a potential with a single radial function, whose value is taken to be one.
    config : PotentialConfig
        Of the potential.
    """

    def __init__(self, layer: Interaction, config: PotentialConfig) -> None:
        self.reads_directions = config.product == "so2"
        self.mixes_parities = config.product == "matrix"
        lmax_in = max(l for _, (l, _) in layer.irreps_in)
        lmax = config.lmax_edge + (lmax_in if self.reads_directions else 0)
        messages = layer.messages
        super().__init__(messages.irreps_in, Irreps.signal(lmax), messages.irreps_out)
        self.messages = messages
        grid = SphereGrid.exact(2 * lmax)
        self.points = grid.points().reshape(-1, 3)
        self.shares = (grid.weights[:, None] / (2 * grid.longitudes)).expand(-1, grid.longitudes)
        self.harmonics = tp.SphericalHarmonics(
            list(range(lmax + 1)), normalize=True, normalization="component"
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Send along edges between as many pairs of nodes."""
        batch = self.check_inputs(x, y)
        x, y = (each.expand(*batch, -1).flatten(0, -2) for each in (x, y))
        if not self.reads_directions:
            return self._send(x, y, y.new_zeros(len(y), 3)).unflatten(0, batch)
        # f(x, y) is the average over directions v of f(x, v) times the function y at v.
        values = y @ self.harmonics(self.points).mT * self.shares.flatten()
        directions = self.points.repeat(len(x), 1)
        sent = self._send(x.repeat_interleave(len(self.points), 0), None, directions)
        return (sent.unflatten(0, values.shape) * values[..., None]).sum(1).unflatten(0, batch)

    def _send(self, x: Tensor, y: Tensor | None, vectors: Tensor) -> Tensor:
        each = torch.arange(len(x))
        edges = EdgeIndex.from_edges(torch.stack([each, each]), len(x), len(x))
        radial = x.new_ones(len(x), 1)
        harmonics = x.new_zeros(len(x), 0) if y is None else y
        out: Tensor = self.messages(x, EdgeFeatures(edges, vectors, harmonics, radial))
        return out

    def _represent(self, irreps: Irreps) -> Representation:
        return irreps.restrict(SO(3)) if self.mixes_parities else irreps


def allowed(layer: Interaction, lmax: int) -> int:
    """Paths from the degrees of features to those of messages, of any parity."""
    degrees = {l for _, (l, _) in layer.irreps_in}
    return sum(2 * min(l, out) + 1 for l in degrees for out in range(lmax + 1))


def reached(config: PotentialConfig) -> list[dict[str, Any]]:
    """What the messages of each layer reach with the channels of the potential."""
    # One radial function and one hidden unit: the weights of a distance are parameters.
    config = replace(config, radial_basis=1, radial_hidden=(1,))
    found = []
    for layer in MessagePassingPotential(config).layers:
        assert isinstance(layer, Interaction)
        product, received = MessageProduct(layer, config), layer.mix_received.irreps_out
        maps = tp.expressivity(product, product.irreps_in1, product.irreps_in2, received)
        of_rotations = config.channels**2 * allowed(layer, config.lmax_edge)
        found.append(
            {
                "features": str(layer.irreps_in),
                "harmonics": str(product.irreps_in2),
                "sums": str(received),
                "maps": maps,
                "maps that rotations allow": of_rotations,
                "share": maps / of_rotations,
            }
        )
    return found


def expressivity_of(product: ProductName, channels: int, lmax_edge: int, node: str) -> Any:
    """The layers of the potential that ``bench.potential_products`` trains, and of one channel."""
    given = argparse.Namespace(
        data=Path(), set="ethanol", product=product, node=node, channels=channels, minutes=1.0,
        lmax_edge=lmax_edge, seed=0, evaluate_every=1, energy_weight=None, learning_rate=None,
        compile=False,
    )  # fmt: skip
    run = configure(given)
    config = replace(run, channels=equal_channels(run, SPECIES)).model(SPECIES)
    return {
        "channels": config.channels,
        "one channel": reached(replace(config, channels=1)),
        "all channels": reached(config),
    }


def main() -> None:
    """Count for every product, and write each as it ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", nargs="+", default=list(get_args(ProductName)))
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--lmax-edge", type=int, default=2)
    parser.add_argument("--node", default="contraction")
    output_arguments(parser, series=True)
    options = parser.parse_args()
    record = Record(options.output, resume=options.resume)
    for product in options.products:
        settings = (options.channels, options.lmax_edge, options.node)
        names = ("channels of channelwise", "lmax_edge", "node")
        key = {"product": product, **dict(zip(names, settings, strict=True))}
        run = record.keep(key, partial(expressivity_of, product, *settings))
        for of in ("one channel", "all channels"):
            print(product, run["channels"], of, [(x["maps"], x["share"]) for x in run[of]])


if __name__ == "__main__":
    main()
