"""Machine code of kernels that are compiled at run time, and its cache on disk."""

import json
import logging
import os
import threading
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo._core.files import cache_path, warn_once
from equigeo.ops.runtime import nvrtc
from equigeo.ops.runtime.nvrtc import CompileError, MachineCode, Program, compiled

PROGRAM = Program("source", {"a.h": "text"}, ("first", "second"), "sm_90")


class FakeCompiler:
    """Counts its programs; their machine code depends on all of them."""

    def __init__(self, version: str = "13.0") -> None:
        self.build = version
        self.programs: list[Program] = []

    def compile(self, program: Program) -> MachineCode:
        self.programs.append(program)
        return MachineCode(f"{self.build} {program}".encode() + b"\n\0\xff", program.kernels)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path))
    warn_once.cache_clear()
    return tmp_path / "kernels"


def code_of(program: Program, compiler: FakeCompiler) -> MachineCode:
    return compiled(program, lambda code: code, lambda: compiler)[0]


def test_a_program_is_compiled_once_after_a_message(folder, caplog):
    compiler, other = FakeCompiler(), FakeCompiler()
    with caplog.at_level(logging.INFO, "equigeo"):
        code = code_of(PROGRAM, compiler)
        assert code_of(PROGRAM, compiler) == code_of(PROGRAM, other) == code
    (record,) = caplog.records
    assert record.getMessage().startswith("NVRTC compiles CUDA kernels")
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
        (file,) = cache_path("kernels").iterdir()
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
    code_of(other, compiler)
    (place,) = (path for path in folder.iterdir() if path != file)
    place.write_bytes(file.read_bytes())
    assert code_of(other, compiler).cubin != code_of(PROGRAM, compiler).cubin
    assert len(compiler.programs) == 3


OTHERS = (["first"], ["first", 2], ["first", "\ud800"], "ab", None, {"first": 1})


@pytest.mark.parametrize(
    ("symbols", "hashed"), [(["second", "first"], False), *((symbols, True) for symbols in OTHERS)]
)
def test_an_entry_with_other_symbols_is_compiled_again(folder, symbols, hashed):
    compiler = FakeCompiler()
    code = code_of(PROGRAM, compiler)
    (file,) = folder.iterdir()
    digest, first, cubin = file.read_bytes().split(b"\n", 2)
    entry = json.dumps(json.loads(first) | {"symbols": symbols}).encode() + b"\n" + cubin
    digest = nvrtc._hash(entry).encode() if hashed else digest
    file.write_bytes(digest + b"\n" + entry)
    assert code_of(PROGRAM, compiler) == code
    assert len(compiler.programs) == 2


def test_code_that_cannot_be_loaded_is_compiled_once_more_and_not_kept(folder):
    compiler, loads = FakeCompiler(), []

    def fail(code: MachineCode) -> None:
        loads.append(code)
        raise CompileError("it cannot be loaded")

    for kept in (0, 1):
        with pytest.raises(CompileError, match="it cannot be loaded"):
            compiled(PROGRAM, fail, lambda: compiler)
        assert len(loads) == 1 + 2 * kept
        assert len(list(folder.glob("*"))) == kept
        code_of(PROGRAM, compiler)


def test_hash_is_that_of_the_machine_code_and_its_symbols(folder):
    class Other(FakeCompiler):
        def compile(self, program: Program) -> MachineCode:
            return MachineCode(b"other", program.kernels)

    hashes = set()
    for compiler in (FakeCompiler(), Other()):
        for _ in range(2):
            hashes.add(compiled(PROGRAM, lambda code: code, lambda made=compiler: made)[1])
        for file in folder.iterdir():
            file.unlink()
    assert len(hashes) == 2


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners")
@pytest.mark.parametrize("change", ["mode of the folder", "mode of the file", "owner"])
def test_what_others_may_have_written_is_not_loaded(folder, change, monkeypatch, caplog):
    compiler = FakeCompiler()
    code_of(PROGRAM, compiler)
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    if change == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    else:
        (file if change == "mode of the file" else folder).chmod(0o720)
    with caplog.at_level(logging.WARNING, "equigeo"):
        for _ in range(2):
            code_of(PROGRAM, compiler)
    assert len(compiler.programs) == (2 if change == "mode of the file" else 3)
    (record,) = caplog.records
    assert "another user owns or may write to" in record.getMessage()


@pytest.mark.parametrize("place", ["a file in its way", "no home"])
def test_without_a_folder_programs_are_compiled_with_one_warning(
    place, tmp_path, monkeypatch, caplog
):
    warn_once.cache_clear()
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
    assert record.getMessage().startswith("CUDA kernels are not kept and compiled in every process")


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


@pytest.mark.parametrize(
    ("cuda", "package"), [("12.8", "nvidia-cuda-nvrtc-cu12"), ("13.0", "nvidia-cuda-nvrtc")]
)
def test_without_nvrtc_the_error_names_the_package(monkeypatch, cuda, package):
    searched: list[str] = []

    def missing(path: str) -> None:
        searched.append(path)
        raise OSError(path)

    monkeypatch.setattr(nvrtc, "Compiler", missing)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    nvrtc._search.cache_clear()
    for _ in range(3):
        with pytest.raises(CompileError, match=rf"pip install {package}$"):
            nvrtc.find_compiler()
    assert len(searched) == len(set(searched))  # one search
    nvrtc._search.cache_clear()
