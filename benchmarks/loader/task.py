"""What one process measures: a :class:`Task`, and the wire format between run.py and measure.py."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Task:
    """One measurement of one program on one data set; equal tasks are measured once.

    ``kind`` is "load", "convert", "verify", "size", "first_batch" or "device"; ``data`` names what
    an atlas directory holds ("plain", "gzip", "packed", "packed_mean", "memmap", "annbatch").
    """

    rival: str
    kind: str = "load"
    atlas: str = "main"
    data: str = "plain"
    access: str = "random"  # "random", "block", "stream"
    block_size: int = 1
    fetch_factor: int = 16  # batches that a rival reads together
    batch_size: int = 1024
    output: str = "csr"  # "csr"; "dense"; "selected": 2,048 genes, normalised, log1p, dense
    workers: int = 0  # processes of a torch DataLoader
    threads: int = 0  # 0: one a processor
    memory_budget: str = "2GB"
    is_cold: bool = False
    is_training: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def title(self) -> str:
        """A short name for tables."""
        parts = [self.rival.replace("_", " "), self.data]
        if self.kind != "load":
            parts.append(self.kind)
        elif self.access == "block":
            parts.append(f"block {self.block_size}")
        else:
            parts.append(self.access)
        if self.output != "csr":
            parts.append(self.output)
        if self.workers:
            parts.append(f"{self.workers} workers")
        if self.threads:
            parts.append(f"{self.threads} threads")
        if self.batch_size != 1024:
            parts.append(f"batch {self.batch_size}")
        if self.memory_budget != "2GB":
            parts.append(f"budget {self.memory_budget}")
        if self.option("opened_for"):
            parts.append(self.option("opened_for"))
        if self.option("is_opened_each_epoch"):
            parts.append("opened each epoch")
        if self.option("is_shuffled"):
            parts.append("shuffled")
        if self.is_cold:
            parts.append("cold")
        if self.is_training:
            parts.append("while training")
        if self.atlas != "main":
            parts.append(f"[{self.atlas}]")
        return ", ".join(parts)

    def option(self, name: str, default: Any = None) -> Any:
        """A setting that only some programs know."""
        return dict(self.options).get(name, default)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Task:
        fields = json.loads(text)
        fields["options"] = tuple((name, value) for name, value in fields["options"])
        return Task(**fields)
