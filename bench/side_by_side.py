"""Every microbenchmark of two checkouts in turn, as ratios: what a change costs or gains.

``python -m bench.side_by_side ../before`` runs each ``bench_*.py`` that both have, each checkout
its own file (imports move), and compares the medians of equal names. Both run at the same moment,
each on a core of its own, in turn on either, with one thread; times are of the processor. What
disturbs one disturbs the other. Rows of two threads are left out, and those of peers, which are
code of others.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from bench.recorder import Record, commit, output_arguments

HERE = Path(__file__).resolve().parents[1]
PEERS = "not e3nn and not cuEquivariance and not sphericart and not geometric and not eager"


def main() -> None:
    given = arguments()
    record = Record(given.output)
    sides = {
        "here": (HERE, sys.executable, given.kernels),
        "there": (given.other.resolve(), given.other_python, given.other_kernels),
    }
    files = given.files or shared_files(given.other)
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(given.rounds):
        for file in files:
            with ThreadPoolExecutor(len(sides)) as pool:
                started = {
                    side: pool.submit(run, *sides[side], file, given.select, (turn + n) % 2)
                    for n, side in enumerate(sides)
                }
            for side, found in started.items():
                for name, value in found.result().items():
                    seconds[f"{file}::{name}"][side].append(value)
            print(f"round {turn + 1}: {file}", file=sys.stderr)
            summary = summarize(seconds)
            # After every file: a round takes most of an hour.
            record.write({**facts(given), **summary})
    print(json.dumps({k: v for k, v in summary.items() if k != "rows"}, indent=1))


def summarize(seconds: Any) -> dict[str, Any]:
    """What there is so far."""
    rows = {name: row(values) for name, values in seconds.items() if len(values) == 2}
    ratios = sorted(entry["ratio"] for entry in rows.values())
    of_files = {name.split("[")[0]: [] for name in rows}
    for name, entry in rows.items():
        of_files[name.split("[")[0]].append(entry["ratio"])
    return {
        "benchmarks": len(rows),
        "geometric mean of ratios": geometric_mean(ratios),
        "of each benchmark": {name: geometric_mean(x) for name, x in of_files.items()},
        "median of ratios": median(ratios),
        "least and greatest ratio": [ratios[0], ratios[-1]],
        "slower by more than 5 %": [n for n, entry in rows.items() if entry["ratio"] > 1.05],
        "rows": rows,
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument(
        "--other-python", help="its interpreter; OTHER/.venv/bin/python if left out"
    )
    parser.add_argument("--kernels", help="folder of the kernels here, if not the installed ones")
    parser.add_argument("--other-kernels", help="folder of the kernels there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--select", default=PEERS, help="expression for pytest -k")
    parser.add_argument("--files", nargs="*", help="names of bench_*.py files")
    output_arguments(parser, default=Path("bench/results/side_by_side.json"))
    given = parser.parse_args()
    given.other_python = given.other_python or str(given.other.resolve() / ".venv/bin/python")
    return given


def shared_files(other: Path) -> list[str]:
    there = {path.name for path in (other / "bench").glob("bench_*.py")}
    return sorted(there & {path.name for path in (HERE / "bench").glob("bench_*.py")})


def run(
    checkout: Path, python: str, kernels: str | None, file: str, select: str, core: int
) -> dict[str, float]:
    """Median seconds of the processor of every benchmark in one file."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "times.json")
        command = [
            "taskset", "-c", str(core), python, "-m", "pytest", f"bench/{file}", "-q", "-k", select,
            "-p", "no:cacheprovider",
            "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*",
            "--benchmark-timer=time.process_time", "--benchmark-max-time=0.1",
            "--benchmark-min-rounds=5", "--benchmark-warmup=on",
            f"--benchmark-json={output}",
        ]  # fmt: skip
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        environment |= {"EQUIGEO_KERNELS": kernels} if kernels else {}
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = done.stdout[-4000:] + done.stderr[-4000:]
            raise SystemExit(f"{shlex.join(command)} in {checkout}:\n{said}")
        found = json.loads(output.read_text())["benchmarks"]
    return {x["name"]: x["stats"]["median"] for x in found if "2 threads" not in x["name"]}


def row(values: dict[str, list[float]]) -> dict[str, Any]:
    """The fastest round of each side tells most of the code and least of its neighbors."""
    return {
        "ratio": min(values["here"]) / min(values["there"]),
        "ratios of rounds": [a / b for a, b in zip(values["here"], values["there"], strict=True)],
        "seconds here": values["here"],
        "seconds there": values["there"],
    }


def facts(given: argparse.Namespace) -> dict[str, Any]:
    return {"commit there": commit(given.other), "rounds": given.rounds}


if __name__ == "__main__":
    main()
