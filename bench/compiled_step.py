"""A training step of a potential, compiled and not: forces, and their gradients by the weights.

    python -m bench.compiled_step --data ../shared/data [--output bench/results/compiled_step.json]

Batches of five frames of ethanol and of aspirin, the presets of ``bench.potentials``, one thread.
Losses and gradients are compared first, on batches of other sizes too. Then both take turns; times
are of the processor, and the seconds of the first step, in which the program is made, are those on
the wall.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import count
from pathlib import Path
from statistics import quantiles

import torch
from torch import Tensor

from bench.interleaved import Call, all_rounds, medians
from bench.potentials import SETS, configure
from bench.recorder import Record, parsed
from equigeo.tasks.potential import InteratomicPotential
from equigeo.tasks.potential.objective import CompiledObjective
from equigeo.training.objective import Objective

BATCH = 5
SAME = 1e-3  # of the largest entry of a gradient, in float32: three passes, whose terms cancel
Step = tuple[Tensor, ...]


def measure(data: Path, name: str, rounds: int) -> dict[str, object]:
    """Compare and time the steps of one set."""
    task, config = InteratomicPotential(), configure(data, name, {})
    torch.manual_seed(0)
    plan = task.plan(config, task.load(config))
    model, eager = plan.model.train(), plan.objective
    compiled = CompiledObjective(eager)

    def step(objective: Objective, first: int, frames: int = BATCH) -> Step:
        batch = plan.train.batch(range(first, first + frames))
        loss, _ = objective.sums(model, batch)
        return torch.autograd.grad(loss, list(model.parameters()))

    def steps(objective: Objective) -> Call:
        batches = count(0, BATCH)
        return lambda: step(objective, next(batches))

    start = time.perf_counter()
    step(compiled, 0)
    making = time.perf_counter() - start
    differences = []
    for first, frames in ((0, BATCH), (20, BATCH), (30, 3), (40, 2)):
        pairs = zip(step(compiled, first, frames), step(eager, first, frames), strict=True)
        differences.append(max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs))
    if not max(differences) < SAME:
        raise SystemExit(f"{name}: gradients must agree to {SAME}, got {differences}")
    calls = {"eager": steps(eager), "compiled": steps(compiled)}
    seconds = all_rounds(calls, rounds, time.process_time)
    middle = medians(seconds)
    return {
        "largest difference of gradients": max(differences),
        "seconds until the first step is done": making,
        "speed-up": middle["eager"] / middle["compiled"],
        "median seconds": middle,
        "quartiles": {kind: quantiles(values, n=4)[::2] for kind, values in seconds.items()},
        "seconds": seconds,
    }


def main() -> None:
    """Measure both sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of all data sets")
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=["ethanol", "aspirin"])
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parsed(parser)
    torch.set_num_threads(1)
    record = Record(arguments.output)
    found = {name: measure(arguments.data, name, arguments.rounds) for name in arguments.sets}
    shown = ("speed-up", "seconds until the first step is done", "median seconds")
    print(json.dumps({k: {s: v[s] for s in shown} for k, v in found.items()}, indent=1))
    record.write({"sets": found})


if __name__ == "__main__":
    main()
