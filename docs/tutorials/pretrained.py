"""Tutorial: a pretrained potential."""

import sys

sys.path.insert(0, f"{sys.path[0]}/..")  # drawing.py lies there

# %%
# # Accelerate a pretrained potential
#
# SevenNet-0 ([Park et al. 2024](https://doi.org/10.1021/acs.jctc.4c00190)) is a potential for 89 elements, whose weights
# are part of the package `sevenn`. This tutorial accelerates it without retraining, compares energies and forces, relaxes
# a crystal of rock salt and computes its elastic constants, before and after. Besides this library it requires
#
# ```sh
# pip install sevenn ase
# ```
#
# ## The mathematics in ten lines
#
# SevenNet-0 computes the energy $E$ of atoms at positions $x_i$ by five layers of messages. The message from atom $j$
# to atom $i$ is a tensor product of the features $h_j$ and the spherical harmonics of the edge vector $r_{ij}$, with
# weights $w$ from a radial network:
#
# $$m_i = \sum_j w(|r_{ij}|) \cdot \bigl(h_j \otimes Y(r_{ij} / |r_{ij}|)\bigr), \qquad F_i = -\partial E / \partial x_i .$$
#
# `interop.accelerate` replaces product and sum by one op that stores no messages, and other modules by faster ones.
# With fixed network parameters, $w$ is a function of one number, the distance. `frozen=True` also replaces $w$ by a
# spline of the distance. Its errors, of values and of derivatives, are below the rounding errors of float32.
#
# A strain $\epsilon$ of a crystal of volume $V$ causes the stress $\sigma = V^{-1}\, \partial E / \partial \epsilon$. A
# cubic crystal has three elastic constants, $\sigma_{xx} = C_{11}\, \epsilon_{xx}$,
# $\sigma_{yy} = C_{12}\, \epsilon_{xx}$ and $\sigma_{yz} = 2\, C_{44}\, \epsilon_{yz}$, and the bulk modulus
# $B = V\, \partial^2 E / \partial V^2 = (C_{11} + 2\, C_{12}) / 3$.
#
# ## Accelerate the model of a calculator
#
# `SevenNetCalculator.model` is the module to accelerate, in place. SevenNet warns that no accelerator of its own is
# enabled, which is intended here: `accelerate` replaces SevenNet's own modules.

import time

import numpy as np
import torch
from ase.build import bulk
from ase.eos import EquationOfState
from ase.filters import FrechetCellFilter
from ase.optimize import QuasiNewton
from ase.units import GPa
from drawing import plot
from equigeo import interop
from sevenn.calculator import SevenNetCalculator

calculators = {
    name: SevenNetCalculator("7net-0", device="cpu") for name in ("before", "after")
}
report = interop.accelerate(calculators["after"].model, frozen=True)
print(len(report.replaced), "modules replaced,", len(report.kept), "kept")
for note in report.replaced[4:8]:  # the first layer
    print(f"{note.path}: {note.note}")

# %%
# ## Energies and forces agree
#
# Atoms of a crystal are displaced at random, because the forces on a perfect crystal vanish by symmetry.


def rock_salt(cells):
    """Cubic cells of 8 atoms, displaced by 0.05 Angstrom."""
    atoms = bulk("NaCl", "rocksalt", 5.65, cubic=True).repeat(cells)
    atoms.rattle(0.05, seed=0)
    return atoms


atoms = rock_salt(2)
for calculator in calculators.values():
    calculator.calculate(atoms)
differences = {}
for name, unit in (("energy", "eV"), ("forces", "eV/A"), ("stress", "eV/A^3")):
    theirs, ours = (np.asarray(each.results[name]) for each in calculators.values())
    differences[name] = np.abs(ours - theirs).max() / np.abs(theirs).max()
    print(f"{name:6} up to {np.abs(theirs).max():.3g} {unit}, ", end="")
    print(f"relative difference {differences[name]:.0e}")
assert max(differences.values()) < 1e-4  # the model is float32

# %%
# ## Time per evaluation
#
# A calculator does not evaluate the same atoms twice when asked for their energy, but its `calculate` always does. The
# first evaluations of a model compile parts of it and are not counted. Times depend on the machine and on the number of
# threads.

for calculator in calculators.values():
    for _ in range(3):
        calculator.calculate(rock_salt(1))

sizes, times = [], {"before": [], "after": []}
for cells in (1, 2, 3):
    atoms = rock_salt(cells)
    sizes.append(len(atoms))
    for name, calculator in calculators.items():
        rounds = []
        for _ in range(2):
            start = time.perf_counter()
            calculator.calculate(atoms)
            rounds.append(time.perf_counter() - start)
        times[name].append(1e3 * min(rounds))
    slow, fast = times["before"][-1], times["after"][-1]
    print(f"{len(atoms):3} atoms: {slow:5.0f} ms before, {fast:3.0f} ms after, ", end="")
    print(f"{slow / fast:.1f}x faster")
print("threads:", torch.get_num_threads())

curves = {name: (sizes, values) for name, values in times.items()}
plot(curves, x="atoms", y="ms per evaluation", log_x=True, log_y=True).save("times.svg")

# %%
# ![Time per evaluation of energies, forces and stress, before and after](times.svg)
#
# ## A task: elastic constants of rock salt
#
# First, positions and cell are relaxed until no force exceeds 0.002 eV per Angstrom:

for name, calculator in calculators.items():
    atoms = rock_salt(1)
    atoms.calc = calculator
    start = time.perf_counter()
    optimizer = QuasiNewton(FrechetCellFilter(atoms), logfile=None)
    assert optimizer.run(fmax=0.002, steps=100)
    seconds = time.perf_counter() - start
    length = atoms.get_volume() ** (1 / 3)
    print(f"{name:6} {length:.4f} Angstrom, {optimizer.nsteps} steps, {seconds:.1f} s")

# %%
# Two kinds of moduli follow: from stresses at small strains, by central differences, and from a fit to energies by
# volume. A cell of two atoms suffices. Each ion remains a center of inversion under strain, so that no forces on ions
# arise.


def strained(strain, calculator):
    """A primitive cell under strain (3, 3)."""
    atoms = bulk("NaCl", "rocksalt", length)
    atoms.set_cell(atoms.cell @ (np.eye(3) + strain), scale_atoms=True)
    atoms.calc = calculator
    return atoms


def elastic_constants(calculator, size=0.005):
    """C11, C12 and C44 in GPa."""

    def slope(strain):
        plus, minus = (strained(s * size * strain, calculator) for s in (1, -1))
        return (plus.get_stress() - minus.get_stress()) / (2 * size * GPa)

    stretch, shear = np.zeros((2, 3, 3))
    stretch[0, 0] = 1.0
    shear[1, 2] = shear[2, 1] = 0.5
    c11, c12, *_ = slope(stretch)  # xx, yy, zz, yz, xz, xy
    return c11, c12, slope(shear)[3]


def volume_curve(calculator):
    """Volumes in cubic Angstrom and energies in eV, of one pair of ions."""
    cells = [strained(s * np.eye(3), calculator) for s in np.linspace(-0.01, 0.01, 9)]
    return [(cell.get_volume(), cell.get_potential_energy()) for cell in cells]


moduli, curves = {}, {}
for name, calculator in calculators.items():
    c11, c12, c44 = elastic_constants(calculator)
    volumes, energies = np.transpose(volume_curve(calculator))
    fitted = EquationOfState(volumes, energies, "birchmurnaghan").fit()[2] / GPa
    curves[name] = (volumes, 1e3 * (energies - energies.min()))
    moduli[name] = (c11, c12, c44, (c11 + 2 * c12) / 3, fitted)
names = ("C11", "C12", "C44", "B (stresses)", "B (energies)")
for row in zip(names, moduli["before"], moduli["after"]):
    print("{:13} {:6.2f} GPa before, {:6.2f} GPa after".format(*row))
assert np.allclose(moduli["before"], moduli["after"], rtol=2e-3)
plot(curves, x="cubic Angstrom", y="meV per pair").save("volumes.svg")

# %%
# ![Energy of a pair of ions by volume, before and after](volumes.svg)
#
# The curves coincide. The two bulk moduli of one model differ slightly, because the fit averages over a range of volumes. All results are
# those of SevenNet-0, including its deviations from experiments.
#
# ## When to use it, and when not
#
# - Use `frozen=True` for evaluation: relaxations, molecular dynamics, phonons. `accelerate(model)` without it also
#   accelerates training, and `interop.restore(model)` reverts both.
# - Use it for other models as well: [the how-to page](../../howto/accelerate.md) describes the calculators of MACE,
#   NequIP and Allegro. `print(report)` lists what was replaced, and which radial networks became splines.
# - Not with SevenNet's options `enable_cueq`, `enable_flash` or `enable_oeq`, which build other convolutions. On NVIDIA
#   GPUs, measure both.
# - Not in LAMMPS: `sevenn get_model` exports the checkpoint as TorchScript, which does not contain these ops.
# - To train your own potential, see [train a potential](../../howto/potentials.md).
#
# ## Cost
#
# Freezing takes about two seconds per model, once. [Benchmarks](../../benchmarks.md#accelerated-models) lists speed-ups
# of other models.
