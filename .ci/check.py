"""Run the full checks in slices, and list those that are due: `make check`.

`.ci/checked.json` records per slice when it last passed: the hash of the sources that it depends
on, the commit, the date, the machine and the seconds that it took. Without arguments, every slice
whose sources have changed since then runs, and is recorded as soon as it passes, so that an
interrupted run continues where it stopped.
Needs only the standard library and git: CI calls it before anything is installed.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / ".ci" / "checked.json"
LIBRARY = ("equigeo", "csrc", "CMakeLists.txt", "pyproject.toml")
KERNELS = ("csrc", "equigeo/ops", "tests/ops", "CMakeLists.txt")
LAYERS = (
    *("equigeo/interop", "equigeo/tensor_products", "equigeo/nn", "equigeo/reps", "equigeo/ops"),
    "tests/interop",
)
POTENTIALS = (*LAYERS, "equigeo/potentials", "docs/howto/engines.md")
CLOUDS = ("equigeo/graphs", "equigeo/points", "equigeo/ops", "tests/graphs")


@dataclass(frozen=True)
class Slice:
    """A command, the paths that its result depends on, and whether CI runs (a part of) it."""

    command: str
    sources: tuple[str, ...]
    in_ci: bool = False


FOLDERS = {
    "ops": ("ops",),
    "modes": ("modes",),
    "algebra": ("tensor_products", "nn", "reps", "groups", "affine"),
    "potentials": ("mds", "interop", "potentials"),
    "geometry": ("mesh", "graphs", "points", "datasets"),
    "training": ("tasks", "training", "cli", "examples", "report"),
}


def full(*folders: str) -> Slice:
    folders = tuple(f"tests/{folder}" for folder in folders)
    return Slice(f"make test-full PYTEST_ARGS='{' '.join(folders)}'", (*LIBRARY, *folders))


def full_rest() -> Slice:
    ignored = [f"--ignore=tests/{folder}" for group in FOLDERS.values() for folder in group]
    command = f"make test-full PYTEST_ARGS='tests equigeo {' '.join(ignored)}'"
    return Slice(command, (*LIBRARY, "tests", "bench", "docs", "data", "examples"))


FULL = "EQUIGEO_TESTS=full"
SLICES = {
    **{name: full(*folders) for name, folders in FOLDERS.items()},
    "rest": full_rest(),
    "isa": Slice(f"{FULL} make isa", KERNELS),
    # Checked accesses are those of the kernels, which representative rows reach as well.
    "sanitize": Slice("make sanitize", KERNELS, in_ci=True),
    "tsan": Slice("make tsan", KERNELS),
    "arm": Slice("make test-arm", ("csrc", "equigeo/ops", "CMakeLists.txt"), in_ci=True),
    "cuda": Slice(
        "make cuda",
        ("csrc", ":!csrc/*.md", "CMakeLists.txt", "bench/cuda_resources.py"),
        in_ci=True,
    ),
    "simulate": Slice("make simulate", KERNELS, in_ci=True),
    "e3nn04": Slice("make test-e3nn04", (*LAYERS, "tests/reps", "tests/e3nn04.py"), in_ci=True),
    "interop": Slice("make test-interop", (*LAYERS, "docs/tutorials/pretrained.py"), in_ci=True),
    "fairchem": Slice("make test-fairchem", LAYERS, in_ci=True),
    "cluster": Slice("make test-cluster", (*CLOUDS, "tests/points"), in_ci=True),
    "engines": Slice("make test-engines", POTENTIALS, in_ci=True),
    "torch-sim": Slice("make test-torch-sim", POTENTIALS, in_ci=True),
    "metatomic": Slice("make test-metatomic", POTENTIALS, in_ci=True),
    "bench": Slice("make test-bench", ("bench", "tests/bench", "equigeo/ops"), in_ci=True),
    "wheel": Slice("make test-wheel", (*LIBRARY, "tests/build")),
    "docs": Slice("make docs", (*LIBRARY, "docs")),
}


def digest(sources: tuple[str, ...]) -> str:
    """Return the hash of the files under some paths, as they are in the working tree."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *sources],
        cwd=ROOT, text=True,
    )  # fmt: skip
    found = hashlib.sha256()
    for name in sorted(filter(None, listed.split("\0"))):
        if (ROOT / name).is_file():
            content = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
            found.update(f"{name} {content}\n".encode())
    return found.hexdigest()[:16]


def record() -> dict[str, dict[str, object]]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def is_due(name: str) -> bool:
    """Return whether the sources of a slice differ from those with which it last passed."""
    return record().get(name, {}).get("sources") != digest(SLICES[name].sources)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def run(name: str) -> bool:
    """Run a slice and record it if it passes."""
    print(f"=== {name}: {SLICES[name].command}", flush=True)
    before, start = digest(SLICES[name].sources), time.monotonic()
    if subprocess.run(SLICES[name].command, shell=True, cwd=ROOT, check=False).returncode:
        print(f"=== {name}: FAILED", flush=True)
        return False
    seconds = round(time.monotonic() - start)
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    entry = {
        "sources": before,
        "commit": commit,
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "seconds": seconds,
    }
    RECORD.write_text(json.dumps(record() | {name: entry}, indent=1, sort_keys=True) + "\n")
    print(f"=== {name}: passed in {seconds} s", flush=True)
    return True


def state(name: str) -> str:
    """Describe when a slice last passed."""
    last = record().get(name)
    if last is None:
        return "never passed"
    changed = "changed since" if is_due(name) else "unchanged since"
    return f"{changed} {last['date']} ({str(last['commit'])[:8]}, {last['seconds']} s)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="slices; all by default")
    parser.add_argument("--due", action="store_true", help="print the due slices of CI")
    parser.add_argument("--list", action="store_true", help="print when each slice last passed")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SLICES):
        parser.error(f"unknown slices {sorted(unknown)}; there are {', '.join(SLICES)}")
    names = options.names or list(SLICES)
    if options.list:
        print("\n".join(f"{name}: {state(name)}" for name in names))
        return 0
    due = [name for name in names if is_due(name)]
    if options.due:
        print("\n".join(name for name in due if SLICES[name].in_ci))
        return 0
    failed = [name for name in due if not run(name)]
    print(f"{len(due) - len(failed)} slices passed, {len(names) - len(due)} were up to date")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
