"""What modules of the Python package import of one another, against the arrows of layers.toml."""

import ast
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Import:
    """One import: where it stands and what it names, from the top."""

    line: int
    parts: tuple[str, ...]
    is_lazy: bool  # inside of a function
    is_for_types: bool  # under TYPE_CHECKING


@dataclass
class Module:
    """A file of the package and the modules of the package that it imports."""

    name: str  # as a path below the package: "data/vocab"
    imports: list[Import] = field(default_factory=list)

    @property
    def run_imports(self) -> list[Import]:
        """Without those for type checkers."""
        return [one for one in self.imports if not one.is_for_types]

    @property
    def room(self) -> str:
        """The folder or module below the package's root."""
        return self.name.split("/")[0]


def imports_of(tree: ast.AST, package: tuple[str, ...]) -> Iterator[Import]:
    """Every import; ``package`` is what a single dot stands for."""
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, is_lazy, is_for_types = pending.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, tuple(alias.name.split(".")), is_lazy, is_for_types)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield Import(node.lineno, (*base, alias.name), is_lazy, is_for_types)
        inside = is_lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += [(child, inside, True) for child in node.body]
            pending += [(child, inside, is_for_types) for child in node.orelse]
        else:
            pending += [(child, inside, is_for_types) for child in ast.iter_child_nodes(node)]


def read_modules(root: pathlib.Path) -> dict[str, Module]:
    """All modules below the package's root, by name."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        module = Module("/".join(parts))
        module.imports += imports_of(
            ast.parse(path.read_text(), str(path)), (root.name, *parts[:-1])
        )
        modules[module.name] = module
    return modules


def target_of(imported: Import, modules: dict[str, Module], package: str) -> str | None:
    """The module or folder of the package that an import names; None for other packages'."""
    if imported.parts[0] != package or len(imported.parts) == 1:
        return None
    parts = imported.parts[1:]
    for end in range(len(parts), 0, -1):
        name = "/".join(parts[:end])
        for found in (name, f"{name}/__init__"):
            if found in modules:
                return found
    return parts[0]


def check_heavy(modules: dict[str, Module], where: str, rules: dict) -> Iterator[str]:
    """Whether heavy packages are imported only where they may be."""
    folders = " and ".join(rules["allowed"])
    for module in modules.values():
        if module.room in rules["allowed"]:
            continue
        for line, name in sorted({(one.line, one.parts[0]) for one in module.run_imports}):
            if name in rules["heavy"]:
                yield f"{where}/{module.name}.py:{line}: {name} is imported in {folders} only"


def check_arrows(modules: dict[str, Module], where: str, rules: dict) -> Iterator[str]:
    """Whether every import follows an allowed arrow; those of the package's front door are lazy."""
    layers, package = rules["layers"], pathlib.PurePath(where).name
    for module in modules.values():
        if module.room in rules["doors"]:
            continue
        if module.room not in layers:
            yield f"{where}/{module.name}.py: {module.room} is not a layer of layers.toml"
            continue
        for one in module.run_imports:
            target = target_of(one, modules, package)
            room = target.split("/")[0] if target else module.room
            is_late = one.is_lazy and room in rules["lazily"]
            if room != module.room and room not in layers[module.room] and not is_late:
                yield f"{where}/{module.name}.py:{one.line}: {module.room} may not import {room}"


def find_unused(modules: dict[str, Module], where: str, rules: dict) -> Iterator[str]:
    """Allowed arrows that no import of the package follows."""
    package = pathlib.PurePath(where).name
    followed: dict[str, set[str]] = {name: set() for name in rules["layers"]}
    for module in modules.values():
        targets = (target_of(one, modules, package) for one in module.run_imports)
        rooms = {target.split("/")[0] for target in targets if target}
        followed.setdefault(module.room, set()).update(rooms)
    for room, allowed in rules["layers"].items():
        for name in sorted(set(allowed) - followed[room]):
            yield f"layers.toml: {room} -> {name}: nothing of {room} imports {name}"


def arrows_of(modules: dict[str, Module], package: str, rules: dict) -> dict[str, list[str]]:
    """Which module imports which, also late and for type checkers, but for the front door."""
    arrows: dict[str, list[str]] = {}
    for name, module in modules.items():
        arrows[name] = []
        for one in module.imports:
            target = target_of(one, modules, package)
            if target is not None and target != name and module.room not in rules["doors"]:
                arrows[name].append(target)
    return arrows


def check_python(root: pathlib.Path, rules: dict) -> tuple[list[str], dict[str, list[str]]]:
    """Problems of the package below ``root``, and its arrows: there may be a circle in them."""
    where = rules["root"]
    modules = read_modules(root / where)
    found = [*check_heavy(modules, where, rules), *check_arrows(modules, where, rules)]
    return found, arrows_of(modules, pathlib.PurePath(where).name, rules)
