"""Atomic data sets with training and test splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equigeo._core.checks import state_of
from equigeo.datasets.archive import ARCHIVE_SUFFIXES
from equigeo.datasets.atoms.extxyz import (
    EXTXYZ_SUFFIXES,
    HARTREE,
    KCAL_PER_MOL,
    KILOBAR,
    LabelKeys,
    build_frames,
    check_rows,
    double,
    offsets,
    read_extxyz,
    read_labelled,
)
from equigeo.datasets.atoms.frames import AtomicFrame, AtomicFrames, symbol
from equigeo.datasets.cache import read_arrays
from equigeo.datasets.class_folders import data_folder
from equigeo.datasets.registry.catalogue import RMD17_MOLECULES
from equigeo.graphs import neighbor_list

# Where the six numbers of ``virial_stress`` stand in the matrix, xx yy zz xy and then, by element,
# yz xz or xz yz. Found by the work along pairs of strained cells, and for Cu and Ni by single
# shears; the shear labels of Li contradict its energies in any order.
_DIAGONAL: Final = ((0, 0), (1, 1), (2, 2), (0, 1))
_YZ_XZ: Final = (*_DIAGONAL, (1, 2), (0, 2))
_XZ_YZ: Final = (*_DIAGONAL, (0, 2), (1, 2))
STRESS_ORDER: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "Li": _YZ_XZ, "Si": _YZ_XZ, "Ge": _YZ_XZ, "Mo": _XZ_YZ, "Cu": _XZ_YZ, "Ni": _XZ_YZ,
}  # fmt: skip
_MLEARN_KINDS = {
    "atomic_number": "integer", "n_atoms": "integer", "atom_offset": "integer",
    "position": "floating", "cell": "floating", "energy": "floating", "force": "floating",
    "virial_stress": "floating", "group": "text",
}  # fmt: skip
QM9_FILE: Final = "qm9_20k.npz"
_ENERGIES: Final = {
    "U0": "InternalEnergy_0K_au", "U": "InternalEnergy_298K_au", "H": "Enthalphy_298K_au",
    "G": "GibbsFreeEnergy_298K_au",
}  # fmt: skip
_QM9_KINDS = {
    "atomic_number": "integer", "n_atoms": "integer", "atom_offset": "integer",
    "position": "floating", "properties": "floating", "property_names": "text", "index": "integer",
}  # fmt: skip
_RMD17_KINDS = {
    "nuclear_charges": "integer",
    "coords": "floating",
    "energies": "floating",
    "forces": "floating",
}
_ARCHIVE: Final = "botnet_datasets.tar.xz"
_BOTNET: Final = {"3BPA": "dataset_3BPA", "acac": "dataset_acac", "ethanol": "dataset_ethanol"}
_USUAL: Final = LabelKeys()
_QM9_TRAIN: Final = 16_000  # molecules; the rest is for testing
# Frames of the even half of train_mixedT by temperature, found by jumps of energy and force.
_MIXED: Final = {"300 K": slice(0, 84), "600 K": slice(84, 167), "1200 K": slice(167, 250)}


def load_mlearn(
    folder: str | Path, element: str, part: Literal["train", "test"] = "train"
) -> AtomicFrames:
    """Load the frames of one element, with energies, forces and stresses in eV and angstrom."""
    if element not in STRESS_ORDER:
        raise ValueError(f"element must be one of {', '.join(STRESS_ORDER)}, got {element!r}")
    if part not in ("train", "test"):
        raise ValueError(f"part must be train or test, got {part!r}")
    return read_mlearn(Path(folder) / f"{element}_{part}.npz")


def read_mlearn(path: Path) -> AtomicFrames:
    """Read one ``.npz`` file of the converted mlearn layout."""
    arrays = read_arrays(path, _MLEARN_KINDS, "frames of atoms")
    number, total = len(arrays["n_atoms"]), len(arrays["position"])
    starts = offsets(path, arrays["n_atoms"], arrays["atom_offset"])
    rows = {"position": (total, 3), "force": (total, 3), "cell": (number, 3, 3)}
    rows |= {"energy": (number,), "virial_stress": (number, 6), "group": (number,)}
    check_rows(path, arrays, rows | {"atomic_number": ()})
    if starts[-1] != total:
        raise ValueError(f"{path}: has {total} positions for {starts[-1]} atoms")
    charge = int(arrays["atomic_number"])
    element = symbol(charge)
    if element not in STRESS_ORDER:
        raise ValueError(
            f"{path}: the order of its stress is known for {', '.join(STRESS_ORDER)}, "
            f"got atomic number {charge}"
        )
    positions, cells, forces = (double(arrays[n]) for n in ("position", "cell", "force"))
    energies = double(arrays["energy"]).tolist()
    stresses = stress_matrices(arrays["virial_stress"], element)

    def build(k: int) -> AtomicFrame:
        atoms = slice(starts[k], starts[k + 1])
        return AtomicFrame(
            numbers=torch.full((starts[k + 1] - starts[k],), charge),
            positions=positions[atoms],
            cell=cells[k],
            pbc=(True, True, True),
            energy=energies[k],
            forces=forces[atoms],
            stress=stresses[k],
            name=f"{path.name} {k} {arrays['group'][k]}",
        )

    return build_frames(path, number, build)


def stress_matrices(
    kilobars: NDArray[np.generic],  # (frames, 6), positive in compression
    element: str,  # key of STRESS_ORDER
) -> Tensor:
    """Convert pressure in kbar to stress in eV/angstrom^3, (frames, 3, 3), positive in tension."""
    values = -double(kilobars) * KILOBAR
    stress = values.new_zeros(len(values), 3, 3)
    for k, (i, j) in enumerate(STRESS_ORDER[element]):
        stress[:, i, j] = stress[:, j, i] = values[:, k]
    return stress


def load_qm9(path: str | Path, energy: Literal["U0", "U", "H", "G"] = "U0") -> AtomicFrames:
    """Load 20,000 molecules with one of their total energies in eV, from the file or its folder."""
    if energy not in _ENERGIES:
        raise ValueError(f"energy must be one of {', '.join(_ENERGIES)}, got {energy!r}")
    file = Path(path) / QM9_FILE if Path(path).is_dir() else Path(path)
    arrays = read_arrays(file, _QM9_KINDS, "frames of atoms")
    number, total = len(arrays["n_atoms"]), len(arrays["position"])
    starts = offsets(file, arrays["n_atoms"], arrays["atom_offset"])
    names = [str(name) for name in arrays["property_names"].reshape(-1)]
    rows = {"position": (total, 3), "atomic_number": (total,), "index": (number,)}
    check_rows(file, arrays, rows | {"properties": (number, len(names))})
    if starts[-1] != total or _ENERGIES[energy] not in names:
        raise ValueError(f"{file}: has no {_ENERGIES[energy]} for every molecule")
    numbers = torch.from_numpy(arrays["atomic_number"].astype("int64"))
    positions = double(arrays["position"])
    hartrees = double(arrays["properties"])[:, names.index(_ENERGIES[energy])]
    energies = (hartrees * HARTREE).tolist()

    def build(k: int) -> AtomicFrame:
        atoms = slice(starts[k], starts[k + 1])
        name = f"QM9 {arrays['index'][k]}"
        return AtomicFrame(numbers[atoms], positions[atoms], energy=energies[k], name=name)

    return build_frames(file, number, build)


def load_rmd17(
    folder: str | Path, molecule: str, part: Literal["train", "test"] = "train"
) -> AtomicFrames:
    """Load the official 1,000 training or test frames of one molecule (split 01), in eV."""
    if molecule not in RMD17_MOLECULES:
        raise ValueError(f"molecule must be one of {', '.join(RMD17_MOLECULES)}, got {molecule!r}")
    if part not in ("train", "test"):
        raise ValueError(f"part must be train or test, got {part!r}")
    return read_rmd17(Path(folder) / f"rmd17_{molecule}_{part}_01.npz")


def read_rmd17(path: Path) -> AtomicFrames:
    """Read one ``.npz`` file of the revised MD17 layout."""
    arrays = read_arrays(path, _RMD17_KINDS, "frames of atoms")
    number, atoms = len(arrays["energies"]), len(arrays["nuclear_charges"])
    shape = (number, atoms, 3)
    check_rows(path, arrays, {"coords": shape, "forces": shape, "energies": (number,)})
    numbers = torch.from_numpy(arrays["nuclear_charges"].astype("int64"))
    positions = double(arrays["coords"])
    energies = (double(arrays["energies"]) * KCAL_PER_MOL).tolist()
    forces = double(arrays["forces"]) * KCAL_PER_MOL

    def build(k: int) -> AtomicFrame:
        name = f"{path.name} {k}"
        return AtomicFrame(numbers, positions[k], energy=energies[k], forces=forces[k], name=name)

    return build_frames(path, number, build)


@dataclass(frozen=True, eq=False)
class AtomicSplit:
    """Training and test frames.

    Parameters
    ----------
    name : str
    train : AtomicFrames
        Training frames, from which validation frames are taken.
    tests : mapping of str to AtomicFrames
        Test frames by name; may be empty.
    isolated : mapping of int to float
        Lowest known energy in eV of isolated atoms by atomic number, at the same level of theory.
    remark : str
        Remark for readers of test figures.
    isolated_by_head : mapping of str to mapping of int to float
        Those by the entry ``head`` of their frames, or "" without one. Default: none has one.

    Examples
    --------
    >>> from equigeo.datasets import AtomicFrame, AtomicFrames
    >>> atom = AtomicFrame(torch.tensor([1]), torch.zeros(1, 3).double())
    >>> AtomicSplit("one atom", AtomicFrames((atom,)))
    AtomicSplit('one atom', train: 1, no test)
    """

    name: str
    train: AtomicFrames
    tests: Mapping[str, AtomicFrames] = field(default_factory=dict)
    isolated: Mapping[int, float] = field(default_factory=dict)
    remark: str = ""
    isolated_by_head: Mapping[str, Mapping[int, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        tests = ", ".join(f"{name}: {len(part)}" for name, part in self.tests.items())
        return f"AtomicSplit({self.name!r:.80}, train: {len(self.train)}, {tests or 'no test'})"


def load_atomic_split(
    path: str | Path,
    name: str = "",
    *,
    energy: str = "",
    forces: str = "",
    stress: str = "",
    units: str = "",
    cutoff: float | None = None,
) -> AtomicSplit:
    """Load an atomic data set with its published split.

    QM9 has no official split: 16,000 molecules are drawn for training. Of a single ``.xyz`` file, a
    tenth of the frames is drawn for testing. Both draws are fixed. From training frames in ``.xyz``
    files, neutral frames of one atom that have no periodic axis or the ``config_type``
    ``IsolatedAtom`` are moved to ``isolated``. If the official test frames of 3BPA are missing,
    frames of ``train_mixedT`` that are not in ``train_300K`` replace them, as ``remark`` states.

    Parameters
    ----------
    path : path
        A folder of revised MD17 (``rmd17_<molecule>_{train,test}_01.npz``), of mlearn
        (``<element>_{train,test}.npz``) or of QM9 (``qm9_20k.npz``); ``botnet_datasets.tar.xz``, or
        the folder with it or its contents; a folder with one ``train*.xyz`` and any number of
        ``test*.xyz``; or one of these files. ``X_test.npz`` beside ``X_train.npz`` is its test
        part.
    name : str
        Set in a folder of several: a molecule, an element, or ``3BPA``, ``acac`` or ``ethanol``.
    energy, forces, stress, units : str
        Keys of labels in extended XYZ, which frames may lack, and its units; see
        `equigeo.datasets.read_extxyz`.
    cutoff : float, optional
        In angstrom; periodic frames of one atom without an image within it are isolated atoms, too.

    Raises
    ------
    ImportError
        If extended XYZ is read without ASE.
    ValueError
        If data are missing or unusable, or the name is unknown.

    Examples
    --------
    >>> load_atomic_split("nowhere")
    Traceback (most recent call last):
        ...
    ValueError: nowhere: no such file or folder
    """
    given, keys = Path(path), LabelKeys(energy, forces, stress, units)
    if not given.exists():
        raise ValueError(f"{given}: no such file or folder")
    is_named = keys != _USUAL
    if given.is_dir() and not is_named:
        return _from_folder(given, name, cutoff)
    if given.name.endswith(ARCHIVE_SUFFIXES) and not is_named:
        return _botnet(given, name)
    _refuse_name(given, name)
    if given.is_dir():
        return _xyz_folder(given, keys, cutoff)
    return _from_file(given, keys, cutoff)


def load_every_frame(
    path: str | Path,
    name: str = "",
    *,
    energy: str = "",
    forces: str = "",
    stress: str = "",
    units: str = "",
) -> Mapping[str, AtomicFrames]:
    """Load all frames of a file or folder by file stem or part, isolated atoms included."""
    given, keys = Path(path), LabelKeys(energy, forces, stress, units)
    files = [given]
    if given.is_dir():
        files = [] if keys == _USUAL and _is_published(given) else _files(given, bool)
    if files and all(file.suffix.lower() in EXTXYZ_SUFFIXES for file in files):
        _refuse_name(given, name)
        return {file.stem: read_labelled(file, keys) for file in files}
    if given.name == QM9_FILE:
        _refuse_name(given, name)
        return {given.stem: load_qm9(given)}
    split = load_atomic_split(given, name, energy=energy, forces=forces, stress=stress, units=units)
    if given.suffix.lower() == ".npz":
        return {given.stem: split.train}
    return {"train": split.train, **split.tests}


def _is_published(folder: Path) -> bool:
    """Return whether a folder has files of a published data set."""
    names = (QM9_FILE, _ARCHIVE, "*_train_01.npz", "*_train.npz", *_BOTNET.values())
    return any(any(folder.glob(name)) for name in names)


def _refuse_name(path: Path, name: str) -> None:
    if name:
        raise ValueError(f"{path}: is one data set, without others to name; got {name!r:.80}")


def _from_file(path: Path, keys: LabelKeys, cutoff: float | None) -> AtomicSplit:
    if path.suffix.lower() in EXTXYZ_SUFFIXES:
        return _divided(_with_isolated(path.stem, read_labelled(path, keys), cutoff))
    if keys != _USUAL:
        raise ValueError(f"{path}: keys and units are those of extended XYZ; leave them out")
    if path.suffix.lower() != ".npz":
        kinds = ", ".join((".npz", *EXTXYZ_SUFFIXES, *ARCHIVE_SUFFIXES))
        raise ValueError(f"{path}: expected a file {kinds} or a folder, got {path.suffix!r}")
    if path.name == QM9_FILE:
        return qm9_split(path)
    read = read_rmd17 if path.name.startswith("rmd17_") else read_mlearn
    test = path.with_name(path.name.replace("_train", "_test"))
    tests = {"test": read(test)} if test != path and test.is_file() else {}
    return AtomicSplit(path.stem, read(path), tests)


def _from_folder(folder: Path, name: str, cutoff: float | None) -> AtomicSplit:
    molecules = [file.name.split("_")[1] for file in sorted(folder.glob("rmd17_*_train_01.npz"))]
    elements = [e for e in STRESS_ORDER if (folder / f"{e}_train.npz").is_file()]
    if (folder / QM9_FILE).is_file():
        _refuse_name(folder, name)
        return qm9_split(folder / QM9_FILE)
    if (folder / _ARCHIVE).is_file():
        return _botnet(folder / _ARCHIVE, name)
    if any((folder / inner).is_dir() for inner in _BOTNET.values()):
        return _botnet(folder, name)
    if molecules:
        chosen = _choose(folder, name, molecules)
        tests = {"test": load_rmd17(folder, chosen, "test")}
        return AtomicSplit(f"rMD17 {chosen}", load_rmd17(folder, chosen), tests)
    if elements:
        chosen = _choose(folder, name, elements)
        tests = {"test": load_mlearn(folder, chosen, "test")}
        remark = "stresses of Li mean nothing: its shear labels contradict its energies"
        train = load_mlearn(folder, chosen)
        return AtomicSplit(f"mlearn {chosen}", train, tests, {}, remark if chosen == "Li" else "")
    _refuse_name(folder, name)
    return _xyz_folder(folder, _USUAL, cutoff)


def _choose(path: Path, name: str, known: list[str]) -> str:
    if name not in known:
        got = f"{name!r:.80}" if name else "none"
        raise ValueError(f"{path}: name one of its sets, {', '.join(known)}; got {got}")
    return name


def qm9_split(path: Path, energy: Literal["U0", "U", "H", "G"] = "U0") -> AtomicSplit:
    """Load QM9 and draw training molecules with a fixed seed."""
    molecules = load_qm9(path, energy)
    order = _drawn(len(molecules))
    number = min(_QM9_TRAIN, 4 * len(molecules) // 5)
    train, test = (molecules.select(part) for part in (order[:number], order[number:]))
    return AtomicSplit("QM9", train, {"test": test}, {}, "no official split of these molecules")


def _drawn(number: int) -> Tensor:
    """Draw a permutation with a fixed seed."""
    stream = np.random.default_rng(np.random.SeedSequence(0))
    return torch.from_numpy(stream.permutation(number))


def _divided(split: AtomicSplit) -> AtomicSplit:
    """Split off a tenth of the frames of a single file for testing, with a fixed seed."""
    number = len(split.train) // 10
    if not number:
        return split
    order = _drawn(len(split.train))
    test, train = (
        split.train.select(part.sort()[0])
        for part in order.split_with_sizes([number, len(order) - number])
    )
    remark = (
        f"{number} frames drawn at random are the test set, and frames like them may be trained on;"
        " a folder with train.xyz and test.xyz holds a test set of its own"
    )
    return replace(split, train=train, tests={"test": test}, remark=remark)


def _botnet(path: Path, name: str) -> AtomicSplit:
    chosen = _choose(path, name, list(_BOTNET))
    root = data_folder(path, lambda folder: (folder / _BOTNET[chosen]).is_dir())
    folder = root / _BOTNET[chosen]
    if not folder.is_dir():
        raise ValueError(f"{path}: has no folder {folder.name}")
    isolated = _lowest(_isolated_energies(folder))
    if chosen == "3BPA":
        return _3bpa(folder, isolated)
    train = read_extxyz(folder / ("train.xyz" if chosen == "ethanol" else "train_300K.xyz"))
    tests = _test_files(folder)
    return AtomicSplit(chosen, train, tests, isolated)


def _3bpa(folder: Path, isolated: Mapping[int, float]) -> AtomicSplit:
    train = read_extxyz(folder / "train_300K.xyz")
    if official := _test_files(folder):
        return AtomicSplit("3BPA", train, official, isolated)
    mixed = read_extxyz(folder / "train_mixedT_even.xyz")
    known = {_key(frame.positions) for frame in train}
    tests = {}
    for temperature, part in _MIXED.items():
        frames = [frame for frame in mixed[part] if _key(frame.positions) not in known]
        tests[temperature] = AtomicFrames(tuple(frames), f"train_mixedT {temperature}")
    remark = (
        "not the official test frames, but the even half of train_mixedT without what is in "
        "train_300K"
    )
    return AtomicSplit("3BPA", train, tests, isolated, remark)


def _key(positions: Tensor) -> bytes:
    return bytes(positions.numpy().tobytes())


def _xyz_folder(folder: Path, keys: LabelKeys, cutoff: float | None) -> AtomicSplit:
    train = _files(folder, lambda stem: stem.startswith("train"))
    if len(train) != 1:
        found = ", ".join(file.name for file in train) or "none"
        raise ValueError(
            f"{folder}: expected one train*.xyz, or the files of rMD17, mlearn, QM9 or "
            f"{_ARCHIVE}; got {found}"
        )
    split = _with_isolated(folder.name, read_labelled(train[0], keys), cutoff)
    levels = _isolated_energies(folder, keys)
    for head, own in split.isolated_by_head.items():
        levels[head] = {**levels.get(head, {}), **own}
    tests = _test_files(folder, keys)
    return AtomicSplit(split.name, split.train, tests, _lowest(levels), isolated_by_head=levels)


def _files(folder: Path, is_meant: Callable[[str], bool]) -> list[Path]:
    files = (file for suffix in EXTXYZ_SUFFIXES for file in folder.glob(f"*{suffix}"))
    return sorted(file for file in files if is_meant(file.stem))


def _test_files(folder: Path, keys: LabelKeys = _USUAL) -> dict[str, AtomicFrames]:
    files = _files(folder, lambda stem: stem.startswith("test"))
    return {file.stem: read_labelled(file, keys) for file in files}


def _isolated_energies(folder: Path, keys: LabelKeys = _USUAL) -> dict[str, dict[int, float]]:
    """Read the file of isolated atoms if it exists, by head."""
    files = _files(folder, lambda stem: stem.startswith("iso"))
    return _energies(read_labelled(files[0], keys)) if files else {}


def _with_isolated(name: str, frames: AtomicFrames, cutoff: float | None) -> AtomicSplit:
    """Move isolated atoms from the training frames to the reference energies."""
    alone = [len(frame) == 1 and _is_isolated(frame, cutoff) for frame in frames]
    if not any(alone) or all(alone):
        return AtomicSplit(name, frames)
    parts = [[k for k, is_alone in enumerate(alone) if is_alone == kind] for kind in (True, False)]
    isolated, train = (frames.select(part) for part in parts)
    levels = _energies(isolated)
    return AtomicSplit(name, train, {}, _lowest(levels), isolated_by_head=levels)


def _is_isolated(frame: AtomicFrame, cutoff: float | None) -> bool:
    """Return whether a one-atom frame is marked as isolated or has no neighbor in the cutoff."""
    if state_of(frame.info, "charge"):
        return False  # references are those of neutral atoms
    config_type = str(frame.info.get("config_type", "")).lower().replace("_", "")
    if config_type == "isolatedatom" or not any(frame.pbc):
        return True
    if cutoff is None:
        return False
    pbc = torch.tensor(frame.pbc)
    return neighbor_list(frame.positions, cutoff, frame.cell, pbc).num_edges == 0


def _energies(isolated: AtomicFrames) -> dict[str, dict[int, float]]:
    """Return the lowest energy of each element, its ground state, by the entry ``head``."""
    isolated.require("energy")
    found: dict[str, dict[int, float]] = {}
    for frame in isolated:
        z, energy = int(frame.numbers[0]), float(frame.energy or 0.0)
        level = found.setdefault(str(frame.info.get("head", "")), {})
        level[z] = min(energy, level.get(z, energy))
    return found


def _lowest(levels: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Return the lowest energy of each element at any level."""
    every = {z for level in levels.values() for z in level}
    return {z: min(level[z] for level in levels.values() if z in level) for z in sorted(every)}
