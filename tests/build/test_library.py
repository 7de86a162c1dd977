"""Loading of the compiled libraries: what loads one runs in a process of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import equigeo.ops
from equigeo.ops.runtime import library as loading
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.schemas import MARKER, fingerprint, read_schemas
from tests.tier import tier
from tests.wrong_inputs import refused

INFO = equigeo.ops.kernels_info()
OWN = str(Path(INFO["cpu"] or ".").parent)  # the folder of the library that is tested here
needs_kernels = pytest.mark.skipif(INFO["cpu"] is None, reason="no compiled kernels")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")

# Creates a file when it is opened, as the real library registers its ops when it is opened, and has
# the one function that is called after loading.
SOURCE = """
#include <cstdio>
extern "C" void equigeo_limit_memory(long long) {{}}
extern const char marker[];
const char marker[] = "{marker}";
static const int opened = [] {{ std::fclose(std::fopen("{trace}", "w")); return 0; }}();
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EQUIGEO_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **environment},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def load(library: Path) -> subprocess.CompletedProcess[str]:
    return python("import equigeo.ops", EQUIGEO_KERNELS=str(library.parent))


def build(folder: Path, digest: str) -> tuple[Path, Path]:
    library, trace = folder / "_kernels_cpu.so", folder / "opened"
    source = folder / "library.cpp"
    source.write_text(SOURCE.format(marker=MARKER.decode() + digest, trace=trace))
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    return library, trace


def test_kernels_are_loaded_where_they_are_required():
    if os.environ.get("EQUIGEO_REQUIRE_KERNELS") != "1":
        pytest.skip("kernels are optional here")
    assert INFO["cpu"] is not None


def test_the_build_reads_the_schemas_that_are_registered():
    sources = read_schemas(Path(equigeo.ops.__file__).parent)
    assert sorted(sources) == sorted(SCHEMAS.values())


@pytest.fixture
def load_with(monkeypatch):
    """Load as an import does, with these variables of the environment."""
    for name in [name for name in os.environ if name.startswith("EQUIGEO_")]:
        monkeypatch.delenv(name)

    def load(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        loading.load_kernels([])

    return load


@needs_compiler
def test_a_library_of_other_schemas_is_refused_before_it_is_opened(tmp_path, load_with):
    library, trace = build(tmp_path, "0123456789abcdef")
    message = f"{library} is stale: it has schemas 0123456789abcdef.*rebuild with `pip install"
    refused(message, load_with, error=ImportError, EQUIGEO_KERNELS=tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("isas", "flags", "is_opened"),
    [
        ("avx512", "fpu avx avx2 fma", False),
        ("avx512", "avx2 fma avx512f avx512bw avx512dq avx512vl", True),
        ("avx2", "avx2", False),
        ("avx2,avx512", "avx2 fma", True),
        ("baseline,avx512", "fpu", True),
        ("baseline,neon", "fpu", True),
        ("neon", "fpu avx2 fma", False),
        ("neon", "aarch64", True),
        ("baseline,avx2", "aarch64", False),
        ("avx512", None, True),
    ],
)
def test_a_library_for_another_processor_is_refused_before_it_is_opened(
    tmp_path, load_with, monkeypatch, isas, flags, is_opened
):
    library = tmp_path / "_kernels_cpu.so"
    marker = MARKER.decode() + fingerprint(SCHEMAS.values()) + f"equigeo-isas:{isas}"
    library.write_bytes(marker.encode())
    known = tmp_path / "cpuinfo"
    processor = "aarch64" if flags == "aarch64" else "x86_64"
    monkeypatch.setattr(loading.platform, "machine", lambda: processor)
    if flags is not None:
        known.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    monkeypatch.setattr(loading, "_CPU_INFO", known)
    message = "is broken" if is_opened else f"was built for {isas}, which this processor has not"
    refused(message, load_with, error=ImportError, EQUIGEO_KERNELS=tmp_path)


@needs_compiler
def test_a_library_of_these_schemas_is_opened(tmp_path):
    library, trace = build(tmp_path, fingerprint(SCHEMAS.values()))
    result = load(library)
    assert result.returncode == 0, result.stderr
    assert trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF", "is stale: it has no schemas"),
        (MARKER + fingerprint(SCHEMAS.values()).encode(), "is broken: .* rebuild with"),
    ],
)
def test_a_damaged_library_is_refused(tmp_path, load_with, content, message):
    library = tmp_path / "_kernels_cpu.so"
    library.write_bytes(content)
    refused(f"{library} {message}", load_with, error=ImportError, EQUIGEO_KERNELS=tmp_path)


def test_a_missing_library_is_one_line_in_the_log(tmp_path):
    result = python("import equigeo.ops", EQUIGEO_KERNELS=str(tmp_path))
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "no compiled kernels, so that slower reference implementations run; rebuild with"
    )


@pytest.mark.parametrize(
    ("variable", "library"),
    [("EQUIGEO_REQUIRE_KERNELS", "cpu"), ("EQUIGEO_SIMULATE_CUDA", "simulated")],
)
def test_a_missing_library_is_an_error_where_it_is_required(tmp_path, load_with, variable, library):
    missing = tmp_path / f"_kernels_{library}.so"
    with pytest.raises(ImportError, match=f"{variable}=1, but {missing} is missing; "):
        load_with(EQUIGEO_KERNELS=tmp_path, **{variable: 1})


@needs_compiler
def test_a_simulated_library_is_loaded_in_the_place_of_the_others(tmp_path):
    library, trace = build(tmp_path, fingerprint(SCHEMAS.values()))
    simulated = library.rename(tmp_path / "_kernels_simulated.so")
    code = "import equigeo.ops as o; print(o.kernels_info())"
    result = python(code, EQUIGEO_KERNELS=str(tmp_path), EQUIGEO_SIMULATE_CUDA="1")
    assert result.stderr == ""
    assert eval(result.stdout) == {
        "cpu": None,
        "cuda": str(simulated),
        "isa": None,
        "available_isas": [],
    }
    assert trace.exists()


def test_kernels_can_be_left_out():
    code = "import equigeo.ops as o; print(o.kernels_info())"
    result = python(code, EQUIGEO_KERNELS="0")
    assert result.stdout == "{'cpu': None, 'cuda': None, 'isa': None, 'available_isas': []}\n"
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"EQUIGEO_KERNELS": "no"}, "EQUIGEO_KERNELS must be 0, 1 or a folder, got 'no'"),
        ({"EQUIGEO_REQUIRE_KERNELS": "2"}, "EQUIGEO_REQUIRE_KERNELS must be 0 or 1, got '2'"),
        ({"EQUIGEO_KERNELS": "0", "EQUIGEO_REQUIRE_KERNELS": "1"}, "contradicts"),
        ({"EQUIGEO_SIMULATE_CUDA": "yes"}, "EQUIGEO_SIMULATE_CUDA must be 0 or 1, got 'yes'"),
        ({"EQUIGEO_KERNELS": "0", "EQUIGEO_SIMULATE_CUDA": "1"}, "SIMULATE_CUDA=1 contradicts"),
    ],
)
def test_a_variable_that_makes_no_sense_is_an_error(load_with, environment, message):
    refused(message, load_with, **environment)


@needs_kernels
def test_every_instruction_set_of_the_machine_can_be_forced():
    for isa in tier(INFO["available_isas"][:1], INFO["available_isas"]):
        code = "import equigeo.ops as o; print(o.kernels_info()['isa'])"
        assert python(code, EQUIGEO_ISA=isa, EQUIGEO_KERNELS=OWN).stdout == f"{isa}\n"


@needs_kernels
def test_an_unknown_instruction_set_is_an_error():
    result = python("import equigeo.ops", EQUIGEO_ISA="mmx", EQUIGEO_KERNELS=OWN)
    assert result.returncode == 1
    assert f"EQUIGEO_ISA must be one of {INFO['available_isas'][0]}" in result.stderr
    assert "got 'mmx'" in result.stderr


@needs_kernels
def test_a_library_may_be_loaded_before_the_package():
    code = f"""
import torch
torch.ops.load_library({INFO["cpu"]!r})
import equigeo.ops
x, one = torch.ones(1, 2, requires_grad=True), torch.tensor([0])
equigeo.ops.gather_sum(x, one, torch.tensor([0, 1]), one, torch.tensor([0, 1])).sum().backward()
assert x.grad.tolist() == [[1, 1]]
"""
    result = python(code, EQUIGEO_KERNELS=OWN)
    assert result.returncode == 0, result.stderr


@needs_kernels
def test_a_library_of_other_schemas_that_is_loaded_before_the_package_is_refused():
    code = """
import torch
library = torch.library.Library("equigeo", "FRAGMENT")
library.define("gather_sum(Tensor x) -> Tensor")
import equigeo.ops
"""
    result = python(code, EQUIGEO_KERNELS=OWN)
    assert "ImportError: a library of kernels of another version is loaded" in result.stderr


def test_import_asks_nothing_of_a_gpu():
    code = """
import torch

def refuse(*args):
    raise RuntimeError("the driver was asked")

torch.cuda.is_available = torch.cuda.device_count = torch.cuda._lazy_init = refuse
import equigeo, equigeo.ops, equigeo.graphs
assert not torch.cuda.is_initialized()
"""
    result = python(code)
    assert result.returncode == 0, result.stderr
