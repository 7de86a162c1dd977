"""Every microbenchmark of two checkouts in turn, as ratios: what a change costs or gains.

``python bench/side_by_side.py ../before`` runs each ``bench_*.py`` that both have in turn, each
checkout its own file (imports move), and compares the medians of equal names. The rows of peers are
left out; they are code of others.
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
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from interleaved import circumstances, commit

HERE = Path(__file__).resolve().parents[1]
PEERS = "not e3nn and not cuEquivariance and not sphericart and not geometric and not eager"


def main() -> None:
    given = arguments()
    sides = {
        "here": (HERE, sys.executable, given.kernels),
        "there": (given.other.resolve(), given.other_python, given.other_kernels),
    }
    files = given.files or shared_files(given.other)
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(given.rounds):
        for file in files:
            # Whoever comes second finds a warmer machine.
            for side in sorted(sides, reverse=turn % 2 == 1):
                for name, value in run(*sides[side], file, given.select).items():
                    seconds[f"{file}::{name}"][side].append(value)
                print(f"round {turn + 1}: {file} {side}", file=sys.stderr)
        summary = summarize(given, seconds)  # after every round, should one be cut off
    print(json.dumps(summary, indent=1))


def summarize(given: argparse.Namespace, seconds: Any) -> dict[str, Any]:
    """Write what there is so far."""
    rows = {name: row(values) for name, values in seconds.items() if len(values) == 2}
    ratios = sorted(entry["ratio"] for entry in rows.values())
    summary = {
        "benchmarks": len(rows),
        "geometric mean of ratios": geometric_mean(ratios),
        "median of ratios": median(ratios),
        "least and greatest ratio": [ratios[0], ratios[-1]],
        "slower by more than 5 %": [n for n, entry in rows.items() if entry["ratio"] > 1.05],
    }
    given.output.write_text(json.dumps({**facts(given), **summary, "rows": rows}, indent=1) + "\n")
    return summary


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
    parser.add_argument("--output", type=Path, default=Path("bench/results/side_by_side.json"))
    given = parser.parse_args()
    given.other_python = given.other_python or str(given.other.resolve() / ".venv/bin/python")
    return given


def shared_files(other: Path) -> list[str]:
    there = {path.name for path in (other / "bench").glob("bench_*.py")}
    return sorted(there & {path.name for path in (HERE / "bench").glob("bench_*.py")})


def run(
    checkout: Path, python: str, kernels: str | None, file: str, select: str
) -> dict[str, float]:
    """Median seconds of every benchmark in one file."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "times.json")
        command = [
            python, "-m", "pytest", f"bench/{file}", "-q", "-k", select,
            "-p", "no:cacheprovider",
            "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*",
            "--benchmark-max-time=0.1", "--benchmark-min-rounds=5", "--benchmark-warmup=on",
            f"--benchmark-json={output}",
        ]  # fmt: skip
        environment = {**os.environ, **({"EQUIGEO_KERNELS": kernels} if kernels else {})}
        done = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = done.stdout[-4000:] + done.stderr[-4000:]
            raise SystemExit(f"{shlex.join(command)} in {checkout}:\n{said}")
        found = json.loads(output.read_text())["benchmarks"]
    return {entry["name"]: entry["stats"]["median"] for entry in found}


def row(values: dict[str, list[float]]) -> dict[str, Any]:
    """The fastest round of each side tells most of the code and least of its neighbours."""
    return {
        "ratio": min(values["here"]) / min(values["there"]),
        "ratios of rounds": [a / b for a, b in zip(values["here"], values["there"], strict=True)],
        "seconds here": values["here"],
        "seconds there": values["there"],
    }


def facts(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "command": " ".join(
            [
                "python bench/side_by_side.py",
                "OTHER",
                f"--rounds {given.rounds}",
                f"--select {given.select!r}",
            ]
        ),
        "commit there": commit(given.other),
        "rounds": given.rounds,
        **circumstances(),
    }


if __name__ == "__main__":
    main()
