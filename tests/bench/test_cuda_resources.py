import pytest

from bench.cuda_resources import Resources, kernel_name, read_log

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
