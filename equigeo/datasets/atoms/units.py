"""Units of other programs in those of this library: eV, angstrom, eV/angstrom, eV/angstrom^3."""

from __future__ import annotations

from typing import Final

KCAL_PER_MOL: Final = 0.04336410390059322  # eV
HARTREE: Final = 27.211386024367243  # eV
KILOBAR: Final = 1 / 1602.1766208  # eV / angstrom^3
