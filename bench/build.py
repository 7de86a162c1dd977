"""How long a clean build of the CPU kernels takes, and what it makes.

    python -m bench.build --output bench/results/build.json

Seconds of the build without its configuration, and of every object by the log of Ninja, the
longest first: several are compiled at a time. Sizes are in bytes, of the library as wheels have it,
without symbols.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.recorder import REPOSITORY, Record, output_arguments


def seconds_of_objects(log: str) -> dict[str, float]:
    """Seconds of every output in a log of Ninja, the longest first."""
    lines = [line.split("\t") for line in log.splitlines() if not line.startswith("#")]
    seconds = {output: (int(end) - int(start)) / 1e3 for start, end, _, output, _ in lines}
    return dict(sorted(seconds.items(), key=lambda one: -one[1]))


def build(folder: Path, options: Sequence[str]) -> dict[str, Any]:
    """Configure and build in an empty folder."""
    run = {"check": True, "stdout": subprocess.DEVNULL}
    python = f"-DPython_EXECUTABLE={sys.executable}"
    configure = ["cmake", "-S", REPOSITORY, "-B", folder, "-G", "Ninja", "-DEQUIGEO_CUDA=OFF"]
    subprocess.run([*configure, python, *options], **run)
    start = time.perf_counter()
    subprocess.run(["cmake", "--build", folder], **run)
    seconds = time.perf_counter() - start
    objects = seconds_of_objects((folder / ".ninja_log").read_text())
    (library,) = folder.glob("**/_kernels_cpu*.so")
    subprocess.run(["strip", library], **run)
    return {
        "seconds": seconds,
        "bytes of the library": library.stat().st_size,
        "objects": {
            Path(name).name: {"seconds": of_one, "bytes": (folder / name).stat().st_size}
            for name, of_one in objects.items()
            if name.endswith(".o")
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--options", nargs="*", default=[], help="for CMake")
    output_arguments(parser)
    given = parser.parse_args()
    record = Record(given.output)
    compiler = subprocess.check_output(["c++", "--version"], text=True).splitlines()[0]
    rounds = []
    for _ in range(given.rounds):
        folder = Path(tempfile.mkdtemp())
        try:
            rounds.append(build(folder, given.options))
        finally:
            shutil.rmtree(folder)
        print(json.dumps({"seconds": rounds[-1]["seconds"]}), flush=True)
    record.write({"compiler": compiler, "rounds": rounds})


if __name__ == "__main__":
    main()
