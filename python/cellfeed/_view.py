"""What a view of cells answers as a batch does, once its cells are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._batch_matrices import BatchMatrices
from .batch import Batch

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse
    import torch

    from ._torch import TensorBatch


class BatchOnDemand:
    """Base of views, which read a batch when something of it is first asked for."""

    @property
    def batch(self) -> Batch[scipy.sparse.csr_matrix]:
        """The cells, read."""
        raise NotImplementedError

    @property
    def x(self) -> scipy.sparse.csr_matrix:
        """float32, CSR: the batch's."""
        return self.batch.x

    @property
    def layers(self) -> BatchMatrices[scipy.sparse.csr_matrix]:
        """As of the batch: float32."""
        return self.batch.layers

    @property
    def obsm(self) -> BatchMatrices[np.ndarray]:
        """As of the batch: float32."""
        return self.batch.obsm

    @property
    def data(self) -> np.ndarray:
        """Values of ``x``."""
        return self.batch.data

    def to_scipy(self) -> scipy.sparse.csr_matrix:
        """As of the batch."""
        return self.batch.to_scipy()

    def to_numpy(self) -> np.ndarray:
        """As of the batch: dense, float32."""
        return self.batch.to_numpy()

    def to_torch(self, *, dense: bool = False) -> torch.Tensor:
        """As of the batch."""
        return self.batch.to_torch(dense=dense)

    def to(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TensorBatch:
        """As of the batch."""
        return self.batch.to(device, non_blocking=non_blocking)

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TensorBatch:
        """As of the batch."""
        return self.batch.cuda(device, non_blocking=non_blocking)

    def pin_memory(self) -> TensorBatch:
        """As of the batch."""
        return self.batch.pin_memory()
