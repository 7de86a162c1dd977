"""Comparisons of replaced modules with the originals."""

from equigeo.interop.certificate.certificate import Certificate, Check, ModuleCertificate

__all__ = ["Certificate", "Check", "ModuleCertificate"]


def __dir__() -> list[str]:
    return __all__
