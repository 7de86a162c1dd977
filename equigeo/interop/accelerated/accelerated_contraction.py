"""The symmetric contraction of MACE on that of this library."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.accelerated import Accelerated
from equigeo.interop.accelerated.arguments import fit, random
from equigeo.interop.accelerated.contraction_body import ContractionBody, contraction_weights


class AcceleratedContraction(Accelerated):
    """MACE's ``SymmetricContraction`` over monomials instead of full coupling tensors."""

    runs_on = "equigeo.tensor_products.SymmetricContraction"

    contractions: Any
    irreps_in: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        """Build the polynomials; see :meth:`Accelerated.body_of`."""
        return ContractionBody(module)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Contract features (samples, channels, dim) with weights of elements, one-hot in y."""
        if not self.is_as_read() or not fit(x, y, *(weights := contraction_weights(self))):
            return self.original(x, y)
        out: Tensor = self.accelerated(x, y, weights)
        return out

    def renew(self) -> None:
        """Read the basis again, which MACE saves."""
        self.accelerated = ContractionBody(self).train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        """Return samples that mix all elements."""
        like = self.contractions[0].weights_max
        elements, _, channels = like.shape
        dim = sum(2 * l + 1 for _, (l, _) in self.irreps_in)
        x = random(rows, channels, dim, like=like)
        return x, torch.softmax(random(rows, elements, like=like, seed=1), dim=1)
