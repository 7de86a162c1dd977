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
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import TypeVar

import torch

from equigeo._core.files import read_own, write_own

OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v")
MOST_SPILLED = 64
"""Bytes of registers, stored and loaded, with which a kernel is still used."""

_UNCACHED = "CUDA kernels are not kept and compiled in every process"
FORMAT = 2
"""Version of the files of the cache."""

_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_BUILD = re.compile(r"Compiler Build ID: (\S+)|release [\d.]+, (V[\d.]+)")
_log = logging.getLogger("equigeo")
T = TypeVar("T")


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

    @cached_property
    def build(self) -> str:
        """The whole version, which NVRTC writes into a program."""
        handle = ctypes.c_void_p()
        self._call("CreateProgram", ctypes.byref(handle), b"", b"equigeo.cu", 0, None, None)
        try:
            self._call("CompileProgram", handle, 0, None)
            found = _BUILD.findall(self._bytes(handle, "PTX").decode(errors="replace"))
        finally:
            self._call("DestroyProgram", ctypes.byref(handle))
        return " ".join([self.version, *chain.from_iterable(found)])

    def compile(self, program: Program) -> MachineCode:
        """Compile a program; raise :class:`CompileError` if it has errors or spills registers."""
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
def _search() -> Compiler | None:
    # PyTorch's wheels for CUDA require it. A program of a newer CUDA may not load in an older
    # driver.
    major = _cuda()
    for name in [f"libnvrtc.so.{major}"] if major else ["libnvrtc.so.13", "libnvrtc.so.12"]:
        packages = (Path(folder).glob(f"nvidia/*/lib/{name}") for folder in sys.path if folder)
        for path in (name, *map(str, chain.from_iterable(packages))):
            try:
                return Compiler(path)
            except OSError:
                continue
    return None


def _cuda() -> str:
    return (torch.version.cuda or "").split(".")[0]


def find_compiler() -> Compiler:
    """Load NVRTC: of PyTorch's CUDA version, from its packages or the system."""
    found = _search()
    if found is None:
        # From 13 on, the name of the package has no version.
        package = "nvidia-cuda-nvrtc" + ("-cu12" if _cuda() == "12" else "")
        raise CompileError(f"there is no NVRTC of CUDA {_cuda() or '13'}: pip install {package}")
    return found


def compiled(
    program: Program,
    load: Callable[[MachineCode], T],  # raises CompileError if the code cannot be loaded
    compiler: Callable[[], Compiler] = find_compiler,
) -> tuple[T, str]:
    """Load the machine code of a program, from the cache if it is there; also return its hash."""
    # The compiler is part of the key, so that code of another version is never used.
    made_by = compiler()
    key = _key(program, made_by.build)
    code = _read(f"{key}.cubin", key, len(program.kernels))
    if code is not None:
        try:
            return load(code), _hash(_entry(key, code))
        except CompileError as error:
            _log.info("CUDA kernels of the cache are compiled again: %s", error)
    _log.info("NVRTC compiles CUDA kernels of a path table, which takes minutes for large tables")
    code = made_by.compile(program)
    loaded, entry = load(code), _entry(key, code)
    write_own("kernels", f"{key}.cubin", _hash(entry).encode() + b"\n" + entry, _UNCACHED)
    return loaded, _hash(entry)


def _key(program: Program, version: str) -> str:
    headers = sorted(program.headers.items())
    parts = [FORMAT, version, OPTIONS, program.architecture, program.kernels, program.source]
    return _hash(json.dumps([*parts, headers]).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _entry(key: str, code: MachineCode) -> bytes:
    first = json.dumps({"key": key, "symbols": code.symbols})
    return first.encode() + b"\n" + code.cubin


def _read(name: str, key: str, kernels: int) -> MachineCode | None:
    """Return an entry of the cache, or None where it is missing, damaged or of another format."""
    try:
        digest, _, entry = (read_own("kernels", name, _UNCACHED) or b"").partition(b"\n")
        if digest != _hash(entry).encode():
            return None
        first, _, cubin = entry.partition(b"\n")
        found = json.loads(first)
        code = MachineCode(cubin, tuple(found["symbols"]))
        whole = len(code.symbols) == kernels and _entry(key, code) == entry
        names = all(symbol.isascii() and symbol.isprintable() for symbol in code.symbols)
    except (RuntimeError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return code if whole and names else None
