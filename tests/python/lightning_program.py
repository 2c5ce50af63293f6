"""What test_lightning.py starts, as Lightning starts whole programs anew for its ranks.

``lightning_program.py ranks <ddp | ddp_spawn> <atlas> <folder>``: two ranks train for two epochs;
each writes ``<folder>/<case>.<rank>.json``: of each epoch the rows of its batches without padding.
``lightning_program.py resume <atlas> <folder>`` stops training after some steps, continues in
another Trainer with another loader, and writes ``<folder>/resume.json``.
"""

import atexit
import gc
import itertools
import json
import logging
import os
import sys
import warnings

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

import cellfeed as cf
from cellfeed.data.distributed import DistributedShardSampler
from cellfeed.training import CellDataModule, ResumeLoader

OFF = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "accelerator": "cpu",
}


class Recorder(LightningModule):
    """Learns nothing, and notes the rows it has seen."""

    def __init__(self, path=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.path = path
        self.epochs = []

    def setup(self, stage):
        # torch aborts at exit where a DDP model, here in a circle of references, outlives its
        # group. Lightning has registered the end of the group by now; this runs before it.
        atexit.register(gc.collect)

    def on_train_batch_start(self, batch, batch_idx):
        while len(self.epochs) <= self.current_epoch:
            self.epochs.append([])

    def training_step(self, batch, batch_idx):
        rows = batch if isinstance(batch, list) else batch.index[~batch.is_padding].tolist()
        self.epochs[self.current_epoch].append(rows)
        return (self.weight * len(rows)).sum()

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def on_train_end(self):
        if self.path is not None:
            with open(f"{self.path}.{self.global_rank}.json", "w") as file:
                json.dump(self.epochs, file)


def make_loader(atlas, batch_size=8):
    return cf.Loader(cf.open(atlas), cf.BlockShuffling(4), batch_size, fetch_factor=2)


def make_module(atlas, **split):
    return CellDataModule(
        atlas, 8, split=split, strategy=cf.BlockShuffling(4), fetch_factor=2, seed=0
    )


class Shards(torch.utils.data.Dataset):
    """Cells 0 to 100 in three shards."""

    shard_offsets = (0, 20, 70, 101)

    def __len__(self):
        return 101

    def __getitem__(self, row):
        return row


def run_ranks(strategy, atlas, folder):
    loader = make_loader(atlas)
    data_set = cf.scDataset(cf.open(atlas), cf.BlockShuffling(4), 8, 2)
    shards = Shards()
    cases = {
        "Loader": loader,
        "DataLoader": DataLoader(data_set, batch_size=None),
        "CellDataModule": make_module(atlas, train=0.8, val=0.2),
        "sampler": DataLoader(
            shards, batch_size=8, sampler=DistributedShardSampler(shards), collate_fn=list
        ),
    }
    draws = cf.WeightedCellSampler(["common"] * 90 + ["rare"] * 11, replacement=False, seed=3)
    cases["draws"] = DataLoader(shards, batch_size=8, sampler=draws, collate_fn=list)
    for name, batches in cases.items():
        trainer = Trainer(
            devices=2, strategy=strategy, max_epochs=2, enable_checkpointing=False, **OFF
        )
        trainer.fit(Recorder(os.path.join(folder, name)), batches)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # the other has written its file too
        # Lightning keeps its group to the end: gloo's threads need the interpreter to drop their
        # work, and torch aborts where that is shutting down.
        os._exit(0)


def make_cases(atlas):
    from torchdata.stateful_dataloader import StatefulDataLoader

    def over(kind, num_workers):
        batches = kind(make_loader(atlas), batch_size=None, num_workers=num_workers)
        return batches, [ResumeLoader(batches)]

    return {
        "Loader": lambda: (make_loader(atlas), []),
        "scDataset": lambda: (
            cf.scDataset(cf.open(atlas), cf.BlockShuffling(4), 8, 2, seed=0), []
        ),
        "CellDataModule": lambda: (make_module(atlas, train=1.0), []),
        "DataLoader": lambda: over(DataLoader, 0),
        "DataLoader, workers": lambda: over(DataLoader, 1),
        "StatefulDataLoader": lambda: over(StatefulDataLoader, 0),
        "StatefulDataLoader, workers": lambda: over(StatefulDataLoader, 1),
    }  # fmt: skip


def bare(atlas, kind, batch_size):
    if kind == "Loader":
        return lambda: (make_loader(atlas, batch_size), [])
    return lambda: (cf.scDataset(cf.open(atlas), cf.BlockShuffling(4), batch_size, 2, seed=0), [])


def fit(make, folder, limits, ckpt_path=None, every=None):
    batches, callbacks = make()
    if every is not None:
        callbacks = [*callbacks, ModelCheckpoint(folder, save_top_k=-1, **every)]
    model = Recorder()
    trainer = Trainer(callbacks=callbacks, enable_checkpointing=every is not None, **limits, **OFF)
    trainer.fit(model, batches, ckpt_path=ckpt_path)
    return model.epochs


def run_limited(make, spot):
    """Epochs of fewer batches than the data has: undisturbed, and resumed behind the first."""
    limits = {"max_epochs": 3, "limit_train_batches": 4}
    whole = fit(make, spot, limits)
    fit(make, spot, {**limits, "max_epochs": 1}, every={"every_n_epochs": 1})
    (file,) = os.listdir(spot)
    return whole, fit(make, spot, limits, ckpt_path=os.path.join(spot, file))


def run_resume(atlas, folder):
    out = {}
    for name, make in make_cases(atlas).items():
        place = os.path.join(folder, name)
        n = len(make_loader(atlas))
        out[name] = {"length": n, "whole": fit(make, place, {"max_epochs": 3})}
        # Steps after which a checkpoint is written: within an epoch, or by Lightning at its end.
        mid = {"after 3": 3, "after the last": n, "within epoch 1": n + 3}
        if name == "DataLoader, workers":
            mid = {}
        for case, steps in mid.items():
            spot = os.path.join(place, case)
            before = fit(make, spot, {"max_steps": steps}, every={"every_n_train_steps": steps})
            (file,) = os.listdir(spot)
            after = fit(make, spot, {"max_epochs": 3}, ckpt_path=os.path.join(spot, file))
            out[name][case] = [before, after]
        spot = os.path.join(place, "at the end")
        before = fit(make, spot, {"max_epochs": 1}, every={"every_n_epochs": 1})
        (file,) = os.listdir(spot)
        after = fit(make, spot, {"max_epochs": 3}, ckpt_path=os.path.join(spot, file))
        out[name]["at the end"] = [before, after]
        out[f"{name}, limited"] = run_limited(make, os.path.join(place, "limited"))
    file = os.path.join(folder, "DataLoader", "after 3")
    file = os.path.join(file, os.listdir(file)[0])

    def larger():
        batches = DataLoader(make_loader(atlas, 16), batch_size=None)
        return batches, [ResumeLoader(batches)]

    def message(make, file):
        try:
            fit(make, folder, {"max_epochs": 3}, ckpt_path=file)
        except cf.errors.CellfeedError as error:
            return str(error)
        return ""

    out["larger"] = message(larger, file)
    for kind, step in itertools.product(("Loader", "scDataset"), (16, 4)):
        for case in ("after 3", "after the last", "at the end"):
            place = os.path.join(folder, kind, case)
            place = os.path.join(place, os.listdir(place)[0])
            out[f"{kind}, {case}, {step}"] = message(bare(atlas, kind, step), place)
    batches, callbacks = make_cases(atlas)["DataLoader"]()
    Trainer(callbacks=callbacks, **OFF).validate(Recorder(), batches, ckpt_path=file, verbose=False)
    out["validated"] = [batch.index.tolist() for batch in batches]
    try:
        refused = {"max_steps": 2}, None, {"every_n_train_steps": 2}
        fit(make_cases(atlas)["DataLoader, workers"], os.path.join(folder, "refused"), *refused)
    except cf.errors.CellfeedError as error:
        out["refused"] = str(error)
    with open(os.path.join(folder, "resume.json"), "w") as file:
        json.dump(out, file)


def main(what, *arguments):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    {"ranks": run_ranks, "resume": run_resume}[what](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
