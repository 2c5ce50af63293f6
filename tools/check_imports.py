"""Names that scripts import from their neighbours are there; exit code 1 and a line for each else.

Type checkers see the package; benchmarks, tests and tools are seen when they run, which is late.
"""

import ast
import pathlib
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent
FOLDERS = ["benchmarks", "examples", "tests/cross_format", "tests/python", "tools"]


def top_level_names(tree: ast.Module) -> set[str]:
    """What the module binds outside of functions and classes, in branches as well."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    return names


def problems(root: pathlib.Path) -> Iterator[str]:
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*.py"))]
    trees = {path: ast.parse(path.read_text(), str(path)) for path in files}
    shared = {path.stem: path for path in files if path.parent == root / "tests" / "python"}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level > 0 or not node.module:
                continue
            beside = path.parent / (node.module.replace(".", "/") + ".py")
            source = beside if beside in trees else shared.get(node.module)
            if source is None:
                continue
            there = top_level_names(trees[source])
            for alias in node.names:
                if alias.name != "*" and alias.name not in there:
                    where = f"{path.relative_to(root)}:{node.lineno}"
                    yield f"{where}: {source.relative_to(root)} has no '{alias.name}'"


def main() -> int:
    found = list(problems(ROOT))
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
