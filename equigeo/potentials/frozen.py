"""Potentials with splines in place of radial networks, for engines that only evaluate."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from equigeo._core.tensors import has_hooks, plain_tensors
from equigeo.potentials.potential import MessagePassingPotential, radial_features


class _Frozen(NamedTuple):
    """A frozen copy, or none if it is not possible, and the state that it was made of."""

    modules: list[tuple[nn.Module, type]]  # the inner ones
    tensors: list[tuple[Tensor, int]]  # with their addresses
    radial: list[Tensor]  # values of the weights that are tabulated
    copy: MessagePassingPotential | None


_made: WeakKeyDictionary[MessagePassingPotential, _Frozen] = WeakKeyDictionary()


def frozen(model: MessagePassingPotential) -> MessagePassingPotential:
    """Return a cached copy with splines and the same tensors, or the model where none is exact."""
    # Changes of other weights in place are seen by the copy; after others, a new one is made.
    weight = model.embedding.weight
    known = weight.dtype in (torch.float32, torch.float64)
    # On a GPU, splines have not been measured against networks.
    if not known or weight.device.type != "cpu":
        return model
    # A copy would not call hooks as the model does, or another forward.
    changed = any("forward" in vars(x) or has_hooks(x) for x in model.modules())
    if changed or type(model) is not MessagePassingPotential:
        return model
    made = _made.get(model)
    if made is None or not _is_current(made, model):
        made = _made[model] = _freeze(model)
    return made.copy or model


def _is_current(made: _Frozen, model: MessagePassingPotential) -> bool:
    tensors, radial = list(_tensors(model)), list(_radial_weights(model))
    return (
        _inner_modules(model) == made.modules
        and len(tensors) == len(made.tensors)
        and all(
            a is b and a.data_ptr() == address
            for a, (b, address) in zip(tensors, made.tensors, strict=True)
        )
        and all(a.equal(b) for a, b in zip(radial, made.radial, strict=True))
    )


@torch.inference_mode(False)
@plain_tensors()
def _freeze(model: MessagePassingPotential) -> _Frozen:
    modules = _inner_modules(model)
    tensors = [(tensor, tensor.data_ptr()) for tensor in _tensors(model)]
    radial = [weight.detach().clone() for weight in _radial_weights(model)]
    if not all(bool(weight.isfinite().all()) for weight in radial):
        return _Frozen(modules, tensors, radial, None)
    shared = {id(x): nn.Parameter(x, False) if x.requires_grad else x for x, _ in tensors}
    found = copy.deepcopy(model, shared)
    found.is_frozen = True
    features = partial(radial_features, copy.deepcopy(model).double())
    try:
        layers: Any = found.layers
        for layer in layers:
            layer.messages.tabulate(features, model.config.cutoff)
    except ValueError:  # splines would need too many pieces
        return _Frozen(modules, tensors, radial, None)
    return _Frozen(modules, tensors, radial, found)


def _inner_modules(model: nn.Module) -> list[tuple[nn.Module, type]]:
    return [(module, type(module)) for module in model.modules() if module is not model]


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    return chain(model.parameters(), model.buffers())


def _radial_weights(model: MessagePassingPotential) -> Iterator[Tensor]:
    layers: Any = model.layers
    for layer in layers:
        yield from layer.messages.radial.parameters()
        if (conv := getattr(layer.messages, "conv", None)) is not None:
            yield from conv.parameters()
