"""Constants that are kept for a process, and first asked for in some mode or transform."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from equigeo.groups import algebra as algebra_bases
from equigeo.reps import tensor_rep as tensor_power
from equigeo.reps.wigner import so3_generators_table, wigner_3j_table
from equigeo.tensor_products import spherical_harmonics
from equigeo.tensor_products.analysis import coefficients
from equigeo.tensor_products.products import symmetric_basis
from equigeo.tensor_products.sphere import spherical_harmonics as harmonics

CPU = torch.device("cpu")
EVEN = ((0, 1), (2, 1))
KEPT = [
    (algebra_bases.rotation_basis, (3,)),
    (algebra_bases.symmetric_basis, (3,)),
    (algebra_bases.traceless_symmetric_basis, (3,)),
    (tensor_power._symmetric, (3, 2)),
    (tensor_power._alternating, (3, 2)),
    (so3_generators_table, (2,)),
    (wigner_3j_table, (1, 2, 3)),
    (harmonics._kept_table, (3, "integral", torch.float32, CPU)),
    (symmetric_basis.symmetric_basis, (EVEN, 2, (2, 1))),
    (coefficients._probe, (1, 0)),
    (coefficients._coupled_probes, (1, 1, 2)),
]


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors(part)


def functions_that_keep() -> Iterator[tuple[str, Any]]:
    """Everything in the package that :mod:`functools` keeps results of."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("equigeo."):
            for key, value in vars(module).items():
                if isinstance(value, functools._lru_cache_wrapper) and value.__module__ == name:
                    yield f"{name}.{key}", value


def is_kept_plainly(function: Any) -> bool:
    """Whether it is by :func:`equigeo._core.cache.kept`, which wraps what is cached."""
    return hasattr(function.__wrapped__, "__wrapped__")


def forget_constants() -> None:
    """Forget all tensors that are kept for the process."""
    for _, function in functions_that_keep():
        if is_kept_plainly(function):
            function.cache_clear()


def test_whatever_keeps_tensors_keeps_plain_ones():
    keeping = dict(functions_that_keep())
    assert "equigeo.reps.wigner.wigner_3j_table" in keeping
    for name, function in keeping.items():
        if "Tensor" in str(inspect.signature(function).return_annotation):
            assert is_kept_plainly(function), name


def under_a_transform(transform: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        found = []

        def inner(x: Tensor) -> Tensor:
            found.append(function(*arguments))
            return x.sum()

        transform(inner)(torch.ones(2, 3))
        return found[0]

    return call


def under_a_mode(mode: Callable[[], Any]) -> Callable[..., Any]:
    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        with mode():
            return function(*arguments)

    return call


ASKED_FIRST = {
    "meta": under_a_mode(lambda: torch.device("meta")),
    "fake": under_a_mode(FakeTensorMode),
    "grad": under_a_transform(torch.func.grad),
    "vmap": under_a_transform(torch.func.vmap),
    "functionalize": under_a_transform(torch.func.functionalize),
}
EACH_KEPT = pytest.mark.parametrize(
    ("kept", "arguments"), KEPT, ids=[getattr(k, "__name__", "table") for k, _ in KEPT]
)


@EACH_KEPT
@pytest.mark.parametrize("first", ASKED_FIRST)
def test_kept_tensors_are_plain_whoever_asks_first(kept, arguments, first):
    forget_constants()
    expected = list(tensors(kept(*arguments)))
    forget_constants()
    found = list(tensors(ASKED_FIRST[first](kept, *arguments)))
    assert [type(x) for x in found] == [Tensor] * len(expected)
    for x, y in zip(found, expected, strict=True):
        assert not torch._C._functorch.is_functorch_wrapped_tensor(x)
        assert torch.equal(x, y)


@EACH_KEPT
def test_no_tensor_of_inference_mode_is_kept(kept, arguments):
    kept.cache_clear()
    with torch.inference_mode():
        found = list(tensors(kept(*arguments)))
    assert found
    assert not any(x.is_inference() for x in found)


def test_harmonics_that_were_first_evaluated_in_inference_mode_have_gradients():
    harmonics._kept_table.cache_clear()
    x = torch.ones(2, 3, requires_grad=True)
    with torch.inference_mode():
        spherical_harmonics([0, 1, 2], x, True)
    spherical_harmonics([0, 1, 2], x, False).sum().backward()
    assert x.grad.any()
