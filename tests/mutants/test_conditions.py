from __future__ import annotations

import pytest

from tests.mutants.conditions import at_run_time, conditions, masked, parts

CODE = """
// if (comment < 0) {
#define LESS(a, b) \\
  if (a < b) {
constexpr int kTwo = 1 < 2 ? 2 : 1;
__device__ void run(int n, bool active) {
  static_assert(sizeof(int) > 2);
  if constexpr (sizeof(T) > 4) {
    call("a < b");
  }
  if (n < 0 || (n > 5 && n != 7)) {
    return;
  }
  const bool last = n == 5;
  x[n] = n >= 3 && has<int, 2>(n) ? y[n] : 0;
  for (int i = n < 2 ? n : 2; i < n && x[i] != 0; i += 1) {
    require(!(i == n || active));
  }
  do {
    if (channels.has(n)) {
      f(n);
    }
  } while (n < 9);
}
const char* launch(int n) { return n < 0 ? "less" : nullptr; }
"""


def found(code: str) -> dict[str, str]:
    text = at_run_time(masked(code))
    return {code[c.start : c.end]: c.place for c in conditions(text)}


def test_what_kernels_decide_by_is_found():
    assert found(CODE) == {
        "n < 0 || (n > 5 && n != 7)": "skip",
        "n == 5": "value",
        "n >= 3 && has<int, 2>(n)": "ternary",
        "n < 2": "ternary",
        "i < n && x[i] != 0": "loop",
        "i == n || active": "value",
        "channels.has(n)": "if",
        "n < 9": "loop",
    }


@pytest.mark.parametrize(
    ("code", "taken_out"),
    [
        ("if (a < b) {\n f(); }", ["a < b: true"]),
        ("if (a < b) {\n return; }", ["a < b: false", "a < b: true"]),
        ("x = a < b && c.has(n);", ["a < b: true", "c.has(n): true"]),
        (
            "if (a < b || (c > d && !e)) {\n",
            ["a < b: false", "(c > d && !e): false", "c > d: true", "!e: true"],
        ),
        ("require(a < b || c);", ["a < b || c: true", "a < b: false", "c: false"]),
        ("require(a < b);", ["a < b: true"]),
    ],
)
def test_parts_are_taken_out_one_by_one(code, taken_out):
    (condition,) = conditions(code)
    assert [f"{code[p.start : p.end]}: {p.neutral}" for p in parts(code, condition)] == taken_out


def test_masks_keep_places():
    assert [len(line) for line in masked(CODE).split("\n")] == [len(x) for x in CODE.split("\n")]
    assert "comment" not in masked(CODE)
    assert "LESS" not in masked(CODE)
