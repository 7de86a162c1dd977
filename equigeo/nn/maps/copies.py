"""Lengths and scale factors per copy of an irreducible part."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.nn.index_tables import IndexTables
from equigeo.nn.tables import Tables
from equigeo.ops.runtime.storage import computed_in
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps import Representation


class Copies(nn.Module):
    """Invariant lengths and scale factors per summand of an orthogonal representation."""

    def __init__(self, rep: Representation) -> None:
        super().__init__()
        with plain_tensors():
            if not rep.is_orthogonal():
                raise ValueError(
                    f"lengths of features need an orthogonal representation, got {rep}"
                )
            places = [
                (positions, part.rep.is_trivial())
                for part in rep.summands()
                for positions in part.positions
            ]
            # Each invariant component counts as one copy.
            split = [
                (single, trivial)
                for positions, trivial in places
                for single in (positions.split(1) if trivial else [positions])
            ]
            self.count = len(split)
            owner = torch.zeros(rep.dim, self.count, dtype=torch.float64)
            for k, (positions, _) in enumerate(split):
                owner[positions, k] = 1
            trivial = torch.tensor([trivial for _, trivial in split], dtype=torch.bool)
        self.tables = Tables(owner=owner)
        self.kinds = IndexTables(invariant=trivial)

    def squares(
        self,
        x: Tensor,  # (..., rep.dim)
    ) -> Tensor:
        """Return squared lengths, (..., count)."""
        return x.square() @ self.tables["owner", x.dtype]

    def invariants(
        self,
        x: Tensor,  # (..., rep.dim)
    ) -> Tensor:
        """Return trivial copies unchanged and √(1 + |x|²) - 1 for the others, (..., count)."""
        dtype, x = x.dtype, x.to(computed_in(x.dtype))  # squares may overflow in float16
        # Smooth at zero, unlike the length itself.
        length = (1 + self.squares(x)).sqrt() - 1
        found = torch.where(self.kinds["invariant"], x @ self.tables["owner", x.dtype], length)
        return found.to(dtype)

    def scale(
        self,
        x: Tensor,  # (..., rep.dim)
        factors: Tensor,  # (..., count)
    ) -> Tensor:
        """Multiply each copy by its factor."""
        return x * (factors @ self.tables["owner", x.dtype].mT)
