"""A state loads into layers that compute the same function alone, whatever their options are."""

import copy
import inspect
import io
import itertools
import typing
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import nn

from equigeo import tensor_products as tp
from tests.modes.row import Row
from tests.modes.table import ROWS
from tests.modes.test_modes import ignore_warnings_of_pytorch, public_layers

VALUES: dict[str, tuple[Any, ...]] = {
    "irrep_normalization": ("component", "norm", "none"),
    "path_normalization": ("element", "path"),
    "kind": ("gaunt", "curl", "gaunt+curl", "curl+gaunt"),
    "mmax": (0, 1),
    "filter_lmax": (None, 1, 2),
    "variance_in": (1.0, 2.0),
    "variance_out": (1.0, 2.0),
    "t": (1, 2),
    "layout": (),  # moves features, which weights do not know
}
"""Values of options whose annotation does not list them."""

FAMILIES = "nn.", "tensor_products."
LAYERS = [row for row in ROWS if row.covers in public_layers() and row.name.startswith(FAMILIES)]


def values_of(name: str, annotation: Any) -> list[Any]:
    """What an option may be."""
    if name in VALUES:
        return list(VALUES[name])
    if annotation is bool:
        return [False, True]
    kinds = [annotation, *typing.get_args(annotation)]
    listed = [typing.get_args(kind) for kind in kinds if typing.get_origin(kind) is typing.Literal]
    return [value for values in listed for value in values]


def changes_of(layer: nn.Module, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each option of a layer with each of its values, and instructions backwards."""
    hints = typing.get_type_hints(type(layer).__init__)
    if "changes" in hints:  # fields of a configuration
        hints |= typing.get_type_hints(tp.SO2Config)
    for name, hint in hints.items():
        for value in values_of(name, hint):
            yield {name: value}
    if "instructions" in hints:
        every = [
            (i.i_in, i.i_out) for i in layer.instructions if hasattr(i, "i_in") and i.i_in >= 0
        ]
        yield {"instructions": (given.get("instructions") or every)[::-1]}


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
    return layer, given | given.pop("changes", {})


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
            expected, found = row.call(one, *inputs), row.call(other, *inputs)
            torch.testing.assert_close(found, expected, msg=lambda m, c=change: f"{c}: {m}")


OPERANDS = "4x0e+4x1o", "1x0e+1x1o", "4x0e+4x1o"
PAIRS = {
    "SO2Conv": [tp.SO2Conv(*[OPERANDS[0]] * 2, weights=weights) for weights in ("orders", "paths")],
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
    other.load_state_dict(dict(saved.state_dict()))
    assert list(state) == list(other.state_dict())


def test_a_product_and_what_holds_one_load_each_other():
    product = tp.ChannelwiseTensorProduct(*OPERANDS, shared_weights=True)
    conv = tp.ChannelwiseConv(*OPERANDS, shared_weights=True)
    conv.load_state_dict(product.state_dict())
    product.load_state_dict(conv.state_dict())
    with pytest.raises(RuntimeError) as caught:
        conv.load_state_dict(PAIRS["ChannelwiseConv"][1].state_dict())
    assert str(caught.value).count("was saved with") == 1
