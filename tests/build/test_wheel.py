"""What building the package gives, with and without PyTorch and a compiler, and where it runs."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import e3nn
import numpy
import pytest
import scipy
import torch
import trimesh

import equigeo

ROOT = Path(__file__).parents[2]
TOOLS = [name for name in ("cmake", "ninja", "g++") if shutil.which(name) is None]
needs_tools = pytest.mark.skipif(bool(TOOLS), reason=f"not on the PATH: {TOOLS}")
INSTEAD = "or do without kernels: EQUIGEO_PURE=1 pip install ."

# One op of each kind, its kernels against the reference implementation.
FIRST_LAYER = """
import sys, torch, equigeo
from equigeo.ops.self_test_cases import all_cases
from equigeo.ops.self_test import worst_deviation
assert equigeo.kernels_info()["cpu"].startswith(sys.prefix), equigeo.kernels_info()
ops = {"gather_sum", "spherical_harmonics", "principal_axes", "channelwise_conv", "block_linear",
       "symmetric_contraction"}
cases = [case for case in all_cases() if case.op in ops]
found = [worst_deviation(case, torch.device("cpu")) for case in cases]
assert len(found) == len(ops) and all(one.is_tolerated for one in found), found
layer = equigeo.tensor_products.FullTensorProduct("1x0e+1x1o", "1x1o")
assert layer(torch.ones(2, 4), torch.ones(2, 3)).isfinite().all()
print("accelerated", equigeo.__file__)
"""


def run(*command: str | Path, **environment: str) -> str:
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def configured(
    python: Path, build: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={python}"]
    clean = {key: value for key, value in os.environ.items() if key != "CXX"}
    return subprocess.run(
        [*command, *options], env=clean | environment, capture_output=True, text=True, check=False
    )


def environment(folder: Path) -> Path:
    """The interpreter of an environment with nothing in it."""
    venv.create(folder, with_pip=False)
    return folder / "bin" / "python"


def site_packages(python: Path) -> Path:
    (folder,) = python.parents[1].glob("lib/python*/site-packages")
    return folder


def tools(folder: Path, *names: str) -> str:
    """A PATH with these programs and no others."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def refusals(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode != 0
    return [line.strip() for line in result.stderr.splitlines() if INSTEAD in line]


@needs_tools
def test_without_pytorch_one_sentence_says_what_to_type(tmp_path):
    python = environment(tmp_path / "bare")
    path = tools(tmp_path / "bin", "cmake", "ninja")  # the compiler is not asked for first
    (sentence,) = refusals(configured(python, tmp_path / "build", PATH=path))
    assert f"{python} cannot import torch" in sentence
    assert "No module named 'torch'" in sentence
    assert "pip install 'torch>=2.10' && pip install ., or" in sentence


@needs_tools
def test_without_a_compiler_one_sentence_says_what_to_type(tmp_path):
    path = tools(tmp_path / "bin", "cmake", "ninja")
    (sentence,) = refusals(configured(Path(sys.executable), tmp_path / "build", PATH=path))
    assert "there is no C++ compiler" in sentence
    assert "apt install g++ && pip install ., or" in sentence


def fake_torch(python: Path, version: str) -> None:
    package = site_packages(python) / "torch"
    (package / "include").mkdir(parents=True)
    text = f"__version__ = {version!r}\nclass version: cuda = None\n"
    (package / "__init__.py").write_text(text)


@needs_tools
def test_an_isolated_build_finds_the_pytorch_that_is_installed(tmp_path):
    python = environment(tmp_path / "env")
    fake_torch(python, "2.13.0")
    (tmp_path / "isolation").mkdir()
    # As pip does it: what is installed is taken off the path of the build.
    hide = (
        f"import sys\nsys.path[:] = [p for p in sys.path if p != {str(site_packages(python))!r}]\n"
    )
    (tmp_path / "isolation" / "sitecustomize.py").write_text(hide)
    isolated = {"PYTHONPATH": str(tmp_path / "isolation")}
    hidden = subprocess.run(
        [python, "-c", "import torch"], env=os.environ | isolated, capture_output=True, check=False
    )
    assert hidden.returncode != 0
    result = configured(python, tmp_path / "build", **isolated)
    assert result.returncode == 0, result.stderr


@needs_tools
def test_a_pytorch_that_is_too_old_is_named(tmp_path):
    python = environment(tmp_path / "env")
    fake_torch(python, "2.9.1")
    (sentence,) = refusals(configured(python, tmp_path / "build"))
    assert "torch 2.9.1 is too old, 2.10 is needed" in sentence


GCC_8 = {"ID_RUN": "1", "ID": "GNU", "VERSION": "8.5.0", "FORCED": "1"}


@needs_tools
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["EQUIGEO_ISAS=avx3"], "EQUIGEO_ISAS has no instruction set avx3: name native, all, or"),
        (
            ["CMAKE_SYSTEM_NAME=Linux", "CMAKE_SYSTEM_PROCESSOR=aarch64"],
            "a cross build for aarch64 needs the PyTorch of its target: unpack its wheel (pip",
        ),
        (["EQUIGEO_TORCH=/none"], "must be a folder with a version.py, got /none: name the folder"),
        (
            [f"CMAKE_CXX_COMPILER_{name}={value}" for name, value in GCC_8.items()],
            "is too old: version 8.5.0, 9 is needed: name a newer one, such as g++ 12: CXX=g++-12",
        ),
    ],
    ids=["instruction set", "cross build", "folder of PyTorch", "compiler"],
)
def test_an_impossible_build_is_one_sentence_with_a_remedy(tmp_path, options, message):
    python = environment(tmp_path / "env")
    fake_torch(python, "2.13.0")
    options = [f"-D{option}" for option in options]
    (sentence,) = refusals(configured(python, tmp_path / "build", *options))
    assert message in sentence


@needs_tools
@pytest.mark.full
def test_the_pure_wheel_is_for_every_platform(tmp_path):
    flags = ("--no-cache-dir", "--no-build-isolation", "--no-deps")
    options = ("-C", f"build-dir={tmp_path / 'build'}", "-w", tmp_path)
    run(sys.executable, "-m", "pip", "wheel", ".", *flags, *options, EQUIGEO_PURE="1")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"equigeo-{equigeo.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith(".so")]
    assert {"equigeo/py.typed", "equigeo/examples/price_of_freedom.json"} <= {*names}


@needs_tools
@pytest.mark.full
def test_the_sources_that_are_distributed_are_whole(tmp_path):
    code = f"import scikit_build_core.build as b; b.build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", code)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    needed = {"CMakeLists.txt", "csrc/kernels/cpu/isa.cpp", "LICENSE", "data/README.md"}
    assert needed <= names
    assert not [
        name for name in names if name.startswith((".ci", "bench/results/", "runs/", ".venv"))
    ]


needs_wheel = pytest.mark.skipif("EQUIGEO_WHEEL" not in os.environ, reason="make test-wheel")


@pytest.fixture
def wheel() -> Path:
    """The wheel of ``make wheel``."""
    return Path(os.environ["EQUIGEO_WHEEL"]).resolve()


@needs_wheel
def test_one_wheel_serves_every_python(wheel):
    assert "-py3-none-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert "equigeo/ops/_kernels_cpu.so" in names
    assert "equigeo/py.typed" in names
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"equigeo"}


@needs_wheel
def test_the_wheel_runs_its_kernels_where_there_is_no_compiler(wheel, tmp_path):
    python = environment(tmp_path / "fresh")
    pip = sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"
    run(*pip, wheel)
    # Folders as they are: their own .pth files would bring in this checkout.
    packages = (torch, numpy, scipy, e3nn, trimesh)
    folders = {str(Path(package.__file__).parents[1]) for package in packages}
    (site_packages(python) / "shared.pth").write_text("\n".join(folders) + "\n")
    clean = {key: x for key, x in os.environ.items() if not key.startswith(("EQUIGEO_", "PYTHON"))}
    result = subprocess.run(
        [python, "-c", FIRST_LAYER],
        cwd=tmp_path,
        env=clean | {"PATH": tools(tmp_path / "bin"), "EQUIGEO_REQUIRE_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith(f"accelerated {tmp_path / 'fresh'}")
