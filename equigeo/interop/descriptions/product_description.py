"""A product by paths in terms that every library shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor, nn

from equigeo.interop.descriptions.coupling_signs import read_signs, turn_paths, write_signs
from equigeo.interop.descriptions.module_state import building, copy_state, is_e3nn, layout_option
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.products.held_product import HeldProduct

OPERANDS = ("irreps_in1", "irreps_in2", "irreps_out")
SQUARE = "TensorSquare"
NAMED = ("FullyConnectedTensorProduct", "FullTensorProduct", "ElementwiseTensorProduct", SQUARE)


class SharedPath(NamedTuple):
    """One path with its final factor, in the field order of both libraries."""

    i_in1: int
    i_in2: int
    i_out: int
    connection: str
    has_weight: bool
    factor: float  # relative to the coupling of this library; negative for the other sign
    path_shape: tuple[int, ...]


@dataclass(frozen=True)
class ProductDescription:
    """Map of a ``TensorProduct`` of any library."""

    operands: tuple[Irreps, Irreps, Irreps]  # both inputs and the output, in one layout
    paths: tuple[SharedPath, ...]  # in the order of their weights
    shared_weights: bool
    internal_weights: bool
    weight: Tensor  # (weight_numel,) or empty

    @classmethod
    def read(cls, module: Any, layout: Layout, library: Any) -> ProductDescription:
        """Read a ``TensorProduct`` of e3nn or of this library: both have the same attributes."""
        paths = module.instructions
        signs = read_signs(module, library) if is_e3nn(library) else [1.0] * len(paths)
        first, second, third = (Irreps(tuple(getattr(module, n)), layout) for n in OPERANDS)
        return cls(
            operands=(first, second, third),
            paths=tuple(
                SharedPath(
                    path.i_in1,
                    path.i_in2,
                    path.i_out,
                    path.connection_mode,
                    bool(path.has_weight),
                    sign * float(path.path_weight),
                    tuple(path.path_shape),
                )
                for path, sign in zip(paths, signs, strict=True)
            ),
            shared_weights=module.shared_weights,
            internal_weights=module.internal_weights,
            weight=module.weight,
        )

    @property
    def layout(self) -> Layout:
        """Return the layout of all operands."""
        return self.operands[0].layout

    def build(
        self,
        library: Any,  # e3nn.o3 or equigeo.tensor_products
        name: str,  # if no normalization of this class fits, TensorProduct is used
    ) -> Any:
        """Build the module in float64, of the named class if possible, with arbitrary weights."""
        if name == SQUARE and not is_e3nn(library):
            return self._build_square(library)
        signs = [math.copysign(1.0, path.factor) for path in self.paths]
        with building():
            module = self._build_named(library, name) or self._build_general(library)
            if is_e3nn(library):
                write_signs(module, library, signs)
            else:
                turn_paths(module, signs)
        return module

    def _build_named(self, library: Any, name: str) -> Any:
        """Build a class other than ``TensorProduct``, or return None if its paths differ."""
        for attempt in self._attempts(library, name):
            try:
                module = attempt()
            except ValueError:  # terms in "ir_mul" that this class would merge or cut
                continue
            if self._has_paths_of(module):
                return module
        if name == SQUARE:
            raise ValueError(
                f"e3nn.o3.TensorSquare of {self.operands[0]} into {self.operands[2]} has other "
                "factors or another order of terms than e3nn builds"
            )
        return None

    def _build_square(self, library: Any) -> Any:
        """Build a square of this library, which holds a product of any paths."""
        external = replace(self, internal_weights=False, weight=self.weight[..., :0])
        product = external.build(library, "TensorProduct")
        square = library.TensorSquare.__new__(library.TensorSquare)
        ownership = {"internal_weights": self.internal_weights}
        with building():
            HeldProduct.__init__(square, product, shared_weights=self.shared_weights, **ownership)
        return square

    def _build_general(self, library: Any) -> Any:
        return library.TensorProduct(
            *self.operands_for(library),
            [(*path[:5], path.factor**2) for path in self.paths],
            irrep_normalization="none",
            path_normalization="none",
            internal_weights=self.internal_weights,
            shared_weights=self.shared_weights,
            **layout_option(library, self.layout),
        )

    def operands_for(self, library: Any) -> list[Any]:
        """Convert operands to the irreps of a library."""
        make = getattr(library, "Irreps", lambda irreps: irreps)
        return [make(irreps) for irreps in self.operands]

    def copy_into(self, target: nn.Module, source: nn.Module) -> None:
        """Copy weights, dtype, device and training flags to a module from :meth:`build`."""
        mask = source.get_buffer("output_mask")
        copy_state(target, mask, source.training, {"weight": self.weight})

    def _attempts(self, library: Any, name: str) -> Iterator[Callable[[], Any]]:
        """Yield constructor calls of a named class, the usual normalizations first."""
        if name not in NAMED:
            return
        first, second, third = self.operands_for(library)
        make = getattr(library, name)
        kinds = ("component", "norm", "none")
        options: dict[str, Any] = {**layout_option(library, self.layout)}
        if name == SQUARE:
            yield from self._squares(make, first, third)
        elif name == "FullyConnectedTensorProduct":
            options["internal_weights"] = self.internal_weights
            options["shared_weights"] = self.shared_weights
            for path, irrep in product(("element", "path", "none"), kinds):
                yield partial(make, first, second, third, irrep, path, **options)
        else:
            keep = [f"{l}{'e' if p > 0 else 'o'}" for _, (l, p) in self.operands[2]]
            for irrep in kinds:
                yield partial(make, first, second, keep, irrep, **options)

    def _squares(self, make: Any, irreps_in: Any, irreps_out: Any) -> Iterator[Callable[[], Any]]:
        """Ways to call the constructor of a square."""
        options = dict(internal_weights=self.internal_weights, shared_weights=self.shared_weights)
        weighted = any(path.has_weight for path in self.paths)
        keep = [ir for _, ir in irreps_out]
        out = {"irreps_out": irreps_out} if weighted else {"filter_ir_out": keep}
        for irrep in ("component", "norm", "none"):
            yield partial(make, irreps_in, irrep_normalization=irrep, **out, **options)

    def _has_paths_of(self, module: Any) -> bool:
        """Return whether a module computes this product, up to signs of couplings."""
        other = ProductDescription.read(module, self.layout, None)
        return (
            other.operands == self.operands
            and len(other.paths) == len(self.paths)
            and (other.shared_weights, other.internal_weights)
            == (self.shared_weights, self.internal_weights)
            and all(map(_agree, self.paths, other.paths))
        )


def _agree(path: SharedPath, other: SharedPath) -> bool:
    same = path._replace(factor=0.0) == other._replace(factor=0.0)
    return same and math.isclose(abs(path.factor), other.factor, rel_tol=1e-14)
