"""Descriptions of products, linear maps and harmonics in terms that every library shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equigeo import nn as equigeo_nn
from equigeo import tensor_products as tp
from equigeo.interop.terms import (
    building,
    copy_state,
    is_e3nn,
    layout_option,
    read_signs,
    turn_paths,
    write_signs,
)
from equigeo.reps import Irreps
from equigeo.reps.irreps import Layout
from equigeo.tensor_products.products.path_product import HeldProduct

OPERANDS = ("irreps_in1", "irreps_in2", "irreps_out")
SQUARE = "TensorSquare"
NAMED = ("FullyConnectedTensorProduct", "FullTensorProduct", "ElementwiseTensorProduct", SQUARE)


@dataclass(frozen=True)
class LinearDescription:
    """Map of a ``Linear`` of any library."""

    irreps_in: Irreps
    irreps_out: Irreps
    pairs: tuple[tuple[int, int], ...]  # connected terms, in the order of their weights
    factors: tuple[float, ...]  # final coefficient of each block of weights
    biases: tuple[bool, ...]  # whether each output term has one
    shared_weights: bool
    internal_weights: bool
    weight: Tensor  # (numel,) or empty
    bias: Tensor  # (numel,) or empty

    @classmethod
    def read(cls, module: Any, layout: Layout, library: Any) -> LinearDescription:
        """Read a ``Linear`` of e3nn or of this library: both have the same attributes."""
        blocks = [ins for ins in module.instructions if ins.i_in >= 0]
        biased = {ins.i_out for ins in module.instructions if ins.i_in < 0}
        irreps_out = Irreps(tuple(module.irreps_out), layout)
        return cls(
            irreps_in=Irreps(tuple(module.irreps_in), layout),
            irreps_out=irreps_out,
            pairs=tuple((ins.i_in, ins.i_out) for ins in blocks),
            factors=tuple(float(ins.path_weight) for ins in blocks),
            biases=tuple(j in biased for j in range(len(irreps_out.terms))),
            shared_weights=module.shared_weights,
            internal_weights=module.internal_weights,
            weight=module.weight,
            bias=module.bias,
        )

    @property
    def layout(self) -> Layout:
        """Return the layout of both sides."""
        return self.irreps_in.layout

    def build(
        self,
        library: Any,
        name: str,  # class name; ignored, since there is only one class
    ) -> Any:
        """Build the module in float64 in ``e3nn.o3`` or in this library, with arbitrary weights."""
        make = getattr(library, "Irreps", lambda irreps: irreps)
        if self.weight.ndim > 1:
            raise ValueError(
                f"Linear with f_in and f_out cannot be converted, got weights of shape "
                f"{tuple(self.weight.shape)}"
            )
        for normalization in ("element", "path"):
            with building():
                module = library.Linear(
                    make(self.irreps_in),
                    make(self.irreps_out),
                    internal_weights=self.internal_weights,
                    shared_weights=self.shared_weights,
                    instructions=list(self.pairs),
                    biases=list(self.biases),
                    path_normalization=normalization,
                    **layout_option(library, self.layout),
                )
            factors = LinearDescription.read(module, self.layout, library).factors
            if all(map(math.isclose, factors, self.factors)):
                return module
        raise ValueError(
            f"Linear {self.irreps_in} -> {self.irreps_out} has neither element nor path "
            "normalisation, as with f_in and f_out: it cannot be converted"
        )

    def copy_into(self, target: nn.Module, source: nn.Module) -> None:
        """Copy weights, dtype, device and training flags to a module from :meth:`build`."""
        mask = source.get_buffer("output_mask")
        copy_state(target, mask, source.training, {"weight": self.weight, "bias": self.bias})


@dataclass(frozen=True)
class HarmonicsDescription:
    """Map of a ``SphericalHarmonics`` of any library."""

    irreps_in: Irreps  # a vector or pseudovector
    irreps_out: Irreps
    normalize: bool  # whether vectors are normalized first
    normalization: str

    @classmethod
    def read(cls, module: Any, layout: Layout, library: Any) -> HarmonicsDescription:
        """Read a module of e3nn or of this library: both have the same attributes."""
        return cls(
            irreps_in=Irreps(tuple(module.irreps_in), layout),
            irreps_out=Irreps(tuple(module.irreps_out), layout),
            normalize=module.normalize,
            normalization=module.normalization,
        )

    @property
    def layout(self) -> Layout:
        """Return the layout of both sides."""
        return self.irreps_in.layout

    def build(self, library: Any, name: str) -> Any:
        """Build the module in ``e3nn.o3`` or in this library."""
        make = getattr(library, "Irreps", lambda irreps: irreps)
        with building():
            return library.SphericalHarmonics(
                make(self.irreps_out), self.normalize, self.normalization, make(self.irreps_in)
            )

    def copy_into(self, target: nn.Module, source: nn.Module) -> None:
        """Copy the training flag, the only state, to a module from :meth:`build`."""
        target.to(torch.get_default_dtype()).train(source.training)


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


Description = ProductDescription | LinearDescription | HarmonicsDescription

# Special products come before TensorProduct: the first class that fits is kept.
SHARED: dict[str, type[Description]] = {
    "FullyConnectedTensorProduct": ProductDescription,
    "FullTensorProduct": ProductDescription,
    "ElementwiseTensorProduct": ProductDescription,
    "TensorSquare": ProductDescription,
    "TensorProduct": ProductDescription,
    "Linear": LinearDescription,
    "SphericalHarmonics": HarmonicsDescription,
}

OURS = SimpleNamespace(
    PathProduct=tp.PathProduct,
    **{name: getattr(equigeo_nn if name == "Linear" else tp, name) for name in SHARED},
)


def describe(
    module: nn.Module,
    library: Any,  # e3nn.o3 or OURS
    layout: Layout | None = None,  # layout of the description, by default that of the module
) -> tuple[str, Description]:
    """Return the class name of a module in a library, and a description of the map."""
    # An accelerated module computes what the class that it had computes.
    own_class = getattr(type(module), "made_of", (None, type(module)))[1]
    for name, kind in SHARED.items():
        shared: Any = getattr(library, name)
        if name == "TensorProduct":  # in e3nn the base of all products, here one of them
            shared = getattr(library, "PathProduct", shared)
        if isinstance(module, shared) and own_class.forward is shared.forward:
            own: Layout = getattr(irreps_of(module, name), "layout", "mul_ir")
            return name, kind.read(module, layout or own, library)
    cls = type(module)
    raise TypeError(
        f"cannot convert {cls.__module__}.{cls.__qualname__}: expected one of {', '.join(SHARED)}, "
        "or a subclass that keeps forward"
    )


def rebuild(
    description: Description,
    library: Any,  # e3nn.o3 or OURS
    name: str,  # class name
    source: nn.Module,  # module with the dtype, device and training flags
) -> Any:
    """Build a described module with its weights and the state of a source."""
    module = description.build(library, name)
    description.copy_into(module, source)
    return module


def irreps_of(module: Any, name: str) -> Any:
    """Return the irreps of the output, or raise if either side is not irreps."""
    if name == "Linear" and not hasattr(module, "irreps_out"):
        raise TypeError(
            "cannot convert a Linear whose sides are not both irreps: of a representation of O(3) "
            "reps.decompose returns the irreps and the change of basis"
        )
    return module.irreps_out
