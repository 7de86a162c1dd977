from __future__ import annotations

import pytest
import torch

from equigeo.datasets import AtomicFrame, AtomicFrames
from equigeo.datasets.atoms.chemical_symbols import HEAVIEST, SYMBOLS, symbol

EYE = torch.eye(3, dtype=torch.float64)
WATER = {"numbers": torch.tensor([8, 1, 1]), "positions": EYE}


def test_a_frame_says_what_it_is():
    frame = AtomicFrame(**WATER, cell=9 * EYE, pbc=(True,) * 3, energy=-1.0, forces=EYE, stress=EYE)
    assert repr(frame) == "AtomicFrame(H2O, periodic TTT, energy, forces, stress)"
    assert (len(frame), frame.volume) == (3, pytest.approx(729))
    assert AtomicFrame(**WATER, cell=9 * EYE).volume is None
    ethanol = AtomicFrame(torch.tensor([6, 8, 1, 6]), torch.rand(4, 3, dtype=torch.float64))
    assert ethanol.formula == "C2HO"


def test_symbols_are_those_of_the_elements():
    assert (len(SYMBOLS), HEAVIEST) == (119, 118)
    assert [SYMBOLS[z] for z in (1, 6, 8, 14, 29, 42, 118)] == "H C O Si Cu Mo Og".split()
    assert (symbol(0), symbol(119)) == ("0", "119")
    assert len(set(SYMBOLS)) == 119


def test_symbols_are_those_of_ase():
    data = pytest.importorskip("ase.data", reason="needs ase")
    assert list(SYMBOLS) == list(data.chemical_symbols)


NAN = torch.full((3, 3), float("nan"), dtype=torch.float64)
FLAT = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": EYE[:2]}, r"positions must have shape \(3, 3\), got \(2, 3\)"),
        ({"positions": NAN}, "positions must be finite"),
        ({"numbers": torch.tensor([8, 1, 0])}, "atomic numbers must be 1 to 118, got 0 to 8"),
        ({"numbers": torch.tensor([8, 1, 119])}, "got 1 to 119"),
        ({"numbers": torch.zeros(0, dtype=torch.long), "positions": EYE[:0]}, "got none"),
        ({"energy": float("inf")}, "energy must be finite, got inf"),
        ({"forces": NAN}, "forces must be finite"),
        ({"forces": EYE[:1]}, r"forces must have shape \(3, 3\), got \(1, 3\)"),
        ({"pbc": (True, True, True)}, "periodic axes need a cell, got none"),
        ({"pbc": (True, True, True), "cell": FLAT}, "must span a cell"),
        ({"pbc": (True, False, False), "cell": torch.zeros(3, 3).double()}, "must span a cell"),
        ({"pbc": (True, True)}, "pbc must be three flags"),
        ({"stress": EYE}, "a stress needs three periodic axes"),
        ({"stress": EYE, "cell": EYE, "pbc": (True, True, False)}, "three periodic axes"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        AtomicFrame(**(WATER | changes))


def test_another_dtype_is_refused():
    with pytest.raises(TypeError, match=r"positions must be torch\.float64, got torch\.float32"):
        AtomicFrame(**(WATER | {"positions": EYE.float()}))


def test_axes_that_are_not_periodic_need_no_vector():
    slab = torch.tensor([[3.0, 0, 0], [0, 3, 0], [0, 0, 0]], dtype=torch.float64)
    assert AtomicFrame(**WATER, cell=slab, pbc=(True, True, False)).volume is None
    with pytest.raises(ValueError, match="must span a cell"):
        AtomicFrame(**WATER, cell=slab, pbc=(False, True, True))


def test_frames_are_a_sequence():
    bare, full = AtomicFrame(**WATER), AtomicFrame(**WATER, energy=1.0, forces=2 * EYE)
    frames = AtomicFrames((full, bare, full), "three")
    assert repr(frames) == "AtomicFrames('three', 3 frames, 3 to 3 atoms of H O)"
    assert [*frames] == [full, bare, full]
    assert frames[1] is bare
    assert frames[::2].frames == (full, full) == frames.select([2, 0]).frames
    assert frames.lacking("forces") == [1]
    with pytest.raises(ValueError, match=r"three: frame 1 has no energy \(1 of 3 frames"):
        frames.require("energy")
    with pytest.raises(ValueError, match="label must be one of energy, forces, stress, got 'x'"):
        frames.require("x")
    assert torch.equal(frames[::2].stacked_forces(), torch.cat([2 * EYE, 2 * EYE]))
    with pytest.raises(ValueError, match="three: has no frames"):
        frames[3:]
    with pytest.raises(ValueError, match="frames are missing"):
        AtomicFrames(())
