"""Cell labels with Lightning: one module divides the cells, loads them and resumes.

20,000 cells are made from the 700 labelled PBMC that scanpy brings along.
"""

from __future__ import annotations

import logging
import pathlib
import warnings
from typing import TYPE_CHECKING

import torch
from _atlas import parse_output_dir
from lightning.pytorch import LightningModule, Trainer

import cellfeed as cf
from cellfeed.data import CellDataModule

if TYPE_CHECKING:
    from cellfeed.batch import TensorBatch

LABEL = "bulk_labels"


def make_atlas(folder: pathlib.Path) -> pathlib.Path:
    import anndata
    import scanpy
    import scipy.sparse

    pbmc = scanpy.datasets.pbmc68k_reduced()
    obs = pbmc.obs[[LABEL]].assign(cell=pbmc.obs_names.astype("category"))
    values = scipy.sparse.csr_matrix(pbmc.raw.X)  # normalised, log1p
    anndata.AnnData(values, obs=obs, var=pbmc.raw.var[[]]).write_h5ad(folder / "real.h5ad")
    cf.simulate(folder / "real.h5ad", 20_000, folder / "atlas.h5ad", overwrite=True, progress=False)
    return folder / "atlas.h5ad"


class Classifier(LightningModule):
    def __init__(self, n_genes: int, n_classes: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_genes, 64), torch.nn.ReLU(), torch.nn.Linear(64, n_classes)
        )
        self.loss_of = torch.nn.CrossEntropyLoss(ignore_index=-1)  # cells without a label

    def training_step(self, batch: TensorBatch) -> torch.Tensor:
        return self.loss_of(self.layers(batch["X"]), batch[LABEL])

    def on_test_start(self) -> None:
        self.right, self.n_cells = 0, 0

    def test_step(self, batch: TensorBatch) -> None:
        is_cell = ~batch.is_padding & (batch[LABEL] >= 0)
        is_right = self.layers(batch["X"]).argmax(dim=1) == batch[LABEL]
        self.right += int((is_right & is_cell).sum())
        self.n_cells += int(is_cell.sum())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    folder = parse_output_dir(__doc__)
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    data = CellDataModule(
        make_atlas(folder),
        batch_size=256,
        split={"train": 0.7, "val": 0.1, "test": 0.2},
        by="cell",  # copies of one real cell are of one part
        strategy=cf.ClassBalancedSampling(LABEL),
        obs=[LABEL],
        output="dense",
    )
    data.setup()
    model = Classifier(data.cells.n_vars, len(data.cells.categories(LABEL)))
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, datamodule=data)
    trainer.test(model, datamodule=data, verbose=False)
    print(f"{trainer.global_step} steps on {len(data.parts['train']):,} cells")
    print(f"{model.right / model.n_cells:.3f} of {model.n_cells:,} cells of the test are right")
    if model.right < 0.7 * model.n_cells:
        raise SystemExit("the classifier has learned too little")


if __name__ == "__main__":
    main()
