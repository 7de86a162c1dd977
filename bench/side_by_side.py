"""Rows of two checkouts in turn, as ratios: what a change costs or gains.

``python -m bench.side_by_side ../before`` times the rows that both have (:mod:`bench.layers`),
without peers. Both run at the same moment, each on a core of its own, in turn on either, with one
thread; times are of the processor. What disturbs one disturbs the other.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.recorder import REPOSITORY, Record, commit, parsed

Seconds = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--other-python", help="its interpreter, by default OTHER/.venv/bin/python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--select", default="", help="rows whose name has this")
    given = parsed(parser, default=Path("bench/results/side_by_side.json"))
    record = Record(given.output)
    other = given.other.resolve()
    here = (REPOSITORY, sys.executable)
    there = (other, given.other_python or str(other / ".venv/bin/python"))
    rounds: list[list[Seconds]] = []
    for turn in range(given.rounds):
        with ThreadPoolExecutor(2) as pool:
            started = [
                pool.submit(run, *side, given.select, (turn + n) % 2)
                for n, side in enumerate((here, there))
            ]
        rounds.append([each.result() for each in started])
        found = summary(rounds)
        facts = {"commit there": commit(given.other), "rounds": given.rounds}
        record.write(facts | found)  # after every round: one takes minutes
    print(json.dumps({k: v for k, v in found.items() if k != "rows"}, indent=1))


def run(checkout: Path, python: str, select: str, core: int) -> Seconds:
    """Median seconds of the processor of every row and pass."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "times.json")
        command = ["taskset", "-c", str(core), python, "-m", "bench.layers", "--ours"]
        command += ["--seconds", "0.2", "--select", select, "--output", str(output)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = done.stdout[-4000:] + done.stderr[-4000:]
            raise SystemExit(f"{shlex.join(command)} in {checkout}:\n{said}")
        runs = json.loads(output.read_text())["runs"]
    return {
        f"{run['layer']}, {run['problem']}, {key}": seconds
        for run in runs
        for key, seconds in run["median seconds"].items()
    }


def summary(rounds: list[list[Seconds]]) -> dict[str, Any]:
    """Ratios of the fastest rounds, which tell most of the code and least of its neighbors."""
    names = rounds[0][0].keys() & rounds[0][1].keys()
    rows = {}
    for name in sorted(names):
        here, there = ([found[side][name] for found in rounds] for side in (0, 1))
        ratio = min(here) / min(there)
        rows[name] = {"ratio": ratio, "seconds here": here, "seconds there": there}
    ratios = {name: float(row["ratio"]) for name, row in rows.items()}
    return {
        "benchmarks": len(rows),
        "geometric mean of ratios": geometric_mean(ratios.values()),
        "least and greatest ratio": [min(ratios.values()), max(ratios.values())],
        "slower by more than 5 %": [name for name, ratio in ratios.items() if ratio > 1.05],
        "rows": rows,
    }


if __name__ == "__main__":
    main()
