"""Run-time compilation of CUDA kernels by NVRTC, with a cache of their machine code on disk."""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import torch

from equigeo._core.files import cache_path, replace_file

OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v")
MOST_SPILLED = 512
"""Bytes of registers, stored and loaded, with which a kernel is still used."""

FORMAT = 1
"""Version of the files of the cache."""

_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_log = logging.getLogger("equigeo")


class CompileError(RuntimeError):
    """A program cannot be compiled here."""


@dataclass(frozen=True)
class Program:
    """A source, the headers that it may include by name, and the kernels to compile."""

    source: str
    headers: Mapping[str, str]
    kernels: tuple[str, ...]  # as C++ expressions, such as sum<float>
    architecture: str  # such as sm_90


@dataclass(frozen=True)
class MachineCode:
    """A cubin, and the symbols of its kernels in the order of the program."""

    cubin: bytes
    symbols: tuple[str, ...]


class Compiler:
    """A loaded library of NVRTC."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("Version", ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, program: Program) -> MachineCode:
        """Compile a program, or raise :class:`CompileError`, also where registers spill."""
        handle = ctypes.c_void_p()
        count = len(program.headers)
        self._call(
            "CreateProgram",
            ctypes.byref(handle),
            program.source.encode(),
            b"equigeo.cu",
            count,
            _texts(program.headers.values()),
            _texts(program.headers),
        )
        try:
            return self._compiled(handle, program)
        finally:
            self._call("DestroyProgram", ctypes.byref(handle))

    def _compiled(self, handle: ctypes.c_void_p, program: Program) -> MachineCode:
        for kernel in program.kernels:
            self._call("AddNameExpression", handle, kernel.encode())
        options = (f"--gpu-architecture={program.architecture}", *OPTIONS)
        result = self._library.nvrtcCompileProgram(handle, len(options), _texts(options))
        log = self._bytes(handle, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if result != 0:
            first = next((line for line in log.splitlines() if "error" in line), "")
            raise CompileError(f"NVRTC {self.version}: {first or self._error(result)}")
        spilled = max((int(a) + int(b) for a, b in _SPILLS.findall(log)), default=0)
        if spilled > MOST_SPILLED:
            raise CompileError(f"a kernel spills {spilled} bytes of registers")
        symbols = []
        for kernel in program.kernels:
            symbol = ctypes.c_char_p()
            self._call("GetLoweredName", handle, kernel.encode(), ctypes.byref(symbol))
            symbols.append((symbol.value or b"").decode())
        return MachineCode(self._bytes(handle, "CUBIN"), tuple(symbols))

    def _bytes(self, handle: ctypes.c_void_p, name: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"Get{name}Size", handle, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        self._call(f"Get{name}", handle, content)
        return content.raw

    def _call(self, name: str, *arguments: object) -> None:
        result = getattr(self._library, f"nvrtc{name}")(*arguments)
        if result != 0:
            raise CompileError(f"nvrtc{name}: {self._error(result)}")

    def _error(self, result: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(result)
        return text.decode()


def _texts(texts: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


@cache
def find_compiler() -> Compiler:
    """Load NVRTC: of PyTorch's CUDA version, from its packages or the system."""
    # PyTorch's wheels for CUDA require it. A program of a newer CUDA may not load in an older
    # driver.
    major = (torch.version.cuda or "").split(".")[0]
    for name in [f"libnvrtc.so.{major}"] if major else ["libnvrtc.so.13", "libnvrtc.so.12"]:
        packages = (Path(folder).glob(f"nvidia/*/lib/{name}") for folder in sys.path if folder)
        for path in (name, *map(str, chain.from_iterable(packages))):
            try:
                return Compiler(path)
            except OSError:
                continue
    raise CompileError(
        f"there is no NVRTC of CUDA {major or '12 or 13'}: pip install nvidia-cuda-nvrtc"
    )


def compiled(
    program: Program, compiler: Callable[[], Compiler] = find_compiler
) -> tuple[MachineCode, str]:
    """Return the machine code of a program, from the cache if it is there, and its key."""
    # The compiler is part of the key, so that code of another version is never used.
    made_by = compiler()
    key = _key(program, made_by.version)
    code = _read(key, len(program.kernels))
    if code is None:
        code = made_by.compile(program)
        _write(key, code)
    return code, key


def _key(program: Program, version: str) -> str:
    headers = sorted(program.headers.items())
    parts = [FORMAT, version, OPTIONS, program.architecture, program.kernels, program.source]
    return hashlib.sha256(json.dumps([*parts, headers]).encode()).hexdigest()


def _file(key: str) -> Path:
    return cache_path("kernels") / f"{key}.cubin"


def _read(key: str, kernels: int) -> MachineCode | None:
    """Return an entry of the cache, or None where it is missing, damaged or of another format."""
    try:
        first, _, cubin = _file(key).read_bytes().partition(b"\n")
        found = json.loads(first)
        symbols = tuple(found["symbols"])
        whole = found["key"] == key and found["cubin"] == hashlib.sha256(cubin).hexdigest()
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):
        return None
    names = len(symbols) == kernels and all(isinstance(symbol, str) for symbol in symbols)
    return MachineCode(cubin, symbols) if whole and names else None


def _write(key: str, code: MachineCode) -> None:
    first = {
        "key": key,
        "symbols": code.symbols,
        "cubin": hashlib.sha256(code.cubin).hexdigest(),
    }
    try:
        path = _file(key)
    except RuntimeError as error:  # there is no home
        return _warn_uncached(str(error))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(first).encode() + b"\n" + code.cubin)
    except OSError as error:
        _warn_uncached(f"{error.strerror}: {path.parent}")


@cache
def _warn_uncached(reason: str) -> None:
    _log.warning("compiled CUDA kernels are not kept for the next process: %s", reason)
