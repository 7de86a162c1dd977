"""Report of an acceleration, and the certificate of its comparisons."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

import equigeo
from equigeo.interop.accelerated.base import random

FORMAT = "equigeo/certificate/1"
ORDERS = ("values", "gradients", "second gradients")

# A tensor this much smaller than the largest of its kind is judged on the scale of that one: sums
# that cancel to it have lost as many digits.
CANCELLED = 1e-3
SHOWN = 0.01  # share of the step time above which a report lists a module
Arrange = Callable[[Tensor], Tensor]


class Check(NamedTuple):
    """Result of one comparison."""

    what: str  # compared quantity, such as "second gradients"
    inputs: str  # form of the inputs, such as "strided"
    # Largest difference relative to the largest value; infinite if the replacement fails, None if
    # nothing could be compared.
    error: float | None
    tolerance: float  # bound for rounding
    note: str = ""  # reason for None, or the failure

    @property
    def passes(self) -> bool:
        """Return whether the error is within the tolerance, or there is no error value."""
        return self.error is None or self.error <= self.tolerance

    @property
    def problem(self) -> str:
        """Description of the problem in one line, for a check that fails."""
        where = f"{self.what}, {self.inputs} inputs"
        if self.note:
            return f"{where}: {self.note}"
        return f"{where}: error {self.error:.1e} exceeds {self.tolerance:.1e}"


@dataclass(frozen=True)
class ModuleCertificate:
    """All comparisons of one module: its path, original class, replacement and checks."""

    path: str
    kind: str
    runs_on: str
    checks: tuple[Check, ...]

    @property
    def problem(self) -> str | None:
        """Description of the problem with the replacement, if any."""
        return first_problem(self.checks)

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.path or '(the model)'}  {self.kind}  {summary(self.checks)}"


@dataclass(frozen=True, repr=False)
class Certificate:
    """Evidence for a model, gathered by :func:`equigeo.interop.accelerate` with ``verify=True``.

    Parameters
    ----------
    modules : tuple of ModuleCertificate
        One per module that could be replaced; modules that do not pass were restored.
    laws : tuple of Check
        Energy of the accelerated model and its gradients; empty if no energy was given.

    Examples
    --------
    >>> check = Check("gradients", "strided", 2e-16, 1e-14)
    >>> certificate = Certificate((ModuleCertificate("a", "Linear", "nn.Linear", (check,)),), ())
    >>> print(certificate)
    1 of 1 modules pass
      a  Linear  1 check passes, largest error 0.02 of its tolerance (gradients, strided inputs)
    no energy was given: forces of the model were not compared
    """

    modules: tuple[ModuleCertificate, ...]
    laws: tuple[Check, ...]

    @property
    def passes(self) -> bool:
        """Return whether all modules and the energy pass."""
        parts = [self.laws, *(module.checks for module in self.modules)]
        return all(check.passes for checks in parts for check in checks)

    def to_json(self) -> str:
        """Return all comparisons as JSON, with the versions of the libraries.

        Keys: ``format``, ``equigeo``, ``torch``, ``passes``, ``modules`` and ``laws``. Errors that
        are not finite are "inf".
        """
        document = {
            "format": FORMAT,
            "equigeo": equigeo.__version__,
            "torch": torch.__version__,
            "passes": self.passes,
            "modules": [
                {**asdict(module), "passes": module.problem is None, "checks": _rows(module.checks)}
                for module in self.modules
            ],
            "laws": _rows(self.laws),
        }
        return json.dumps(document, indent=1, allow_nan=False) + "\n"

    def __str__(self) -> str:
        """Return one line per module, and one for the energy."""
        good = sum(module.problem is None for module in self.modules)
        lines = [f"{good} of {len(self.modules)} modules pass"]
        lines += [f"  {module}" for module in self.modules]
        if self.laws:
            return "\n".join([*lines, f"energy of the model: {summary(self.laws)}"])
        return "\n".join([*lines, "no energy was given: forces of the model were not compared"])

    def __repr__(self) -> str:
        verdict = "passes" if self.passes else "does not pass"
        return f"Certificate({len(self.modules)} modules, {len(self.laws)} laws, {verdict})"


def first_problem(checks: Sequence[Check]) -> str | None:
    """Return the problem of the first check that fails."""
    return next((check.problem for check in checks if not check.passes), None)


def summary(checks: Sequence[Check]) -> str:
    """Return the result of checks in one line."""
    problem = first_problem(checks)
    if problem is not None:
        return f"fails: {problem}"
    made = [check for check in checks if check.error is not None]
    if not made:
        return "nothing could be compared"
    # A tolerance of zero is passed by an error of zero only.
    ratios = [(c.error or 0.0) / c.tolerance if c.tolerance else 0.0 for c in made]
    ratio, worst = max(zip(ratios, made, strict=True), key=lambda pair: pair[0])
    text = f"{len(made)} check{'s pass' if len(made) > 1 else ' passes'}"
    text += f", largest error {ratio:.2g} of its tolerance ({worst.what}, {worst.inputs} inputs)"
    left = len(checks) - len(made)
    return text + (f"; {left} could not be made" if left else "")


def _rows(checks: Sequence[Check]) -> list[dict[str, Any]]:
    return [
        {
            **check._asdict(),
            "error": "inf" if not math.isfinite(check.error or 0.0) else check.error,
            "passes": check.passes,
        }
        for check in checks
    ]


def derivatives(
    call: Callable[..., Tensor],  # returns one tensor
    arguments: Sequence[Any],  # floating tensors are differentiated
    parameters: Sequence[Tensor],  # also differentiated
    arrange: Arrange,  # changes the memory layout of arguments and cotangents
    orders: Sequence[str] = ORDERS,  # a prefix of ORDERS
) -> dict[str, list[Tensor]]:
    """Evaluate a call and its derivatives along fixed random directions, by order."""
    leaves = [
        value.detach().clone().requires_grad_() if value.is_floating_point() else value
        for value in arguments
    ]
    out = call(*(arrange(leaf) for leaf in leaves))
    found = {"values": [out.detach()]}
    if "gradients" not in orders:
        return found
    wanted = [leaf for leaf in leaves if leaf.requires_grad] + list(parameters)
    # Seeds that no example has: equal directions would cancel in antisymmetric products.
    cotangent = random(*out.shape, like=out, seed=10).requires_grad_()
    twice = "second gradients" in orders
    first = _gradients([out], wanted, [arrange(cotangent)], twice)
    found["gradients"] = [value.detach() for value in first]
    # Second gradients differentiate the gradients along a direction by arguments, parameters and
    # cotangent.
    if twice:
        seeded = enumerate(first, start=11)
        directions = [random(*value.shape, like=value, seed=seed) for seed, value in seeded]
        found["second gradients"] = _gradients(first, [*wanted, cotangent], directions, False)
    return found


def largest_error(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Return the largest relative error; infinite for mismatched or non-finite results."""
    largest = max((_size(value) for value in want), default=0.0)
    worst = 0.0
    for ours, theirs in zip(got, want, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("inf")
        error = _size(ours.double() - theirs.double())
        scale = max(_size(theirs), CANCELLED * largest)
        relative = error / scale if scale else error
        worst = max(worst, relative if relative == relative else float("inf"))  # NaN is no number
    return worst


def _size(value: Tensor) -> float:
    return float(value.detach().double().abs().max()) if value.numel() else 0.0


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], again: bool
) -> list[Tensor]:
    pairs = [(y, c) for y, c in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs or not inputs:
        return [torch.zeros_like(value) for value in inputs]
    values, directions = zip(*pairs, strict=True)
    found = torch.autograd.grad(
        values, inputs, directions, create_graph=again, allow_unused=True, materialize_grads=True
    )
    return list(found)


class ModuleNote(NamedTuple):
    """One module of a model, with its replacement or the reason against one."""

    path: str  # name in the model, "" for the model itself
    kind: str  # name of its class
    note: str  # replacement or reason


class ModuleShare(NamedTuple):
    """One module of a model that was not replaced, with its share of the step time."""

    path: str  # name in the model, "" for the model itself
    kind: str  # name of its class
    share: float  # in [0, 1], with layers of PyTorch inside and without other inner modules


@dataclass(frozen=True, repr=False)
class AccelerationReport:
    """Result of :func:`equigeo.interop.accelerate`: notes with ``path``, ``kind`` and ``note``.

    Parameters
    ----------
    replaced : tuple of ModuleNote
        Accelerated modules, with the replacement.
    kept : tuple of ModuleNote
        Modules of a supported kind that were not replaced, with the reason.
    certificate : Certificate, optional
        Of ``accelerate(model, verify=True)``.
    unknown : tuple of ModuleNote
        Equivariant modules of other kinds, without supported modules inside.
    share : float, optional
        Share of the step time in replaced modules, in [0, 1], measured before the replacement; None
        without ``accelerate(model, example=...)``. The speed-up is at most ``1 / (1 - share)``.
    others : tuple of ModuleShare
        Shares of all modules that were not replaced, the largest first: ``path``, ``kind`` and
        ``share``.

    Examples
    --------
    >>> print(AccelerationReport((), (ModuleNote("a.b", "Linear", "is TorchScript"),)))
    0 replaced, 1 kept
    nothing was replaced
    kept
      a.b  Linear  is TorchScript
    """

    replaced: tuple[ModuleNote, ...]
    kept: tuple[ModuleNote, ...]
    certificate: Certificate | None = None
    unknown: tuple[ModuleNote, ...] = ()
    share: float | None = None
    others: tuple[ModuleShare, ...] = ()

    def __repr__(self) -> str:
        verified = f", {self.certificate!r}" if self.certificate else ""
        share = "" if self.share is None else f", {self.share:.0%} of the step time"
        return f"AccelerationReport({self._counts}{share}{verified})"

    @property
    def _counts(self) -> str:
        unknown = f", {len(self.unknown)} unknown" if self.unknown else ""
        return f"{len(self.replaced)} replaced, {len(self.kept)} kept{unknown}"

    def __str__(self) -> str:
        """Return a table with one line per module, the step time and the comparison."""
        lines = [self._counts]
        if not self.replaced:
            lines.append("nothing was replaced")
        for title in ("replaced", "kept", "unknown"):
            notes: tuple[ModuleNote, ...] = getattr(self, title)
            if notes:
                lines.append(title)
                lines += _table(notes)
        if self.share is not None:
            lines += self._step_time(self.share)
        elif self.replaced:
            lines.append("share of the step time: not measured, needs example=")
        if self.certificate:
            lines.append(f"verified: {str(self.certificate).splitlines()[0]}")
        return "\n".join(lines)

    def _step_time(self, share: float) -> list[str]:
        bound = "" if share >= 0.5 else f", for a speed-up of at most {1 / (1 - share):.1f}x"
        text = f"{share:.0%} of the step time is in replaced modules{bound}"
        lines = [text] if self.replaced else []
        if self.others:
            lines.append("step time of others")
        shown = [part for part in self.others if part.share >= SHOWN]
        lines += _table([(part.path, part.kind, f"{part.share:.0%}") for part in shown])
        if rest := self.others[len(shown) :]:
            total = sum(part.share for part in rest)
            lines.append(f"  {len(rest)} below {SHOWN:.0%}, together {total:.1%}")
        return lines


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return lines of paths, kinds and notes in columns."""
    named = [(path or "(the model)", kind, note) for path, kind, note in rows]
    widths = [max((len(row[k]) for row in named), default=0) for k in range(2)]
    return [f"  {a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in named]
