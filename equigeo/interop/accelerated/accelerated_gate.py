"""``e3nn.nn.Gate`` on that of this library."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.nn import Gate, NormalizedActivation
from equigeo.reps import Irreps


class AcceleratedGate(Accelerated):
    """An ``e3nn.nn.Gate`` in one step, with the scales that e3nn estimated for its functions."""

    runs_on = "equigeo.nn.Gate"

    act_scalars: Any
    act_gates: Any
    irreps_gated: Any
    irreps_in: Any
    mul: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the gate; see :meth:`Accelerated.body_of`."""
        return Gate(
            Irreps(tuple(module.act_scalars.irreps_in)),
            _activations(module.act_scalars),
            Irreps(tuple(module.act_gates.irreps_in)),
            _activations(module.act_gates),
            Irreps(tuple(module.irreps_gated)),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Apply functions and gates as ``e3nn.nn.Gate`` does."""
        if not self.is_as_read() or not fit(features):
            return self.original(features)
        gated: Tensor = self.accelerated(features)
        return gated

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return random features."""
        return (random(rows, self.irreps_in.dim, like=self.mul.output_mask),)


def activation(act: Any) -> NormalizedActivation:
    """Convert a ``normalize2mom`` of e3nn with its scale; raise if it has parameters."""
    if isinstance(act.f, nn.Module) and any(True for _ in (*act.parameters(), *act.buffers())):
        raise ValueError(f"its activation {type(act.f).__name__} has parameters or buffers")
    return NormalizedActivation(act.f, scale=1.0 if getattr(act, "_is_id", False) else act.cst)


def _activations(activations: Any) -> list[NormalizedActivation | None]:
    return [None if act is None else activation(act) for act in activations.acts]
