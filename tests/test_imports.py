"""No module needs itself: neither what it imports at the top nor what its functions import leads back to it."""

import ast
import copy
import functools
import graphlib
import pathlib
import subprocess
import sys

import pytest
from source_counts import source_tree

import polhode

PACKAGE = pathlib.Path(polhode.__file__).parent
NAMES = {
    ".".join(("polhode", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@functools.cache
def names_of(package: str) -> dict[str, str]:
    """The modules from which a package takes the names that it has, now or when they are asked for."""
    path = NAMES[package]
    stub = path.with_suffix(".pyi")
    nodes = ast.parse((stub if stub.exists() else path).read_text()).body if path.name == "__init__.py" else []
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    start = lambda node: f"{package}." if node.level else ""  # noqa: E731
    return {alias.asname or alias.name: f"{start(node)}{node.module}" for node in found for alias in node.names}


def imports(tree: ast.AST, *, annotations: bool) -> set[str]:
    """Modules of the package that a module imports anywhere; packages only name their modules.

    - `annotations`: whether imports that only annotations need count too.
    """
    names: set[str] = set()
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not annotations:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in NAMES else origin(node.module, name) for name in inner}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        # Expressions contain no imports.
        nodes += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]
    return {name for name in names if name in NAMES and NAMES[name].name != "__init__.py"}


def origin(module: str, name: str) -> str:
    """The module in which something is written that may be imported from a package."""
    known = names_of(module) if module in NAMES else {}
    inner = known.get(name.removeprefix(f"{module}."))
    return module if inner is None else origin(inner, f"{inner}.{name.rpartition('.')[2]}")


@functools.cache
def graph(*, annotations: bool = False) -> dict[str, set[str]]:
    """The modules that each module imports."""
    trees = source_tree().trees
    return {name: imports(trees[name], annotations=annotations) - {name} for name in NAMES}


def test_there_is_no_circle_of_imports():
    order = [*graphlib.TopologicalSorter(graph()).static_order()]
    assert order.index("polhode.spaces.base") < order.index("polhode.multibody.mechanism.mechanism")
    assert order.index("polhode.multibody.mechanism.mechanism") < order.index("polhode.multibody.system")


def test_a_circle_would_be_seen():
    circle = copy.deepcopy(graph())
    assert "polhode.multibody.mechanism.poses" in circle["polhode.multibody.mechanism.elements"]
    circle["polhode.multibody.mechanism.poses"].add("polhode.multibody.system")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(circle).prepare()


ORDER = (
    "compiler", "spaces", "linalg", "systems", "contact", "multibody", "integrators", "joints", "forces", "events",
    "rods", "particles", "flexible", "assembly", "results", "storage", "viewing", "exporters", "model", "importers",
    "problems", "solution", "simulation", "code_export", "cosimulation", "analysis", "experiments", "cli",
)  # fmt: skip
"""Packages as `ARCHITECTURE.md` has them: each may need those before it, for annotations as well."""


def needs(*, annotations: bool) -> set[tuple[str, str]]:
    """Pairs of packages of which the first imports the second."""
    modules = graph(annotations=annotations).items()
    pairs = {tuple(name.split(".")[1] for name in (a, b)) for a, others in modules for b in others if "." in a}
    return {(a, b) for a, b in pairs if a != b and {a, b} <= {*ORDER}}


def test_packages_need_those_before_them():
    packages = {name.split(".")[1] for name in NAMES if name.count(".") > 1}
    assert packages == {*ORDER}
    assert {(a, b) for a, b in needs(annotations=True) if ORDER.index(a) < ORDER.index(b)} == set()


def test_annotations_are_counted():
    assert needs(annotations=False) < needs(annotations=True)


FIRST_RUN = """
import sys
import polhode as ph

model = ph.Model(gravity=(0, 0, -9.81))
body = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.15), position=(0.7, 0, 0))
model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0)))
ph.simulate(model.problem("SE3", t1=0.01))
ph.rods.catenary
print(*sys.modules)
"""


@pytest.mark.exhaustive
def test_a_first_run_waits_for_no_library_that_it_leaves_alone():
    done = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert {"jax", "scipy"} <= {*loaded}
    others = {"xarray", "pandas", "matplotlib", "zarr", "trimesh", "mujoco", "scipy.optimize", "scipy.sparse"}
    assert {*loaded} & others == set()
