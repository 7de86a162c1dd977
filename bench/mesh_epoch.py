"""Epochs of SHREC'11 in two checkouts, in turn: how much faster training has become.

    git clone . ../before && git -C ../before checkout 7c3174d    # and build its kernels there
    python -m bench.mesh_epoch --before ../before \
        --data ../shared/data/shrec11_meshcnn/shrec_16.tar.gz --output bench/results/mesh_epoch.json

7c3174d is the commit that added the training of the mesh classifier, version 0.1.0. Each checkout
runs in a process of its own that does one epoch when it is its turn, so that what disturbs one
disturbs the other; the first epochs are kept but not in the medians. Default presets have changed
since: features that read the surface, a pooling, no coupling of primal features to dual ones. So
three pairs are measured:

- "default presets": each version's own.
- "invariant features": today's preset with the features of 0.1.0, against the preset of 0.1.0.
- "settings of 0.1.0": the same network, features and noise in both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.recorder import Record, commit, output_arguments
from equigeo.ops import kernels_info

OLD_SETTINGS = {
    "features": "invariant",
    "keep": [None, None, None, None],
    "coupling": True,
    "dropout": 0.3,
    "area_weighted": False,
}
"""What the default preset of 0.1.0 had, where it differs from today's."""
PAIRS: dict[str, dict[str, Any]] = {
    "default presets": {},
    "invariant features": {"features": "invariant"},
    "settings of 0.1.0": OLD_SETTINGS,
}


class Trainer:
    """A checkout that trains in a process of its own, an epoch at a time."""

    def __init__(self, checkout: Path, data: Path, changes: dict[str, Any], threads: int) -> None:
        script = Path(__file__).with_name("one_epoch.py")
        # A checkout of another version has its kernels beside the ops, if it has any.
        environment = {name: x for name, x in os.environ.items() if name != "EQUIGEO_KERNELS"}
        library = kernels_info()["cpu"]
        if checkout.resolve() == Path(__file__).parents[1].resolve() and library:
            environment["EQUIGEO_KERNELS"] = str(Path(library).parent)
        environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(data), json.dumps(changes), str(threads)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.facts = self._read()
        if Path(self.facts.pop("package")).parent.resolve() != checkout.resolve():
            raise RuntimeError(f"the package of {checkout.name} is not what was imported")

    def epoch(self) -> dict[str, float]:
        """Train for an epoch."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return self._read()

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that trains has ended")
        found: dict[str, Any] = json.loads(line)
        return found


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One pair of checkouts, epoch by epoch in turn."""
    now = Path(__file__).parents[1]
    sides = {"before": (arguments.before, {}), "now": (now, PAIRS[name])}
    trainers = {
        side: Trainer(checkout, arguments.data, changes, arguments.threads)
        for side, (checkout, changes) in sides.items()
    }
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(arguments.repetitions + 1):
        for side, trainer in trainers.items():
            runs[side].append(trainer.epoch())
    for trainer in trainers.values():
        trainer.end()
    medians = {
        kind: {side: median(run[kind] for run in rows[1:]) for side, rows in runs.items()}
        for kind in ("seconds", "processor seconds")
    }
    return {
        "pair": name,
        # of the processor's time, what else runs on the machine takes less
        "times as fast": {kind: x["before"] / x["now"] for kind, x in medians.items()},
        "medians of an epoch": medians,
        "settings": {side: trainer.facts["settings"] for side, trainer in trainers.items()},
        "epochs": runs,
    }


def main() -> None:
    """Measure all pairs and write them down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout of 0.1.0")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", choices=tuple(PAIRS), default=list(PAIRS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    output_arguments(parser)
    arguments = parser.parse_args()
    arguments.before, arguments.data = arguments.before.resolve(), arguments.data.resolve()
    record = Record(arguments.output)
    results = {
        "before": commit(arguments.before),
        "threads": arguments.threads,
        "pairs": [measure(name, arguments) for name in arguments.pairs],
    }
    print(json.dumps(record.write(results), indent=1))


if __name__ == "__main__":
    main()
