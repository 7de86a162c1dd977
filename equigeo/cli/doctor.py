"""``equigeo doctor``: installed packages, available kernels and their correctness."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import equigeo
from equigeo._core.text import printable
from equigeo.cli.inspect import inspect_model
from equigeo.cli.options import add_machine, use_machine
from equigeo.cli.parser import Parser, add_verbosity
from equigeo.cli.selftest import print_checks, run_checks
from equigeo.datasets.cache import cache_folder
from equigeo.datasets.registry.catalogue import data_root

_PACKAGES = (
    "numpy", "scipy", "e3nn", "trimesh", "lightning", "plotly", "platformdirs", "torch-geometric",
    "cuequivariance", "torch-cluster", "potpourri3d", "ase", "pillow",
)  # fmt: skip


def add_options(parser: Parser) -> None:
    """Add the model and options."""
    parser.explain(
        "0, 1 if something is wrong, 2 after an error.",
        "equigeo doctor",
        "equigeo doctor --threads 1 --json",
        "equigeo doctor runs/example/model.ckpt --json",
        "equigeo doctor mace.model --trust        # only a file of your own",
    )  # fmt: skip
    parser.set_defaults(run=_run)
    parser.add_argument(
        "checkpoint", type=Path, nargs="?", metavar="MODEL",
        help="describe this model as well: a checkpoint, or a file of torch.save (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--trust", action="store_true",
        help="unpickle modules of other libraries, which runs code that the file chooses, and "
        "list the layers that accelerate would replace (default: no)",
    )  # fmt: skip
    add_machine(parser, "cpu")
    add_verbosity(parser)
    parser.add_argument("--json", action="store_true", help="print JSON (default: lines)")


def _run(options: argparse.Namespace) -> int:
    device = use_machine(options)
    found: dict[str, Any] = {"environment": _environment(), "packages": _packages()}
    if options.checkpoint is not None:
        found["model"] = inspect_model(options.checkpoint, trust=options.trust)
    found |= run_checks(str(device))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        _print(found, each=options.verbose)
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


def _print(found: dict[str, Any], *, each: bool) -> None:
    _print_lines(found["environment"])
    print()
    _print_lines({name: x or "not installed" for name, x in found["packages"].items()})
    if "model" in found:
        print()
        _print_model(found["model"])
    print()
    print_checks(found, each=each)
    if found["environment"]["kernels: cpu"] == "None":
        print("no compiled kernels: everything runs, slower; see the warning of `import equigeo`")


def _print_model(model: dict[str, Any]) -> None:
    """Print facts, and a line per layer that is replaced or kept, with the reason."""
    facts = {name: x for name, x in model.items() if not isinstance(x, list | dict) and x != ""}
    _print_lines(facts)
    for name in model.get("recognized", ()):
        print(f"  could be replaced: {printable(name)}")
    for entry in model.get("replaced", ()):
        by, number = printable(entry["by"]), entry["number"]
        print(f"  replaced by {by}: {number} of the class {printable(entry['class'])}")
    for entry in model.get("kept", ()):
        layer = f"{entry['path'] or '(the model)'} ({entry['class']})"
        print(f"  kept {printable(layer)}: {printable(entry['why'])}")


def _print_lines(values: dict[str, Any]) -> None:
    for name, value in values.items():
        print(f"{name:<25} {printable(value)}")
