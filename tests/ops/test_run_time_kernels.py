"""Kernels for path tables that are compiled at run time: which, how, and when they are used."""

import json
import logging
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import equigeo.ops.first_use as first_use
import equigeo.ops.run_time_kernels as run_time
from bench.cuda_resources import demangled, kernel_name, read_code
from equigeo._core.files import warn_once
from equigeo.interop.accelerated.edges import EdgeProduct
from equigeo.ops import Path as TablePath
from equigeo.ops import PathTable, Segment, compile_kernels
from equigeo.ops.first_use import SIMULATED, Verdict, verdict_on_kernels
from equigeo.ops.runtime.kernel_sources import STAND_INS, kernel_sources
from equigeo.ops.runtime.nvrtc import (
    MOST_SPILLED,
    CompileError,
    MachineCode,
    compiled,
    find_compiler,
)
from equigeo.ops.self_test_cases import COUPLED, convolution_cases, coupled_table
from equigeo.reps.wigner import wigner_3j_table
from equigeo.tensor_products import ChannelwiseConv, ChannelwiseTensorProduct
from tests.gpu.compiled_rows import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = kernel_sources(ROOT / "csrc")
LOW, MANY = "0e + 1o + 2e", " + ".join(f"{l}{p}" for l in range(8) for p in "eo")
ELEVEN = " + ".join(f"{32 * n}x0e" for n in range(1, 12))


def table_of(*irreps: str, layout: str = "mul_ir") -> PathTable:
    conv = ChannelwiseConv(*irreps, layout=layout)
    return conv.product.compiled.table(torch.float64)


# --- Which tables have kernels --------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["mul_ir", "ir_mul"])
def test_numbers_of_a_table_are_its_segments_and_paths(layout):
    table = table_of("64x0e + 32x1o", "0e + 1o", "0e + 1o", layout=layout)
    paths = [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)]
    segments = [(64, 0), (32, 1)]
    wanted = [4, 1, 2, 4, *(n for part in segments + paths for n in part)]
    assert run_time.known_numbers(table) == tuple(wanted)
    weights = table.paths.clone()
    weights[[0, 2], 15] = weights[[2, 0], 15]
    assert run_time.known_numbers(replace(table, paths=weights)) == (4, 0, *wanted[2:])


def test_tables_of_other_forms_have_none():
    table = table_of("64x0e + 32x1o", "0e + 1o", "0e + 1o")
    changes = {"x": (0, 1), "channels": (1, 8), "y": (5, 1), "copies": (6, 2), "out": (10, 8)}
    for column, by in changes.values():
        paths = table.paths.clone()
        paths[-1, column] += by
        assert run_time.known_numbers(replace(table, paths=paths)) is None
    swapped = table.entries.clone()
    swapped[[0, -1]] = swapped[[-1, 0]]
    for change in (
        {"entries": swapped},
        {"dim_x": table.dim_x + 1},
        {"dim_out": table.dim_out + 1},
        {"dim_weight": table.dim_weight + 1},
    ):
        assert run_time.known_numbers(replace(table, **change)) is None
    for irreps in (
        ("48x0e", "0e", "0e"),  # no multiple of a warp
        ("32x0e + 32x1o", "2x0e + 1o", "0e + 1o"),  # two copies of a degree
        ("32x0e + 32x1o", "1o + 0e", "0e + 1o"),  # another order
        ("32x0e", "1o", "1o"),  # without the degrees before
        ("1056x0e", "0e", "0e"),  # more threads than a block has
        ("32x0e", "0e + 1o + 2e + 3o + 4e + 5o", "0e"),  # more harmonics than lanes
        (" + ".join(f"{32 * n}x0e" for n in range(1, 14)), "0e", "0e"),  # segments
        (" + ".join(4 * ["32x0e + 32x1o + 32x2e"]), LOW, MANY),  # paths
        (f"{ELEVEN} + 384x4e", LOW, MANY),  # parts
        ("32x0e + 1024x4e", f"{LOW} + 3o + 4e", "0e"),  # numbers of a source
        ("1024x0e + 1024x1o", LOW, LOW),  # registers of a lane in a large block
    ):
        assert run_time.known_numbers(table_of(*irreps)) is None
    for degrees in ((1, 0, 0), (1, 1, 3)):  # outside the triangle, with coefficients
        first, second, third = (Segment.block(0, mul, 2 * l + 1)
                                for mul, l in zip((32, 1, 32), degrees, strict=True))  # fmt: skip
        path = TablePath(first, second, third, 0, torch.ones(first.d, second.d, third.d).double())
        dims = (32 * first.d, second.d, 32, 32 * third.d)
        wrong = PathTable.from_paths([path], dims, by_output=True)
        assert run_time.known_numbers(wrong) is None
    for irreps in (
        (f"{ELEVEN} + 384x1o", LOW, MANY),
        ("1024x0e", "0e", "0e"),
        ("32x0e + 1024x3o", f"{LOW} + 3o", "0e"),
        ("1024x0e + 1024x1o", "0e + 1o", "0e + 1o"),
    ):
        assert run_time.known_numbers(table_of(*irreps)) is not None
    empty = PathTable.from_paths([], dims=(32, 1, 0, 32))
    assert run_time.known_numbers(empty) is None


def test_couplings_are_those_of_wigner_symbols():
    for l1 in range(5):
        for l2 in range(5):
            for l3 in range(abs(l1 - l2), l1 + l2 + 1):
                wanted = wigner_3j_table(l1, l2, l3).nonzero().tolist()
                assert run_time._couplings(l1, l2, l3) == wanted


COMPARE = """
#include <iostream>
#include "kernels/cuda/known_models.h"
#include "kernels/cuda/numbered_table.h"
using namespace equigeo;
int main() {
  int count = 0, same = 1;
  for (int size = 0; same && std::cin >> size; ++count) {
    int numbers[200];
    for (int n = 0; n < size; ++n) {
      std::cin >> numbers[n];
    }
    const KnownTable table = numbered_table(numbers);
    same = count < kNumKnown && same_paths(*kKnownTables[count], table);
    std::cout << table.parts << " ";
  }
  std::cout << kMostSegments << " " << kMostPaths << " " << kMostParts << " ";
  std::cout << kMostSums << " " << kUsualSums;
  return same && count == kNumKnown ? 0 : 3;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_self_test_has_every_table_that_is_compiled_ahead(tmp_path):
    tables = [coupled_table(*model, ir_mul=True) for model in COUPLED.values()]
    numbers = [list(run_time.known_numbers(table)) for table in tables]
    program = tmp_path / "compare"
    program.with_suffix(".cpp").write_text(COMPARE)
    files = ["-o", program, program.with_suffix(".cpp")]
    subprocess.run(["g++", "-std=c++17", f"-I{ROOT / 'csrc'}", *files], check=True)
    for rows, same in ((numbers, True), (numbers[:-1], False), (numbers[::-1], False)):
        text = " ".join(str(n) for row in rows for n in [len(row), *row])
        found = subprocess.run([program], input=text.encode(), check=False, capture_output=True)
        assert found.returncode == (0 if same else 3)
        if same:
            parts = [len(run_time._parts(table.paths.tolist())) for table in tables]
            limits = [run_time.MOST_SEGMENTS, run_time.MOST_PATHS, run_time.MOST_PARTS]
            limits += [run_time.MOST_SUMS, run_time.USUAL_SUMS]
            assert [*map(int, found.stdout.split())] == parts + limits


def test_layers_without_kernels_are_listed_with_the_reason():
    product = ChannelwiseTensorProduct("32x0e", "0e", "0e")  # sums no edges
    conv = ChannelwiseConv("32x0e", "0e", "0e")
    model = nn.Sequential(conv, product, EdgeProduct(product))
    found = compile_kernels(model)
    assert found == dict.fromkeys(("0", "2"), "general kernels: the table is on cpu")
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, got list"):
        compile_kernels([model])


# --- How they come to be used ---------------------------------------------------------------------


class FakeLibrary:
    """The functions of the CUDA library, which note their calls."""

    def __init__(self, entry: int = 3, ahead: int = 0) -> None:
        self.calls: list[tuple[object, ...]] = []
        self._entry, self._ahead = entry, ahead
        self.equigeo_kernel_sources = partial(json.dumps(SOURCES).encode)

    def equigeo_knows_table(self, numbers, sizes) -> int:
        self.calls.append(("knows", *sizes))
        return self._ahead

    def equigeo_load_kernels(self, numbers, cubin, symbols, message, size) -> int:
        self.calls.append(("load", tuple(numbers), cubin, list(symbols)))
        message.value = b"cudaErrorNoKernelImageForDevice"
        return self._entry

    def equigeo_test_kernels(self, entry: int) -> None:
        self.calls.append(("test", entry))

    def equigeo_trust_kernels(self, entry: int, device: int) -> None:
        self.calls.append(("trust", entry, device))


TABLE = coupled_table(*COUPLED["mace medium"], ir_mul=True)
SIZES = (10, 512, 16, 1280, 128 * 40)
PASSED = Verdict("passed", "now", 0.1, 3, "nothing")


@pytest.fixture
def use(monkeypatch):
    """Make the kernels of a table on device 1, where compiling and testing are replaced."""

    def made(library: FakeLibrary, table: PathTable = TABLE, *, code=None, verdict=PASSED) -> str:
        def compile_program(program, load):
            if code is None:
                return load(MachineCode(b"cubin\0of it", ("one", "two"))), "key"
            raise CompileError(code)

        def tested(index, key, cases, choose):
            assert (index, key) == (1, "key")
            assert [case.op for case in cases] == [case.op for case in convolution_cases(table)]
            choose()
            if isinstance(verdict, Exception):
                raise verdict
            return verdict

        monkeypatch.setattr(run_time, "compiled", compile_program)
        monkeypatch.setattr(run_time, "verdict_on_kernels", tested)
        numbers = run_time.known_numbers(table)
        return run_time._made(run_time._Kernels(library, 1), numbers, table)

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setattr(run_time, "_sizes", {})
    warn_once.cache_clear()
    return made


def test_kernels_are_loaded_tested_and_then_trusted(use):
    library = FakeLibrary()
    assert use(library) == "compiled"
    numbers = run_time.known_numbers(TABLE)
    load = ("load", numbers, b"cubin\0of it", [b"one", b"two"])
    assert library.calls == [("knows", *SIZES), load, ("test", 3), ("trust", 3, 1)]
    untested = FakeLibrary()  # EQUIGEO_CUDA_SELF_TEST=0
    assert use(untested, verdict=None) == "compiled"
    assert untested.calls[-1] == ("trust", 3, 1)


@pytest.mark.parametrize(
    ("library", "options", "reason"),
    [
        (FakeLibrary(), {"code": "a kernel spills 999 bytes"}, "a kernel spills 999 bytes"),
        (FakeLibrary(-1), {}, "the compiled kernels cannot be loaded: cudaErrorNoKernelImage"),
        (
            FakeLibrary(),
            {"verdict": Verdict("failed", "now", 0.1, 1, "wrong numbers")},
            "compiled kernels failed their self-test: wrong numbers",
        ),
        (
            FakeLibrary(),
            {"verdict": torch.OutOfMemoryError("no memory")},
            "the self-test of compiled kernels stopped: no memory",
        ),
    ],
)
def test_what_fails_is_never_trusted_and_warned_of(use, caplog, library, options, reason):
    with caplog.at_level(logging.WARNING, "equigeo"):
        for _ in range(3):
            assert use(library, **options).startswith(f"general kernels: {reason}")
    (record,) = caplog.records
    assert f"general CUDA kernels run for a convolution: {reason}" in record.getMessage()
    assert not [call for call in library.calls if call[0] == "trust"]
    assert use(FakeLibrary()) == "compiled"  # its sizes are not taken


def test_tables_of_one_size_are_told_apart(use):
    assert use(FakeLibrary(ahead=run_time.SAME_TABLE)) == "compiled ahead"
    other = "general kernels: another table of these sizes has kernels"
    assert use(FakeLibrary(ahead=run_time.SAME_SIZES)) == other
    assert use(FakeLibrary()) == "compiled"
    weights = TABLE.paths.clone()
    weights[[0, 1], 15] = weights[[1, 0], 15]
    assert use(FakeLibrary(), replace(TABLE, paths=weights)) == other


def test_verdict_is_that_of_the_thread_that_uses_the_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    required: list[int] = []
    watch = SimpleNamespace(path=str(ROOT / "README.md"), require=required.append)
    monkeypatch.setattr(first_use, "_watch", watch)
    threads: list[int] = []
    states = iter(["failed", "passed"])

    def run_cases(index, cases):
        assert threading.get_ident() == threads[-1]
        return replace(PASSED, state=next(states))

    def verdict(kernels: str) -> Verdict | None:
        return verdict_on_kernels(
            SIMULATED, kernels, [], lambda: threads.append(threading.get_ident())
        )

    monkeypatch.setattr(first_use, "_run_cases", run_cases)
    assert not verdict("first").has_passed
    assert verdict("first").has_passed  # a failure is not kept
    assert verdict("first").has_passed
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    with pytest.raises(StopIteration):
        verdict("second")
    assert required == [SIMULATED] * 4
    monkeypatch.setattr(first_use, "_watch", None)
    assert verdict("first") is None


@pytest.mark.parametrize("wrong", [False, True])
def test_self_test_compares_the_convolution_and_its_gradients(wrong, monkeypatch):
    if wrong:
        results = first_use.worst_deviation
        monkeypatch.setattr(
            first_use, "worst_deviation", lambda *given: replace(results(*given), error=1.0)
        )
    found = first_use._run_cases(
        SIMULATED, convolution_cases(table_of("32x0e", "0e + 1o", "0e + 1o"))
    )
    assert found.has_passed is not wrong
    assert found.cases == (1 if wrong else 3)


# --- What they are compiled to --------------------------------------------------------------------


def test_sources_hold_all_that_they_include():
    stand_ins = {path.name for path in (ROOT / "csrc" / STAND_INS).iterdir()}
    for text in SOURCES.values():
        for target in re.findall(r'^#include [<"]([^">]+)', text, re.MULTILINE):
            assert target in {*SOURCES, "sanitizer/asan_interface.h"}
    assert stand_ins < set(SOURCES)


PROGRAMS = {name: table_of(*irreps) for name, irreps in FAMILIES.items()}
ARCHITECTURES = [*product(PROGRAMS, ["sm_90"]), *product(["MACE"], ["sm_80", "sm_100"])]


@pytest.mark.full
@pytest.mark.parametrize(("name", "architecture"), ARCHITECTURES)
def test_nvrtc_compiles_kernels_that_hardly_spill(name, architecture, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    code = compiled_code(PROGRAMS[name], architecture)
    (tmp_path / "kernels.cubin").write_bytes(code.cubin)
    usage = dumped(tmp_path / "kernels.cubin", "-res-usage")
    assert len(re.findall(r" REG:\d+", usage)) == len(run_time.KERNELS)
    assert all(int(size) <= MOST_SPILLED for size in re.findall(r" LOCAL:(\d+)", usage))


AHEAD = """
#include "kernels/cuda/known_models.h"
#include "kernels/cuda/run_time_kernels.cuh"
namespace equigeo {
const void* const kernels[] = {KERNELS};
}
"""


@pytest.mark.full
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_kernels_have_the_instructions_of_those_compiled_ahead(architecture, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    code = compiled_code(coupled_table(*COUPLED["mace medium"], ir_mul=True), architecture)
    names = [kernel_name(symbol) for symbol in demangled(list(code.symbols))]
    wanted = [kernel.replace("equigeo::", "") for kernel in run_time.KERNELS]
    assert names == [kernel.replace(">>", "> >") for kernel in wanted]
    (tmp_path / "mine.cubin").write_bytes(code.cubin)
    mine = instructions(tmp_path / "mine.cubin")
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc, which compiles kernels ahead, is not on PATH")
    kernels = ", ".join(f"(const void*){name}" for name in wanted)
    source = AHEAD.replace("KERNELS", kernels.replace("kTable", "kMaceMedium"))
    (tmp_path / "ahead.cu").write_text(source)
    options = ["-std=c++17", f"-arch={architecture}", f"-I{ROOT / 'csrc'}", "-cubin", "-o"]
    files = [str(tmp_path / name) for name in ("ahead.cubin", "ahead.cu")]
    subprocess.run(["nvcc", *options, *files], check=True)
    ahead = instructions(tmp_path / "ahead.cubin")
    assert len(mine) == len(wanted)
    for name, count in mine.items():
        # Another front end: registers and the order of instructions may differ.
        assert count == pytest.approx(ahead[name.replace("kTable", "kMaceMedium")], rel=0.01)


def compiled_code(table: PathTable, architecture: str) -> MachineCode:
    try:
        compiler = find_compiler()
    except CompileError as error:
        pytest.skip(str(error))
    if shutil.which("cuobjdump") is None:
        pytest.skip("cuobjdump, of the package nvidia-cuda-cuobjdump, is not on PATH")
    numbers = run_time.known_numbers(table)
    program = run_time.program(numbers, SOURCES, architecture)
    return compiled(program, lambda code: code, lambda: compiler)[0]


def instructions(cubin: Path) -> dict[str, int]:
    """Number of all instructions of each kernel, by its name."""
    found = read_code(dumped(cubin, "-sass"))
    names = demangled([symbol for _, symbol in found])
    counts = [code.all for code in found.values()]
    return dict(zip(map(kernel_name, names), counts, strict=True))


def dumped(cubin: Path, option: str) -> str:
    command = ["cuobjdump", option, str(cubin)]
    return subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)


def test_errors_of_nvrtc_name_the_line(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    try:
        compiler = find_compiler()
    except CompileError as error:
        pytest.skip(str(error))
    assert compiler.build.startswith(f"{compiler.version} CL-")
    program = run_time.program((4, 1, 99, 0), SOURCES, "sm_90")
    with pytest.raises(CompileError, match=r"NVRTC [\d.]+: .*error"):
        compiled(program, lambda code: code, lambda: compiler)
    other = replace(program, architecture="sm_1")
    with pytest.raises(CompileError, match="NVRTC"):
        compiled(other, lambda code: code, lambda: compiler)
    assert not [*tmp_path.iterdir()]
