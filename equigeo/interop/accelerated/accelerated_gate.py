"""``e3nn.nn.Gate`` on that of this library."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.nn import Gate, NormalizedActivation
from equigeo.reps import Irreps


class AcceleratedGate(Accelerated):
    """An ``e3nn.nn.Gate`` in one step; functions keep the scales that e3nn estimated for them."""

    runs_on = "equigeo.nn.Gate"

    act_scalars: Any
    act_gates: Any
    irreps_gated: Any
    irreps_in: Any
    mul: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Make the gate; see :meth:`Accelerated.body_of`."""
        return Gate(
            Irreps(tuple(module.act_scalars.irreps_in)),
            [_activation(act) for act in module.act_scalars.acts],
            Irreps(tuple(module.act_gates.irreps_in)),
            [_activation(act) for act in module.act_gates.acts],
            Irreps(tuple(module.irreps_gated)),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Apply functions and gates as ``e3nn.nn.Gate`` does."""
        if not fit(features):
            return self.original(features)
        gated: Tensor = self.accelerated(features)
        return gated

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Make features."""
        return (random(rows, self.irreps_in.dim, like=self.mul.output_mask),)


def _activation(act: Any) -> NormalizedActivation | None:
    """Take over a function with its scale; it must not bring tensors into the body."""
    if act is None:
        return None
    if isinstance(act.f, nn.Module) and any(True for _ in (*act.parameters(), *act.buffers())):
        raise ValueError(f"its activation {type(act.f).__name__} has parameters or buffers")
    return NormalizedActivation(act.f, scale=1.0 if getattr(act, "_is_id", False) else act.cst)
