"""File lists of the layout ``<class>/{train,val,test}/<file>``."""

from __future__ import annotations

import hashlib
import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from equigeo._core.brief import shown
from equigeo._core.text import printable
from equigeo.datasets.archive import ARCHIVE_SUFFIXES, unpack_archive
from equigeo.mesh import MeshError
from equigeo.mesh.io.read_mesh_file import MESH_SUFFIXES

_LISTED = 5  # failures that a message shows; the others are counted
_FOREIGN = frozenset({"cache", "__MACOSX"})  # folders that MeshCNN and archivers leave behind
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
PARTS = ("train", "val", "test")
FRACTIONS = (
    "fractions of training, optionally validation, and test files with the sum 1, such as "
    "0.7,0.15,0.15"
)
_UNSPLIT = (
    "; split=(0.7, 0.15, 0.15), as an option --split 0.7,0.15,0.15, draws the parts of files "
    "without these folders"
)


def data_folder(given: Path, has_layout: Callable[[Path], bool]) -> Path:
    """Return the data folder of a path: unpack an archive, enter a single enclosing folder."""
    if given.is_dir():
        root = given
    elif not given.exists():
        raise ValueError(f"{given}: no such file or folder")
    elif given.name.lower().endswith(ARCHIVE_SUFFIXES):
        root = unpack_archive(given)
    else:
        kinds = ", ".join(ARCHIVE_SUFFIXES)
        raise ValueError(f"{given}: expected a folder or an archive ({kinds}), got a file")
    inside = visible_folders(root)
    return inside[0] if not has_layout(root) and len(inside) == 1 else root


def visible_folders(root: Path) -> list[Path]:
    """List the folders in ``root`` by name, without hidden ones and leftovers of other programs."""
    found = (path for path in root.iterdir() if path.is_dir() and path.name not in _FOREIGN)
    return sorted(path for path in found if not path.name.startswith("."))


def has_parts(folder: Path) -> bool:
    """Return whether a folder has a part."""
    return any((folder / part).is_dir() for part in PARTS)


def files_with(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """List visible files with some suffixes by name; empty if the folder does not exist."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in found if p.suffix.lower() in suffixes and not p.name.startswith("."))


def files_by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, list[Path]]:
    """Return the files of :func:`files_with` by their stems."""
    found: dict[str, list[Path]] = {}
    for path in files_with(folder, suffixes):
        found.setdefault(path.stem, []).append(path)
    return found


def check_split(
    split: Sequence[float] | Sequence[str],  # may be empty
    named: Sequence[str] = (),  # other choices, for the message
) -> tuple[float, ...]:
    """Convert fractions of training, optionally validation, and test files to floats."""
    given: tuple[float, ...] | None = None
    with suppress(TypeError, ValueError, OverflowError):
        given = tuple(map(float, split))
    if given == () or (
        given
        and len(given) in (2, 3)
        and all(0 < x < 1 for x in given)
        and abs(sum(given) - 1) <= 1e-6
    ):
        return given
    others = f"{', '.join(named)} or " if named else ""
    raise ValueError(f"split must be {others}positive {FRACTIONS}; got {shown(given or split)}")


def draw_parts(
    paths: Sequence[Path],
    split: Sequence[float],  # validated
    stream: str,  # such as the name of a class
) -> list[tuple[str, Path]]:
    """Draw the part of each file, the same at each call; return pairs ordered by part and name."""
    # At least one file is a training file, then one a test file, then one a validation file.
    number = len(paths)
    if not number:
        return []
    test = min(max(round(split[-1] * number), 1), number - 1)
    val = min(max(round(split[1] * number), 1), number - 1 - test) if len(split) > 2 else 0
    # generate_state is stable across NumPy versions, which Generator.permutation does not promise
    sequence = np.random.SeedSequence([zlib.crc32(b"fractions"), zlib.crc32(os.fsencode(stream))])
    order = np.argsort(sequence.generate_state(number, np.uint64), kind="stable").tolist()
    ends = (("train", number - test - val), ("val", val), ("test", test))
    parts = [part for part, size in ends for _ in range(size)]
    drawn = sorted(zip(map(PARTS.index, parts), order, strict=True))
    return [(PARTS[part], paths[i]) for part, i in drawn]


class MeshFiles(NamedTuple):
    """Mesh files of a folder with parts."""

    root: Path
    paths: list[Path]
    names: list[str]  # paths below the root
    parts: list[str]  # one of `PARTS` per file

    @classmethod
    def find(
        cls,
        given: Path,
        layout: str,  # for messages
        others: Collection[str],  # folders beside the parts
        split: Sequence[float],  # fractions that replace the parts; empty: those of the folder
    ) -> MeshFiles:
        """List the meshes of all parts, by part and name, or raise."""
        split = check_split(split)

        def directly(folder: Path) -> list[Path]:
            return files_with(folder, MESH_SUFFIXES) if split else []

        root = data_folder(given, lambda folder: has_parts(folder) or bool(directly(folder)))
        if not has_parts(root) and not directly(root):
            raise ValueError(f"{given}: found no train, val or test; expected {layout}{_UNSPLIT}")
        for folder in visible_folders(root):
            if folder.name not in {*PARTS, *others}:
                raise ValueError(f"{given}: unknown folder {folder.name!r}; expected {layout}")
        found = [(part, path) for part in PARTS for path in files_with(root / part, MESH_SUFFIXES)]
        if split:
            found = draw_parts([*directly(root), *(path for _, path in found)], split, "")
        if not found:
            raise ValueError(f"{given}: found no mesh files; expected {layout}")
        parts, paths = map(list, zip(*found, strict=True))
        names = [path.relative_to(root).as_posix() for path in paths]
        warn_of_copies(paths, names, parts)
        return cls(root, paths, names, parts)


def load_members(names: Sequence[str], read: Callable[[int], _T], given: Path) -> list[_T]:
    """Read every mesh by its position, or raise one error that lists all failures."""
    loaded, problems = [], []
    for i, name in enumerate(names):
        try:
            loaded.append(read(i))
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {error}")
    raise_failures("meshes or their labels", MeshError, problems, len(names), str(given))
    return loaded


def raise_failures(
    what: str,  # plural noun
    problem: type[ValueError],
    failures: list[str],
    number: int,  # of all, with those that can be used
    given: str,
) -> None:
    """Raise one error for all failures, if there are any: the first ones, and how many more."""
    if failures:
        more = len(failures) - _LISTED
        lines = failures[:_LISTED] + ([f"and {more} more"] if more > 0 else [])
        raise problem(
            f"{given}: {len(failures)} of {number} {what} cannot be used; repair or remove them:"
            + "".join(f"\n  {line}" for line in lines)
        )


def warn_of_copies(
    paths: Sequence[Path],
    names: Sequence[str],  # in messages
    groups: Sequence[object],  # part and class of each file
) -> None:
    """Log one warning if files of different parts or classes have the same content."""
    # The numbers of glTF may be in another file.
    alone = [path.is_file() and path.suffix.lower() != ".gltf" for path in paths]
    sizes = [path.stat().st_size if x else -1 for path, x in zip(paths, alone, strict=True)]
    number = Counter(sizes)
    found: dict[tuple[int, bytes], list[int]] = {}
    for i, size in enumerate(sizes):
        if size >= 0 and number[size] > 1:  # others need not be read
            content = hashlib.sha256(paths[i].read_bytes()).digest()
            found.setdefault((size, content), []).append(i)
    copies = [same for same in found.values() if len({groups[i] for i in same}) > 1]
    if copies:
        shown = "; ".join(" = ".join(names[i] for i in same[:_LISTED]) for same in copies[:_LISTED])
        more = f"; and {len(copies) - _LISTED} more" if len(copies) > _LISTED else ""
        _log.warning(
            "%d files occur again with the same content in another part or class, so that results "
            "may not hold for new files; keep one of each: %s%s",
            sum(map(len, copies)) - len(copies), printable(shown), more,
        )  # fmt: skip


def warn_of_unused(
    what: str,  # plural noun
    names: Iterable[str],
) -> None:
    """Log one warning if something belongs to no mesh."""
    unused = sorted(names)
    if unused:
        shown = printable(", ".join(unused[:_LISTED]))
        _log.warning("%d %s belong to no mesh: %s", len(unused), what, shown)


class Member(NamedTuple):
    """File of a class."""

    path: Path
    label: int  # position of the class
    part: str  # one of `PARTS`


@dataclass(frozen=True)
class ClassFolders:
    """Files of each class in a folder or archive, labeled by the sorted names of class folders."""

    given: Path  # path given by the user
    root: Path  # folder of the classes
    classes: tuple[str, ...]
    members: tuple[Member, ...]  # by class, training files first, then by name
    kind: str  # description of the files in messages

    @classmethod
    def find(
        cls,
        given: Path,
        suffixes: tuple[str, ...],
        kind: str,  # description of the files in messages
        split: Sequence[float] = (),  # fractions that replace the parts of the folders
    ) -> ClassFolders:
        """List the files with the given suffixes; hidden, ``cache`` and loose files are ignored."""
        split = check_split(split)
        first, *others = sorted(suffixes, key=lambda suffix: (suffix != ".obj", suffix))
        layout = f"<class>/{{train,val,test}}/*{first} (or {', '.join(others)})"

        def has_files(folder: Path) -> bool:
            directly = files_with(folder, suffixes) if split else []
            return folder.name not in PARTS and (has_parts(folder) or bool(directly))

        root = data_folder(given, lambda folder: any(map(has_files, visible_folders(folder))))
        folders = _class_folders(root, given, layout, has_files)
        members: list[Member] = []
        for label, folder in enumerate(folders):
            _check_parts(folder, suffixes, given, layout)
            found = [(part, path) for part in PARTS for path in files_with(folder / part, suffixes)]
            if split:
                directly = files_with(folder, suffixes)
                paths = [*directly, *(path for _, path in found)]
                found = draw_parts(paths, split, folder.name)
            if not found:
                raise ValueError(
                    f"{given}: class {folder.name!r} has no {kind} files; expected {layout}"
                )
            members += [Member(path, label, part) for part, path in found]
        return cls(given, root, tuple(folder.name for folder in folders), tuple(members), kind)

    def name(self, member: Member) -> str:
        """Return the path relative to the folder, with forward slashes."""
        return member.path.relative_to(self.root).as_posix()

    def load(
        self,
        read: Callable[[Member], _T],
        problem: type[ValueError],  # error type that `read` raises and this method raises
    ) -> list[_T]:
        """Read every file, or raise one error that lists all failures."""
        loaded, failures = [], []
        for member in self.members:
            try:
                loaded.append(read(member))
            except (problem, OSError) as error:
                failures.append(_one_line(f"{self.name(member)}: {error}"))
        given = _one_line(str(self.given))
        raise_failures(f"{self.kind} files", problem, failures, len(self.members), given)
        paths, names = [member.path for member in self.members], list(map(self.name, self.members))
        warn_of_copies(paths, names, [member[1:] for member in self.members])
        return loaded


def _one_line(text: str) -> str:
    """Replace line breaks so that a name keeps to one line of a list."""
    return text.replace("\n", r"\n")


def _check_parts(folder: Path, suffixes: tuple[str, ...], given: Path, layout: str) -> None:
    """Raise if a folder of a class that is no part holds files to read."""
    for other in visible_folders(folder):
        if other.name not in PARTS and any(p.suffix.lower() in suffixes for p in other.iterdir()):
            raise ValueError(
                f"{given}: folder {folder.name + '/' + other.name!r} is none of train, val and "
                f"test; expected {layout}"
            )


def _class_folders(
    root: Path, given: Path, layout: str, has_files: Callable[[Path], bool]
) -> list[Path]:
    folders = visible_folders(root)
    classes = list(filter(has_files, folders))
    if not classes:
        raise ValueError(f"{given}: found no class folders; expected {layout}{_UNSPLIT}")
    if len(classes) < len(folders):
        stray = next(folder.name for folder in folders if not has_files(folder))
        raise ValueError(
            f"{given}: folder {stray!r} has neither train, val nor test; expected {layout}"
        )
    if len(classes) == 1:
        raise ValueError(
            f"{given}: found only the class {classes[0].name!r}; "
            "classification needs at least two class folders"
        )
    return classes
