"""Names of the elements."""

from __future__ import annotations

from typing import Final

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
