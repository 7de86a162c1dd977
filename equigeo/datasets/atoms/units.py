"""Units of other programs in those of this library: eV, angstrom, eV/angstrom, eV/angstrom^3."""

from __future__ import annotations

from typing import Final

KCAL_PER_MOL: Final = 0.04336410390059322  # eV
HARTREE: Final = 27.211386024367243  # eV
KILOBAR: Final = 1 / 1602.1766208  # eV / angstrom^3


SYMBOLS: Final[tuple[str, ...]] = tuple(
    """
    X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se
    Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy
    Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf
    Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og
    """.split()
)
HEAVIEST: Final = len(SYMBOLS) - 1


def symbol(number: int) -> str:
    """Return the symbol of an atomic number, or the number itself if there is no such element."""
    return SYMBOLS[number] if 0 < number <= HEAVIEST else str(number)
