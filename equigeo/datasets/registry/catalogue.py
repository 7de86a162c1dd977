"""Registry of known data sets; sizes and checksums were computed from the files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from equigeo.datasets.cache import cache_folder

_UNSTATED = "none stated; published for research"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_SHREC = "https://raw.githubusercontent.com/mtembel/geo/52b25e3e36a52783ec5a372af01bfc37b8ca37f6"
_BOTNET = (
    "https://raw.githubusercontent.com/davkovacs/BOTNet-datasets/"
    "29e6d467317e4b5967b7ea5cbee54de953fa0d45"
)
_RMD17 = (
    "https://raw.githubusercontent.com/andersx/rmd17-npz/"
    "4f6bb0a186822c90d47cd98b7a27991fe0b3173b/rmd17-npz"
)
_MLEARN = (
    "https://raw.githubusercontent.com/materialsvirtuallab/mlearn/"
    "a04d3b6ecaac47c27aa8f7e452c16a5c9a2a8cff/data"
)
_CRYSTALS = (
    "Li_train Li_test Mo_train Mo_test Si_train Si_test Ge_train Ge_test Cu_test Ni_test"
).split()
RMD17_MOLECULES = (
    "aspirin azobenzene benzene ethanol malonaldehyde naphthalene paracetamol salicylic toluene "
    "uracil"
).split()
_MNIST_FILES = """
train-images-idx3 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
train-labels-idx1 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
t10k-images-idx3 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
t10k-labels-idx1 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
"""
MODELNET_CLASSES: Final = (
    "bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table",
    "toilet",
)  # fmt: skip
PRINCETON_CLASSES: Final = (
    "human", "cup", "glasses", "airplane", "ant", "chair", "octopus", "table", "teddy",
    "hand", "plier", "fish", "bird", "armadillo", "bust", "mech", "bearing", "vase",
    "fourleg",
)  # fmt: skip


def is_allowed(url: str) -> bool:
    """Return whether an address uses https."""
    return urlsplit(url).scheme == "https"


@dataclass(frozen=True)
class DataFile:
    """File of a published data set."""

    name: str  # relative to the data set's folder, with forward slashes
    url: str = ""  # https; empty if it must be downloaded by hand
    bytes: int | None = None  # size, if known
    sha256: str | None = None  # if None: recorded at the first download, then compared

    def __post_init__(self) -> None:
        """Validate the fields."""
        path = PurePosixPath(self.name)
        if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in self.name:
            raise ValueError(f"{self.name!r}: expected a name below the folder of a data set")
        if self.url and not is_allowed(self.url):
            raise ValueError(f"{self.url}: expected an address of https")
        if self.sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.name}: expected 64 hexadecimal digits, got {self.sha256!r}")


@dataclass(frozen=True)
class DataSet:
    """Published data set."""

    name: str  # as users type it
    title: str  # one line
    tasks: tuple[str, ...]  # of `equigeo train`
    licence: str
    source: str  # publisher and address
    files: tuple[DataFile, ...]  # to download
    made: tuple[str, ...] = ()  # names of converted files, if it is not used as published
    manual: str = ""  # how to download it by hand
    folder: str = ""  # default: the name
    collections: tuple[str, ...] = ()  # parts that are data sets of their own, as in "coseg/vases"

    @property
    def path(self) -> Path:
        """Folder of the files, which may not exist."""
        return data_root() / (self.folder or self.name)

    @property
    def bytes(self) -> int | None:
        """Size of the download; None if unknown."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes or not sizes else sum(filter(None, sizes))

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the files that readers use."""
        return self.made or tuple(file.name for file in self.files)

    @property
    def location(self) -> Path:
        """Argument of readers: the only file or folder that is used, or their folder."""
        return self.path / self.used[0] if len(self.used) == 1 else self.path

    @property
    def fetched(self) -> Path:
        """Source of the conversion after a download: the only file, or the folder."""
        return self.path / self.files[0].name if len(self.files) == 1 else self.path

    @property
    def is_present(self) -> bool:
        """Whether all files that readers use exist."""
        return all((self.path / name).exists() for name in self.used)

    @property
    def is_fetchable(self) -> bool:
        """Whether every file has an address."""
        return bool(self.files) and all(file.url for file in self.files)


def data_root() -> Path:
    """Return ``$EQUIGEO_DATA``, or ``data`` in the cache folder, without creating it."""
    chosen = os.environ.get("EQUIGEO_DATA")
    return Path(chosen).expanduser().absolute() if chosen else cache_folder() / "data"


_BOTNET_FILES = {  # name, bytes and SHA-256
    "dataset_3BPA": """
iso_atoms.xyz 504 e12a2465a2612bf38fd5dabdf64d4b57fc58ce9610a858c54ea1142d517c053f
train_300K.xyz 1504880 d109971fab90e2231ad931a83eb704c8d940f5c7d7a8de27fe3b84ea18634c0a
""",
    "dataset_acac": """
isolated_atoms.xyz 455 b74f321b453374621b447d65c60979f70df1b7182c8ee0215388b2c574f33823
test_H_transfer.xyz 14306 ea4d76c79cf4cfccd2f93eaf755172b0b648886c4907eb0f82dff07a77530743
test_MD_300K.xyz 1144100 2291f3186a3cc6a5e05e92952c84a9237ca53f862d78fd3316a769360719ec43
test_MD_600K.xyz 1144153 d5a5bba154ec43f915eb7529f86ec3af60e6f911743859daba030181a0378ff7
test_dihedral.xyz 43974 0c2246a593579de5a4450698d5f4ba5802b095824b7f211aa5889339967c6809
train_300K.xyz 880100 8f5706d6902360555a5be59395612d2afc3489a75688388a58e7275fdad68af3
train_600K.xyz 880112 180c2538508f7810a623c279426f44953ee7cfb2af77e48ea3986ff97645a71c
""",
    "dataset_ethanol": """
isolated_atoms.xyz 608 a2a662390f31ad623ce493038e680bc34214f88d4432566bf8fbd0761be57583
test_H_removal.xyz 38519 8d9f13272eb1c7570edaf6afc31e6f8670df38c41b82611504878576708b1a1c
test_MD.xyz 1110863 b8726933d5b9083989d8e3cc7013c18e0950cf0cbc6f6cd570fdb9759001031c
test_dimers.xyz 110276 6beaf368c2caed6493a39c643438317246926675f14b188b7a2dcbd7868f7342
test_eth_meth.xyz 1209446 e9109584eb66d2ffe7509dd792c436e4b54bed2583a4de555bda9b2cd4799adf
test_norm_mode_3005.xyz 11769 9412f0ac3562ee3f307e823eae5f6a9b793e1805feea908f58c9d24a0068f6b0
test_norm_mode_874.xyz 24180 13f363e0c141dc25af4d8f59668623a27e024c781a07a52f8565fc6bb0e58f99
train.xyz 1115876 a26a16d8910581fa321fedc3bd3dfe31f2460e8cbfdc7a8f65243f4fd7250dd0
train_eth_meth.xyz 1330730 2aea243261f05b7d556cca37d73de335a98573d198441f32dc6f835cd948e3a0
""",
}


def _mnist_files() -> tuple[DataFile, ...]:
    rows = map(str.split, _MNIST_FILES.strip().splitlines())
    return tuple(
        DataFile(f"{name}-ubyte.gz", f"{_MNIST}/{name}-ubyte.gz", int(size), sha)
        for name, size, sha in rows
    )


def _meshcnn(name: str, title: str, task: str, source: str, key: str, *parts: str) -> DataSet:
    """Return an archive that MeshCNN offers on Dropbox."""
    address = f"https://www.dropbox.com/s/{key}/{name}.tar.gz"
    manual = f"download {address}, then: equigeo data convert {name} {name}.tar.gz"
    file = DataFile(f"{name}.tar.gz", f"{address}?dl=1")
    return DataSet(
        name, title, (task,), _UNSTATED, source, (file,), manual=manual, collections=parts
    )


DATA_SETS: Final = (
    DataSet(
        "shrec11",
        "SHREC'11 non-rigid shapes as MeshCNN simplified them: 30 classes x 20, 500 faces",
        ("mesh-classification",),
        _UNSTATED,
        "Lian et al. 2011, Hanocka et al. 2019; GitHub mtembel/geo",
        (
            DataFile(
                "shrec_16.tar.gz",
                f"{_SHREC}/shrec_16.tar.gz",
                3225763,
                "fed18e701e1d3b4e7882b6eaca8640421e23e3ef9443fa6058dfaf9d704f18ae",
            ),
        ),
        manual="download https://www.dropbox.com/s/w16st84r6wc57u7/shrec_16.tar.gz, as MeshCNN "
        "does, then: equigeo data convert shrec11 shrec_16.tar.gz",
        folder="shrec11_meshcnn",
    ),
    _meshcnn(
        "cubes",
        "engraved cubes of MeshCNN: 22 classes, 500 faces",
        "mesh-classification",
        "Hanocka et al. 2019",
        "2bxs5f9g60wa0wr",
    ),
    _meshcnn(
        "coseg",
        "COSEG with labeled edges, as MeshCNN simplified it: aliens, chairs, vases",
        "mesh-segmentation",
        "Wang et al. 2012, Hanocka et al. 2019",
        "34vy4o5fthhz77d",
        *("aliens", "chairs", "vases"),
    ),
    _meshcnn(
        "human_seg",
        "human bodies with labeled edges, as MeshCNN simplified them: 8 parts",
        "mesh-segmentation",
        "Maron et al. 2017, Hanocka et al. 2019",
        "s3n05sw0zg27fz3",
    ),
    DataSet(
        "princeton",
        "Princeton mesh segmentation benchmark as a set of 19 classes x 20 watertight meshes",
        ("mesh-classification",),
        _UNSTATED,
        "Chen et al. 2009; shapes of SHREC 2007 (AIM@SHAPE)",
        (),
        ("meshes",),
        "download the benchmark's data, version 1.0, from https://segeval.cs.princeton.edu and "
        "unpack it, then: equigeo data convert princeton FOLDER, which holds off/1.off to "
        "off/400.off",
    ),
    DataSet(
        "modelnet10",
        "ModelNet10 as point clouds: 10 classes of furniture, 1024 points",
        ("pointcloud",),
        "academic use; the models belong to their authors",
        "Wu et al. 2015",
        (
            DataFile(
                "ModelNet10.zip",
                "https://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip",
            ),
        ),
        ("modelnet10_train.npz", "modelnet10_test_a.npz"),
        "download ModelNet10.zip from https://modelnet.cs.princeton.edu, then: "
        "equigeo data convert modelnet10 ModelNet10.zip",
        folder="modelnet10_points",
    ),
    DataSet(
        "mnist",
        "handwritten digits, 60,000 + 10,000: what affNIST and homNIST are made of",
        ("affnist",),
        "CC BY-SA 3.0 as commonly given",
        "LeCun, Cortes, Burges",
        _mnist_files(),
        manual="get the four files *-ubyte.gz of MNIST into a folder, then: "
        "equigeo data convert mnist FOLDER",
    ),
    DataSet(
        "tsplib",
        "TSPLIB95: 111 symmetric instances of the travelling-salesman problem, best lengths",
        ("tsp",),
        _UNSTATED,
        "Reinelt 1995; GitHub mastqe/tsplib",
        (),
        ("instances",),
        "git clone https://github.com/mastqe/tsplib, or unpack ALL_tsp.tar.gz of "
        "http://comopt.ifi.uni-heidelberg.de/software/TSPLIB95, which has no https, then: "
        "equigeo data convert tsplib FOLDER",
    ),
    DataSet(
        "rmd17",
        "revised MD17, split 01: 1,000 + 1,000 frames of ten molecules, energies and forces",
        ("potential",),
        "CC0-1.0",
        "Christensen and von Lilienfeld 2020; GitHub andersx/rmd17-npz",
        tuple(
            DataFile(name := f"rmd17_{molecule}_{part}_01.npz", f"{_RMD17}/{name}")
            for molecule in RMD17_MOLECULES
            for part in ("train", "test")
        ),
        manual="git clone https://github.com/andersx/rmd17-npz and take its files *_01.npz",
    ),
    DataSet(
        "3bpa",
        "3BPA (trained at 300 K), acetylacetone and ethanol of the BOTNet paper",
        ("potential",),
        "MIT",
        "Batatia et al. 2022; GitHub davkovacs/BOTNet-datasets",
        tuple(
            DataFile(name := f"{folder}/{file}", f"{_BOTNET}/{name}", int(size), sha)
            for folder, rows in _BOTNET_FILES.items()
            for file, size, sha in map(str.split, rows.strip().splitlines())
        ),
        manual="git clone https://github.com/davkovacs/BOTNet-datasets",
        folder="botnet_datasets",
    ),
    DataSet(
        "mlearn",
        "crystals of Li, Mo, Si, Ge (train and test), Cu and Ni (test): periodic DFT with stresses",
        ("potential",),
        "BSD-3-Clause",
        "Zuo et al. 2020; GitHub materialsvirtuallab/mlearn",
        tuple(
            DataFile(name := f"{crystal.replace('_', '/')}.json", f"{_MLEARN}/{name}")
            for crystal in (part.replace("train", "training") for part in _CRYSTALS)
        ),
        tuple(f"{name}.npz" for name in _CRYSTALS),
        "git clone https://github.com/materialsvirtuallab/mlearn, then: "
        "equigeo data convert mlearn mlearn",
        folder="mlearn_periodic",
    ),
    DataSet(
        "qm9",
        "QM9: 20,000 of 133,885 small molecules, with properties from DFT",
        ("potential",),
        "CC BY 4.0",
        "Ramakrishnan et al. 2014; figshare",
        (
            DataFile("dsgdb9nsd.xyz.tar.bz2", "https://ndownloader.figshare.com/files/3195389"),
            DataFile("uncharacterized.txt", "https://ndownloader.figshare.com/files/3195404"),
        ),
        ("qm9_20k.npz",),
        "download dsgdb9nsd.xyz.tar.bz2 and uncharacterized.txt of figshare's collection 978904 "
        "into a folder, then: equigeo data convert qm9 FOLDER",
    ),
)


def find_data_set(name: str) -> DataSet:
    """Return the entry of a data set, or raise ValueError with the known names."""
    for entry in DATA_SETS:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in DATA_SETS)
    raise ValueError(f"data set must be one of {known}; got {name!r}")
