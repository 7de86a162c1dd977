"""Results of comparisons between a model and its acceleration."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch

import equigeo

FORMAT = "equigeo/certificate/1"


class Check(NamedTuple):
    """Result of one comparison.

    Parameters
    ----------
    what : str
        Compared quantity, such as "second gradients".
    inputs : str
        Form of the inputs, such as "strided".
    error : float or None
        Largest difference relative to the largest value; infinite if the replacement fails, None if
        nothing could be compared.
    tolerance : float
        Bound for rounding.
    note : str
        Reason for None, or the failure.

    Examples
    --------
    >>> Check("gradients", "strided", error=1e-7, tolerance=1e-5).passes
    True
    """

    what: str
    inputs: str
    error: float | None
    tolerance: float
    note: str = ""

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
    """All comparisons of one module: its path, original class, replacement and checks.

    Examples
    --------
    >>> check = Check("values", "strided", error=1.0, tolerance=1e-5)
    >>> ModuleCertificate("mix", "Linear", "equigeo.nn.Linear", (check,)).problem
    'values, strided inputs: error 1.0e+00 exceeds 1.0e-05'
    """

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
        """Return one line for a model of any size."""
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
    ratio, worst = max(((_ratio(check), check) for check in made), key=lambda pair: pair[0])
    text = f"{len(made)} check{'s pass' if len(made) > 1 else ' passes'}"
    text += f", largest error {ratio:.2g} of its tolerance ({worst.what}, {worst.inputs} inputs)"
    left = len(checks) - len(made)
    return text + (f"; {left} could not be made" if left else "")


def _ratio(check: Check) -> float:
    # A tolerance of zero is passed by an error of zero only.
    return (check.error or 0.0) / check.tolerance if check.tolerance else 0.0


def _rows(checks: Sequence[Check]) -> list[dict[str, Any]]:
    return [
        {**check._asdict(), "error": _finite(check.error), "passes": check.passes}
        for check in checks
    ]


def _finite(error: float | None) -> float | str | None:
    return error if error is None or math.isfinite(error) else "inf"
