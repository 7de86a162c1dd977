"""Constructors and calls name the argument that is wrong; generated from their signatures."""

import typing
from typing import Any

import numpy as np
import pytest
from torch import nn

from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.affine import KernelSpec
from tests.modes.table import ROWS
from tests.modes.test_modes import ignore_warnings_of_pytorch, public_layers
from tests.modes.test_saved_options import FAMILIES, arguments_of

_LAYERS = {row.covers: row for row in ROWS if row.covers in public_layers() and not row.is_function}
EVERY_LAYER = pytest.mark.parametrize("row", _LAYERS.values(), ids=_LAYERS)
_OWN = {name: row for name, row in _LAYERS.items() if name.startswith(FAMILIES)}
OWN_LAYERS = pytest.mark.parametrize("row", _OWN.values(), ids=_OWN)


def parts(hint: Any) -> list[Any]:
    return [hint, *typing.get_args(hint)]


def hints_of(layer: nn.Module) -> dict[str, Any]:
    hints = typing.get_type_hints(type(layer).__init__)
    for config in parts(hints.get("config")):
        if "changes" in hints and isinstance(config, type) and config is not type(None):
            hints |= typing.get_type_hints(config)
    return {name: hint for name, hint in hints.items() if name != "return"}


@ignore_warnings_of_pytorch
@OWN_LAYERS
def test_integers_are_of_any_library_and_no_flags(row):
    layer, given = arguments_of(row)
    for name, hint in hints_of(layer).items():
        if hint not in (int, int | None) or name.startswith("parity"):
            continue
        for wrong in (True, 2.5):
            # An option of another kind is refused before it is read.
            message = f"{name} must be an integer, got {wrong}|{name} is for the kind"
            with pytest.raises((TypeError, ValueError), match=message):
                type(layer)(**(given | {name: wrong}))
        if isinstance(given.get(name), int):
            type(layer)(**(given | {name: np.int64(given[name])}))


@ignore_warnings_of_pytorch
@EVERY_LAYER
def test_unknown_values_of_options_are_refused(row):
    layer, given = arguments_of(row)
    for name, hint in hints_of(layer).items():
        chosen = any(typing.get_origin(part) is typing.Literal for part in parts(hint))
        if chosen or name.endswith("normalization") or name == "kind":
            for wrong in ("bogus", 7.5):
                with pytest.raises((ValueError, TypeError), match=name):
                    type(layer)(**(given | {name: wrong}))


@ignore_warnings_of_pytorch
@OWN_LAYERS
def test_what_is_no_tensor_is_named(row):
    if row.covers == "nn.NormalizedActivation":  # hands everything to its function
        return
    layer, inputs = row.bound(), row.inputs()
    for position, x in enumerate(inputs):
        for wrong in (x.tolist(), None, x.numpy(), "text"):
            given = [*inputs[:position], wrong, *inputs[position + 1 :]]
            # Weights may be left out, and features of graphs may be pairs.
            other = (wrong is None and position == 2) or (isinstance(wrong, list) and not row.rows)
            message = "must be|weight .* is missing"
            with pytest.raises((TypeError, ValueError) if other else TypeError, match=message):
                layer(*given)


def test_lists_and_flags_are_of_any_library():
    linear = enn.Linear("2x0e", "2x0e", biases=np.True_, instructions=np.array([[0, 0]]))
    assert linear.bias_numel == 2
    assert str(tp.SphericalHarmonics([np.int64(1)], True).rep_out) == "1x1o"
    with pytest.raises(TypeError, match="degree must be an integer, got True"):
        tp.SphericalHarmonics([True], True)


@pytest.mark.parametrize("wrong", [2.5, True, float("inf")])
def test_kernels_have_whole_numbers_of_cells(wrong):
    with pytest.raises(TypeError, match="size must be an integer"):
        KernelSpec(size=wrong)
    if wrong != 2.5:
        with pytest.raises(ValueError, match="extent must be positive and finite"):
            KernelSpec(extent=wrong)
    assert KernelSpec(size=np.int64(3)).grid(2).shape == (9, 2)
