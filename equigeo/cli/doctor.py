"""``equigeo doctor``: installed packages, available kernels and their correctness."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

import equigeo
from equigeo._deprecation import RENAMED, Renamed
from equigeo._text import printable
from equigeo.cli.inspect_model import inspect_model
from equigeo.cli.model_speed import measure_model
from equigeo.cli.parser import PROGRAM, Parser
from equigeo.cli.selftest import print_checks, run_checks
from equigeo.datasets.cache_folder import cache_folder
from equigeo.datasets.registry.data_set import data_root

_PACKAGES = (
    "numpy", "scipy", "e3nn", "trimesh", "lightning", "plotly", "platformdirs", "torch-geometric",
    "cuequivariance", "torch-cluster", "potpourri3d", "ase", "pillow",
)  # fmt: skip
_INFO: Final = Renamed(f"{PROGRAM} doctor", since="0.2")
RENAMED[f"{PROGRAM} info"] = _INFO


def add_options(parser: Parser) -> None:
    """Add the model and options; ``info``, the old name, has none."""
    if parser.prog.endswith(" info"):
        parser.set_defaults(run=_info)
        return
    parser.explain(
        "0, 1 if something is wrong, 2 after an error.",
        "equigeo doctor",
        "equigeo doctor runs/example/model.ckpt --json",
        "equigeo doctor mace.model --trust        # only a file of your own",
    )  # fmt: skip
    parser.set_defaults(run=_run)
    parser.add_argument(
        "checkpoint", type=Path, nargs="?", metavar="MODEL",
        help="look at this model as well: a checkpoint, or what torch.save wrote (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--trust", action="store_true",
        help="unpickle modules of other libraries, which runs code that the file chooses, and "
        "measure what accelerate would give (default: no)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON (default: lines)")


def _info(options: argparse.Namespace) -> int:
    text = f"info is now a part of: {_INFO.new}; it goes away in {_INFO.removed_in}"
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    _print_lines(_environment())
    return 0


def _run(options: argparse.Namespace) -> int:
    found: dict[str, Any] = {"environment": _environment(), "packages": _packages()}
    if options.checkpoint is not None:
        found["model"] = inspect_model(options.checkpoint, trust=options.trust)
        if found["model"]["kind"] == "checkpoint":
            found["model"]["speed"] = measure_model(options.checkpoint)
    found |= run_checks()
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        _print(found)
    return 1 if found["problems"] else 0


def _environment() -> dict[str, str]:
    return {
        "equigeo": equigeo.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": str(torch.get_num_threads()),
        "cuda": str(torch.version.cuda) if torch.cuda.is_available() else "not available",
        "cache": _found(lambda: str(cache_folder())),
        "data": _found(lambda: str(data_root())),
        "neighbors": _found(equigeo.points.neighbor_backend),
        **{f"kernels: {name}": str(value) for name, value in equigeo.kernels_info().items()},
        **{f"CUDA kernels: {name}": value for name, value in equigeo.ops.cuda_status().items()},
    }


def _found(look: Callable[[], str]) -> str:
    """Return the result of a probe or its error, so that other lines are still printed."""
    try:
        return look()
    except (ImportError, ValueError) as error:
        return str(error)


def _packages() -> dict[str, str | None]:
    """Return the versions of optional packages; None if not installed."""
    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _print(found: dict[str, Any]) -> None:
    _print_lines(found["environment"])
    print()
    _print_lines({name: x or "not installed" for name, x in found["packages"].items()})
    if "model" in found:
        print()
        _print_model(found["model"])
    print()
    print_checks(found)
    if found["environment"]["kernels: cpu"] == "None":
        print("no compiled kernels: everything runs, slower; see the warning of `import equigeo`")


def _print_model(model: dict[str, Any]) -> None:
    """Print facts, and a line per layer that is replaced or kept, with the reason."""
    facts = {name: x for name, x in model.items() if not isinstance(x, list | dict) and x != ""}
    _print_lines(facts)
    if "speed" in model:
        _print_lines(_speed_lines(model["speed"]))
    for name in model.get("recognized", ()):
        print(f"  could be replaced: {printable(name)}")
    for entry in model.get("replaced", ()):
        times = f"{entry['before_ms']:.3f} -> {entry['after_ms']:.3f} ms, {entry['speedup']:.1f}x"
        print(f"  replaced {_layer(entry)} by {printable(entry['by'])}: {times}")
    for entry in model.get("kept", ()):
        print(f"  kept {_layer(entry)}: {printable(entry['why'])}")


def _speed_lines(speed: dict[str, Any]) -> dict[str, str]:
    """Return the ops of a forward pass and the speed-up by kernels."""
    lines = {"compiled kernels": ", ".join(speed["compiled"]) or "none"}
    if speed["reference"]:
        lines["ops without kernels"] = ", ".join(speed["reference"])
    lines["speed"] = speed["remark"]
    if not speed["remark"]:
        lines["speed"] = (
            f"{speed['on']}: {speed['kernels_ms']:.1f} ms, by the reference implementations "
            f"{speed['reference_ms']:.1f} ms: {speed['speedup']:.1f} times as fast"
        )
    return lines


def _layer(entry: dict[str, Any]) -> str:
    return printable(f"{entry['path'] or '(the model)'} ({entry['class']})")


def _print_lines(values: dict[str, Any]) -> None:
    for name, value in values.items():
        print(f"{name:<25} {printable(value)}")
