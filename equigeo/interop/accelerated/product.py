"""Tensor products of e3nn and the symmetric contraction of MACE on those of this library."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from equigeo.interop.accelerated.base import Accelerated, fit, random
from equigeo.interop.accelerated.descriptions import OURS, ProductDescription, rebuild
from equigeo.interop.optional import require_e3nn
from equigeo.interop.terms import building, same_signs
from equigeo.nn import Tables
from equigeo.nn.state import stateless
from equigeo.reps import Irreps
from equigeo.tensor_products import PathProduct, SymmetricContraction
from equigeo.tensor_products.products.symmetric_basis import monomials, symmetric_basis


class AcceleratedPaths(Accelerated):
    """A product by paths with weights from the module or the argument, read in each call."""

    runs_on = "equigeo.tensor_products.TensorProduct"
    live = ("internal_weights",)

    internal_weights: bool
    shared_weights: bool
    weight_numel: int
    weight: Tensor
    output_mask: Tensor
    irreps_in1: Any
    irreps_in2: Any
    accelerated: PathProduct

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        product = ProductDescription.read(module, "mul_ir", require_e3nn())
        product = replace(product, internal_weights=False, weight=module.weight.new_empty(0))
        return stateless(rebuild(product, OURS, "TensorProduct", module))

    @abstractmethod
    def forward(self, *args: Any) -> Tensor:
        """Multiply as the original module."""

    def _multiply(self, given: tuple[Tensor, ...], weight: Tensor | None) -> Tensor:
        """Multiply two features, or one with itself."""
        used = self.weight if weight is None and self.internal_weights else weight
        if not self.is_as_read() or not fit(*given, *([used] if self.weight_numel else [])):
            return self.original(*given, weight)
        return self.accelerated(given[0], given[-1], used if self.weight_numel else None)

    def renew(self) -> None:
        # e3nn saves the signs of couplings.
        if not same_signs(self.accelerated, self, require_e3nn()):
            body: Any = self.body_of(self)
            self.accelerated = body.train(self.training)

    def _draw(self, rows: int, *operands: Any) -> tuple[Any, ...]:
        """Return random features of some irreps, and weights if they are external."""
        like = self.output_mask
        given = [random(rows, irreps.dim, like=like, seed=n) for n, irreps in enumerate(operands)]
        if self.internal_weights or not self.weight_numel:
            return tuple(given)
        shape = (self.weight_numel,) if self.shared_weights else (rows, self.weight_numel)
        return *given, random(*shape, like=like, seed=2)


class AcceleratedProduct(AcceleratedPaths):
    """An ``e3nn.o3.TensorProduct`` on ``tensor_products.TensorProduct``."""

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        return self._multiply((x, y), weight)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return self._draw(rows, self.irreps_in1, self.irreps_in2)


class AcceleratedSquare(AcceleratedPaths):
    """An ``e3nn.o3.TensorSquare``: the product of features with themselves."""

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        return self._multiply((x,), weight)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        return self._draw(rows, self.irreps_in1)


ROUNDED = 1e-4  # what rounding to float32 may have done to a table of MACE


class ContractionBody(nn.Module):
    """``SymmetricContraction`` with weights for the basis of a module of MACE."""

    # MACE stores the coupling tensors of its basis, of which there are several, as buffers: each
    # tensor is expanded in the reduced basis of this library.
    def __init__(self, module: Any) -> None:
        super().__init__()
        first = module.contractions[0].weights_max
        correlation = max(part.correlation for part in module.contractions)
        with building():
            self.contract = SymmetricContraction(
                Irreps(tuple(module.irreps_in)),
                Irreps(tuple(module.irreps_out)),
                correlation,
                first.shape[0],
            )
            self.tables = Tables(change=_change_of_basis(module.contractions, self.contract))
        del self.contract.weight
        self.contract.register_buffer("weight", torch.empty(0), persistent=False)
        stateless(self.to(first.device, first.dtype))

    def forward(
        self,
        x: Tensor,  # (samples, channels, dim)
        element: Tensor,  # (samples, elements), mixes the weights
        weights: list[Tensor],  # (elements, paths, channels), from contraction_weights
    ) -> Tensor:  # (samples, irreps_out.dim)
        """Evaluate the polynomials, in the layout ``mul_ir``."""
        reduced = self.tables["change", x.dtype] @ torch.cat(weights, dim=1)
        return functional_call(self.contract, {"weight": reduced}, (x, element))


def contraction_weights(module: Any) -> list[Tensor]:
    """Return the weights of MACE by output, with the highest order first."""
    return [weight for part in module.contractions for weight in (part.weights_max, *part.weights)]


def _change_of_basis(contractions: Any, reduced: SymmetricContraction) -> Tensor:
    """Return the matrix from the weights of MACE to those of the reduced basis."""
    ins = tuple(ir for _, ir in reduced.irreps_in)
    columns = []
    for i, (part, (_, ir)) in enumerate(zip(contractions, reduced.irreps_out, strict=True)):
        for order in range(part.correlation, 0, -1):
            block = _expand(part.U_tensors(order), ins, order, ir)
            rows = block.new_zeros(reduced.weight.shape[1], block.shape[1])
            rows[reduced.blocks[i, order]] = block
            columns.append(rows)
    return torch.cat(columns, dim=1)


def _expand(tensor: Tensor, ins: tuple[tuple[int, int], ...], order: int, ir: Any) -> Tensor:
    """Expand coupling tensors, (2 l + 1, dim, ..., dim, paths), in the reduced basis."""
    if tensor.is_meta:
        raise ValueError("its tensors are on the meta device")
    basis = symmetric_basis(ins, order, ir)
    size, dim = 2 * ir[0] + 1, sum(2 * l + 1 for l, _ in ins)
    tensor = tensor.detach().cpu().double()
    values = tensor.reshape(size, dim**order, tensor.shape[-1])
    coefficients = values.new_zeros(size, len(monomials(dim, order)), tensor.shape[-1])
    coefficients.index_add_(1, _monomial_of_index(dim, order), values)
    wanted, known = coefficients.flatten(0, 1), basis.flatten(1).T
    change = torch.linalg.lstsq(known, wanted).solution if len(basis) else known.T @ wanted
    # Symmetrization may cancel all but the rounding of a coupling, such as that of cross products.
    rounding = torch.finfo(torch.float32).eps * float(values.norm())
    if float((known @ change - wanted).norm()) > ROUNDED * float(wanted.norm()) + rounding:
        raise ValueError(f"its tensors of order {order} are no equivariant couplings")
    change[change.abs() < 1e-12] = 0.0
    return change


def _monomial_of_index(dim: int, order: int) -> Tensor:
    """Return the monomial position of each entry of a tensor, (dim ** order,)."""
    digits = dim ** torch.arange(order - 1, -1, -1)
    grid = torch.cartesian_prod(*[torch.arange(dim)] * order).reshape(-1, order)
    codes = (torch.tensor(monomials(dim, order)) * digits).sum(1)
    return torch.searchsorted(codes, (grid.sort(dim=1).values * digits).sum(1))


class AcceleratedContraction(Accelerated):
    """MACE's ``SymmetricContraction`` over monomials instead of full coupling tensors."""

    runs_on = "equigeo.tensor_products.SymmetricContraction"

    contractions: Any
    irreps_in: Any

    @classmethod
    def body_of(cls, module: Any) -> nn.Module:
        return ContractionBody(module)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Contract features (samples, channels, dim) with weights of elements, one-hot in y."""
        if not self.is_as_read() or not fit(x, y, *(weights := contraction_weights(self))):
            return self.original(x, y)
        return self.accelerated(x, y, weights)

    def renew(self) -> None:
        # MACE saves the coupling tensors of its basis.
        self.accelerated = ContractionBody(self).train(self.training)

    def example(self, rows: int = 3) -> tuple[Any, ...]:
        like = self.contractions[0].weights_max
        elements, _, channels = like.shape
        dim = sum(2 * l + 1 for _, (l, _) in self.irreps_in)
        x = random(rows, channels, dim, like=like)
        return x, torch.softmax(random(rows, elements, like=like, seed=1), dim=1)
