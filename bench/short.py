"""The short benchmarks: every op beside one peer, in minutes, and whether a ratio has fallen.

    python -m bench.short --output build/bench/short.json     # make bench
    python -m bench.short --check                             # make bench-check
    python -m bench.short --keep                              # make bench-record
    python -m bench.short --once                              # make test-bench

A pair is two benchmarks of ``bench_*.py`` by their ids, which are made of their parameters. They
are run one behind the other in one process, and compare results before they time anything. The
ratio is the median of the peer over that of ours. ``--keep`` writes the file of this kind of
machine, ``bench/results/short_<processor>_<instruction set>_<cores>.json``; ``--check`` runs all
pairs and then, up to twice more, those whose ratio is less than 0.8 of the one in that file: a
pair that is slower every time has become slower. ``--once`` times nothing: it calls these pairs and
the benchmarks without one once, so that all of them are known to run and to agree with their peers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers import KINDS
from bench.recorder import REPOSITORY, Record, circumstances, output_arguments
from equigeo.ops.self_test_cases import all_cases
from equigeo.tensor_products.analysis.compared_product import compared_products

RESULTS = REPOSITORY / "bench" / "results"
LEAST = 0.8  # of the ratio that was
REPETITIONS = 3  # of what seems to be slower
Pairs = dict[str, tuple[str, str]]
# File, function, ids with places for what follows, ours and the peer.
TEMPLATES = [
    (
        "channelwise", "bench_channelwise_product", "{what}-{{}}",
        ("mace-large-forward", "mace-large-both", "nequip-water-both"), "ours mul_ir", "e3nn",
    ),
    (
        "channelwise", "bench_channelwise_conv", "{{}} {what}", ("forward", "both"), "ours", "e3nn",
    ),
    (
        "channelwise", "bench_second_derivatives", "{what}-{{}}", ("product", "conv"), "ours",
        "e3nn",
    ),
    (
        "connected", "bench_fully_connected", "diffdock-L1-{{}}-{what}-1 thread",
        KINDS, "ours", "e3nn",
    ),
    ("connected", "bench_full", "L3-{{}}-{what}-1 thread", KINDS, "ours", "e3nn"),
    (
        "sphere", "bench_harmonics", "{what}-{{}}", ("l3-forward", "l3-both", "l8-both"), "ours",
        "e3nn",
    ),
    ("sphere", "bench_grid_product", "{what}-{{}}", ("L4", "L8"), "ours", "e3nn"),
    (
        "symmetric_contraction", "bench_symmetric_contraction", "{{}}-{what}-mul_ir-1 thread",
        ("mace-small-forward", "mace-small-training"), "op", "cuequivariance",
    ),
    (
        "segment_attention", "bench_segment_attention", "{{}}-12000-1-32-{what}-1 thread",
        ("forward", "forward and backward"), "op", "geometric",
    ),
    (
        "attention_conv", "bench_attention_conv", "{{}}-12000-1-32-{what}-1 thread",
        ("forward", "forward and backward"), "fused", "geometric",
    ),
    ("mds", "bench_embed", "1024x128-{what}-{{}}", ("forward", "both"), "embed", "eager"),
    ("mds", "bench_symmetric_eigen", "{what}-{{}}", ("3-float32",), "ours", "eigh"),
    (
        "ops", "bench_op", "{what}-{{}}", tuple(case.op for case in all_cases()), "op", "reference",
    ),
]  # fmt: skip
# Benchmarks without a pair: file, function, ids.
ALONE = [
    (
        "linear", "bench_linear", "{what}-both-64 rows",
        ("irreps-small", "irreps-nequip", "irreps-mace", "tensors", "dense"),
    ),
    ("points", "bench_search", "{what}-32x256-own", ("sampling", "nearest", "radius")),
    (
        "tensor_products", "bench_tensor_products", "{what}-mimo-L2-forward and backward-1 thread",
        tuple(name.replace(" ", "_") for name in compared_products()),
    ),
    ("connected", "bench_unweighted", "{what}-ours-both-1 thread", ("elementwise", "all_pairs")),
    ("mds", "bench_one_large_cloud", "{what}-1", ("float32",)),
]  # fmt: skip


def pairs() -> Pairs:
    """What is measured, by name: ids of ours and of the peer."""
    found: Pairs = {}
    for file, function, template, problems, ours, peer in TEMPLATES:
        for what in problems:
            place = place_of(file, function, template.format(what=what))
            name = f"{function.removeprefix('bench_')}, {what}, against {peer}"
            found[name] = place.format(ours), place.format(peer)
    return found


def place_of(file: str, function: str, case: str) -> str:
    return f"bench/bench_{file}.py::{function}[{case}]"


def called_once(select: str = "") -> list[str]:
    """Ids of all benchmarks that ``--once`` calls."""
    alone = [
        place_of(file, function, template.format(what=what))
        for file, function, template, problems in ALONE
        for what in problems
    ]
    in_pairs = (one for name, pair in pairs().items() if select in name for one in pair)
    return [*in_pairs, *(one for one in alone if select in one)]


def run(ids: list[str], *options: str) -> str:
    """Run benchmarks in one process, and return what pytest printed."""
    command = [
        sys.executable, "-m", "pytest", *ids, "-q", "-p", "no:cacheprovider",
        "-o", "python_files=bench_*.py", "-o", "python_functions=bench_*", *options,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr[-4000:])
    return done.stdout


def measure(chosen: Pairs) -> dict[str, dict[str, Any]]:
    """Time pairs: seconds of both, medians and their ratio."""
    # A round is long enough for the clock, and a benchmark has a few dozen of them.
    few = ("--benchmark-min-time=0.003", "--benchmark-max-time=0.2", "--benchmark-min-rounds=5")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "times.json")
        ids = [one for pair in chosen.values() for one in pair]
        run(ids, *few, f"--benchmark-json={output}")
        listed = json.loads(output.read_text())["benchmarks"]
    seconds = {one["fullname"]: one["stats"]["data"] for one in listed}
    return {
        name: row(*(seconds[one] for one in pair))
        for name, pair in chosen.items()
        if all(one in seconds for one in pair)  # a peer may not be installed
    }


def row(ours: list[float], peer: list[float]) -> dict[str, Any]:
    medians = {"ours": median(ours), "peer": median(peer)}
    return {
        "ratio": medians["peer"] / medians["ours"],
        "median seconds": medians,
        "seconds": {"ours": ours, "peer": peer},
    }


def fallen(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Pairs whose ratio has fallen by more than a fifth, and what is left of it."""
    shares = {name: now[name]["ratio"] / before[name]["ratio"] for name in now if name in before}
    return {name: share for name, share in shares.items() if share < LEAST}


def machine_kind() -> str:
    """Processor, instruction set and cores in a name of a file."""
    facts = circumstances()
    words = f"{facts['processor']}_{facts['instruction set']}_{facts['cores']} cores"
    return re.sub(r"[^a-z0-9_]+", "-", re.sub(r"\((?:r|tm)\)", "", words.lower())).strip("-")


def check(chosen: Pairs, kept: Path) -> int:
    """Print which ratios have fallen against the committed file; 1 if any has."""
    if not kept.exists():
        raise SystemExit(
            f"{kept.relative_to(REPOSITORY)} does not exist: nothing was kept of this kind of "
            "machine; make bench-record measures it"
        )
    before = json.loads(kept.read_text())["pairs"]
    slower = fallen(measure(chosen), before)
    for _ in range(REPETITIONS - 1):
        if slower:
            slower = fallen(measure({name: chosen[name] for name in slower}), before)
    for name, share in slower.items():
        print(f"{name}: {100 * share:.0f} % of the ratio that it had")
    gone = sorted(before.keys() - chosen.keys())
    print("\n".join(f"{name}: is not measured any more" for name in gone))
    print(f"{len(slower)} of {len(chosen)} ratios have fallen by more than {1 - LEAST:.0%}")
    return int(bool(slower or gone))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--select", default="", help="pairs whose name has this")
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    parser.add_argument("--keep", action="store_true", help="write the file of this machine")
    parser.add_argument("--once", action="store_true", help="call each once, time nothing")
    output_arguments(parser)
    given = parser.parse_args(words)
    os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
    chosen = {name: pair for name, pair in pairs().items() if given.select in name}
    once = called_once(given.select) if given.once else []
    if not (chosen or once):
        raise SystemExit(f"no pair has {given.select!r} in its name")
    if once:
        print(run(once, "--benchmark-disable").strip().splitlines()[-1])
        return 0
    kept = RESULTS / f"short_{machine_kind()}.json"
    if given.check:
        return check(chosen, kept)
    record = Record(kept if given.keep else given.output)
    found = measure(chosen)
    for name, values in found.items():
        print(f"{values['ratio']:8.2f}  {name}")
    record.write({"pairs": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
