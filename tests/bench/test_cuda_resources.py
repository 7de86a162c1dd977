from __future__ import annotations

import pytest

from bench.cuda_resources import ARCHITECTURES, Resources, kernel_name, occupancy, read_log

A100, H100 = ARCHITECTURES["sm_80"], ARCHITECTURES["sm_90"]
# Two kernels as nvcc 13 compiles them, one with shared memory, and one that spills.
SYMBOL = (
    "_ZN7equigeo52_GLOBAL__N__a1b666f2_13_axis_flags_cu_4f313b49_28492{}IdEEvNS_9AxisFlagsIT_EE"
)
LOG = f"""[18/36] Building CUDA object csrc/kernels/cuda/axis_flags.cu.o
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{SYMBOL.format("12judge_clouds")}' for 'sm_90'
ptxas info    : Function properties for {SYMBOL.format("12judge_clouds")}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 46 registers, used 0 barriers
ptxas info    : Compile time = 546.089 ms
ptxas info    : Compiling entry function '{SYMBOL.format("4join")}' for 'sm_80'
ptxas info    : Function properties for {SYMBOL.format("4join")}
    32 bytes stack frame, 24 bytes spill stores, 28 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers, 20480 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 627.491 ms
"""


# NVIDIA's occupancy calculator: (registers, threads, shared memory) to active warps of 64.
@pytest.mark.parametrize(
    ("registers", "threads", "shared", "warps"),
    [
        (32, 256, 0, 64),
        (32, 1024, 0, 64),
        (32, 32, 0, 32),  # 32 blocks at most
        (40, 256, 0, 48),  # 1280 registers of a warp: 51 warps, in pieces of 4 and blocks of 8
        (64, 256, 0, 32),
        (65, 256, 0, 24),  # registers come in pieces of 8 for each thread
        (128, 256, 0, 16),
        (255, 128, 0, 8),
        (255, 1024, 0, 0),  # no block fits
        (32, 96, 0, 63),
    ],
)
@pytest.mark.parametrize("architecture", [A100, H100], ids=lambda a: a.name)
def test_occupancy_is_that_of_the_calculator(architecture, registers, threads, shared, warps):
    assert occupancy(architecture, registers, threads, shared) == warps / 64


@pytest.mark.parametrize(
    ("architecture", "shared", "warps"),
    [
        (A100, 48 * 1024, 24),  # three blocks of 49 KiB in 164
        (H100, 48 * 1024, 32),  # four in 228
        (A100, 163 * 1024, 8),
        (H100, 163 * 1024, 8),
        (A100, 227 * 1024, 0),
        (H100, 227 * 1024, 8),
        (A100, 19 * 1024, 64),  # eight blocks of 20 KiB
        (A100, 20 * 1024, 56),  # seven of 21
        (A100, 19 * 1024 + 1, 64),
        (A100, 19 * 1024 + 513, 56),
    ],
)
def test_shared_memory_limits_blocks(architecture, shared, warps):
    assert occupancy(architecture, 32, 256, shared) == warps / 64


def test_the_log_of_the_compiler_is_read():
    assert list(read_log(LOG)) == [
        Resources("axis_flags.cu", "judge_clouds<double>", "sm_90", 46, 0, 0),
        Resources("axis_flags.cu", "join<double>", "sm_80", 80, 52, 20480),
    ]
    assert list(read_log("")) == []


def test_a_log_that_breaks_off_is_refused():
    with pytest.raises(ValueError, match=r"nothing of the registers of .*join<double>.* on sm_80"):
        list(read_log(LOG[: LOG.index("    32 bytes stack")]))


def test_names_are_those_of_kernels_alone():
    name = "void equigeo::(anonymous namespace)::run<equigeo::Product, float>(equigeo::Op<int>)"
    assert kernel_name(name) == "run<Product, float>"
    assert kernel_name("sum_rows<float>") == "sum_rows<float>"
    hashed = "void equigeo::_GLOBAL__N__a1_13_x_cu_4f::sum<double>(equigeo::A<double>)"
    assert kernel_name(hashed) == "sum<double>"
