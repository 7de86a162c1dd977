"""The same potential with each product: equal wall time, threads, batches, about equal parameters.

    python -m bench.potential_products --data ../shared/data --set ethanol --minutes 3 \
        --seeds 0 1 2 --output bench/results/potential_products_ethanol.json

Channels of each product are those, in steps of four, whose number of parameters is nearest to that
of the channelwise product with ``--channels``. Runs are interleaved: all products with a seed, then
all with the next. Several processes may share the work, as ``--part 0/2`` and ``--part 1/2``, each
with its own output. Nothing is selected on test frames. With ``--resume`` finished runs are kept.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import torch

from bench.potentials import SETS, configure, identity, one_run
from bench.recorder import Record, output_arguments
from equigeo.potentials import MessagePassingPotential
from equigeo.potentials.config import ProductName
from equigeo.tasks.potential import PotentialRunConfig, load_frames

STEP = 4


def parameters(config: PotentialRunConfig, species: tuple[int, ...]) -> int:
    """Count the numbers that the potential of a run learns."""
    return sum(p.numel() for p in MessagePassingPotential(config.model(species)).parameters())


def equal_channels(config: PotentialRunConfig, species: tuple[int, ...]) -> int:
    """Channels with which a product has about as many parameters as the channelwise one."""
    wanted = parameters(replace(config, product="channelwise"), species)

    def distance(channels: int) -> int:
        return abs(parameters(replace(config, channels=channels), species) - wanted)

    return min(range(STEP, 4 * config.channels, STEP), key=distance)


def main() -> None:
    """Run what is missing, and write each run as it ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--set", choices=tuple(SETS), default="ethanol")
    parser.add_argument("--products", nargs="+", default=list(get_args(ProductName)))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--lmax-edge", type=int, default=2)
    parser.add_argument("--node", default="contraction")
    parser.add_argument("--part", default="0/1", help="which of how many parts of the runs")
    parser.add_argument("--work", type=Path, default=Path("runs/products"))
    output_arguments(parser, series=True, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    record = Record(arguments.output, resume=arguments.resume)
    part, parts = (int(word) for word in arguments.part.split("/"))
    species: tuple[int, ...] = ()
    wanted = [(product, seed) for seed in arguments.seeds for product in arguments.products]
    for product, seed in wanted[part::parts]:
        given = argparse.Namespace(
            **vars(arguments), product=product, seed=seed, evaluate_every=10**6,
            energy_weight=None, learning_rate=None, compile=False,
        )  # fmt: skip
        config = configure(given)
        species = species or load_frames(config).split.train.species
        config = replace(config, channels=equal_channels(config, species))
        work = arguments.work / f"{arguments.set}-{product}-{arguments.node}-{seed}"
        same = identity(config, arguments.threads)
        run = record.keep(same, partial(one_run, config, work))
        print(product, seed, config.channels, run["parameters"], run["errors"], flush=True)


if __name__ == "__main__":
    main()
