"""Models of other libraries on a device, as they are and accelerated: energies and forces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from bench.gpu_times import in_turn, micro, peak
from bench.peers import agree
from bench.recorder import circumstances
from equigeo.interop import accelerate
from tests.gpu.layer_rows import capture
from tests.interop.interatomic import MODELS, Atoms

Call = Callable[[], tuple[Tensor, ...]]
PACKAGES = {
    "mace": "mace-torch",
    "nequip": "nequip",
    "sevenn": "sevenn",
    "allegro": "nequip-allegro",
}
CELLS = {"32 atoms": 2, "2048 atoms": 8}
"""Cubic cells of copper along each axis; the small crystal is captured as a CUDA graph, too."""
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def model_names() -> list[str]:
    """Models whose library is installed, in both precisions, with both crystals."""
    return [
        f"{name}, {dtype}, {size}"
        for name in MODELS
        if find_spec(name)
        for dtype in DTYPES
        for size in CELLS
    ]


def check_models(device: torch.device, rounds: int, names: Sequence[str]) -> dict[str, Any]:
    """Times and memory before and after acceleration, and the certificate."""
    rows: dict[str, Any] = {}
    failures = []
    for name in names:
        try:
            rows[name] = compared(*name.split(", "), device, rounds)
            if not rows[name]["verified"]:
                failures.append(f"{name}: {rows[name]['certificate']}")
        except Exception as error:  # the others go on
            rows[name] = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            failures.append(f"{name}: {rows[name]}")
    return {"rows": rows, "failures": failures}


def compared(name: str, dtype: str, size: str, device: torch.device, rounds: int) -> dict[str, Any]:
    build, evaluate = MODELS[name]
    atoms = moved(Atoms.copper(CELLS[size], DTYPES[dtype]), device)
    before, after = (build(DTYPES[dtype]).to(device) for _ in range(2))
    after.load_state_dict(before.state_dict())
    report = accelerate(after, verify=True)

    def call(model: nn.Module) -> tuple[Tensor, ...]:
        with device:  # where data are made
            return evaluate(model, atoms)

    calls: dict[str, Call] = {"before": partial(call, before), "accelerated": partial(call, after)}
    for ours, theirs in zip(calls["accelerated"](), calls["before"](), strict=True):
        agree(ours.detach(), theirs.detach())
    captured = "not captured: the crystal is large"
    if size == next(iter(CELLS)):
        try:
            calls["accelerated, CUDA graph"] = capture(calls["accelerated"], device)
            captured = "captured"
        except Exception as error:  # that every model can be captured is not promised
            captured = f"not captured: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    times = in_turn(calls, device, rounds)
    return {
        "microseconds": {who: micro(median(seconds)) for who, seconds in times.items()},
        "megabytes": {who: peak(each, device) for who, each in calls.items()},
        "graph": captured,
        "certificate": str(report.certificate).splitlines()[0],
        "verified": report.certificate is not None and report.certificate.passes,
        "kept": [note.path for note in report.kept],
        "versions": circumstances(**{name: PACKAGES[name]})["versions"],
    }


def moved(atoms: Atoms, device: torch.device) -> Atoms:
    tensors = {n: x.to(device) for n, x in vars(atoms).items() if isinstance(x, Tensor)}
    return replace(atoms, **tensors)
