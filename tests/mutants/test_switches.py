from tests.mutants.sources import mutants_of
from tests.mutants.switches import switched, write_sources

CODE = """
struct Memory {
  T numbers[kCount + 1];
};
__global__ void run(int n) {
  for (int i = 0; i < n; ++i) {
    if (i > 1 && f(i < 3 ? i : 3)) {
      __syncwarp();
    }
  }
  static_shared<Memory[kWarps > 2 ? kWarps : 2]>();
}
void start() { launch_kernel(run, grid, f(1, 2), bytes, stream); }
"""


def all_of(code):
    return sorted(mutants_of("x.cu", code), key=lambda m: (m.start, -m.end))


def test_every_kind_of_mistake_is_made():
    assert [f"{m.kind} {m}" for m in all_of(CODE)] == [
        "size x.cu: [kCount + 1] -> [kCount + 1 - 1]",
        "bound x.cu: i < n -> i < 1 + n",
        "guard x.cu: i > 1 -> true",
        "guard x.cu: f(i < 3 ? i : 3) -> true",
        "barrier x.cu: without __syncwarp()",
        "size x.cu: [kWarps > 2 ? kWarps : 2] -> [kWarps > 2 ? kWarps : 2 - 1]",
        "size x.cu: bytes -> (bytes) - 4",
    ]


def test_mistakes_are_chosen_by_number():
    text = switched(CODE, list(enumerate(all_of(CODE))))
    assert "T numbers[(kCount + 1) - (EQUIGEO_CONSTANT_MUTANT == 0 ? 1 : 0)];" in text
    assert "i = 0; (::equigeo::mutants::chosen(1) ? (i < 1 + n) : (i < n)); ++i" in text
    assert "(::equigeo::mutants::chosen(2) ? (true) : (i > 1)) && " in text
    assert "if (!::equigeo::mutants::chosen(4)) __syncwarp();" in text
    assert "f(1, 2), (::equigeo::mutants::chosen(6) ? ((bytes) - 4) : (bytes)), stream" in text


def test_mistakes_may_lie_inside_others():
    code = "__device__ void f() {\n  x = a && (b || c);\n}\n"
    outer, inner, inside, _ = all_of(code)
    assert (outer.before, inner.before, inside.after) == ("a", "(b || c)", "false")
    text = switched(code, [(1, inner), (2, inside)])
    assert "chosen(1) ? (true) : (((::equigeo::mutants::chosen(2) ? (false) : (b)) || c))" in text


def test_a_copy_has_nothing_else(tmp_path):
    write_sources(tmp_path, {})
    kernel = tmp_path / "csrc/kernels/cuda/gather_sum.cu"
    stray = tmp_path / "csrc/kernels/cuda/stray.cu"
    stray.write_text("")
    written = kernel.stat().st_mtime_ns
    write_sources(tmp_path, {})
    assert not stray.exists()
    assert kernel.stat().st_mtime_ns == written
    assert (tmp_path / "csrc/simulator/mutant.cpp").exists()
