"""Fails on includes, imports, paths and sizes that layers.toml does not allow, and on cycles."""

import argparse
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from python_layers import check_python, find_unused, read_modules

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
SUFFIXES = {".h", ".cc", ".inc"}
# What opens, lists or changes a path of the operating system, past io::FileSystem.
ON_PATHS = re.compile(
    r"\b(?:std::filesystem|fs)::(?:exists|is_\w+|(?:symlink_)?status|directory_iterator|remove\w*|rename|create_\w+|"
    r"\w*canonical|last_write_time|file_size|copy\w*|resize_file|equivalent|space|hard_link_count|temp_directory_path)\(|\bstd::[io]?fstream\b|\bfopen\(|"
    r"(?<!\w)::(?:open(?:at)?|l?stat|fstatat|rename(?:at2?)?|linkat|unlink(?:at)?|rmdir|f?truncate|flock|opendir|"
    r"f?access(?:at)?|mkdir(?:at)?)\("
)


@dataclass(frozen=True)
class Rules:
    """What layers.toml says."""

    layers: dict[str, list[str]]
    testing: str
    isolated: dict[str, dict]
    paths: dict[str, list[str]]
    outside: dict[str, list[str]]
    unbound: list[str]
    python: dict
    sizes: dict

    @classmethod
    def load(cls, path: pathlib.Path) -> "Rules":
        table = tomllib.loads(path.read_text())
        return cls(
            layers=table["layers"],
            testing=table["testing"]["folder"],
            isolated=table["isolated"],
            paths=table["paths"],
            outside=table["outside"],
            unbound=table["unbound"]["folders"],
            python=table["python"],
            sizes=table["sizes"],
        )

    def reachable(self, layer: str) -> set[str]:
        """The layer, what it may include, and what those may include in turn."""
        found = {layer}
        for name in self.layers.get(layer, self.outside.get(layer, [])):
            found |= self.reachable(name)
        return found

    def problems(self, layers: dict[str, list[str]]) -> Iterator[str]:
        """A layer may only name layers above it in the file, so the arrows cannot form a cycle."""
        known: set[str] = set()
        for layer, allowed in layers.items():
            for name in allowed:
                if name not in known:
                    yield f"layers.toml: {layer} -> {name}: {name} does not stand above {layer}"
            known.add(layer)


@dataclass(frozen=True)
class Source:
    """A C++ file and what it includes of this project, both as an include names them."""

    name: str
    includes: tuple[str, ...]
    on_paths: tuple[str, ...] = ()

    @property
    def layer(self) -> str:
        """The folder below src/cellfeed, or of the repository's root."""
        parts = self.name.split("/")
        return parts[1] if parts[0] == "cellfeed" else parts[0]

    @property
    def sub_folder(self) -> str | None:
        parts = self.name.split("/")
        return parts[2] if len(parts) > 3 else None

    @property
    def is_test(self) -> bool:
        return self.name.endswith("_test.cc")


def read_sources(root: pathlib.Path, rules: Rules) -> dict[str, Source]:
    """All C++ files of src/ and of the folders named in [outside], by include name."""
    found = {}
    for top in [root / "src", *(root / name for name in rules.outside)]:
        base = top if top.name == "src" else root
        for path in sorted(top.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                name = path.relative_to(base).as_posix()
                text = path.read_text()
                found[name] = Source(
                    name, tuple(INCLUDE.findall(text)), tuple(ON_PATHS.findall(text))
                )
    return found


def seen_through_testing(source: Source, sources: dict[str, Source], rules: Rules) -> set[str]:
    """Layers that a test includes, directly or by way of headers of the testing folder."""
    layers: set[str] = set()
    visited: set[str] = set()
    pending = list(source.includes)
    while pending:
        name = pending.pop()
        if name in visited or name not in sources:
            continue
        visited.add(name)
        if sources[name].layer == rules.testing:
            pending += sources[name].includes
        else:
            layers.add(sources[name].layer)
    return layers


def check_place(source: Source, sources: dict[str, Source], rules: Rules) -> Iterator[str]:
    """Whether the file lies in a known layer and includes files that exist, by their full names."""
    known = {*rules.layers, rules.testing, *rules.outside}
    if source.layer not in known:
        yield f"{source.name}: {source.layer} is not a layer of layers.toml"
    for name in source.includes:
        if name not in sources and not (source.layer in rules.outside and "/" not in name):
            yield f'{source.name}: "{name}" is no file of src/; write "cellfeed/<layer>/<file>.h"'


def check_arrows(source: Source, sources: dict[str, Source], rules: Rules) -> Iterator[str]:
    """Whether every include follows an allowed arrow."""
    if source.layer == rules.testing:
        return
    if source.is_test:
        beyond = seen_through_testing(source, sources, rules) - rules.reachable(source.layer)
        for layer in sorted(beyond):
            yield f"{source.name}: the test sees {layer}, which {source.layer} does not stand on"
        return
    allowed = {source.layer, *rules.layers.get(source.layer, rules.outside.get(source.layer, []))}
    for name in source.includes:
        if name in sources and sources[name].layer not in allowed:
            target = sources[name].layer
            yield f'{source.name}: "{name}": {source.layer} may not include {target}'


def check_paths(source: Source, rules: Rules) -> Iterator[str]:
    """Whether paths are left to io::FileSystem."""
    if source.layer in {*rules.paths["layers"], rules.testing, *rules.outside} or source.is_test:
        return
    if source.name.split("/", 1)[1] in rules.paths["except"]:
        return
    for call in source.on_paths:
        yield f"{source.name}: '{call.rstrip('(')}': paths are for io/file_system.h"


def check_isolation(source: Source, sources: dict[str, Source], rules: Rules) -> Iterator[str]:
    """Whether sub-folders of an isolated layer keep to themselves."""
    rule = rules.isolated.get(source.layer)
    if rule is None or source.name.split("/", 2)[2] in rule["except"]:
        return
    own = {None, source.sub_folder}
    own.update(rule["shared"] if source.sub_folder else rule.get("parts", []))
    if source.is_test:
        own.add(rule.get("reference"))
    for name in source.includes:
        target = sources.get(name)
        if target and target.layer == source.layer and target.sub_folder not in own:
            yield f'{source.name}: "{name}": folders of {source.layer} may not include one another'


def find_cycles(arrows: dict[str, list[str]], what: str) -> Iterator[str]:
    """Each circle once, as the path around it."""
    done: set[str] = set()
    path: list[str] = []

    def walk(name: str) -> Iterator[str]:
        path.append(name)
        for follower in arrows[name]:
            if follower in path:
                circle = [*path[path.index(follower) :], follower]
                yield f"{what} cycle: " + " -> ".join(circle)
            elif follower in arrows and follower not in done:
                yield from walk(follower)
        done.add(path.pop())

    for start in arrows:
        if start not in done:
            yield from walk(start)


def find_unused_arrows(sources: dict[str, Source], rules: Rules) -> Iterator[str]:
    """Arrows that no include follows: they would link what is not needed, and allow more."""
    used = {
        (source.layer, sources[name].layer)
        for source in sources.values()
        for name in source.includes
        if name in sources and not source.is_test
    }
    for layer, allowed in {**rules.layers, **rules.outside}.items():
        for name in allowed:
            if (layer, name) not in used:
                yield f"layers.toml: {layer} -> {name}: nothing of {layer} includes {name}"


def find_absent(root: pathlib.Path, sources: dict[str, Source], rules: Rules) -> Iterator[str]:
    """Includes of files that do not exist, in folders that may include everything."""
    for folder in rules.unbound:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                for name in INCLUDE.findall(path.read_text()):
                    if name.startswith("cellfeed/") and name not in sources:
                        yield f'{path.relative_to(root)}: "{name}" is no file of src/'


def find_long_files(root: pathlib.Path, rules: Rules) -> Iterator[str]:
    """Files of more lines than one reads at once; tests may be as long as what they test."""
    for folder in rules.sizes["folders"]:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            is_counted = path.suffix in {*SUFFIXES, ".py", ".pyi"} and "_test." not in path.name
            if not is_counted or name in rules.sizes["except"]:
                continue
            if (n := len(path.read_text().splitlines())) > rules.sizes["most_lines"]:
                yield f"{name}: {n} lines: no file is longer than {rules.sizes['most_lines']}"


def check(root: pathlib.Path, rules: Rules) -> list[str]:
    """All problems of the tree below ``root``, as lines for a reader."""
    sources = read_sources(root, rules)
    found = [*rules.problems(rules.layers), *rules.problems(rules.python["layers"])]
    for source in sources.values():
        found += check_place(source, sources, rules)
        found += check_arrows(source, sources, rules)
        found += check_paths(source, rules)
        found += check_isolation(source, sources, rules)
    found += find_cycles({name: list(one.includes) for name, one in sources.items()}, "include")
    found += find_absent(root, sources, rules)
    found += find_long_files(root, rules)
    problems, arrows = check_python(root, rules.python)
    return [*found, *problems, *find_cycles(arrows, "import")]


def main() -> int:
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=here.parent)
    parser.add_argument("--rules", type=pathlib.Path, default=here / "layers.toml")
    options = parser.parse_args()
    rules = Rules.load(options.rules)
    problems = check(options.root, rules)
    if options.root.resolve() == here.parent:
        problems += find_unused_arrows(read_sources(options.root, rules), rules)
        where = rules.python["root"]
        problems += find_unused(read_modules(options.root / where), where, rules.python)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("check_layers: no arrow against the layers")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
