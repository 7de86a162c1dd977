"""Runs the op table through the CUDA sources, on the CPU: ``make test-cuda``.

``record FILE`` calls every row on every problem, with first and second gradients, on whatever
kernels are loaded, and keeps the results. ``all FOLDER`` records with the kernels of the CPU and
then with the simulated ones, in a process for each run of ``RUNS``; their results must be those of
the CPU within the tolerance of the op table, and the same bits in every order of threads. The
library with address checks sums by smaller chunks: its bits may differ from the other's.
``planted FOLDER`` is the control: mistakes in a kernel of their own, which the checks must report.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo._core.tensors import has_kernel
from equigeo.ops import kernels_info
from tests.ops.op_table import OPS
from tests.ops.simulated_cases import HALF, Case, cases, results
from tests.ops.test_ops import same_bits
from tests.ops.trapped_calls import TRAPPED, assert_trapped

Record = dict[str, list[Tensor]]
ROOT = Path(__file__).resolve().parents[2]
# Orders of threads by kind of checks; a number is the seed of a random order. Addresses do not
# depend on the order.
RUNS = {"address": ("forward",), "thread": ("forward", "reversed", "1")}
# Mistakes of csrc/tests/planted.cu, what reports them, and in which words.
PLANTED = {
    "address": (1, "address", "AddressSanitizer: heap-buffer-overflow"),
    "undefined": (2, "address", "runtime error: signed integer overflow"),
    "thread": (3, "thread", "reads while another thread may write"),
    "scratch": (4, "address", "AddressSanitizer: use-after-poison"),
}


def record(select: Sequence[str] = ()) -> Record:
    """Results of cases, by their names."""
    return {str(case): results(case) for case in cases(select)}


def compare(cpu: Record, simulated: list[Record], select: Sequence[str] = ()) -> int:
    """Hold simulated results against the CPU's and one another; returns how many there are."""
    count = 0
    for case in cases(select):
        name = str(case)
        bits = same_bits(case.op, torch.float32 if case.dtype in HALF else case.dtype)
        first, *others = simulated
        for k, want in enumerate(cpu[name]):
            assert_near(case, first[name][k], want)
            for other in others:
                text = f"{name}, result {k}, in another order: "
                assert_close(
                    other[name][k], first[name][k], **bits, equal_nan=True, msg=text.__add__
                )
            count += 1
    return count


def assert_near(case: Case, got: Tensor, want: Tensor) -> None:
    share = case.share(got, want)
    assert got.dtype == want.dtype
    assert share <= 1, f"{case}: the error is {share:.3g} times what is tolerated"


def environment(folder: Path, checks: str, order: str) -> dict[str, str]:
    """Variables under which simulated kernels are loaded; the address sanitizer comes first."""
    found = {
        "EQUIGEO_SIMULATE_CUDA": "1",
        "EQUIGEO_SIMULATE_ORDER": order,
        "EQUIGEO_KERNELS": str((folder / checks).absolute()),
    }
    if checks == "address":
        command = ["g++", "-print-file-name=libasan.so", "-print-file-name=libstdc++.so"]
        libraries = [subprocess.check_output([command[0], c], text=True) for c in command[1:]]
        found["LD_PRELOAD"] = " ".join(x.strip() for x in libraries)
        # Python itself leaks.
        found |= {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return found


def check(cpu: Record, chosen: Iterable[Case]) -> int:
    """Hold the kernels that are loaded against a record, one case after another."""
    count = 0
    for case in chosen:
        for got, want in zip(results(case), cpu[str(case)], strict=True):
            assert_near(case, got, want)
        count += 1
    return count


def without_kernel() -> Iterator[str]:
    """Ops that the sources register for any device, and the library that is loaded lacks."""
    sources = "".join(p.read_text() for p in sorted((ROOT / "csrc/register").glob("*.cpp")))
    for name in sorted({op.name for op in OPS}):
        if f'"{name}"' in sources and not has_kernel(name, "CPU"):
            yield name


def record_elsewhere(file: Path, select: Sequence[str], variables: dict[str, str]) -> None:
    """Record in a process of its own, whatever is loaded here."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EQUIGEO_SIMULATE")}
    module = [sys.executable, "-m", "tests.ops.run_simulated"]
    start = time.perf_counter()
    subprocess.run(
        [*module, "record", file, *(f"--select={part}" for part in select)],
        env={**clean, "OMP_NUM_THREADS": "1", **variables},
        check=True,
    )
    say(f"{file.stem}: {time.perf_counter() - start:.0f} s")


def record_all(
    folder: Path, select: Sequence[str], jobs: int, orders: int = 3
) -> tuple[Path, dict[str, list[Path]]]:
    """Return files with the results of the CPU's kernels, and of simulated runs by their checks."""
    cpu, simulated = folder / "cpu.pt", {}
    runs = [(cpu, select, {"EQUIGEO_REQUIRE_KERNELS": "1"})]
    for checks, every in RUNS.items():
        simulated[checks] = [folder / f"{checks}-{order}.pt" for order in every[:orders]]
        for file, order in zip(simulated[checks], every, strict=False):
            runs.append((file, select, environment(folder, checks, order)))
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(record_elsewhere, *run) for run in runs]:
            done.result()
    return cpu, simulated


def run_planted(folder: Path) -> None:
    """See that each kind of checks reports the mistake that is for it, and nothing else."""
    for name, (mistake, checks, words) in {"none": (0, "thread", ""), **PLANTED}.items():
        command = [sys.executable, "-m", "tests.ops.run_simulated", "plant", str(mistake)]
        variables = {**os.environ, **environment(folder, checks, "forward")}
        run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert (run.returncode != 0) == (mistake != 0), f"{name}, planted: {run.stderr}"
        assert words in run.stderr, f"{name}, planted: {run.stderr}"
        say(f"planted, {name}: {words or 'no report'}")


def plant(mistake: int) -> None:
    """Run the kernel of mistakes of the library that is loaded; 0 is for none."""
    library = ctypes.CDLL(kernels_info()["cuda"])
    library.equigeo_run_planted.restype = ctypes.c_char_p
    if error := library.equigeo_run_planted(mistake):
        sys.exit(error.decode())


def say(line: str) -> None:
    """Write a line at once, also where many processes write."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["record", "all", "planted", "plant"])
    parser.add_argument("path", help="a file, the folder of the simulated kernels, or a number")
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        help="cases whose name has this part, or all of a&b",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--orders", type=int, choices=[1, 2, 3], default=3, help="orders of threads, of all"
    )
    options = parser.parse_args(arguments)
    if options.command == "record":
        run_record(Path(options.path), options.select)
    elif options.command == "plant":
        plant(int(options.path))
    elif options.command == "planted":
        run_planted(Path(options.path))
    else:
        run_all(Path(options.path), options.select, options.jobs, options.orders)


def run_record(file: Path, select: Sequence[str]) -> None:
    """Record with the kernels that are loaded, which must be those that they seem to be."""
    info = kernels_info()
    if missing := ", ".join(without_kernel()):
        sys.exit(f"{info['cuda'] or info['cpu']} has no kernel for {missing}")
    torch.save(found := record(select), file)
    say(f"{len(found)} cases on {info['cuda'] or info['cpu']}")
    if info["cuda"] and not select:
        for name, call in TRAPPED.items():
            assert_trapped(name, call)
        say(f"{len(TRAPPED)} calls are stopped by a trap")


def run_all(folder: Path, select: Sequence[str], jobs: int, orders: int) -> None:
    file, simulated = record_all(folder, select, jobs, orders)
    cpu = torch.load(file, weights_only=True)
    for checks, files in simulated.items():
        count = compare(cpu, [torch.load(file, weights_only=True) for file in files], select)
        say(
            f"{checks}: {count} results of {len(cpu)} cases are those of the CPU within tolerance, "
            f"and bit for bit the same in {len(files)} orders of threads"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
