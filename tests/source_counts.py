"""Counts what a reader of the source meets: `python tests/source_counts.py [TREE …] [--list WHAT]`.

Each TREE is a folder with a package in `src/polhode`, this one by default; several stand side by side in a table. The
source is read, not run, so old trees can be counted. `--list` prints what was counted. The site of the documentation
has the table in its page on the architecture (`docs/root_pages.py`).
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import itertools
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG_FILE, LONG_FUNCTION = 300, 60

IRREGULAR = frozenset(
    (
        *("asked", "begun", "born", "bound", "brought", "built", "chosen", "come", "done", "drawn", "driven", "fallen"),
        *("felt", "found", "given", "gone", "grown", "heard", "held", "kept", "known", "laid", "left", "lost", "made"),
        *("meant", "met", "paid", "said", "seen", "sent", "shown", "sold", "sought", "spoken", "struck", "sunk"),
        *("taken", "thought", "thrown", "told", "torn", "understood", "won", "worn", "written"),
    )
)
"""Participles that don't end in -ed. Those that are imperatives as well are none: read, cut, put, run, set, split."""
NOUNS = frozenset(
    (
        *("bearing", "bushing", "bed", "coupling", "damping", "embed", "embedding", "lowering", "mapping", "need"),
        *("nothing", "ordering", "packing", "ranking", "ring", "rolling", "sampling", "sharding", "shed", "something"),
        *("speed", "spring", "stepping", "string", "swing", "thing", "viewing", "warning", "crossing"),
    )
)
"""Words that end like participles and are none: names of things and of established procedures."""
VARIABLES = frozenset(("asked", "found", "given", "known", "made", "said", "seen", "told", "wanted"))
"""Names of variables that say nothing."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Tree:
    """The modules of a package, by dotted name, with the classes that they define."""

    def __init__(self, root: Path):
        package = root / "src" / "polhode"
        self.paths = {
            ".".join(("polhode", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__"): path
            for path in sorted(package.rglob("*.py"))
        }
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in self.paths.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    @functools.cached_property
    def nodes(self) -> dict[str, list[ast.AST]]:
        return {name: [*ast.walk(tree)] for name, tree in self.trees.items()}

    @functools.cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {
            f"{module}.{node.name}": node
            for module, nodes in self.nodes.items()
            for node in nodes
            if isinstance(node, ast.ClassDef)
        }

    # --- names --------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def imported(self) -> dict[str, dict[str, str]]:
        """For each module, what its names stand for."""
        return {module: dict(_names(nodes, module, self.is_package(module))) for module, nodes in self.nodes.items()}

    def is_package(self, module: str) -> bool:
        return self.paths[module].name == "__init__.py"

    def origin(self, name: str) -> str:
        """Where something is defined that packages may only pass on."""
        module, _, last = name.rpartition(".")
        further = self.imported.get(module, {}).get(last) if name not in self.classes else None
        return name if further is None or further == name else self.origin(further)

    def meaning(self, module: str, node: ast.AST) -> str | None:
        """The class of this package that an expression names, if any."""
        if isinstance(node, ast.Subscript):
            return self.meaning(module, node.value)
        text = ast.unparse(node)
        head, _, rest = text.partition(".")
        whole = self.origin(self.imported[module].get(head, f"{module}.{head}")) + (f".{rest}" if rest else "")
        whole = self.origin(whole)
        return whole if whole in self.classes else None

    # --- files and functions ------------------------------------------------------------------------------------------

    def lines(self) -> dict[str, int]:
        return {name: len(text.splitlines()) for name, text in self.texts.items()}

    @functools.cache  # noqa: B019
    def code_lines(self) -> dict[str, int]:
        """Lines without docstrings, comments and empty ones."""
        return {name: _code_lines(self.texts[name], nodes) for name, nodes in self.nodes.items()}

    def long_files(self) -> list[str]:
        found = sorted(((count, name) for name, count in self.lines().items() if count > LONG_FILE), reverse=True)
        return [f"{name} {count}" for count, name in found]

    def functions(self) -> Iterator[tuple[str, Function]]:
        for module, nodes in self.nodes.items():
            yield from ((module, node) for node in nodes if isinstance(node, Function))

    def long_functions(self) -> list[str]:
        """Longer than sixty lines, their docstrings included."""
        lengths = [(node.end_lineno or 0) - node.lineno + 1 for _, node in self.functions()]
        found = [(n, f"{module}.{node.name}") for n, (module, node) in zip(lengths, self.functions(), strict=True)]
        return [f"{name} {n}" for n, name in sorted(found, reverse=True) if n > LONG_FUNCTION]

    # --- imports ------------------------------------------------------------------------------------------------------

    @functools.cache  # noqa: B019
    def needs(self, annotations: bool) -> dict[str, set[str]]:
        """Modules by those that they import, at the top or in functions; also for annotations alone, if asked for."""
        return {module: self._needs(module, tree, annotations) - {module} for module, tree in self.trees.items()}

    def _needs(self, module: str, node: ast.AST, annotations: bool) -> set[str]:
        found = set()
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) and not annotations:
                continue
            found |= {self._module_of(name) for _, name in _imports(child, module, self.is_package(module))}
            found |= self._needs(module, child, annotations)
        return {name for name in found if name is not None and not self.is_package(name)}

    def _module_of(self, name: str) -> str | None:
        name = self.origin(name)
        return name if name in self.paths else next((m for m in [name.rpartition(".")[0]] if m in self.paths), None)

    def circles(self, annotations: bool) -> list[str]:
        return [f"{len(part)}: {' '.join(sorted(part))}" for part in _circles(self.needs(annotations))]

    def mutual_packages(self) -> list[str]:
        """Pairs of packages that import each other, in whatever modules."""
        edges = {
            tuple(name.split(".")[1] for name in pair)
            for pair in ((a, b) for a, others in self.needs(False).items() for b in others)
            if all("." in name for name in pair)
        }
        return [f"{a} {b}" for a, b in sorted(edges) if a < b and (b, a) in edges]

    # --- classes ------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def bases(self) -> dict[str, list[str]]:
        found = {}
        for name, node in self.classes.items():
            module = name.rpartition(".")[0]
            found[name] = [base for base in (self.meaning(module, part) for part in node.bases) if base is not None]
        return found

    def ancestors(self, name: str) -> Iterator[str]:
        for base in self.bases[name]:
            yield base
            yield from self.ancestors(base)

    def is_abstract(self, name: str) -> bool:
        node = self.classes[name]
        return any(map(_is_abstract, _methods(node))) or node.name.lstrip("_").startswith("Abstract")

    def single_implementers(self) -> list[str]:
        """Abstract classes from which at most one concrete class derives, directly or not."""
        heirs = collections.defaultdict(set)
        for name in self.classes:
            if not self.is_abstract(name):
                for base in self.ancestors(name):
                    heirs[base].add(name)
        return [f"{n}: {' '.join(heirs[n])}" for n in self.classes if self.is_abstract(n) and len(heirs[n]) < 2]

    def overridden(self) -> list[str]:
        """Methods of concrete classes that a class which derives from these writes anew."""
        found = []
        for name, node in self.classes.items():
            own = {method.name for method in _methods(node)} - {"__init__", "__post_init__", "__repr__"}
            for base in dict.fromkeys(self.ancestors(name)):
                if not self.is_abstract(base):
                    found += [f"{name}.{m.name} over {base}" for m in _methods(self.classes[base]) if m.name in own]
        return found

    def defaults_overridden(self) -> list[str]:
        """Methods that an abstract class writes out and a class which derives from it writes anew."""
        found = set()
        for name, node in self.classes.items():
            own = {method.name for method in _methods(node)} - {"__init__", "__post_init__", "__repr__"}
            for base in filter(self.is_abstract, self.ancestors(name)):
                for method in _methods(self.classes[base]):
                    if method.name in own and not _is_abstract(method):
                        found.add(f"{base}.{method.name}")
        return sorted(found)

    def isinstances(self) -> list[str]:
        """Questions for classes of this package."""
        found = []
        for module, nodes in self.nodes.items():
            for node in nodes:
                if not isinstance(node, ast.Call) or _called(node) not in ("isinstance", "issubclass"):
                    continue
                if any(self.meaning(module, kind) for kind in _alternatives(node.args[1])):
                    found.append(f"{module}:{node.lineno} {ast.unparse(node)}")
        return found

    # --- words --------------------------------------------------------------------------------------------------------

    def what_docstrings(self) -> list[str]:
        """Docstrings that begin with "What"."""
        kinds = (ast.Module, ast.ClassDef, Function)
        return [
            f"{module}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"
            for module, nodes in self.nodes.items()
            for node in nodes
            if isinstance(node, kinds) and (text := ast.get_docstring(node) or "").startswith("What")
        ]

    def participles(self) -> list[str]:
        """Modules, classes and functions named by a bare participle or gerund."""
        modules = [f"{name} module" for name in self.paths if is_participle(name.rpartition(".")[2])]
        return modules + [
            f"{module}:{node.lineno} {node.name}"
            for module, nodes in self.nodes.items()
            for node in nodes
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
            and is_participle(node.name)
            and not _states_a_boolean(node)
        ]

    def participle_variables(self) -> list[str]:
        """Variables and arguments with a name that says what was done, not what it is."""
        return [
            f"{module}:{node.lineno} {name}"
            for module, nodes in self.nodes.items()
            for node in nodes
            if (name := _bound_name(node)).strip("_") in VARIABLES
        ]

    def class_names(self) -> list[str]:
        """Reads of a class's name outside of messages: `type(x).__name__` that is compared or looked up."""
        found = []
        for module, nodes in self.nodes.items():
            for node in nodes:
                parts: Iterable[ast.AST] = ()
                if isinstance(node, ast.Compare):
                    parts = (node.left, *node.comparators)
                elif isinstance(node, ast.Subscript):
                    parts = (node.slice,)
                names = [part for part in parts if isinstance(part, ast.Attribute) and part.attr == "__name__"]
                # The name of a module says which one it is.
                if any(ast.unparse(name.value) != "module" for name in names):
                    found.append(f"{module}:{node.lineno} {ast.unparse(node)}")
        return found

    def context_variables(self) -> list[str]:
        return [
            f"{module}:{node.lineno} {ast.unparse(node)[:100]}"
            for module, nodes in self.nodes.items()
            for node in nodes
            if isinstance(node, ast.Call) and _called(node).startswith("ContextVar")
        ]


@functools.cache
def source_tree() -> "Tree":
    """The modules of this checkout, read once a process."""
    return Tree(ROOT)


def is_participle(name: str) -> bool:
    """Whether a name is one word, and that a participle or a gerund; constants are none."""
    word = name.strip("_")
    if word.isupper() or not re.fullmatch("[A-Za-z][a-z]+", word) or word.lower() in NOUNS:
        return False
    word = word.lower()
    return word in IRREGULAR or (word.endswith("ed") and not word.endswith("eed")) or word.endswith("ing")


def _states_a_boolean(node: ast.AST) -> bool:
    """Whether it is a function that says yes or no, which adjectives may name."""
    returns = getattr(node, "returns", None)
    return returns is not None and ast.unparse(returns).startswith(("bool", "Bool["))


def _bound_name(node: ast.AST) -> str:
    if isinstance(node, ast.arg):
        return node.arg
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""


def _names(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    for node in nodes:
        yield from _imports(node, module, is_package)


def _imports(node: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, str]]:
    """Names that a statement brings in, with what they stand for."""
    if isinstance(node, ast.ImportFrom):
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package] if node.level else []
        origin = ".".join((*parts, *([node.module] if node.module else [])))
        yield from ((alias.asname or alias.name, f"{origin}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        yield from ((alias.name.split(".")[0],) * 2 for alias in node.names if not alias.asname)


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """The classes of a tuple or a union."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node.left, node.right] if isinstance(node, ast.BinOp) else []
    yield from itertools.chain.from_iterable(map(_alternatives, parts)) if parts else (node,)


def _called(node: ast.Call) -> str:
    """The last name of what is called."""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _methods(node: ast.ClassDef) -> list[Function]:
    return [part for part in node.body if isinstance(part, Function)]


def _is_abstract(method: Function) -> bool:
    return any("abstractmethod" in ast.unparse(mark) for mark in method.decorator_list)


def _code_lines(text: str, nodes: Iterable[ast.AST]) -> int:
    lines = {k for k, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith("#")}
    for node in nodes:
        # Docstrings, also those below constants.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)


def _circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one node (Tarjan), the largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            part = set(itertools.takewhile(lambda x: x != node, reversed(stack))) | {node}
            del stack[-len(part) :]
            found.append(part)

    for node in graph:
        if node not in index:
            visit(node)
    return sorted((part for part in found if len(part) > 1), key=len, reverse=True)


LISTS = {
    "files over 300 lines": Tree.long_files,
    "functions over 60 lines": Tree.long_functions,
    "circles of imports": lambda tree: tree.circles(False),
    "circles, with imports for annotations": lambda tree: tree.circles(True),
    "pairs of packages that import each other": Tree.mutual_packages,
    "`isinstance` on own classes": Tree.isinstances,
    "abstract classes with one implementer": Tree.single_implementers,
    "methods of concrete classes overridden": Tree.overridden,
    "methods with defaults in abstract classes, overridden": Tree.defaults_overridden,
    "docstrings that begin with “What”": Tree.what_docstrings,
    "names by a bare participle or gerund": Tree.participles,
    "variables named found, told, known and the like": Tree.participle_variables,
    "decisions by the name of a class": Tree.class_names,
    "context variables": Tree.context_variables,
}


def sizes(tree: Tree) -> dict[str, str]:
    lines = tree.lines()
    return {
        "files": str(len(lines)),
        "lines": str(sum(lines.values())),
        "of them code, without docstrings, comments and empty lines": str(sum(tree.code_lines().values())),
        "lines of the median file": f"{statistics.median(lines.values()):.0f}",
    }


def table(trees: Sequence[Tree], headings: Sequence[str] = ("",)) -> list[str]:
    """Everything that is counted, as lines of a table with a column for each tree."""
    of_each = [sizes(tree) for tree in trees]
    rows = [[name, *(each[name] for each in of_each)] for name in of_each[0]]
    rows += [[name, *(str(len(found(tree))) for tree in trees)] for name, found in LISTS.items()]
    return [f"| {' | '.join(row)} |" for row in (["", *headings], ["---"] * (len(trees) + 1), *rows)]


def packages(tree: Tree) -> list[str]:
    """Size of each package and what it imports, as lines of a table, the largest first."""
    lines, code = tree.lines(), tree.code_lines()
    own = lambda name: name.split(".")[1] if name.count(".") > 1 or tree.is_package(name) else ""  # noqa: E731
    modules = collections.defaultdict(list)
    for name in lines:
        if name != "polhode":
            modules[own(name)].append(name)
    needs = collections.defaultdict(set)
    for name, others in tree.needs(False).items():
        if name != "polhode":
            needs[own(name)] |= {own(other) for other in others if other != "polhode"} - {own(name), ""}
    rows = [
        (package, len(names), sum(lines[n] for n in names), sum(code[n] for n in names), len(needs[package]))
        for package, names in modules.items()
    ]
    found = [f"| {f'`{row[0]}`' if row[0] else 'modules of its own'} | {' | '.join(map(str, row[1:]))} |"
             for row in sorted(rows, key=lambda row: -row[2])]  # fmt: skip
    return ["| package | files | lines | of them code | packages that it imports |", "|---|---|---|---|---|", *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT])
    parser.add_argument(
        "--list", metavar="WHAT", default="", help="also print what is counted in rows that have WHAT in their names"
    )
    given = parser.parse_args()
    trees = [Tree(path) for path in given.trees]
    print(*table(trees, [*map(str, given.trees)]), sep="\n")
    for name, found in LISTS.items():
        if given.list and given.list in name:
            print(f"\n{name}", *(line for tree in trees for line in found(tree)), sep="\n  ")


if __name__ == "__main__":
    main()
