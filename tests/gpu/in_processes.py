"""Rows in processes of their own: what ends one process, or hangs, leaves the others.

    python -m tests.gpu.in_processes PART OUTPUT NAME ...

is one of them.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tests.gpu.layer_rows import check_layers, layer_names
from tests.gpu.op_rows import check_ops, op_names

PARTS = {"ops": (check_ops, op_names, 3), "layers": (check_layers, layer_names, 6)}
"""What checks, what there is, and how many rows a process takes."""
LIMIT = 240  # seconds of a process


def check_rows(
    part: str,
    device: torch.device,
    select: Sequence[str],
    jobs: int,
    names: Sequence[str] | None = None,  # by default all that are selected
    limit: float = LIMIT,
) -> dict[str, Any]:
    """Rows and failures of a part, by as many processes at a time as there are jobs."""
    check, names_of, count = PARTS[part]
    names = names_of(select) if names is None else names
    if jobs == 1:
        return check(device, select, names)
    groups = [names[k : k + count] for k in range(0, len(names), count)]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:

        def run(k: int) -> dict[str, Any]:
            return in_process(part, device, groups[k], Path(folder) / f"{k}.json", limit, select)

        found = list(pool.map(run, range(len(groups))))
    return {
        "rows": {name: row for one in found for name, row in one["rows"].items()},
        "failures": [text for one in found for text in one["failures"]],
    }


def in_process(
    part: str,
    device: torch.device,
    names: Sequence[str],
    output: Path,
    limit: float,
    select: Sequence[str] = (),
) -> dict[str, Any]:
    """What one process finds, or how it ended."""
    command = [sys.executable, "-m", "tests.gpu.in_processes", part, str(output)]
    given = json.dumps({"device": str(device), "names": list(names), "select": list(select)})
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=limit, check=False
        )
        ending = f"ended with {done.returncode}: {done.stderr.strip()[-500:]}"
    except subprocess.TimeoutExpired:
        ending = f"took more than {limit} s"
    if output.exists():
        found: dict[str, Any] = json.loads(output.read_text("utf-8"))
        return found
    return {"rows": {}, "failures": [f"{', '.join(names)}: the process {ending}"]}


def main(part: str, output: str) -> None:
    given = json.loads(sys.stdin.read())
    torch.set_num_threads(1)
    check = PARTS[part][0]
    found = check(torch.device(given["device"]), given["select"], given["names"])
    Path(output).write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
