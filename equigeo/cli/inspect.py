"""Model inspection of ``equigeo doctor``."""

from __future__ import annotations

import pickle
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from equigeo._core.text import message
from equigeo.tasks import TASKS, find_task

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


def inspect_model(
    path: Path,
    *,
    trust: bool = False,  # unpickle modules, which runs code from the file
) -> dict[str, Any]:
    """Describe a model file, and the layers that :func:`equigeo.interop.accelerate` replaces."""
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
    except (OSError, ValueError, zipfile.BadZipFile):  # what loads it says what is wrong
        return []


def _named_classes(path: Path) -> list[str]:
    """Return the classes and functions that a file names, without running code."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))
    except Exception:  # of damaged bytes, anything: what loads it says so
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
    except Exception:  # find_task says what is wrong
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
