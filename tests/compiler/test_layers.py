"""Who may import what: `polhode.compiler` is fenced, and nothing in it knows what it compiles."""

import ast
from pathlib import Path

import pytest

import polhode

ROOT = Path(polhode.__file__).parent
BELOW = {"polhode.jax_context", "polhode.private_files"}
"""What the compiler builds on."""

FOR_ALL = {
    "batched_function", "cache", "fingerprint", "numpy_jit", "native_jit", "numpy.eager", "placement",
    "primitives.backend_query", "primitives.elimination", "primitives.row_loop",
}  # fmt: skip
FOR_SOLUTIONS = {"primitives.implicit_solution"}
FOR_SIMULATION = {"compile_report", "llvm.types", "loops", "number_pattern", "scalars", "size_limits", "xla"}
FOR_EXPORT = {"c", "fingerprint", "llvm.types", "loops", "number_pattern"}
EXCEPTIONS = {
    "integrators/explicit/_half_explicit_stages.py": {"scalars"},
    "environment.py": {"llvm.jit"},
}
"""The first asks how many operations a stage has, since a loop over stages is part of the method's text; the second
says which compiler there is."""


def imported(path):
    """Modules that a file imports, with those that it imports from packages."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, path
            yield from (f"{node.module}.{name.name}" for name in node.names)


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_the_compiler_knows_nothing_of_what_it_compiles():
    for path in sources("compiler"):
        for name in imported(path):
            if name.split(".")[0] == "polhode":
                assert name.startswith(("polhode.compiler", *BELOW)), f"{path.name} imports {name}"


def test_programs_on_arrays_are_data_that_one_module_prints_to_llvm():
    types = {"polhode.compiler.llvm.types", "polhode.compiler.llvm.jit.CompiledFunction"}
    seen = set()
    for path in sources("compiler/arrays", "compiler/c"):
        names = {name for name in imported(path) if name.startswith("polhode.compiler.llvm")}
        if any(not f"{name}.".startswith(tuple(f"{x}." for x in types)) for name in names):
            seen.add(path.name)
    assert seen == {"llvm_printer.py"}


def allowed(path):
    inside = path.relative_to(ROOT)
    if inside.parts[0] == "simulation":
        return FOR_ALL | FOR_SIMULATION
    # Units run beside exported steps.
    if inside.parts[0] in ("code_export", "cosimulation"):
        return FOR_ALL | FOR_EXPORT
    if inside.as_posix() == "integrators/implicit/_implicit_differentiation.py":
        return FOR_ALL | FOR_SOLUTIONS
    return FOR_ALL | EXCEPTIONS.get(inside.as_posix(), set())


def test_the_library_uses_only_the_interface_of_the_compiler():
    seen = 0
    for path in sources("."):
        # Reading a thousand files as text is quick, and few name the compiler.
        if path.is_relative_to(ROOT / "compiler") or "polhode.compiler" not in path.read_text():
            continue
        for name in imported(path):
            if name.startswith("polhode.compiler."):
                seen += 1
                inside = name.removeprefix("polhode.compiler.")
                known = any(f"{inside}.".startswith(f"{part}.") for part in allowed(path))
                assert known, f"{path.relative_to(ROOT)} imports {name}"
    assert seen > 50


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["contextvars", "os.environ", "os.getenv", "os"])
def test_nothing_around_a_call_decides_how_it_is_executed(name):
    """Where programs are cached and who wrote a function is a matter of the system, so two folders may ask it."""
    for path in sources("compiler", "simulation"):
        if path.parent.name not in ("cache", "fingerprint"):
            assert not any(f"{found}.".startswith(f"{name}.") for found in imported(path)), path
