"""Machine code of kernels that are compiled at run time, and its cache on disk."""

import logging
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.ops.runtime import nvrtc
from equigeo.ops.runtime.nvrtc import CompileError, MachineCode, Program, compiled

PROGRAM = Program("source", {"a.h": "text"}, ("first", "second"), "sm_90")


class FakeCompiler:
    """Counts its programs; their machine code depends on all of them."""

    def __init__(self, version: str = "13.0") -> None:
        self.version = version
        self.programs: list[Program] = []

    def compile(self, program: Program) -> MachineCode:
        self.programs.append(program)
        return MachineCode(f"{self.version} {program}".encode() + b"\n\0\xff", program.kernels)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    nvrtc._warn_uncached.cache_clear()
    return tmp_path / "kernels"


def code_of(program: Program, compiler: FakeCompiler) -> MachineCode:
    return compiled(program, lambda: compiler)[0]


def test_a_program_is_compiled_once(folder):
    compiler, other = FakeCompiler(), FakeCompiler()
    code = code_of(PROGRAM, compiler)
    assert code_of(PROGRAM, compiler) == code_of(PROGRAM, other) == code
    assert len(compiler.programs) == 1
    assert not other.programs
    (file,) = folder.iterdir()  # no temporary file is left
    assert file.suffix == ".cubin"


def test_every_part_of_a_program_and_the_version_are_its_own_entry(folder):
    compiler = FakeCompiler()
    changes = {
        "source": "other",
        "headers": {"a.h": "other"},
        "kernels": ("first", "other"),
        "architecture": "sm_80",
    }
    programs = [PROGRAM, *(replace(PROGRAM, **{name: new}) for name, new in changes.items())]
    codes = [code_of(program, compiler) for program in programs]
    codes.append(code_of(PROGRAM, FakeCompiler("13.1")))
    assert len({code.cubin for code in codes}) == len(codes) == len(list(folder.iterdir()))
    assert [code_of(program, compiler) for program in programs] == codes[:-1]
    assert len(compiler.programs) == len(programs)


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_entry_is_compiled_again(tmp_path_factory, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIGEO_CACHE", str(tmp_path_factory.mktemp("cache")))
        compiler = FakeCompiler()
        code = code_of(PROGRAM, compiler)
        (file,) = nvrtc.cache_path("kernels").iterdir()
        whole = file.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        new = data.draw(st.binary(max_size=3))
        end = data.draw(st.sampled_from([at + 1, len(whole)]))
        damaged = whole[:at] + new + whole[end:]
        file.write_bytes(damaged)
        assert code_of(PROGRAM, compiler) == code
        assert len(compiler.programs) == 1 + (damaged != whole)
        assert file.read_bytes() == whole


def test_an_entry_of_another_program_under_its_name_is_not_used(folder):
    compiler = FakeCompiler()
    code_of(PROGRAM, compiler)
    (file,) = folder.iterdir()
    other = replace(PROGRAM, source="other")
    _, key = compiled(other, lambda: compiler)
    (folder / f"{key}.cubin").write_bytes(file.read_bytes())
    assert code_of(other, compiler).cubin != code_of(PROGRAM, compiler).cubin
    assert len(compiler.programs) == 3


@pytest.mark.parametrize("place", ["a file in its way", "no home"])
def test_without_a_folder_programs_are_compiled_with_one_warning(
    place, tmp_path, monkeypatch, caplog
):
    nvrtc._warn_uncached.cache_clear()
    (tmp_path / "file").touch()
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "file"))
    if place == "no home":
        monkeypatch.setenv("EQUIGEO_CACHE", "~nobody-of-this-name/cache")
    compiler = FakeCompiler()
    with caplog.at_level(logging.WARNING, "equigeo"):
        codes = [code_of(PROGRAM, compiler) for _ in range(3)]
    assert codes[0] == codes[1] == codes[2]
    assert len(compiler.programs) == 3
    (record,) = caplog.records
    assert record.getMessage().startswith("compiled CUDA kernels are not kept for the next process")


def test_threads_that_come_at_once_leave_one_whole_entry(folder):
    start, found, compiler = threading.Barrier(8), [], FakeCompiler()

    def work() -> None:
        start.wait()
        found.append(code_of(PROGRAM, compiler))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {code_of(PROGRAM, FakeCompiler())}
    assert len(list(folder.iterdir())) == 1


def test_without_nvrtc_the_error_names_the_package(monkeypatch):
    def missing(path: str) -> None:
        raise OSError(path)

    monkeypatch.setattr(nvrtc, "Compiler", missing)
    with pytest.raises(CompileError, match="pip install nvidia-cuda-nvrtc"):
        nvrtc.find_compiler.__wrapped__()
