"""Pytest plugin of `make test-e3nn04`: imports e3nn 0.4.4 in the one way that works."""

import warnings

import pytest

from equigeo.interop.optional import require_e3nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    require_e3nn()
    import e3nn  # after its tables could be read


def pytest_configure(config: pytest.Config) -> None:
    if not e3nn.__version__.startswith("0.4."):
        got = f"{e3nn.__version__}: {e3nn.__file__}"
        raise pytest.UsageError(f"these tests are of e3nn 0.4, got {got}")
    # It scripts its modules; what PyTorch has to say about that is no news about this library.
    for category in ("`torch.jit:DeprecationWarning", "The TorchScript type system:UserWarning"):
        config.addinivalue_line("filterwarnings", f"ignore:{category}")


SIGNS = "e3nn 0.4 has the other sign for some odd sums of degrees; conversions read it"
DIFFERENT = {
    "tests/reps/test_wigner.py::test_symbols_equal_the_table_of_e3nn": SIGNS,
    **{
        f"tests/interop/test_code_for_e3nn.py::{test}": SIGNS
        for test in ("test_same_results[change_parity]", "test_same_results[classify_pieces]")
    },
    "tests/reps/test_irreps.py::test_selections_agree_with_e3nn": (
        "Irreps.filter and Irreps.regroup are newer than e3nn 0.4"
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name, reason in DIFFERENT.items():
            if item.nodeid.startswith(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_report_header() -> str:
    return f"e3nn {e3nn.__version__}: {e3nn.__file__}"
