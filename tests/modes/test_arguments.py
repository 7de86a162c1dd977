"""Constructors and calls name the argument that is wrong; generated from their signatures."""

import inspect
import typing
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from torch import nn

from equigeo import affine, mds, mesh, points
from equigeo import nn as enn
from equigeo import tensor_products as tp
from equigeo.affine import KernelSpec
from tests.modes.table import ROWS
from tests.modes.test_modes import ignore_warnings_of_pytorch, public_layers
from tests.modes.test_saved_options import FAMILIES, arguments_of
from tests.wrong_inputs import refused

_LAYERS = {row.covers: row for row in ROWS if row.covers in public_layers() and not row.is_function}
EVERY_LAYER = pytest.mark.parametrize("row", _LAYERS.values(), ids=_LAYERS)
_OWN = {name: row for name, row in _LAYERS.items() if name.startswith(FAMILIES)}
OWN_LAYERS = pytest.mark.parametrize("row", _OWN.values(), ids=_OWN)


def parts(hint: Any) -> list[Any]:
    return [hint, *typing.get_args(hint)]


def required_of(kind: Any) -> set[str]:
    """Fields of a dataclass without a default."""
    return {f.name for f in fields(kind) if f.default is f.default_factory and f.init}


def hints_of(layer: nn.Module) -> dict[str, Any]:
    hints = typing.get_type_hints(type(layer).__init__)
    for config in parts(hints.get("config")):
        if "changes" in hints and isinstance(config, type) and config is not type(None):
            hints |= typing.get_type_hints(config)
    return {name: hint for name, hint in hints.items() if name != "return"}


def of_integers(hint: Any) -> bool:
    """Whether a hint is that of an integer or of sequences of integers, or of either or None."""
    items = [part for part in typing.get_args(hint) if part not in (type(None), ...)]
    return hint is int or (bool(items) and all(map(of_integers, items)))


def first_of(value: Any) -> Any:
    return first_of(value[0]) if isinstance(value, (tuple, list)) and value else value


def with_first(value: Any, number: Any) -> Any:
    """Nested sequences with another number in the first place."""
    if not isinstance(value, (tuple, list)):
        return number
    return (with_first(value[0], number), *value[1:])


def check_integers(kind: Any, given: dict[str, Any], hints: dict[str, Any]) -> None:
    for name in [name for name, hint in hints.items() if of_integers(hint)]:
        value = given.get(name)
        for wrong in (True, 2.5):
            # An option of another kind is refused before it is read.
            message = f"{name} must be an integer, got {wrong}|{name} is for the kind"
            with pytest.raises((TypeError, ValueError), match=message) as caught:
                kind(**(given | {name: with_first(value, wrong)}))
            assert caught.type is TypeError or "is for the kind" in str(caught.value)
        if isinstance(first_of(value), int):
            kind(**(given | {name: with_first(value, np.int64(first_of(value)))}))


@ignore_warnings_of_pytorch
@EVERY_LAYER
def test_integers_are_of_any_library_and_no_flags(row):
    layer, given = arguments_of(row)
    hints = hints_of(layer)
    if row.covers.startswith(FAMILIES):
        plain = (int, int | None)
        hints = {k: v for k, v in hints.items() if v in plain and not k.startswith("parity")}
    else:
        defaults = inspect.signature(type(layer)).parameters.values()
        given = {p.name: p.default for p in defaults if of_integers(hints.get(p.name))} | given
        given = {
            name: value for name, value in given.items() if value is not inspect.Parameter.empty
        }
    check_integers(type(layer), given, hints)


OPTIONS = {
    f"{package.__name__}.{name}": kind
    for package in (affine, mesh, mds, points)
    for name, kind in vars(package).items()
    if isinstance(kind, type) and is_dataclass(kind) and required_of(kind) <= {"num_classes"}
}


@pytest.mark.parametrize("kind", OPTIONS.values(), ids=OPTIONS)
def test_integers_of_options_are_of_any_library_and_no_flags(kind):
    defaults = vars(kind(**{name: 3 for name in required_of(kind)}))
    check_integers(kind, defaults, typing.get_type_hints(kind))


@ignore_warnings_of_pytorch
@EVERY_LAYER
def test_unknown_values_of_options_are_refused(row):
    layer, given = arguments_of(row)
    for name, hint in hints_of(layer).items():
        chosen = any(typing.get_origin(part) is typing.Literal for part in parts(hint))
        if chosen or name.endswith("normalization") or name == "kind":
            for wrong in ("bogus", 7.5):
                refused(name, type(layer), error=(ValueError, TypeError), **given | {name: wrong})


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
            refused(message, layer, *given, error=(TypeError, ValueError) if other else TypeError)


def test_lists_and_flags_are_of_any_library():
    linear = enn.Linear("2x0e", "2x0e", biases=np.True_, instructions=np.array([[0, 0]]))
    assert linear.bias_numel == 2
    assert str(tp.SphericalHarmonics([np.int64(1)], True).rep_out) == "1x1o"
    with pytest.raises(TypeError, match="degree must be an integer, got True"):
        tp.SphericalHarmonics([True], True)


@pytest.mark.parametrize("wrong", [2.5, True, float("inf")])
def test_kernels_have_whole_numbers_of_cells(wrong):
    refused("size must be an integer", KernelSpec, error=TypeError, size=wrong)
    if wrong != 2.5:
        refused("extent must be positive and finite", KernelSpec, extent=wrong)
    assert KernelSpec(size=np.int64(3)).grid(2).shape == (9, 2)
