"""Reading machine code and compiler logs, and what is reported as worse than a record."""

import copy
from dataclasses import replace

from bench.cuda_resources import (
    Instructions,
    Resources,
    grown,
    moves,
    read_blocks,
    read_code,
    read_log,
)

LISTING = """
	code for sm_80
		Function : _ZN7equigeo3sumEv
	.headerflags	@"EF_CUDA_SM80"
        /*0000*/                   MOV R1, c[0x0][0x28] ;    /* 0x00000a0000017a02 */
                                                             /* 0x003fde0000000f00 */
        /*0010*/                   LDG.E R2, [R4.64] ;       /* 0x0 */
        /*0020*/                   FFMA R3, R2, R2, R3 ;     /* 0x0 */
        /*0030*/              @!P0 BRA 0x20 ;                /* 0x0 */
        /*0040*/               @P1 BRA 0x10 ;                /* 0x0 */
        /*0050*/               @P2 BRA 0x70 ;                /* 0x0 */
        /*0060*/                   STG.E [R4.64], R3 ;       /* 0x0 */
        /*0070*/                   EXIT ;                    /* 0x0 */
        /*0080*/                   BRA 0x80;                 /* 0x0 */
        /*0090*/                   NOP;                      /* 0x0 */
		..........
	code for sm_90
		Function : _ZN7equigeo3sumEv
        /*0000*/                   EXIT ;                    /* 0x0 */
"""
LOG = """
ptxas info    : Compiling entry function '_ZN7equigeo3sumIfEEvT_' for 'sm_90'
ptxas info    : Function properties for _ZN7equigeo3sumIfEEvT_
    0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 123 registers, used 1 barriers, 512 bytes smem
"""


def test_instructions_are_counted_in_the_code_and_in_its_innermost_loop():
    assert read_code(LISTING) == {
        ("sm_80", "_ZN7equigeo3sumEv"): Instructions(8, 2),
        ("sm_90", "_ZN7equigeo3sumEv"): Instructions(1, 0),
    }


def test_registers_limit_the_warps_of_a_multiprocessor():
    (found,) = read_log(LOG)
    assert found == Resources("", "sum<float>", "sm_90", 123, 12, 512)
    assert found.warps == 16  # of 128 registers a lane
    assert Resources("", "", "", 24, 0, 0).warps == 64


LOADS = [("LDG.E.64", "R2, desc[UR4][R8.64]"), ("LDG.E", "R4, desc[UR4][R8.64+0x80]")]
USES = [("FMUL", "R5, R3, R4"), ("STG.E", "desc[UR4][R10.64], R5")]


def test_bytes_in_flight_are_moved_from_one_wait_to_the_next():
    assert moves(LOADS + USES) == (128 * 4, 1)
    assert moves([LOADS[0], ("FADD", "R5, R2, R3"), LOADS[1], USES[0]]) == (128 * 3, 2)
    assert moves([*USES, *LOADS]) == (128 * 4, 1)  # loaded ahead, by the last iteration
    assert moves(LOADS[:1]) == (128 * 2, 1)  # never awaited
    listing = "".join(f"/*{16 * n:04x}*/ {' '.join(x)} ;\n" for n, x in enumerate(3 * LOADS + USES))
    (found,) = read_code(f"Function : f\n{listing}/*0080*/ @P0 BRA 0x0 ;\n").values()
    assert found == Instructions(9, 9, 128 * 10)


def test_warps_are_resident_in_whole_blocks_with_their_shared_memory():
    listing = (
        ".nv.info.sum",
        "\tAttribute:\tEIATTR_MAX_THREADS",
        "\tFormat:\tA",
        "\tValue: 0x20 0x5 0x1",
    )
    assert read_blocks("\n".join(listing)) == {"sum": 5}
    (found,) = read_log(LOG)
    assert [found.resident(block) for block in (1, 4, 5)] == [16, 16, 15]
    assert replace(found, shared=2**16).resident(4) == 12
    assert replace(found, shared=2**16, architecture="sm_80").resident(4) == 8
    assert replace(found, registers=16).resident(1) == 32


KNOWN = {
    name: {"spilled": 0, "instructions": {"all": count, "innermost_loop": count // 5}}
    for name, count in (("sum<float>, sm_90", 1000), ("plan, sm_90", 50))
}


def changed(**values: int) -> list[str]:
    """What is reported if a kernel has other numbers than its record."""
    now = copy.deepcopy(KNOWN)
    row = now["sum<float>, sm_90"]
    row["spilled"] = values.pop("spilled", 0)
    row["bytes in flight"] = values.pop("moved", 16_000)
    row["instructions"] |= values
    return list(grown(KNOWN, now))


def test_more_instructions_spills_and_unknown_kernels_are_reported():
    assert not changed()
    assert not changed(all=1100, innermost_loop=220)
    assert not changed(all=500)
    name = "sum<float>, sm_90"
    assert changed(all=1101) == [f"{name} has 1101 instructions (all), 1000 in the record"]
    assert changed(innermost_loop=221) == [
        f"{name} has 221 instructions (innermost_loop), 200 in the record"
    ]
    assert changed(spilled=8) == [f"{name} spills 8 bytes of registers"]
    assert changed(moved=15_999) == [f"{name} has 15999 bytes in flight, 16000 are needed"]
    without = {k: v for k, v in KNOWN.items() if k != name}
    assert list(grown(without, KNOWN)) == [f"{name} is not in the record"]
    assert list(grown(KNOWN, without)) == [f"{name} is in the record, but no longer compiled"]
