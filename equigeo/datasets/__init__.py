"""Data sets: readers of published layouts, and generators.

``load`` loads a published data set by the name under which ``equigeo data`` fetches it. Unpacked,
generated and solved data are cached in ``$EQUIGEO_CACHE`` or the user's cache folder.
"""

from typing import Final

from equigeo._deprecation import Renamed, renamed
from equigeo.datasets.atoms.atomic_frame import AtomicFrame
from equigeo.datasets.atoms.atomic_frames import AtomicFrames
from equigeo.datasets.atoms.atomic_split import AtomicSplit, load_atomic_split
from equigeo.datasets.atoms.load_mlearn import load_mlearn as _load_mlearn
from equigeo.datasets.atoms.load_qm9 import load_qm9 as _load_qm9
from equigeo.datasets.atoms.load_rmd17 import load_rmd17 as _load_rmd17
from equigeo.datasets.atoms.read_extxyz import read_extxyz
from equigeo.datasets.atoms.write_extxyz import format_extxyz
from equigeo.datasets.digits.affnist import AffNIST
from equigeo.datasets.digits.centred import centred as _centred
from equigeo.datasets.digits.digit_canvas import digit_canvas
from equigeo.datasets.digits.homnist import HomNIST
from equigeo.datasets.digits.load_digits import load_digits
from equigeo.datasets.digits.load_mnist import load_mnist as _load_mnist
from equigeo.datasets.digits.read_idx import read_idx as _read_idx
from equigeo.datasets.digits.read_image import read_image
from equigeo.datasets.digits.transformed_digits import TransformedDigits as _TransformedDigits
from equigeo.datasets.engraved.engraved_cubes import engraved_cubes
from equigeo.datasets.load_cloud_folder import load_cloud_folder
from equigeo.datasets.load_cloud_folder import normalized_cloud as _normalized_cloud
from equigeo.datasets.load_mesh_folder import load_mesh_folder
from equigeo.datasets.load_modelnet_points import load_modelnet_points
from equigeo.datasets.mesh_dataset import MeshDataset
from equigeo.datasets.point_clouds import PointClouds
from equigeo.datasets.read_cloud import read_cloud
from equigeo.datasets.registry.open_data_set import load
from equigeo.datasets.segmentation.edges_in_order import OrderedEdges as _OrderedEdges
from equigeo.datasets.segmentation.edges_in_order import edges_in_order
from equigeo.datasets.segmentation.load_segmentation_folder import load_segmentation_folder
from equigeo.datasets.segmentation.segmented_mesh_dataset import EdgeLabels, SegmentedMeshDataset
from equigeo.datasets.shapes.articulated_parts import articulated_parts
from equigeo.datasets.shapes.articulated_shapes import articulated_shapes
from equigeo.datasets.split_indices import split_indices
from equigeo.datasets.tours.load_tsplib import load_tsplib
from equigeo.datasets.tours.optimal_lengths import optimal_lengths
from equigeo.datasets.tours.optimal_tour import optimal_tour as _optimal_tour
from equigeo.datasets.tours.read_tsplib import read_tsplib as _read_tsplib
from equigeo.datasets.tours.tsp_instance import TSPInstance
from equigeo.datasets.tours.uniform_cities import uniform_cities

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
