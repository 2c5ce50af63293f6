"""tiledbsoma-ml's ExperimentDataset over an experiment that tiledbsoma made of the plain files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tiledbsoma
import tiledbsoma.io
from tiledbsoma_ml import ExperimentDataset

from . import Atlas, Delivered, selected_columns, shape_output


def cells_a_read(task: Any) -> int:
    return 65_536  # its io_batch_size


def open_batches(task: Any, atlas: Atlas) -> Iterator[Delivered]:
    experiment = tiledbsoma.Experiment.open(atlas.path("tiledbsoma"))
    query = experiment.axis_query("RNA")
    dataset = ExperimentDataset(
        query,
        layer_name="data",
        obs_column_names=["soma_joinid"],
        batch_size=task.batch_size,
        shuffle=task.access != "stream",
        seed=0,
        return_sparse_X=True,
    )
    return _read(task, atlas, dataset)


def _read(task: Any, atlas: Atlas, dataset: ExperimentDataset) -> Iterator[Delivered]:
    genes = selected_columns(atlas.n_genes)
    while True:
        for x, obs in dataset:
            yield Delivered(shape_output(task, x, genes), obs["soma_joinid"].to_numpy())


def convert(task: Any, atlas: Atlas, target: str) -> None:
    files = atlas.files(task.data)
    mapping = tiledbsoma.io.register_h5ads(
        None, files, measurement_name="RNA", obs_field_name="obs_id", var_field_name="var_id"
    )
    tiledbsoma.io.from_h5ad(
        target, files[0], "RNA", ingest_mode="schema_only", registration_mapping=mapping
    )
    mapping.prepare_experiment(target)
    for path in files:
        tiledbsoma.io.from_h5ad(target, path, "RNA", registration_mapping=mapping)
