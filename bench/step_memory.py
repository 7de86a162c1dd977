"""Memory of a training step, of a model as it was and accelerated.

    .venv-mace/bin/python -m bench.step_memory mace --output bench/results/step_memory_mace.json

``nequip`` in its own environment likewise. The step is that of ``bench.small_systems``: gradients
of all parameters of a loss on energies and forces of 32 ethanol molecules. Each model makes two in
a process of its own; what is counted is the peak of resident memory (VmHWM of Linux) less what was
there when the model had been made. The accelerated one runs with the memory that our kernels keep
for later results, and without.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch

from bench.recorder import Record, output_arguments
from bench.row import resident
from bench.small_systems import training_calls

KEEPS_NOTHING = {"EQUIGEO_RESULT_MEMORY": "0"}
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "before": ("before", {}),
    "accelerated": ("after", {}),
    "accelerated, no results kept": ("after", KEEPS_NOTHING),
}
"""Which model, and variables of its process."""


def two_steps(model: str, which: str) -> int:
    """Bytes that two steps take at most."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        step = training_calls(False, model)[which]
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
        before = resident("VmRSS")
        step()
        step()
    return resident("VmHWM") - before


def measure(model: str, way: str) -> int:
    which, variables = WAYS[way]
    command = [sys.executable, "-m", "bench.step_memory", model, "--child", which]
    said = subprocess.check_output(command, env={**os.environ, **variables}, text=True)
    return int(said.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=("mace", "nequip"))
    parser.add_argument("--child", choices=("before", "after"))
    output_arguments(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        print(two_steps(options.model, options.child))
        return
    record = Record(options.output)
    found = {way: measure(options.model, way) for way in WAYS}
    print(json.dumps(record.write({"model": options.model, "bytes": found}), indent=1))


if __name__ == "__main__":
    main()
