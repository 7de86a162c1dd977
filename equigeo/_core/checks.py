"""Validation and conversion of arguments; none reads a value, so none waits for a device."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, wraps
from inspect import signature
from numbers import Integral, Real
from operator import index
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Module, Parameter

from equigeo._core.brief import shown
from equigeo._core.tensors import HALF, autocasts, computed_in

_Class = TypeVar("_Class", bound=type)
DEPTH: Final = 4  # largest depth of nested lists; valid values have at most two levels


def checked_integer(
    name: str,  # argument name in messages
    value: Any,
    least: int | None = None,  # smallest valid value
) -> int:
    """Convert an integer of any library to int; raise for booleans and other numbers."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def takes_integers(cls: _Class) -> _Class:
    """Decorate a class: arguments of its constructor with hints of integers become int."""
    init = cls.__init__  # type: ignore[misc]
    names = list(signature(init).parameters)

    @wraps(init)
    def checked(*args: Any, **named: Any) -> None:
        given = converted(dict(zip(names, args, strict=False)), init)
        init(*given.values(), *args[len(names) :], **converted(named, init))

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def convert_numbers(
    options: Any,  # an instance of a frozen dataclass
) -> None:
    """Convert numbers in fields to int or float, in place; raise where hints are of integers."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    for name, value in converted(values, type(options)).items():
        object.__setattr__(options, name, _plain(value, DEPTH))


def _plain(value: Any, depth: int) -> Any:
    """Convert the numbers of other libraries, also those in containers of limited depth."""
    if isinstance(value, (dict, tuple, list)) and depth >= 0:
        if isinstance(value, dict):
            return {key: _plain(item, depth - 1) for key, item in value.items()}
        return type(value)(_plain(item, depth - 1) for item in value)
    if not isinstance(value, Real) or isinstance(value, int):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def converted(values: Mapping[str, Any], owner: Any) -> dict[str, Any]:
    """Convert those values for a function or class to int whose hints are of integers."""
    hints = _integer_hints(owner)
    return {
        name: _as_integers(name, value, hints[name]) if name in hints else value
        for name, value in values.items()
    }


@cache  # of a few constructors
def _integer_hints(owner: Any) -> dict[str, Any]:
    """Return the hints of integers, of sequences of them, and of either or None."""
    return {name: hint for name, hint in get_type_hints(owner).items() if _is_of_integers(hint)}


def _is_of_integers(hint: Any) -> bool:
    options = [option for option in options_of(hint) if option is not types.NoneType]
    if len(options) != 1 or options[0] is int:
        return options == [int]
    items = [item for item in get_args(options[0]) if item is not Ellipsis]
    return get_origin(options[0]) in (tuple, Sequence) and all(map(_is_of_integers, items))


def _as_integers(name: str, value: Any, hint: Any) -> Any:
    options = options_of(hint)
    if value is None and types.NoneType in options:
        return None
    kind = next(option for option in options if option is not types.NoneType)
    if kind is int:
        return checked_integer(name, value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of integers, got {shown(value)}")
    return tuple(_as_integers(name, item, get_args(kind)[0]) for item in value)


def options_of(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, or the hint itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


TensorLike: TypeAlias = Tensor | NDArray[Any]
"""A tensor, or an array of NumPy that is copied into one."""

_LARGEST = np.iinfo(np.int64).max


STATE_RANGE: Final = {"charge": (-1000, 1000), "spin": (0, 1000)}
"""Valid total charges and spin multiplicities; the unknown spin 0 becomes 1."""

USUAL_STATE: Final = {"charge": 0, "spin": 1}
"""Total charge in units of e, and spin multiplicity, of structures without these entries."""


def state_of(info: Mapping[str, Any], name: str) -> int:
    """Return the total charge or the spin of a structure from its entries."""
    found = [info[key] for key in (name, f"total_{name}") if key in info]  # the latter of MACE
    value = found[0] if found else USUAL_STATE[name]
    try:
        number, (least, most) = float(value), STATE_RANGE[name]
        valid = number.is_integer() and least <= number <= most
    except (TypeError, ValueError):
        number, valid = 0.0, False
    if not valid:
        raise ValueError(f"{name} must be an integer, got {shown(value)}")
    if any(other != value for other in found):
        raise ValueError(f"{name} and total_{name} must be equal, got {shown(found)}")
    return max(1, int(number)) if name == "spin" else int(number)


def as_tensor(
    value: object,  # Tensor or ndarray
    name: str,  # of the argument, for messages
    *,
    like: Tensor | None = None,  # device and, for floating arrays, dtype of the result
) -> Tensor:
    """Return a tensor unchanged, or a NumPy array as a copied tensor."""
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a Tensor or a NumPy array, got {kind_of(value)}")
    found = torch.from_numpy(_native(np.asarray(value), name))
    if like is None:
        return found
    return found.to(like.device, like.dtype if found.is_floating_point() else None)


def _native(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Copy to native byte order and a dtype that torch supports."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "biufc":
        raise TypeError(f"{name} must hold numbers, got a NumPy array of {array.dtype}")
    if kind == "u" and size > 1:
        if array.size and int(array.max()) > _LARGEST:
            raise ValueError(f"{name} must fit into int64, got {int(array.max())}")
        return np.array(array, np.int64, order="C")
    if kind == "f" and size > 8:  # extended precision
        return np.array(array, np.float64, order="C")
    return np.array(array, array.dtype.newbyteorder("="), order="C")


def as_indices(
    value: object,  # often int32 from SciPy
    name: str,  # of the argument, for messages
) -> Tensor:
    """Return an int64 tensor unchanged, or an integer NumPy array converted to int64."""
    found = as_tensor(value, name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        found = found.long()
    if found.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {found.dtype}")
    return found


def is_integer(x: Tensor) -> bool:
    """Return whether a tensor has an integer dtype: neither floating, complex nor bool."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def check_shape(
    x: Tensor,
    name: str,  # of the argument, for the message
    axes: tuple[int | str, ...],  # length of each axis, or a name for any length
) -> None:
    """Raise for a tensor of another shape."""
    fits = x.ndim == len(axes)
    if fits:
        fits = all([isinstance(a, str) or n == a for a, n in zip(axes, x.shape, strict=True)])
    if not fits:
        wanted = ", ".join(map(str, axes)) + ("," if len(axes) == 1 else "")
        raise ValueError(f"{name} must be ({wanted}), got {tuple(x.shape)}")


def check_like(
    x: Tensor,
    name: str,  # of the argument, for messages
    weight: Tensor,
) -> None:
    """Raise if dtype or device differ from those of a layer's weight, apart from autocast."""
    if x.device != weight.device:
        raise ValueError(f"{name} must be on {weight.device} as the weights are, got {x.device}")
    if x.dtype != weight.dtype and not (x.is_floating_point() and autocasts(x.device.type)):
        raise TypeError(f"{name} must be {weight.dtype} as the weights are, got {x.dtype}")


def kind_of(value: object) -> str:
    """Return the type name of an invalid argument, for messages."""
    return "None" if value is None else type(value).__name__


FEATURES = frozenset((torch.float32, torch.float64, *HALF))


def check_tensor(
    name: str,  # argument name in the message
    value: object,
) -> None:
    """Raise ``TypeError`` if a value is not a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a Tensor, got {type(value).__name__}")


def check_features(
    name: str,
    x: Tensor,
    axes: tuple[str, ...] | None = None,  # names of the required axes; None if checked already
) -> None:
    """Raise if ops do not support the layout or dtype, or the number of axes is wrong."""
    _check_layout(name, x)
    if x.dtype not in FEATURES:
        raise TypeError(f"{name} must be float32 or float64, bfloat16 or float16, got {x.dtype}")
    if axes is not None and x.ndim != len(axes):
        raise ValueError(f"{name} must be ({', '.join(axes)}), got shape {tuple(x.shape)}")


def _check_layout(name: str, x: Tensor) -> None:
    if x.layout != torch.strided:
        raise TypeError(f"{name} must be strided, got a tensor of layout {x.layout}")


def check_dtype(
    name: str,
    tensor: Tensor,
    like: str,  # argument name of the features
    features: Tensor,
) -> None:
    """Raise ``TypeError`` if a tensor does not have the dtype of the features."""
    if tensor.dtype != features.dtype:
        raise TypeError(
            f"{name} must have the dtype of {like}, {features.dtype}, got {tensor.dtype}"
        )


def check_operands(
    operands: Mapping[str, Tensor],  # x first, whose dtype all have
    shapes: Mapping[str, tuple[int, ...]],  # required shapes
) -> None:
    """Raise if features do not have the given shapes, or not one dtype that ops support."""
    for name, tensor in operands.items():
        check_features(name, tensor)
        check_dtype(name, tensor, "x", operands["x"])
        if tuple(tensor.shape) != shapes[name]:
            raise ValueError(f"{name} must be {shapes[name]}, got {tuple(tensor.shape)}")


def check_table(
    name: str,
    table: Tensor,
    x: Tensor,  # the features
) -> None:
    """Raise ``TypeError`` if a table does not have the compute dtype of the features."""
    wanted = computed_in(x.dtype)
    if table.dtype != wanted:
        of = "of x" if wanted == x.dtype else f"in which {x.dtype} is computed"
        raise TypeError(f"{name} must have the dtype {of}, {wanted}, got {table.dtype}")


def check_index(
    name: str,
    index: Tensor,
    *,
    length: tuple[int, str] | None = None,  # required length and its origin, for the message
    at_least: int = 0,
) -> None:
    """Raise if an index is not an int64 vector of the required length."""
    _check_layout(name, index)
    if index.dtype != torch.int64:
        raise TypeError(f"{name} must be int64, got {index.dtype}")
    if index.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {tuple(index.shape)}")
    if length is not None and index.shape[0] != length[0]:
        raise ValueError(
            f"{name} must have {length[0]} entries to fit {length[1]}, got {index.shape[0]}"
        )
    if index.shape[0] < at_least:
        raise ValueError(f"{name} must have at least {at_least} entry, got {index.shape[0]}")


def check_edge_lists(
    name: str,  # of the features of the sources
    x: Tensor,  # (sources, ...)
    lists: dict[str, Tensor],  # (edges,), and the offsets ptr and back_ptr
    edges: tuple[int, str] | None = None,  # their number and its origin; that of the first list
) -> None:
    """Raise if lists of a graph do not fit its sources and edges; values are not read."""
    if edges is None:
        first, index = next(iter(lists.items()))
        check_index(first, index)
        edges = index.shape[0], first
    for key, index in lists.items():
        if key == "ptr":
            check_index(key, index, at_least=1)
        else:
            sources = x.shape[0] + 1, f"the rows of {name}, plus one"
            check_index(key, index, length=sources if key == "back_ptr" else edges)


def check_row(dim: int) -> int:
    """Raise ``ValueError`` if a row length is outside of [0, 2^31 - 1], else return it."""
    # Kernels reject these too, but for larger sizes PyTorch's messages refer to its own sources.
    if not 0 <= dim < 2**31:
        raise ValueError(f"the columns of the output must be from 0 to 2147483647, got {dim}")
    return dim


def check_batch_size(
    norm: Module,  # batch normalization over samples
    number: int,
    samples: str,  # plural noun
) -> None:
    """Raise ``ValueError`` if batch statistics would be those of one sample."""
    if norm.training and number == 1:
        raise ValueError(
            f"a training batch must have at least two {samples}, got 1: the head normalizes by the "
            f"mean and variance over the {samples} of a batch. Use larger batches, or call "
            "model.eval() for predictions"
        )


def check_device(**tensors: Tensor) -> None:
    """Raise ``ValueError`` if tensors are not all on the device of the first."""
    devices = [tensor.device for tensor in tensors.values()]
    if devices.count(devices[0]) == len(devices):
        return
    first, *rest = zip(tensors, devices, strict=True)
    name, device = next((name, device) for name, device in rest if device != devices[0])
    raise ValueError(f"{name} must be on the device of {first[0]}, {first[1]}, got {device}")


_PLAIN = (Tensor, Parameter)


def fit_together(
    values: Sequence[Tensor | None],  # (..., dim) with equal leading axes, or (dim,)
    dims: Sequence[int],  # expected last axes
) -> bool:
    """Return True if features match without broadcasting; fast, and False requires a full check."""
    x = values[0]
    # Tracers would turn equal sizes into constants: they are compiling or use tensor subclasses.
    if torch.compiler.is_compiling() or not isinstance(x, Tensor) or type(x) not in _PLAIN:
        return False
    if not x.is_floating_point():
        return False
    batch, dtype, device = x.shape[:-1], x.dtype, x.device
    for value, dim in zip(values, dims, strict=True):
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.dtype != dtype or value.device != device:
            return False
        shape = value.shape
        if shape != (*batch, dim) and (shape != (dim,) or value is x):
            return False
    return True
