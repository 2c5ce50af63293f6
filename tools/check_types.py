"""Runs mypy over the package, where it is strict, and mypy and pyright over what users write.

That is the examples, the Python of the documents and the cases of types.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
OUT = ROOT / "build" / "types"
# What readers of the documents bring along; it stands where a document has its title.
GIVEN = "from typing import Any; adata: Any = ...; model: Any = ..."
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_blocks(document: pathlib.Path) -> pathlib.Path | None:
    """The blocks of a document as one module whose lines are those of the document."""
    text = document.read_text()
    lines = [GIVEN]
    for match in BLOCK.finditer(text):
        first = text.count("\n", 0, match.start(1))
        lines += [""] * (first - len(lines)) + match[1].splitlines()
    path = OUT / f"{document.stem}_md.py"
    if len(lines) > 1:
        path.write_text("\n".join(lines) + "\n")
    return path if len(lines) > 1 else None


def run(name: str, *command: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, text=True, capture_output=True
    )
    print(f"{name}: {(done.stdout.strip() or done.stderr.strip()).splitlines()[-1]}")
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done.returncode == 0


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = [path for path in map(write_blocks, documents) if path is not None]
    cases = [ROOT / "tests" / "python" / "typing_cases.py"]
    files = [str(path) for path in [*sorted((ROOT / "examples").glob("*.py")), *blocks, *cases]]
    good = [
        run("mypy", "mypy", str(ROOT / "python" / "cellfeed"), *files),
        run("pyright", "pyright", *files),
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
