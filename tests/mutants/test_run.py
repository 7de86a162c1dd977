from __future__ import annotations

import pytest

from tests.mutants.run import notice_of


@pytest.mark.parametrize(
    ("answer", "notice"),
    [
        ({"answer": "AssertionError: row: Tensor-likes\nmore"}, ("value", "row: Tensor-likes")),
        (
            {"answer": "RuntimeError: accesses that no barrier puts in order:\n  x.cu:3 reads\n y"},
            ("races", "x.cu:3 reads"),
        ),
        ({"answer": "RuntimeError: x.cu:3: __trap\nmore"}, ("simulator", "x.cu:3: __trap")),
        (
            {"answer": "AssertionError: a row: nothing stopped the kernel"},
            ("no trap", "a row: nothing stopped the kernel"),
        ),
        (
            {
                "ended": "exit status 1",
                "errors": "ERROR: AddressSanitizer: heap-buffer-overflow on",
            },
            ("address", "heap-buffer-overflow"),
        ),
        (
            {"ended": "exit status 1", "errors": "x.cu:3:1: runtime error: index 3 out of bounds"},
            ("undefined", "index 3 out of bounds"),
        ),
        ({"ended": "does not end", "errors": ""}, ("does not end", "does not end")),
        ({"ended": "exit status -11", "errors": ""}, ("crash", "exit status -11")),
        ({"compiler": "In x:\nx.cu:3: error: no\n"}, ("compiler", "x.cu:3: error: no")),
    ],
)
def test_what_notices_a_mistake_is_told_from_its_words(answer, notice):
    assert notice_of(answer) == notice
