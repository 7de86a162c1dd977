"""Count the resources of CUDA kernels, by the compiler and the simulator.

    make cuda simulated-kernels
    python -m bench.cuda_model --output build/cuda_model.json

For every op, one table, kernel by kernel: registers and spills from the compiler; 32-byte sectors
of global memory that warps touch, against the least for as many bytes; turns that shared memory
takes, against the least without conflicts of banks; barriers.

    python -m bench.cuda_model --floors --output bench/results/cuda_floors.json

needs neither: least times of the problems of ``bench/gpu_times.py``, by bytes of inputs and results
and by multiply-adds, beside operations that PyTorch counts, their bytes, and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.cuda_resources import Resources, kernel_name, read_log
from bench.gpu_times import PROBLEMS, passes
from bench.op_calls import Calls, all_calls
from bench.recorder import Record, parsed
from bench.schema import RESULTS
from equigeo.ops.edges import so2_conv
from equigeo.ops.self_test_cases import all_cases


def run_calls(folder: Path) -> None:
    """Make every call of a folder, in a process whose kernels are simulated.

    Each in a fork of it: what is counted is written where a process ends.
    """
    counted = Path(os.environ["EQUIGEO_SIMULATE_COSTS"])
    for file in sorted(folder.glob("*.pt")):
        if (child := os.fork()) == 0:
            name, args = torch.load(file, weights_only=True)
            getattr(torch.ops.equigeo, name)(**args)
            sys.exit()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise RuntimeError(f"the call {file.stem} failed")
        counted.replace(file.with_suffix(".json"))


def costs(libraries: Path, calls: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """What the simulator counts for every kernel of each call."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, call in enumerate(calls.values()):
            torch.save(call, folder / f"{n:03}.pt")
        variables = {
            "EQUIGEO_SIMULATE_CUDA": "1",
            "EQUIGEO_SIMULATE_COSTS": str(folder / "counted"),
            "EQUIGEO_KERNELS": str((libraries / "thread").absolute()),
        }
        command = [sys.executable, "-m", "bench.cuda_model", "--calls", name]
        subprocess.run(command, check=True, env={**os.environ, **variables})
        return {
            key: [json.loads(x) for x in (folder / f"{n:03}.json").read_text().splitlines()]
            for n, key in enumerate(calls)
        }


def described(op: str, kernel: dict[str, Any], resources: list[Resources]) -> dict[str, Any]:
    """One row of a table: counts with their ratios, and what the kernel was compiled to."""
    name, blocks = kernel_name(kernel["kernel"]), max(1, kernel["blocks"])
    sectors = kernel["load_sectors"] + kernel["store_sectors"]
    least = kernel["least_load_sectors"] + kernel["least_store_sectors"]
    compiled = {
        r.architecture: {"registers": r.registers, "bytes spilled": r.spilled}
        for r in compiled_as(op, name, resources)
    }
    return {
        **kernel,
        "kernel": name,
        "threads of a block": kernel["threads"] // blocks,
        "sectors against the least": round(sectors / max(1, least), 3),
        "bank turns against the least": round(
            kernel["bank_turns"] / max(1, kernel["least_bank_turns"]), 3
        ),
        "compiled": compiled,
    }


def compiled_as(op: str, kernel: str, resources: list[Resources]) -> list[Resources]:
    """Compiler statistics of a kernel; two files may have one of the same name.

    Then it is that of the file named after the op, or of the file that is named after none.
    """
    found = [r for r in resources if r.kernel == kernel]
    files = {r.file for r in found}
    if len(files) > 1:
        own = [f for f in files if op.startswith(f.removesuffix(".cu"))]
        others = [f for f in files if f.removesuffix(".cu") not in vars(torch.ops.equigeo)]
        found = [r for r in found if r.file == (own or others)[0]]
    return found


def tables(libraries: Path, resources: list[Resources]) -> dict[str, Any]:
    """A table for every op with CUDA kernels, and layout."""
    on_cards = {case.op for case in all_cases()}
    calls = {name: call for name, call in all_calls().items() if call[0] in on_cards}
    counted = costs(libraries, {name: call[:2] for name, call in calls.items()})
    return {
        name: {"kernels": [described(op, kernel, resources) for kernel in counted[name]]}
        for name, (op, *_) in calls.items()
        if counted[name]
    }


LEAST = {"forward": (1, 1, 1), "both": (3, 2, 3), "second": (6, 4, 7)}
"""How often inputs, results and multiply-adds of the forward pass count; passes add up."""
MULTIPLY_ADDS = 132 * 128 * 1.755e9  # of an H100 in a second


def floors(name: str, times: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Least microseconds of all passes of a problem of a record, and what PyTorch counts there."""
    # All counts are linear in the edges, if chunks shrink with them.
    few, more = (counts(name, times["edges"] // n, 2**31 // n) for n in (32, 16))
    found = {k: {of: n + 31 * (more[k][of] - n) for of, n in row.items()} for k, row in few.items()}
    for kind, row in found.items():
        issued = LEAST[kind][2] * found["forward"]["multiply-adds"] / MULTIPLY_ADDS
        row["least us"] = 1e6 * max(row["least bytes"] / times["bytes per second, copy"], issued)
        row["measured"] = times["microseconds"][f"{name}, {kind}"]["ours"] / row["least us"]
    return found


def counts(name: str, edges: int, chunk: int) -> dict[str, dict[str, float]]:
    """What the passes of a problem count; ``chunk`` is that of convolutions by orders."""
    so2_conv.CHUNK, found = chunk, {}
    problem, inputs = PROBLEMS[name](torch.device("cpu"), edges)
    ours = partial(problem["ours"], *inputs)
    sizes = sum(x.nbytes for x in inputs), ours().nbytes
    for kind, call in passes({"ours": ours}, inputs).items():
        with Calls() as calls:
            call["ours"]()
        found[kind] = {
            "least bytes": sum(n * size for n, size in zip(LEAST[kind][:2], sizes, strict=True)),
            **{"moved bytes": calls.moved, "peak bytes": calls.most},
            **{"operations": calls.operations, "multiply-adds": calls.multiply_adds},
        }
    return found


def show(name: str, table: dict[str, Any]) -> None:
    print(name)
    for row in table["kernels"]:
        compiled = row["compiled"].get("sm_90", {})
        print(
            f"    {row['kernel']:48} sectors {row['sectors against the least']:6}"
            f"  banks {row['bank turns against the least']:6}"
            f"  {compiled.get('registers', '?')} registers"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", type=Path, default=Path("build/simulated"))
    parser.add_argument("--log", type=Path, default=Path("build/cuda/build.log"))
    parser.add_argument("--floors", action="store_true", help="least times of the problems")
    parser.add_argument("--calls", type=Path, help=argparse.SUPPRESS)
    options = parsed(parser)
    if options.calls:
        run_calls(options.calls)
        return
    torch.set_num_threads(1)
    if options.floors:
        record = Record(options.output)
        times = json.loads((RESULTS / "gpu_times.json").read_text())["times"]
        measured = (n for n in PROBLEMS if f"{n}, second" in times["microseconds"])
        record.write({"problems": {n: floors(n, times) for n in measured}})
        return
    resources = list(read_log(options.log.read_text()))
    record = Record(options.output)
    found = tables(options.libraries, resources)
    for name, table in found.items():
        show(name, table)
    record.write({"tables": found})


if __name__ == "__main__":
    main()
