"""Conversion of modules, descriptors and graphs from and to other libraries.

Optional libraries are imported when a function needs them.
"""

from equigeo.interop import cuequivariance, pyg
from equigeo.interop.accelerate import accelerate
from equigeo.interop.acceleration_report import AccelerationReport
from equigeo.interop.certificate import Certificate, Check, ModuleCertificate
from equigeo.interop.decompose_ops import decompose_ops
from equigeo.interop.from_e3nn import from_e3nn
from equigeo.interop.from_fairchem import from_fairchem
from equigeo.interop.reorder import reorder, reorder_weights
from equigeo.interop.restore import restore
from equigeo.interop.sort_irreps import sort_features, sort_irreps
from equigeo.interop.to_e3nn import to_e3nn
from equigeo.interop.to_metatomic import to_metatomic
from equigeo.interop.to_torch_sim import to_torch_sim

__all__ = [
    "AccelerationReport",
    "Certificate",
    "Check",
    "ModuleCertificate",
    "accelerate",
    "cuequivariance",
    "decompose_ops",
    "from_e3nn",
    "from_fairchem",
    "pyg",
    "reorder",
    "reorder_weights",
    "restore",
    "sort_features",
    "sort_irreps",
    "to_e3nn",
    "to_metatomic",
    "to_torch_sim",
]


def __dir__() -> list[str]:
    return __all__
