"""Functions applied to scalar features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from equigeo.nn._irreps_argument import IrrepsLike, irreps_argument
from equigeo.nn.irreps_layer import IrrepsLayer
from equigeo.nn.normalized_activation import NormalizedActivation, name_of
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout

Function = Callable[[Tensor], Tensor]


class Activation(IrrepsLayer):
    """Apply a function to each scalar term and leave the other terms unchanged.

    Functions are scaled by :class:`NormalizedActivation`; pass one of those to choose the scale. An
    even function maps pseudoscalars ``0o`` to ``0e``, an odd one to ``0o``; others raise
    ``ValueError``. Equivariant under O(3), improper elements included.

    Parameters
    ----------
    irreps_in : Irreps, e3nn.o3.Irreps or str
        Irreps of the input.
    acts : sequence of (callable or None)
        One entry per term; None for the identity.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> str(Activation("4x0o + 2x1o", [torch.abs, None]).irreps_out)
    '4x0e+2x1o'
    """

    def __init__(
        self, irreps_in: IrrepsLike, acts: Sequence[Function | None], *, layout: Layout = "mul_ir"
    ) -> None:
        super().__init__()
        self.irreps_in = irreps_argument("irreps_in", irreps_in, layout)
        if len(acts) != len(self.irreps_in.terms):
            raise ValueError(
                f"acts must have one entry per term of {self.irreps_in}, "
                f"{len(self.irreps_in.terms)}, got {len(acts)}"
            )
        terms, modules = [], []
        for (mul, (l, p)), act in zip(self.irreps_in, acts, strict=True):
            if act is not None:
                p = parity_after(mul, l, p, act)
            terms.append((mul, (l, p)))
            modules.append(nn.Identity() if act is None else _normalized(act))
        self.irreps_out = Irreps(terms, layout)
        self.acts = nn.ModuleList(modules)

    def forward(self, features: Tensor) -> Tensor:
        """Apply each function to its term of ``features`` ``(..., irreps_in.dim)``."""
        self.irreps_in.check_features(features)
        sizes = [mul * (2 * l + 1) for mul, (l, _) in self.irreps_in]
        pieces = zip(self.acts, features.split(sizes, -1), strict=True)
        return torch.cat([features[..., :0], *(act(piece) for act, piece in pieces)], dim=-1)

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"{self.irreps_in} -> {self.irreps_out}"


def _normalized(act: Function) -> NormalizedActivation:
    return act if isinstance(act, NormalizedActivation) else NormalizedActivation(act)


def parity_after(
    mul: int,
    l: int,
    p: int,
    act: Function,  # elementwise function
) -> int:
    """Return the parity of a scalar term after a function, or raise if it has none."""
    term = Irreps([(mul, (l, p))])
    if l != 0:
        raise ValueError(f"a function can act on scalars only, got {name_of(act)} for {term}")
    parity = _parity(act) if p == -1 else 1
    if parity == 0:
        function = act.function if isinstance(act, NormalizedActivation) else act
        raise ValueError(
            f"{term} needs an even or odd function, {name_of(function)} is neither: "
            "its output would have no parity"
        )
    return parity


def _parity(act: Function) -> int:
    """Return 1 for an even function, -1 for an odd one, 0 for any other."""
    like = next(act.parameters(), None) if isinstance(act, nn.Module) else None
    # Points and tolerance are those of e3nn, so that parities agree.
    with torch.no_grad(), plain_tensors():
        x = torch.linspace(0, 10, 256, dtype=torch.float64)
        x = x if like is None else x.to(like)
        right, left = act(x), act(-x)
        if torch.allclose(right, left, rtol=0, atol=1e-5):
            return 1
        return -1 if torch.allclose(right, -left, rtol=0, atol=1e-5) else 0
