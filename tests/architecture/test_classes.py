"""Classes are abstract or final: what a class inherits is an interface, not another's behaviour."""

import ast
from collections.abc import Iterator

from tests.architecture.source import Module, defining_module, refuse, the_package, write_package

Name = tuple[str, str]  # module and class
# Data with the means to read and write it, which every kind of configuration extends by fields.
EXTENSIBLE = {("equigeo.nn.config", "Config"), ("equigeo.training.run_config", "RunConfig")}
# The same network told to do without its embedding: parameters and state have the same names.
EXTENSIBLE |= {("equigeo.mds.models.invariant_point_net", "InvariantPointNet")}
INTERFACES = {"ABC", "Protocol", "Exception", "ValueError", "RuntimeError", "Warning"}


def concrete_bases(modules: dict[str, Module]) -> Iterator[str]:
    """Classes of the package that inherit from one that works by itself."""
    classes = {
        (module.name, node.name): node
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
    }
    for (name, cls), node in classes.items():
        for base in filter(None, (defined(modules, name, b) for b in base_names(node))):
            if base in classes and base not in EXTENSIBLE and not is_abstract(classes[base]):
                path = modules[name].path
                yield f"{path}:{node.lineno}: {cls} inherits from {base[1]}, which is not abstract"


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0] for base in node.bases]


def defined(modules: dict[str, Module], name: str, base: str) -> Name | None:
    """Module that defines what another one calls by this name."""
    for entry in modules[name].imports:
        if entry.name == base:
            module = defining_module(modules, entry.base, base)
            return (module, base) if module else None
    return (name, base)


def is_abstract(node: ast.ClassDef) -> bool:
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
    decorators = [ast.unparse(d) for method in methods for d in method.decorator_list]
    return "abstractmethod" in decorators or bool(INTERFACES & set(base_names(node)))


def test_classes_are_abstract_or_final():
    refuse([*concrete_bases(the_package())])


def test_concrete_bases_are_reported(tmp_path):
    for k, (source, count) in enumerate(
        [
            ("class A:\n    def f(self): ...", 1),
            ("class A(ABC): ...", 0),
            ("class A:\n    @abstractmethod\n    def f(self): ...", 0),
            ("class A(ValueError): ...", 0),
        ]
    ):
        init = "from equigeo.mesh.a import A"
        user = "from equigeo.mesh import A\nclass B(A[int]): ..."
        modules = write_package(
            tmp_path / str(k), mesh____init__=init, mesh__a=source, mesh__b=user
        )
        found = [*concrete_bases(modules)]
        assert len(found) == count
        assert all(line.startswith("equigeo/mesh/b.py:2: B inherits from A") for line in found)
