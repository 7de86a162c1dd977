"""``equigeo doctor``: installed packages, available kernels and their correctness."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import pickle
import platform
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

import equigeo
from equigeo._core.text import message, printable
from equigeo.cli.options import add_machine, use_machine
from equigeo.cli.parser import Parser, add_verbosity
from equigeo.cli.selftest import print_checks, run_checks
from equigeo.datasets.cache import cache_folder
from equigeo.datasets.registry.catalogue import data_root
from equigeo.tasks import TASKS, find_task

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
    device = use_machine(options, is_long=False)
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


_PICKLE: Final = (
    "not loaded: it names classes, and reading them runs code that the file chooses; if you trust "
    "where it comes from, add --trust"
)
_SCRIPT: Final = (
    "not loaded: it is TorchScript, whose layers have become code of their own; accelerate the "
    "Python model before torch.jit.script or nequip-compile"
)
_PACKAGE: Final = (
    "not loaded: it is a package with Python code of its own; load it with the library that wrote "
    "it, and call equigeo.interop.accelerate"
)
_TENSORS: Final = (
    "it has tensors and no layers; build the model, load them, and call equigeo.interop.accelerate"
)
_OWN: Final = "nothing to replace: its layers are those of this library and use its kernels already"
_ROOTS: Final = ("e3nn.", "mace.", "nequip.")


def inspect_model(path: Path, *, trust: bool = False) -> dict[str, Any]:
    """Describe a model file and the layers that accelerate replaces; ``trust`` runs its code."""
    names = _members(path)
    if any("/code/" in name or name.endswith("constants.pkl") for name in names):
        return {"kind": "TorchScript", "remark": _SCRIPT}
    if any(name.endswith("/.data/extern_modules") for name in names):
        return {"kind": "package", "remark": _PACKAGE}
    named = _named_classes(path) if names else []
    if not named:
        return _plain(path)
    if not trust:
        return {"kind": "pickled module", "remark": _PICKLE, "recognized": _recognized(named)}
    return {"kind": "pickled module"} | _accelerated(_unpickled(path))


def _members(path: Path) -> list[str]:
    """Return the member names of an archive; empty for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):  # raised again where it is loaded
        return []


def _named_classes(path: Path) -> list[str]:
    """Return the classes and functions that a file names, without running code."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))
    except Exception:  # any, for damaged bytes; raised again where it is loaded
        return []


def _recognized(named: list[str]) -> list[str]:
    from equigeo.interop.accelerated.search import KINDS

    known = {name for _, name in KINDS}
    return [
        name
        for name in named
        if name.startswith(_ROOTS)
        and (name.rpartition(".")[2] in known or name.endswith("TensorProduct"))
    ]


def _plain(path: Path) -> dict[str, Any]:
    """Describe a file of tensors: a checkpoint of this library or another state."""
    try:
        content = torch.load(path, map_location="meta", weights_only=True)
    except Exception:  # raised again by find_task
        content = None
    if isinstance(content, dict) and "format" not in content:
        number = sum(isinstance(value, torch.Tensor) for value in content.values())
        return {"kind": "state", "tensors": number, "remark": _TENSORS}
    task = find_task(path, TASKS)
    trained = task.trained_type.load(path)  # as evaluation would, which checks all of it
    return {
        "kind": "checkpoint",
        "checkpoint": str(path),
        "task": task.name,
        "trained by version": trained.version,
        "trained": trained.config.recipe.progress(trained.epochs_done, trained.seconds),
        "parameters": sum(x.numel() for x in trained.model.parameters()),
        "classes": len(trained.classes),
        "remark": _OWN,
    }


def _unpickled(path: Path) -> nn.Module:
    """Unpickle a module, which runs its code."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=False)
    except (ImportError, AttributeError, RuntimeError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path}: cannot be unpickled ({message(error)}); install the versions of the "
            "libraries that wrote it"
        ) from error
    candidates = [found, *(found.values() if isinstance(found, dict) else ())]
    for value in candidates:
        if isinstance(value, nn.Module):
            return value.eval()
    raise ValueError(f"{path}: holds a {type(found).__name__} and no torch.nn.Module")


def _accelerated(model: nn.Module) -> dict[str, Any]:
    """Accelerate a model in memory and describe what is replaced and kept."""
    from equigeo.interop import accelerate

    report = accelerate(model)
    replaced = Counter((note.kind, note.note) for note in report.replaced)
    return {
        "class": type(model).__name__,
        "parameters": sum(x.numel() for x in model.parameters()),
        "replaced": [
            {"class": kind, "by": by, "number": number} for (kind, by), number in replaced.items()
        ],
        "kept": [
            {"path": note.path, "class": note.kind, "why": note.note}
            for note in (*report.kept, *report.unknown)
        ],
        "remark": "" if replaced else "it has no layer that this library could replace",
    }
