"""What notebooks show of cells, and the names that they complete."""

import html.parser

import anndata
import numpy as np
import pandas as pd
import pytest

import cellfeed as cf


class Texts(html.parser.HTMLParser):
    """The texts of a page; fails where a tag is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def cells(tmp_path):
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical([*"aaabbc", None], categories=["a", "b", "c", "<d>"]),
            "age": [1.5, 2, 3, 4, 5, 6, np.nan],
            "lane": np.arange(7),
        },
        index=[f"c{i}" for i in range(7)],
    )
    anndata.AnnData(np.ones((7, 3), np.float32), obs).write_h5ad(tmp_path / "a.h5ad")
    return cf.open(tmp_path / "a.h5ad", obs=["kind", "age"])


def test_a_collection_is_a_table_of_its_obs(cells):
    texts = Texts(cells._repr_html_()).texts
    assert texts == [
        "CellCollection: 7 cells x 3 genes in 1 file",
        *("obs", "type", "values"),
        *("kind", "4 labels", "a (3), b (2), c (1), <d> (0), 1 missing"),
        *("age", "float64", "1.5 to 6, 1 missing"),
        *("lane", "int64", "0 to 6"),
    ]
    view = Texts(cells[[0, 5]]._repr_html_()).texts
    assert view[0].startswith("CellView: 2 cells") and "a (1), c (1), b (0), <d> (0)" in view


def test_names_of_columns_are_completed(cells):
    batch = cells.read([0, 1])
    assert cells.obs._ipython_key_completions_() == ["kind", "age", "lane"]
    assert batch.obs._ipython_key_completions_() == ["kind", "age"]
    assert batch._ipython_key_completions_() == ["X", "kind", "age"]
