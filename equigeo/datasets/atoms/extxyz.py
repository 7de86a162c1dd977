"""Reader and writer of extended XYZ."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo.datasets.atoms.frames import SYMBOLS, AtomicFrame, AtomicFrames
from equigeo.datasets.cache import MAX_BYTES

_KINDS: Final = {"f": "R", "i": "I", "u": "I", "b": "L", "U": "S", "O": "S"}
# Less than any two atoms of the published sets, of which dimers go down to 0.35 angstrom, and more
# than bonds in nanometers.
_NEAREST = 0.2
_LARGEST_PAIRED = 2000  # atoms up to which all distances are computed
Arrays = Mapping[str, NDArray[np.generic]]
EXTXYZ_SUFFIXES: Final = (".xyz", ".extxyz")
# What files call labels, in lower case; the first one that occurs in a file counts for all of it.
_SPELLINGS: Final = {
    "energy": ("energy", "ref_energy", "energy_ref", "dft_energy", "totenergy", "free_energy"),
    "forces": ("forces", "ref_forces", "forces_ref", "dft_forces", "force", "ref_force",
               "dft_force"),
    "stress": ("stress", "ref_stress", "stress_ref", "dft_stress"),
    "virial": ("virial", "virials", "ref_virial", "ref_virials", "dft_virial", "dft_virials"),
    "dipole": ("dipole", "ref_dipole", "dft_dipole"),
    "polarizability": ("polarizability", "ref_polarizability", "dft_polarizability"),
}  # fmt: skip
_MOMENTS: Final = ("dipole", "polarizability")  # labels that are entries of a frame
_WRITTEN: Final = {  # replaced by what is written, or wrong beside it
    "energy", "free_energy", "energies", "forces", "force", "stress", "stresses", "virial",
    "virials",
}  # fmt: skip
_SHOWN = 200  # characters of what was wrong
# What a comment line may call the units of this library, in lower case.
_OURS = {
    "ev", "å", "angstrom", "ang", "a", "ev/å", "ev/angstrom", "ev/ang", "ev/a", "ev/å^3",
    "ev/angstrom^3", "ev/ang^3", "ev/a^3", "metal", "ase",
}  # fmt: skip
# Units of other programs in eV and angstrom: CODATA 2014, as in ASE.
KCAL_PER_MOL: Final = 0.04336410390059322
HARTREE: Final = 27.211386024367243
KILOBAR: Final = 1 / 1602.1766208
_ENERGY: Final = {
    "ev": 1.0, "mev": 1e-3, "hartree": HARTREE, "rydberg": HARTREE / 2, "kcal/mol": KCAL_PER_MOL,
    "kj/mol": KCAL_PER_MOL / 4.184,
}  # fmt: skip
_LENGTH: Final = {"angstrom": 1.0, "a": 1.0, "bohr": 0.5291772105638411, "nm": 10.0}
_PRESSURE: Final = {"kbar": KILOBAR, "gpa": 10 * KILOBAR}
_COLUMNS = re.compile(rb"""Properties=["']?([\w:]+)""")


def format_extxyz(frames: Iterable[AtomicFrame]) -> str:
    """Format frames as extended XYZ with full float64 precision, ``info`` and ``columns`` included.

    Examples
    --------
    >>> hydrogen = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double(), energy=-13.5)
    >>> print(format_extxyz([hydrogen]), end="")
    1
    Properties=species:S:1:pos:R:3 energy=-13.5 pbc="F F F"
    H 0.0 0.0 0.0
    """
    return "".join(map(_frame_lines, frames))


def _frame_lines(frame: AtomicFrame) -> str:
    header = []
    if frame.cell is not None:
        header.append(f'Lattice="{_numbers(frame.cell)}"')
    properties = "species:S:1:pos:R:3"
    columns = [frame.positions.detach().numpy()]
    if frame.forces is not None:
        columns.append(frame.forces.detach().numpy())
        properties += ":forces:R:3"
    for name, column in frame.columns.items():
        rows = np.asarray(column).reshape(len(frame), -1)
        kind = _KINDS.get(rows.dtype.kind)
        if kind is not None and _is_plain(name, rows):
            columns.append(rows)
            properties += f":{name}:{kind}:{rows.shape[1]}"
    header.append(f"Properties={properties}")
    if frame.energy is not None:
        header.append(f"energy={frame.energy!r}")
    if frame.stress is not None:
        header.append(f'stress="{_numbers(frame.stress)}"')
    header += [f"{_quoted(key)}={_value(value)}" for key, value in frame.info.items()]
    header.append(f'pbc="{" ".join("T" if axis else "F" for axis in frame.pbc)}"')
    atoms = [
        f"{SYMBOLS[number]} {' '.join(_word(x) for row in rows for x in row.tolist())}\n"
        for number, *rows in zip(frame.numbers.tolist(), *columns, strict=True)
    ]
    return f"{len(frame)}\n{' '.join(header)}\n{''.join(atoms)}"


def _is_plain(name: str, rows: NDArray[Any]) -> bool:
    """Return whether a column can be written; the format quotes neither names nor words."""
    words = [name, *(rows.ravel().tolist() if rows.dtype.kind in "UO" else ())]
    plain = (isinstance(word, str) and re.fullmatch(r"[^\s:=\"']+", word) for word in words)
    return rows.shape[1] > 0 and all(plain)


def _word(x: object) -> str:
    """Format a number to its last digit, a flag as a letter, or a string unchanged."""
    if isinstance(x, bool):
        return "T" if x else "F"
    return x if isinstance(x, str) else repr(x)


def _value(x: object) -> str:
    """Format a value of a comment line; other types become JSON."""
    if isinstance(x, (np.ndarray, np.generic)):
        x = x.tolist()
    if isinstance(x, list) and x and all(isinstance(v, (int, float)) for v in x):
        return f'"{" ".join(map(_word, x))}"'
    if isinstance(x, str):
        return _quoted(x)
    if isinstance(x, (int, float)):
        return _word(x)
    return _quoted("_JSON " + json.dumps(x, default=str))


def _quoted(text: str) -> str:
    """Quote a text unless it is a single word."""
    text = " ".join(text.splitlines())
    if re.fullmatch(r"[\w.+\-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _numbers(values: torch.Tensor) -> str:
    return " ".join(map(repr, values.reshape(-1).tolist()))


def double(values: NDArray[np.generic]) -> Tensor:
    """Copy an array as float64."""
    return torch.from_numpy(values.astype(np.float64))


def build_frames(path: Path, number: int, build: Callable[[int], AtomicFrame]) -> AtomicFrames:
    """Build the frames of a file; errors name file and frame."""
    frames = []
    for k in range(number):
        try:
            frame = build(k)
            _check_distances(frame)
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{path}: frame {k}: {error}") from error
        frames.append(frame)
    if not frames:
        raise ValueError(f"{path}: has no frames")
    return AtomicFrames(tuple(frames), path.name)


def _check_distances(frame: AtomicFrame) -> None:
    """Raise for overlapping atoms, a sign of positions in nanometers."""
    if not 1 < len(frame) <= _LARGEST_PAIRED:
        return
    nearest = float(torch.pdist(frame.positions).min())
    if nearest < _NEAREST:
        raise ValueError(
            f"two atoms are {nearest:.3g} angstrom apart; positions must be in angstrom "
            "(are these nanometers, or does one atom occur twice?)"
        )


def offsets(path: Path, counts: NDArray[np.generic], given: NDArray[np.generic]) -> list[int]:
    """Validate the offsets of a ragged array against the counts of its parts."""
    expected = np.concatenate([[0], np.cumsum(counts.astype(np.int64))])
    if not np.array_equal(expected, given.astype(np.int64)):
        raise ValueError(f"{path}: atom_offset must be the running sum of n_atoms")
    return [int(offset) for offset in expected]


def check_rows(path: Path, arrays: Arrays, rows: Mapping[str, tuple[int, ...]]) -> None:
    """Raise if an array has another shape than ``rows`` gives."""
    for name, shape in rows.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{path}: {name} must have shape {shape}, got {arrays[name].shape}")


@dataclass(frozen=True)
class LabelKeys:
    """Keys of labels in a file, by default the usual names, and its units (eV and angstrom)."""

    energy: str = ""
    forces: str = ""
    stress: str = ""
    units: str = ""


class Units(NamedTuple):
    """Units of a file in eV and angstrom."""

    energy: float
    length: float
    forces: float
    stress: float

    @classmethod
    def parse(cls, text: str) -> Units:
        """Read a string such as "hartree bohr", see :func:`read_extxyz`."""
        words = text.lower().split()
        try:
            if "MeV" in text:  # a million times eV
                raise LookupError(text)
            energy, length = _ENERGY[words[0]], _LENGTH[words[1]]
            forces, stress = energy / length, energy / length**3
            for word in words[2:]:
                if word in _PRESSURE:
                    stress = _PRESSURE[word]
                else:
                    above, _, below = word.rpartition("/")
                    forces = _ENERGY[above] / _LENGTH[below]
        except LookupError:
            raise ValueError(
                f"units must be an energy ({', '.join(_ENERGY)}) and a length "
                f"({', '.join(_LENGTH)}), such as 'hartree bohr', then if they differ those of "
                f"forces, such as 'hartree/bohr', and of stresses ({', '.join(_PRESSURE)}), "
                f"got {text!r:.80}"
            ) from None
        return cls(energy, length, forces, stress)


def read_extxyz(
    path: str | Path, *, energy: str = "", forces: str = "", stress: str = "", units: str = ""
) -> AtomicFrames:
    """Read all frames of an extended XYZ file, in eV and angstrom.

    By default, labels are found by their usual names, regardless of case: ``energy``,
    ``REF_energy``, ``energy_ref``, ``dft_energy``, ``TotEnergy``, ``free_energy``; ``forces``,
    ``REF_forces``, ``forces_ref``, ``dft_forces``, ``force``; ``stress``, ``REF_stress``,
    ``stress_ref``, ``dft_stress``. The first one that occurs in any frame is used for the whole
    file. A ``dipole`` in e angstrom and a ``polarizability`` in angstrom^3, found likewise, become
    entries of ``info``. Without a stress, a ``virial``, ``virials``, ``REF_virial`` or
    ``dft_virial`` in eV is
    converted; if a frame has both, they must agree. Stresses require a periodic axis and a cell
    with a volume.

    Parameters
    ----------
    path : path
        A ``.xyz`` or ``.extxyz`` file.
    energy, forces, stress : str
        Keys of the labels in the file.
    units : str
        Of the file, by default eV and angstrom: an energy (eV, meV, hartree, rydberg, kcal/mol,
        kJ/mol) and a length (angstrom or A, bohr, nm), such as "kcal/mol angstrom". Forces have the
        energy per length and stresses the energy per volume unless others follow:
        "hartree angstrom hartree/bohr GPa". Other entries of the file are not converted.

    Raises
    ------
    ImportError
        If ASE is not installed.
    ValueError
        If the file is unusable, declares other units, or lacks a given key; labels disagree; or a
        frame has non-finite numbers, no cell or overlapping atoms. The message names the frame,
        counted from 0.

    Examples
    --------
    >>> read_extxyz("nowhere.xyz")
    Traceback (most recent call last):
        ...
    ValueError: nowhere.xyz: no such file
    """
    frames = read_labelled(path, LabelKeys(energy, forces, stress, units))
    for label, key in (("energy", energy), ("forces", forces), ("stress", stress)):
        if key and key not in frames.keys:
            raise ValueError(f"{path}: no frame has {key!r:.80} for {label}{frames.found_keys}")
    return frames


def read_labelled(path: str | Path, keys: LabelKeys) -> AtomicFrames:
    """Read an extended XYZ file that may lack the given keys."""
    file = _existing(path)
    _check_counts(file)
    structures = _structures(file, "extxyz")
    values = [_values(structure) for structure in structures]
    names = {kind: _spelling(file, kind, getattr(keys, kind, ""), values) for kind in _SPELLINGS}
    if keys.stress:
        names["virial"] = ""
    units = Units.parse(keys.units) if keys.units else None

    def build(k: int) -> AtomicFrame:
        labels = {kind: values[k].get(name) for kind, name in names.items()}
        if units is None:
            _check_units(structures[k].info)
        else:
            labels = _convert(structures[k], labels, units, {*names.values()})
        return _read_frame(structures[k], labels, f"{file.name} {k}")

    frames = build_frames(file, len(structures), build)
    return replace(frames, keys=tuple(dict.fromkeys(key for one in values for key in one)))


def read_structures(path: str | Path) -> AtomicFrames:
    """Read structures without labels from any file format that ASE supports."""
    file = _existing(path)
    is_extxyz = file.suffix.lower() in EXTXYZ_SUFFIXES
    if is_extxyz:
        _check_counts(file)
    structures = _structures(file, "extxyz" if is_extxyz else None)

    def build(k: int) -> AtomicFrame:
        _check_units(structures[k].info)
        return _read_frame(structures[k], {}, f"{file.name} {k}")

    return build_frames(file, len(structures), build)


def _existing(path: str | Path) -> Path:
    """Validate that a file exists and is not too large."""
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file}: no such file")
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"{file}: has more than {MAX_BYTES} bytes; split it")
    return file


def _values(structure: Any) -> dict[str, Any]:
    """Collect all values of a structure except species and positions."""
    # ASE since 3.23 moves the labels that it knows to a calculator.
    known = {} if structure.calc is None else structure.calc.results
    columns = {k: v for k, v in structure.arrays.items() if k not in ("numbers", "positions")}
    return {**columns, **structure.info, **known}


def _spelling(file: Path, kind: str, given: str, values: list[dict[str, Any]]) -> str:
    """Return the key of a label for the whole file, or an empty string."""
    if given:
        return given
    keys = list(dict.fromkeys(key for one in values for key in one))
    found = [key for name in _SPELLINGS[kind] for key in keys if key.lower() == name]
    for other in found[1:]:
        if other == "free_energy":  # differs from the energy where electrons are smeared
            continue
        for k, one in enumerate(values):
            if {found[0], other} <= one.keys() and not _agree(one[found[0]], one[other], kind):
                raise ValueError(
                    f"{file}: frame {k} has {found[0]} and {other}, which differ; name the key of "
                    f"the {kind}"
                )
    return found[0] if found else ""


def _agree(one: Any, other: Any, kind: str) -> bool:
    """Return whether two labels are equal; a stress may have six or nine components."""
    if kind == "stress" and np.size(one) != np.size(other):
        one, other = _matrix(one), _matrix(other)
    return np.array_equal(np.ravel(one), np.ravel(other))


def _check_counts(file: Path) -> None:
    """Raise if atom counts do not match the file or quotes are unbalanced, which ASE accepts."""
    with file.open("rb") as lines:
        for frame in itertools.count():
            first = lines.readline().strip()
            if not first.isdigit():  # the end, or invalid for ASE
                return
            atoms, comment = int(first[:20]), lines.readline()
            declared = _COLUMNS.search(comment)
            numbers = declared[1].split(b":")[2::3] if declared else []
            columns = sum(int(n[:20]) for n in numbers if n.isdigit())
            if declared and comment.replace(b'\\"', b"").count(b'"') % 2:
                raise ValueError(f"{file}: frame {frame}: has a quote that is not closed")
            for k in range(atoms):
                line = lines.readline()
                if not line:
                    raise ValueError(
                        f"{file}: frame {frame}: announces {first[:20].decode()} atoms, has {k}"
                    )
                if 2 * columns > len(line.rstrip()) + 1:  # a blank between each two
                    raise ValueError(f"{file}: frame {frame}: has fewer than {columns} columns")
                if columns and len(words := line.split()) > columns:
                    raise ValueError(
                        f"{file}: frame {frame}: atom {k} has {len(words)} columns, "
                        f"Properties announce {columns}"
                    )


def _structures(file: Path, form: str | None) -> list[Any]:
    """Read structures with ASE; errors name the frame."""
    try:
        from ase.io import iread
    except ImportError as error:
        raise ImportError(f"{file.name} needs ASE: pip install 'ase>=3.23'") from error
    found: list[Any] = []
    try:
        # An "@" in a name is no index. A loop: `list` drops what it has if a frame fails.
        for structure in iread(file, index=":", format=form, do_not_split_by_at_sign=True):
            found.append(structure)
    except Exception as error:  # what a parser of text raises is anything
        text = " ".join(str(error).split())[:_SHOWN]
        raise ValueError(f"{file}: frame {len(found)}: cannot be read ({text})") from error
    return found


def _convert(
    structure: Any,
    labels: Mapping[str, Any],
    units: Units,
    keys: set[str],  # of the labels
) -> dict[str, Any]:
    """Convert the lengths of a structure in place, and return its labels in eV and angstrom."""
    # What was converted is not kept in the units of the file beside it.
    known = keys.union(*_SPELLINGS.values())
    for entries in (structure.info, structure.arrays, getattr(structure.calc, "results", {})):
        for key in [*entries]:
            if key in known or key.lower() in known or _names_unit(key):
                del entries[key]
    structure.set_cell(units.length * structure.cell[:])
    structure.positions *= units.length
    factors = {**units._asdict(), "virial": units.energy, "dipole": units.length}
    factors["polarizability"] = units.length**3
    return {
        kind: None if value is None else factors[kind] * np.asarray(value, np.float64)
        for kind, value in labels.items()
    }


def _read_frame(structure: Any, labels: Mapping[str, Any], name: str) -> AtomicFrame:
    """Convert a structure, given the keys of its labels."""
    energy, forces = labels.get("energy"), labels.get("forces")
    pbc = tuple(bool(axis) for axis in structure.pbc)
    cell = double(np.asarray(structure.cell[:]))
    values, columns = _values(structure), structure.arrays
    moments = {name: labels[name] for name in _MOMENTS if labels.get(name) is not None}
    return AtomicFrame(
        numbers=torch.from_numpy(structure.numbers.astype(np.int64)),
        positions=double(structure.positions),
        cell=cell if bool(cell.any()) else None,
        pbc=pbc,  # type: ignore[arg-type]
        energy=None if energy is None else float(energy),
        forces=None if forces is None else double(np.asarray(forces)),
        stress=_stress(structure, labels) if any(pbc) and bool(cell.det() != 0) else None,
        name=name,
        info={k: v for k, v in values.items() if k not in columns and k not in _WRITTEN} | moments,
        columns={k: v for k, v in values.items() if k in columns and k not in _WRITTEN},
    )


def _stress(structure: Any, labels: Mapping[str, Any]) -> Tensor | None:
    """Return the stress, or that of the virial; raise if both exist and differ."""
    given = [_matrix(labels[kind]) for kind in ("stress", "virial") if labels.get(kind) is not None]
    if labels.get("virial") is not None:
        given[-1] = -given[-1] / abs(np.linalg.det(structure.cell[:]))
    if len(given) == 2:
        stress, other = given
        # Labels with four decimals agree; another sign or another unit does not.
        if np.abs(stress - other).max() > 1e-4 + 0.05 * np.abs(stress).max():
            raise ValueError(
                f"stress and virial disagree: minus the virial over the volume is "
                f"{other.tolist()}, the stress {stress.tolist()}; name the key of the stress"
            )
    return torch.from_numpy(given[0].copy()) if given else None


def _matrix(values: Any) -> NDArray[np.float64]:
    """Reshape six (Voigt) or nine numbers to a matrix."""
    found = np.asarray(values, dtype=np.float64)
    if found.size == 6:
        xx, yy, zz, yz, xz, xy = found.reshape(6)
        found = np.array([xx, xy, xz, xy, yy, yz, xz, yz, zz])
    if found.size != 9:
        raise ValueError(f"a stress has 6 or 9 numbers, got {found.size}")
    return found.reshape(3, 3)


def _names_unit(key: str) -> bool:
    return "unit" in key.lower().replace("unit_cell", "")  # of files of crystals


def _check_units(info: dict[str, Any]) -> None:
    """Raise if a comment line declares other units."""
    for key, value in info.items():
        if _names_unit(key) and str(value).lower() not in _OURS:
            raise ValueError(
                f"units must be eV and angstrom, got {key!r:.80} = {str(value)!r:.80}; "
                "state those of the file, see read_extxyz and --units"
            )
