"""What needs PyTorch; importing it imports torch."""

from __future__ import annotations

from .._extras import with_extra

try:
    from torch.utils.data.distributed import DistributedSampler
except ModuleNotFoundError as error:
    raise with_extra(error) from error

from ._batch_tensors import BatchTensors
from ._batches import TensorBatch
from ._cells import cells_to_tensors, collate_cells
from ._dataset import register_iterable_dataset
from ._gene_selection import GeneSelectionCollator
from ._handover import hand_over_in_shared_memory
from ._mapped import register_rows
from ._on_device import TensorsOnDevice, pinned
from ._pinned import can_pin, find_torch_library
from ._ranks import broadcast_seed, first_said
from ._tensors import as_tensor, batch_to_tensor
from ._tokens import TokenTensors, tokens_to_tensors
from ._windows import SeriesTensors, as_tensors, register_windows

__all__ = [
    "BatchTensors",
    "DistributedSampler",
    "GeneSelectionCollator",
    "SeriesTensors",
    "TensorBatch",
    "TensorsOnDevice",
    "TokenTensors",
    "as_tensor",
    "as_tensors",
    "batch_to_tensor",
    "broadcast_seed",
    "can_pin",
    "cells_to_tensors",
    "collate_cells",
    "find_torch_library",
    "first_said",
    "hand_over_in_shared_memory",
    "pinned",
    "register_iterable_dataset",
    "register_rows",
    "register_windows",
    "tokens_to_tensors",
]
