"""No module needs itself: neither what it imports at the top nor what its functions import leads back to it."""

import ast
import graphlib
import pathlib

import pytest

import polhode

PACKAGE = pathlib.Path(polhode.__file__).parent
NAMES = {
    ".".join(("polhode", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imports(tree: ast.AST) -> set[str]:
    """Modules of the package that a module imports anywhere but for annotations; packages only name their modules."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in NAMES else node.module for name in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        found |= imports(node)
    return {name for name in found if name in NAMES and NAMES[name].name != "__init__.py"}


def graph() -> dict[str, set[str]]:
    return {name: imports(ast.parse(path.read_text())) - {name} for name, path in NAMES.items()}


def test_there_is_no_circle_of_imports():
    order = [*graphlib.TopologicalSorter(graph()).static_order()]
    assert order.index("polhode.spaces.base") < order.index("polhode.model.mechanism")
    assert order.index("polhode.model.mechanism") < order.index("polhode.model.multibody")


def test_a_circle_would_be_seen():
    circle = graph()
    assert "polhode.model.poses" in circle["polhode.model.elements"]
    circle["polhode.model.poses"].add("polhode.model.multibody")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(circle).prepare()
