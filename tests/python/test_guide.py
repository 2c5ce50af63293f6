"""The Python of docs/guide.md runs as it stands there, in a folder that holds an atlas."""

import pathlib
import re

from real_files import read_anndata
from test_readme import write_atlas_file

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_python_block_runs(tmp_path, monkeypatch):
    (tmp_path / "atlas").mkdir()
    write_atlas_file(tmp_path / "atlas" / "one.h5ad", 1500, seed=1)
    write_atlas_file(tmp_path / "atlas" / "two.h5ad", 700, seed=2)
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    names: dict = {}
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        exec(compile("\n" * line + match[1], str(GUIDE), "exec"), names)
    assert len(names["loader"]) == 9
    assert sum(map(len, names["remaining"])) == 2200 - 3 * 256
    assert read_anndata(tmp_path / "large.h5ad").n_obs == 5000
