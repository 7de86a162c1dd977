"""Conversion of modules, descriptors and graphs from and to other libraries.

Optional libraries are imported when a function needs them.
"""

from equigeo._core.deprecation import Renamed, renamed
from equigeo.interop import cuequivariance, pyg
from equigeo.interop.accelerate import accelerate, restore
from equigeo.interop.certificate import AccelerationReport, Certificate, Check, ModuleCertificate
from equigeo.interop.decompose_ops import decompose_ops
from equigeo.interop.e3nn import from_e3nn, reorder, to_e3nn
from equigeo.interop.engines import to_metatomic, to_torch_sim
from equigeo.interop.fairchem import from_fairchem
from equigeo.interop.lammps import to_lammps
from equigeo.interop.terms import sort_features, sort_irreps

__all__ = [
    "AccelerationReport",
    "Certificate",
    "accelerate",
    "cuequivariance",
    "decompose_ops",
    "from_e3nn",
    "from_fairchem",
    "pyg",
    "reorder",
    "restore",
    "sort_irreps",
    "to_e3nn",
    "to_lammps",
    "to_metatomic",
    "to_torch_sim",
]
__dir__ = __all__.copy

__getattr__ = renamed(
    __name__,
    {
        "Check": Renamed("Certificate.laws", "0.3", Check),
        "ModuleCertificate": Renamed("Certificate.modules", "0.3", ModuleCertificate),
        "heat_distances": Renamed(
            "the function for mds.geodesic_embed(distances=) in the docstring of geodesic_embed",
            "0.3",
            removed=True,
        ),
        "reorder_weights": Renamed(
            "tensor_products.ChannelwiseTensorProduct(weight_order=), which builds either order",
            "0.3",
            removed=True,
        ),
        "sort_features": Renamed("sort_irreps", "0.3", sort_features),
    },
)
