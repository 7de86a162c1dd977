"""A state loads into layers that compute the same function alone, whatever their options are."""

import copy
import inspect
import io
import itertools
import json
import typing
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from equigeo import mesh
from equigeo import tensor_products as tp
from equigeo._core.config import Config
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.tensor_products.so2.so2_conv import SO2Config
from tests.modes.row import Bound, Row
from tests.modes.table import ROWS
from tests.modes.test_modes import ignore_warnings_of_pytorch, public_layers

VALUES: dict[str, tuple[Any, ...]] = {
    "irrep_normalization": ("component", "norm", "none"),
    "path_normalization": ("element", "path"),
    "kind": ("gaunt", "curl", "gaunt+curl", "curl+gaunt"),
    "mmax": (0, 1),
    "variance_in": (1.0, 2.0),
    "variance_out": (1.0, 2.0),
    "t": (1, 2),
    "layout": (),  # moves features, which weights do not know
}
"""Values of options whose annotation does not list them."""

PASSED_TO = {
    mesh.ResidualBlock: mesh.PrimalDualConv,
    tp.ChannelwiseConv: tp.ChannelwiseTensorProduct,
}
"""Layers whose other arguments are those of an inner layer."""

RESOLUTION = {"centers", "groups", "neighbors", "starts", "steps"}
"""Numbers that may differ from those of training: how finely a cloud is read or searched."""

FAMILIES = "nn.", "tensor_products."
LAYERS = [row for row in ROWS if row.covers in public_layers()]


def values_of(name: str, annotation: Any) -> list[Any]:
    """What an option may be."""
    if name in VALUES:
        return list(VALUES[name])
    if annotation is bool:
        return [False, True]
    kinds = [annotation, *typing.get_args(annotation)]
    listed = [typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is typing.Literal]
    return [value for values in listed for value in values]


def hints_of(layer: nn.Module) -> dict[str, Any]:
    """Annotations of the arguments of a layer, and of those that it passes on."""
    hints = typing.get_type_hints(type(layer).__init__)
    if "changes" in hints:  # fields of a configuration
        hints |= typing.get_type_hints(SO2Config)
    if passed_to := PASSED_TO.get(type(layer)):
        hints |= typing.get_type_hints(passed_to.__init__)
    return hints


def changes_of_kernel(spec: Any) -> Iterator[dict[str, Any]]:
    """Each option of a kernel with each of its values."""
    for name, hint in typing.get_type_hints(type(spec)).items():
        for value in values_of(name, hint):
            yield {"spec": replace(spec, **{name: value})}


def changes_of(layer: nn.Module, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each option of a layer with each of its values, and instructions backwards."""
    hints = hints_of(layer)
    for name, hint in hints.items():
        for value in values_of(name, hint):
            yield {name: value}
    if isinstance(config := given.get("config"), Config):
        fields = typing.get_type_hints(type(config))
        for name in fields.keys() - RESOLUTION - {"complete", "title", "ranges", "_"}:
            hint, old = fields[name], getattr(config, name)
            for value in [*values_of(name, hint), *numbers_beside(old)]:
                with suppress(ValueError):
                    yield {"config": replace(config, **{name: value})}
    yield from changes_of_kernel(given.get("spec"))
    for name in given.keys() - RESOLUTION:
        for value in numbers_beside(given[name]):
            yield {name: value}
    if "instructions" in hints:
        every = [
            (i.i_in, i.i_out) for i in layer.instructions if hasattr(i, "i_in") and i.i_in >= 0
        ]
        yield {"instructions": (given.get("instructions") or every)[::-1]}


def numbers_beside(value: Any) -> list[Any]:
    """Other numbers than one, or than those of a tuple, that may be as valid."""
    if isinstance(value, tuple):
        pairs = [(n, new) for n, each in enumerate(value) for new in numbers_beside(each)]
        return [*((*value[:n], new, *value[n + 1 :]) for n, new in pairs), value[::-1]]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return []
    return [value + 1, value - 1] if isinstance(value, int) else [value * 0.9]


def arguments_of(row: Row) -> tuple[nn.Module, dict[str, Any]]:
    """The layer of a row, and what it is made with, by name."""
    kind, calls = type(row.make()), []
    original = kind.__init__

    def record(self: nn.Module, *arguments: Any, **named: Any) -> None:
        calls.append(inspect.signature(original).bind(self, *arguments, **named).arguments)
        original(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "__init__", record)
        layer = row.make()
    given = dict(calls[0])
    given.pop("self")
    for passed_on in {"changes", "options"} & given.keys():
        if isinstance(given[passed_on], dict):
            given |= given.pop(passed_on)
    return layer, given


def shapes_of(layer: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in layer.state_dict().items()}


def variants(row: Row) -> list[tuple[dict[str, Any], nn.Module]]:
    """The layer of a row, and those that differ in an option alone and have equal states."""
    layer, given = arguments_of(row)
    if not layer.state_dict():
        return []
    found: list[tuple[dict[str, Any], nn.Module]] = [({}, layer)]
    for change in changes_of(layer, given):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = type(layer)(**(given | change))
            if shapes_of(other) == shapes_of(layer):
                found.append((change, other))
    return found


@ignore_warnings_of_pytorch
@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_a_state_loads_into_the_same_function_or_is_refused(row):
    torch.manual_seed(0)
    layers = [(change, layer.double().eval()) for change, layer in variants(row)]
    inputs = row.inputs()
    for (_, one), (change, other) in itertools.permutations(layers, 2):
        with torch.no_grad():
            for parameter in one.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        try:
            other.load_state_dict(one.state_dict())
        except RuntimeError:
            continue
        with suppress(ValueError):  # of other inputs
            results = Bound(one, row.call)(*inputs), Bound(other, row.call)(*inputs)
            expected, found = ([x.double() for x in tree_leaves(result)] for result in results)
            torch.testing.assert_close(found, expected, msg=lambda m, c=change: f"{c}: {m}")


OPERANDS = "4x0e+4x1o", "1x0e+1x1o", "4x0e+4x1o"
PAIRS = {
    "SymmetricContraction": [
        tp.SymmetricContraction("4x0e", "4x0e", 3, 2, basis=basis)
        for basis in ("reduced", "original")
    ],
    "ChannelwiseConv": [
        tp.ChannelwiseConv(*OPERANDS, weight_order=order, shared_weights=True)
        for order in ("output", "instruction")
    ],
}


def round_trip(state: dict[str, Any]) -> Any:
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


def inside(layer: nn.Module) -> nn.Module:
    return nn.ModuleDict({"inner": nn.Sequential(layer)})


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("options", [{}, {"strict": False}, {"assign": True}], ids=str)
def test_the_refusal_survives_files_parents_and_options_of_loading(pair, options):
    for saved, other in (pair, pair[::-1]):
        before = copy.deepcopy(other.state_dict())
        for wrap in (nn.Sequential, inside):
            state = round_trip(wrap(saved).state_dict())
            with pytest.raises(RuntimeError, match="the state was saved with"):
                wrap(other).load_state_dict(state, **options)
        torch.testing.assert_close(other.state_dict(), before, rtol=0, atol=0)
        same = inside(copy.deepcopy(saved))
        same.load_state_dict(round_trip(inside(saved).state_dict()), **options)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_states_without_options_are_loaded_as_before(pair):
    saved, other = pair
    other = copy.deepcopy(other)
    state = saved.state_dict()
    for metadata in state._metadata.values():  # as an earlier version saved it
        metadata.pop("options", None)
    other.load_state_dict(state)
    assert list(state) == list(other.state_dict())


def by_entry(state: dict[str, Any]) -> dict[str, Any]:
    """A state as safetensors stores it."""
    return {name: value.clone() for name, value in state.items()}


def with_metadata_as_text(state: Any) -> Any:
    found = OrderedDict(by_entry(state))
    found._metadata = json.loads(json.dumps(state._metadata))
    return found


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_state_without_metadata_is_loaded_with_a_warning_of_unusual_options(pair):
    usual, unusual = map(inside, pair)
    usual.load_state_dict(by_entry(unusual.state_dict()))  # nothing tells
    option = r"inner\.0: the state has no metadata.*(basis 'orig|weight_order 'inst)"
    for options in ({}, {"strict": False}, {"assign": True}):
        with pytest.warns(UserWarning, match=option) as caught:
            unusual.load_state_dict(by_entry(usual.state_dict()), **options)
        assert len(caught) == 1
    unusual.load_state_dict(with_metadata_as_text(unusual.state_dict()))
    for saved, other in ((usual, unusual), (unusual, usual)):
        with pytest.raises(RuntimeError, match="the state was saved with"):
            other.load_state_dict(with_metadata_as_text(saved.state_dict()))


MODELS = {
    "species": ({"species": (1, 6, 8)}, {"species": (1, 6, 9)}, r"species 2: 8, but .* has 9"),
    "cutoff": ({"cutoff": 5.0}, {"cutoff": 6.0}, r"cutoff 5\.0, but .* has 6\.0"),
    "fewer fields": ({"cutoff": 5.0}, {"cutoff": 5.0}, None),
}


@pytest.mark.parametrize("problem", MODELS.values(), ids=MODELS)
def test_a_model_names_the_field_of_its_configuration_that_differs(problem):
    small = {"species": (1,), "channels": 2, "lmax_edge": 1, "radial_hidden": (4,)}
    there, here, message = problem
    models = [
        MessagePassingPotential(PotentialConfig(**(small | given))) for given in (there, here)
    ]
    state = round_trip(models[0].state_dict())
    if message:
        with pytest.raises(RuntimeError, match=message):
            models[1].load_state_dict(state)
    else:
        del state._metadata[""]["options"]["node"]  # as of a version that did not know it
        models[1].load_state_dict(state)


def test_a_product_and_what_holds_one_load_each_other():
    product = tp.ChannelwiseTensorProduct(*OPERANDS, shared_weights=True)
    conv = tp.ChannelwiseConv(*OPERANDS, shared_weights=True)
    conv.load_state_dict(product.state_dict())
    product.load_state_dict(conv.state_dict())
    with pytest.raises(RuntimeError) as caught:
        conv.load_state_dict(PAIRS["ChannelwiseConv"][1].state_dict())
    assert str(caught.value).count("was saved with") == 1
