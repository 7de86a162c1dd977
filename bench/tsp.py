"""Tours of the attention model with and without the embedding, after the same training.

    python -m bench.tsp --tsplib ../shared/data/tsplib --time-limit 60 --threads 1 \
        --output bench/results/tsp.json

Trains both networks on the same random instances of twenty cities, or resumes them from their
checkpoints in ``--work``; a session of either ends after ``--time-limit`` minutes. Gaps are means
of lengths over means of shortest ones, less one: on the 1,000 validation instances after every
epoch, and after the training on the published test instances, on rigid copies of them, and on
TSPLIB. Shortest tours are proved by SciPy's mixed-integer solver, about 30 ms each, and cached.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from bench.recorder import Record, chosen, going_on, parsed
from equigeo.datasets import optimal_lengths
from equigeo.tasks.tsp import (
    TOUR_RECIPES,
    TourConfig,
    TrainedTourModel,
    TravellingSalesman,
    evaluate_tour_model,
    validation_instances,
)
from equigeo.training import time_limit

MODELS = ("mds", "plain")
SETTINGS = ("preset", "epochs", "instances", "test_instances", "threads")


def main() -> None:
    """Train, evaluate and write, one network after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tsplib", help="folder or archive of TSPLIB; without it no transfer")
    parser.add_argument("--preset", choices=tuple(TOUR_RECIPES), default="default")
    parser.add_argument("--epochs", type=int, help="by default those of the preset")
    parser.add_argument("--instances", type=int, default=TourConfig.instances, help="of an epoch")
    parser.add_argument("--test-instances", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, metavar="MINUTES", help="of each network")
    arguments = parsed(parser, work="runs/tsp", required=True, threads=1)
    record = Record.series(arguments, *SETTINGS)
    for model in MODELS:
        make = partial(one_network, arguments, configure(arguments, model))
        run = record.keep({"network": model, "seed": arguments.seed}, make)
        print(model, json.dumps(run["gaps"]))


def configure(arguments: argparse.Namespace, model: str) -> TourConfig:
    """Return the configuration of one network; both differ in what they see alone."""
    return TourConfig(
        recipe=replace(TOUR_RECIPES[arguments.preset], **chosen(arguments, "epochs")),
        preset=arguments.preset,
        seed=arguments.seed,
        model=model,
        instances=arguments.instances,
        evaluate_every=1,
    )


def one_network(arguments: argparse.Namespace, config: TourConfig) -> dict[str, Any]:
    """Train a session and evaluate what there is."""
    started = time.process_time()
    trained = TravellingSalesman().train(
        config,
        **going_on(arguments, f"{config.model}-{config.seed}"),
        progress=True,
        callbacks=[] if arguments.time_limit is None else time_limit(arguments.time_limit),
    )
    used = time.process_time() - started
    evaluation = evaluate_tour_model(
        trained, instances=arguments.test_instances, data=arguments.tsplib, seed=arguments.seed
    )
    return {
        "config": config.to_dict(),
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "epochs done": len(trained.history),
        "CPU seconds of this session": used,
        "curve": curve(trained),
        **evaluation.to_dict(),
    }


def curve(trained: TrainedTourModel) -> list[dict[str, float]]:
    """Return gaps on the validation instances against instances seen and seconds spent."""
    config = trained.config
    optimal = optimal_lengths(validation_instances(config.cities)).mean().item()
    spent = accumulate(line["seconds"] for line in trained.history)
    return [
        {
            "instances": line["epoch"] * config.instances,
            "seconds": seconds,
            "sampled gap": line["train_length"] / optimal - 1,
            "greedy gap": line["greedy_length"] / optimal - 1,
            "every start gap": line["multistart_length"] / optimal - 1,
        }
        for line, seconds in zip(trained.history, spent, strict=True)
    ]


if __name__ == "__main__":
    main()
