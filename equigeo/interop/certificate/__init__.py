"""Evidence that a replacement computes the same as the original module.

:func:`equigeo.interop.accelerate` with ``verify=True`` compares each module with what it was, to
second gradients and in every form in which models give their inputs, and a whole model with the
laws that its energy and forces obey.
"""

from equigeo.interop.certificate.certificate import Certificate, Check, ModuleCertificate

__all__ = ["Certificate", "Check", "ModuleCertificate"]


def __dir__() -> list[str]:
    return __all__
