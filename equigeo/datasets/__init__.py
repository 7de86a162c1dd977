"""Data sets: readers of published layouts, and generators.

``load`` loads a published data set by the name under which ``equigeo data`` fetches it. Unpacked,
generated and solved data are cached in ``$EQUIGEO_CACHE`` or the user's cache folder.
"""

from typing import Final

from equigeo._core.deprecation import Renamed, renamed
from equigeo.datasets.atoms.extxyz import format_extxyz, read_extxyz
from equigeo.datasets.atoms.frames import AtomicFrame, AtomicFrames
from equigeo.datasets.atoms.published import AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.published import load_mlearn as _load_mlearn
from equigeo.datasets.atoms.published import load_qm9 as _load_qm9
from equigeo.datasets.atoms.published import load_rmd17 as _load_rmd17
from equigeo.datasets.clouds import PointClouds, load_cloud_folder, load_modelnet_points, read_cloud
from equigeo.datasets.clouds import normalized_cloud as _normalized_cloud
from equigeo.datasets.digits.readers import load_digits, read_image
from equigeo.datasets.digits.readers import load_mnist as _load_mnist
from equigeo.datasets.digits.readers import read_idx as _read_idx
from equigeo.datasets.digits.transformed import AffNIST, HomNIST
from equigeo.datasets.digits.transformed import TransformedDigits as _TransformedDigits
from equigeo.datasets.digits.warp import centred as _centred
from equigeo.datasets.digits.warp import digit_canvas
from equigeo.datasets.engraved_cubes import engraved_cubes
from equigeo.datasets.meshes import MeshDataset, load_mesh_folder
from equigeo.datasets.registry.access import load
from equigeo.datasets.segmentation.dataset import EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.segmentation.edges import OrderedEdges as _OrderedEdges
from equigeo.datasets.segmentation.edges import edges_in_order
from equigeo.datasets.segmentation.folder import load_segmentation_folder
from equigeo.datasets.shapes.articulated import articulated_shapes
from equigeo.datasets.shapes.parts import articulated_parts
from equigeo.datasets.splits import split_indices
from equigeo.datasets.tours import TSPInstance, optimal_lengths, uniform_cities
from equigeo.datasets.tours import optimal_tour as _optimal_tour
from equigeo.datasets.tsplib import load_tsplib
from equigeo.datasets.tsplib import read_tsplib as _read_tsplib

__all__ = [
    "AffNIST",
    "AtomicFrame",
    "AtomicFrames",
    "AtomicSplit",
    "EdgeLabels",
    "HomNIST",
    "MeshDataset",
    "PointClouds",
    "SegmentedMeshDataset",
    "TSPInstance",
    "articulated_parts",
    "articulated_shapes",
    "digit_canvas",
    "edges_in_order",
    "engraved_cubes",
    "format_extxyz",
    "load",
    "load_atomic_split",
    "load_cloud_folder",
    "load_digits",
    "load_mesh_folder",
    "load_modelnet_points",
    "load_segmentation_folder",
    "load_tsplib",
    "optimal_lengths",
    "read_cloud",
    "read_extxyz",
    "read_image",
    "split_indices",
    "uniform_cities",
]


def __dir__() -> list[str]:
    return __all__


_PRIVATE: Final = {  # old name: the object, and what replaces it
    "OrderedEdges": (_OrderedEdges, "edges_in_order"),
    "TransformedDigits": (_TransformedDigits, "AffNIST or HomNIST"),
    "centred": (_centred, "torch.nn.functional.pad"),
    "load_mlearn": (_load_mlearn, "load or load_atomic_split"),
    "load_mnist": (_load_mnist, "load or load_digits"),
    "load_qm9": (_load_qm9, "load or load_atomic_split"),
    "load_rmd17": (_load_rmd17, "load or load_atomic_split"),
    "normalized_cloud": (_normalized_cloud, "load_cloud_folder"),
    "optimal_tour": (_optimal_tour, "optimal_lengths"),
    "read_idx": (_read_idx, "load or load_digits"),
    "read_tsplib": (_read_tsplib, "load or load_tsplib"),
}
__getattr__ = renamed(
    __name__,
    {"open": Renamed("load", since="0.3")}
    | {old: Renamed(new, "0.3", private) for old, (private, new) in _PRIVATE.items()},
)
