"""Write the small files of ``data/``: generated ones, golden tables, excerpts of real data sets.

    python -m tests.make_data SHARED

``SHARED`` is the folder with the real data sets, of which only sets whose licence allows it, or
whose authors publish them for research without one, are quoted. ``python -m tests.make_data``
alone rewrites the list of checksums in ``data/README.md``.
"""

import csv
import gzip
import hashlib
import io
import math
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sympy
import trimesh

from equigeo.datasets.shapes.articulated import SHAPE_TEMPLATES, generate_instance

DATA = Path(__file__).parents[1] / "data"
README = DATA / "README.md"
MARK = "## Files\n"
MESHES = {  # of the robustness corpus: CC0 (cgal), BSD-3-Clause (assimp) and MIT (trimesh)
    "malformed": "assimp__empty.obj assimp__invalid.off trimesh__notenoughindices.obj "
    "assimp__OutOfMemory.off trimesh__nancolor.obj",
    "format": "trimesh__face_in_group_name_mid_file.obj assimp__testmixed.obj "
    "assimp__triangle_with_two_solids.stl trimesh__whitespace.off trimesh__negative_indices.obj "
    "assimp__issue623.ply assimp__number_formats.obj",
    "no_faces": "trimesh__empty.stl trimesh__points_bin.ply assimp__testline.obj",
    "nonmanifold": "trimesh__joined_tetrahedra.obj trimesh__shared.STL trimesh__fuze.ply",
    "degenerate": "cgal__degtri_sliding.off cgal__mpi.off",
    "inconsistent_orientation": "cgal__cube-shuffled.off trimesh__multibody.stl",
    "unwelded": "cgal__quads_to_stitch.off assimp__cube_uv.ply trimesh__tube.obj",
    "self_intersecting": "cgal__tetra_intersected_by_triangle.off cgal__pig.off",
    "polygonal": "cgal__3torus.off cgal__double-torus-example.off assimp__box.obj",
    "boundary": "cgal__corner_tris_with_hole.off cgal__nefertiti.off assimp__triangle.stl "
    "trimesh__plane.ply",
    "closed_genus_gt_0": "cgal__eight.off trimesh__mirror.ply",
    "closed_sphere": "cgal__star.off cgal__sphere.ply cgal__sphere.stl assimp__cube_binary.ply",
}
INSTANCES = "burma14 ulysses22 gr17 fri26 bayg29 bays29 att48 berlin52 pcb442 gr666 att532".split()
FORMATS = ("obj", "off", "ply", "stl", "glb")
POINTS = {"train": 3, "test": 1}  # clouds of a class


def main() -> int:
    """Write the files, then their checksums."""
    if len(sys.argv) > 1:
        shared = Path(sys.argv[1])
        for write in (write_meshes, write_clouds, write_golden):
            write()
        for quote in (quote_meshes, quote_molecules, quote_crystals, quote_digits, quote_tours):
            quote(shared)
    write_checksums()
    return 0


def fresh(name: str) -> Path:
    """An empty folder."""
    shutil.rmtree(DATA / name, ignore_errors=True)
    (DATA / name).mkdir(parents=True)
    return DATA / name


def write_meshes() -> None:
    """One shape of each of five classes, in one format each, and one that is open."""
    folder = fresh("meshes")
    for template, suffix in zip(SHAPE_TEMPLATES[::3], FORMATS, strict=False):
        shape = generate_instance(template, 400, 0, 0)
        vertices, faces = shape.vertices, shape.faces
        mesh = trimesh.Trimesh(vertices, faces, process=False)
        mesh.export(folder / f"{template.name}.{suffix}")
    shape = generate_instance(SHAPE_TEMPLATES[0], 400, 0, 1)
    vertices, faces = shape.vertices, shape.faces
    trimesh.Trimesh(vertices, faces[40:], process=False).export(
        folder / f"{SHAPE_TEMPLATES[0].name}_open.ply", encoding="ascii"
    )


def write_clouds() -> None:
    """Points on shapes of three classes, as ``<class>/{train,test}/<shape>.<format>``."""
    folder = fresh("clouds")
    kinds = ("xyz", "npy", "ply", "npz")
    for template in SHAPE_TEMPLATES[1:10:3]:
        count = 0
        for part, number in POINTS.items():
            (folder / template.name / part).mkdir(parents=True)
            for _ in range(number):
                shape = generate_instance(template, 400, 0, count)
                points = sampled(shape.vertices, shape.faces, count)
                save_cloud(folder / template.name / part / f"{count}.{kinds[count]}", points)
                count += 1


def sampled(vertices: np.ndarray, faces: np.ndarray, count: int) -> np.ndarray:
    """256 points, uniform on the surface."""
    seed = np.random.SeedSequence([0, zlib.crc32(b"data/clouds"), count])
    random = np.random.default_rng(seed)
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    chosen = random.choice(len(faces), 256, p=area / area.sum())
    u, v = random.random((2, 256, 1))
    root = np.sqrt(u)
    points = (1 - root) * a[chosen] + root * (1 - v) * b[chosen] + root * v * c[chosen]
    return points.astype(np.float32)


def save_cloud(path: Path, points: np.ndarray) -> None:
    """Write points in the format that the name says."""
    if path.suffix == ".xyz":
        np.savetxt(path, points, "%.6f")
    elif path.suffix == ".npy":
        np.save(path, points)
    elif path.suffix == ".npz":
        np.savez(path, points=points)
    else:
        trimesh.PointCloud(points).export(path)


def write_golden() -> None:
    """Numbers that nothing of the library computed."""
    folder = fresh("golden")
    points = [(9, 12, 20), (-2, 3, 6), (1, -4, 8), (0, 0, 1)]  # of whole length 25, 7, 9 and 1
    with (folder / "spherical_harmonics.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow("x y z l m value".split())
        for point in points:
            unit = [sympy.Rational(c, math.isqrt(sum(x * x for x in point))) for c in point]
            for degree in range(7):
                for order in range(-degree, degree + 1):
                    value = sympy.N(harmonic(degree, order, *unit), 20)
                    table.writerow([*unit, degree, order, value])
    with (folder / "lattice_energies.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow("cutoff neighbors energy_per_atom".split())
        for cutoff in (2.5, 5.0, 10.0):
            table.writerow([cutoff, *lattice(cutoff)])


def harmonic(l: int, m: int, x: sympy.Expr, y: sympy.Expr, z: sympy.Expr) -> sympy.Expr:
    """Real harmonic of mean square one, e3nn's order and axes: y is polar, x goes with sines."""
    t = sympy.Symbol("t")
    size = abs(m)
    # Rodrigues' formula without the Condon-Shortley phase; the powers of the sine are in the wave.
    bare = sympy.diff((t**2 - 1) ** l, t, l + size) / (2**l * sympy.factorial(l))
    polar = sympy.expand(bare).subs(t, y)
    wave = sympy.expand((z + sympy.I * x) ** size)
    part = sympy.re(wave) if m >= 0 else sympy.im(wave)
    share = sympy.factorial(l - size) / sympy.factorial(l + size) * (2 if m else 1)
    return sympy.sqrt((2 * l + 1) * share) * polar * part


def lattice(cutoff: float) -> tuple[int, str]:
    """Neighbors and energy of an atom, 4 (r^-12 - r^-6), in fcc at the pair's equilibrium."""
    far = math.ceil(cutoff * 2)
    edge = 2 ** (2 / 3) / 2
    steps = np.arange(-far, far + 1)
    grid = np.stack(np.meshgrid(steps, steps, steps), -1).reshape(-1, 3)
    squares = (grid[grid.sum(1) % 2 == 0] ** 2).sum(1)
    distances = np.sqrt(squares[squares > 0]) * edge
    near = distances[distances <= cutoff]
    return len(near), f"{math.fsum(2 * (near**-12 - near**-6)):.12f}"


def quote_meshes(shared: Path) -> None:
    """Files of the robustness corpus, with their lines of its manifest."""
    source, folder = shared / "robustness_meshes", fresh("robustness_meshes")
    chosen = {f"{kind}/{name}" for kind, names in MESHES.items() for name in names.split()}
    with (source / "MANIFEST.csv").open(newline="") as manifest:
        rows = [row for row in csv.DictReader(manifest) if row["file"] in chosen]
    assert {row["file"] for row in rows} == chosen
    with (folder / "MANIFEST.csv").open("w", newline="") as manifest:
        table = csv.DictWriter(manifest, rows[0].keys(), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    with tarfile.open(source / "robustness_meshes.tar.xz") as archive:
        for name in chosen:
            path = folder / "robustness_meshes" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            member = archive.extractfile(f"robustness_meshes/{name}")
            assert member is not None
            path.write_bytes(member.read())


def quote_molecules(shared: Path) -> None:
    """The first frames of two molecules of rMD17, molecules of QM9, and frames of 3BPA."""
    folder = fresh("rmd17")
    for molecule, part, frames in (
        ("ethanol", "train", 200),
        ("ethanol", "test", 100),
        ("aspirin", "train", 50),
    ):
        name = f"rmd17_{molecule}_{part}_01.npz"
        with np.load(shared / "rmd17" / name) as file:
            arrays = {key: file[key] for key in file.files}
        np.savez_compressed(
            folder / name,
            **{key: x if key == "nuclear_charges" else x[:frames] for key, x in arrays.items()},
        )
    with np.load(shared / "qm9" / "qm9_20k.npz") as file:
        arrays = {key: file[key] for key in file.files}
    atoms, molecules = int(arrays["atom_offset"][100]), 100
    sizes = {len(arrays["position"]): atoms, len(arrays["n_atoms"]): molecules}
    sizes[len(arrays["atom_offset"])] = molecules + 1
    np.savez_compressed(
        fresh("qm9") / "qm9_20k.npz",
        **{key: x[: sizes.get(len(x), len(x))] for key, x in arrays.items()},
    )
    folder = fresh("botnet_3bpa_acac_ethanol")
    archive = shared / "botnet_3bpa_acac_ethanol" / "botnet_datasets.tar.xz"
    with tarfile.open(archive) as members, tempfile.TemporaryDirectory() as unpacked:
        members.extractall(unpacked, filter="data")
        for name, frames in (
            ("dataset_3BPA/iso_atoms.xyz", 4),
            ("dataset_3BPA/train_300K.xyz", 20),
            ("dataset_acac/train_300K.xyz", 20),
        ):
            (found,) = Path(unpacked).rglob(name)
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("".join(first_frames(found.read_text(), frames)))


def first_frames(text: str, frames: int) -> Iterator[str]:
    """Lines of the first frames of a file in the xyz format."""
    lines = iter(text.splitlines(keepends=True))
    for _ in range(frames):
        head = next(lines)
        yield head
        for _ in range(int(head) + 1):
            yield next(lines)


def quote_crystals(shared: Path) -> None:
    """The test sets of all six elements of mlearn, whole."""
    folder = fresh("mlearn_periodic")
    for path in sorted((shared / "mlearn_periodic").glob("*_test.npz")):
        shutil.copy(path, folder)
        (folder / path.name).chmod(0o644)


def quote_digits(shared: Path) -> None:
    """The first 600 training and 300 test digits of MNIST."""
    folder = fresh("mnist")
    for part, number in (("train", 600), ("t10k", 300)):
        for name, head, item in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            file = f"{part}-{name}-ubyte.gz"
            with gzip.open(shared / "mnist" / file) as stream:
                content = stream.read(head + number * item)
            content = content[:4] + number.to_bytes(4, "big") + content[8:]
            packed = io.BytesIO()
            with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream:
                stream.write(content)
            (folder / file).write_bytes(packed.getvalue())


def quote_tours(shared: Path) -> None:
    """Small instances of TSPLIB with their best lengths, and three with published tours."""
    folder = fresh("tsplib")
    with tarfile.open(shared / "tsplib" / "tsplib.tar.xz") as archive:
        texts = {
            Path(member.name).name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }
    for name in INSTANCES:
        (folder / f"{name}.tsp").write_bytes(texts[f"{name}.tsp"])
    lines = texts["solutions"].decode().splitlines(keepends=True)
    kept = [line for line in lines if line.split(":")[0].strip() in INSTANCES]
    (folder / "solutions").write_text("".join(kept))


def listed() -> str:
    """Size and SHA-256 of every file, as lines of a table."""
    paths = sorted(path for path in DATA.rglob("*") if path.is_file() and path != README)
    rows = [
        f"| `{path.relative_to(DATA).as_posix()}` | {path.stat().st_size} "
        f"| `{hashlib.sha256(path.read_bytes()).hexdigest()}` |\n"
        for path in paths
    ]
    return "| file | bytes | SHA-256 |\n|---|---:|---|\n" + "".join(rows)


def write_checksums() -> None:
    """Replace the list at the end of ``data/README.md``."""
    above, mark, _ = README.read_text().partition(MARK)
    assert mark, f"{README} has no line {MARK!r}"
    README.write_text(f"{above}{MARK}\n{listed()}")


if __name__ == "__main__":
    sys.exit(main())
