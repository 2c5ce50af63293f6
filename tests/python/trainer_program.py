"""What test_accelerate.py starts with torchrun: transformers' Trainer over a loader.

``trainer_program.py <file> <folder>`` writes ``<folder>/rank<r>.json``: rows of all batches.
"""

import json
import pathlib
import sys

from torch import nn
from transformers import Trainer, TrainingArguments

import cellfeed as cf


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(12, 1)

    def forward(self, x):
        return {"loss": self.linear(x).square().mean()}


class CellTrainer(Trainer):
    def get_train_dataloader(self):
        return cf.Loader(
            cf.open(sys.argv[1]), cf.BlockShuffling(4), batch_size=8, seed=0, collate_fn=self.note
        )

    def note(self, batch):
        self.seen = [*getattr(self, "seen", []), batch.index.tolist()]
        return {"x": batch.to_torch(dense=True)}


def main():
    folder = pathlib.Path(sys.argv[2])
    options = TrainingArguments(
        output_dir=str(folder / "out"), num_train_epochs=2, use_cpu=True, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = CellTrainer(model=Model(), args=options)
    trainer.train()
    (folder / f"rank{options.process_index}.json").write_text(json.dumps(trainer.seen))


if __name__ == "__main__":
    main()
