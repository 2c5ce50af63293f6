"""The columns of obs that a model of scvi-tools takes, their codes, and the registry of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import scvi
import torch

from .._arguments import as_names
from ..batch import Batch
from ..collection import CellCollection
from ..errors import InvalidArgumentError
from ._codes import Codes, require_numbers

Tensors: TypeAlias = "dict[str, torch.Tensor | None]"


class Fields:
    """Columns of obs by what they are to a model.

    Parameters
    ----------
    cells
        The cells.
    keys
        ``batch_key``, ``labels_key``, ``sample_key``, ``size_factor_key``,
        ``categorical_covariate_keys`` and ``continuous_covariate_keys``; None for those not used.
    model_name
        The class of the model.
    unlabeled
        The label of cells that have none in ``labels_key``.
    known
        ``field_registries`` of a trained model, whose codes count.
    """

    def __init__(
        self,
        cells: CellCollection,
        keys: Mapping[str, Any],
        model_name: str,
        unlabeled: str | None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        self.cells = cells
        self.keys = dict(keys)
        self.model_name = model_name
        self.unlabeled = unlabeled

        def state(field: str) -> Any:
            return {} if known is None else known.get(field, {}).get("state_registry", {})

        def codes(field: str, argument: str, unlabeled: str | None = None) -> Codes:
            names = state(field).get("categorical_mapping")
            return Codes(cells, argument, keys[argument], unlabeled, names)

        self.batch = codes("batch", "batch_key")
        self.labels = codes("labels", "labels_key", unlabeled)
        if model_name == "SCANVI" and known is None and self.labels.names.tolist() == [unlabeled]:
            raise InvalidArgumentError(f"no cell has a label in obs column {self.labels.key!r}")
        self.sample = codes("sample", "sample_key")
        argument = "categorical_covariate_keys"
        mapping = state("extra_categorical_covs").get("mappings", {})
        self.categorical = [
            Codes(cells, argument, key, names=mapping.get(key)) for key in self._names(argument)
        ]
        self.continuous = self._names("continuous_covariate_keys")
        self.size_factor: str | None = keys["size_factor_key"]
        for key in self.continuous:
            require_numbers(cells, "continuous_covariate_keys", key)
        if self.size_factor is not None:
            require_numbers(cells, "size_factor_key", self.size_factor)

    def _names(self, argument: str) -> list[str]:
        if self.keys[argument] is not None:
            self.keys[argument] = as_names(argument, self.keys[argument])
        return list(self.keys[argument] or ())

    def columns(self) -> list[str]:
        """Columns of obs that batches need."""
        codes = [self.batch, self.labels, self.sample, *self.categorical]
        columns = [*(code.key for code in codes), *self.continuous, self.size_factor]
        return sorted({column for column in columns if column is not None})

    def tensors(self, batch: Batch[np.ndarray]) -> Tensors:
        """A batch by the keys of scvi-tools, each (cells, n).

        Parameters
        ----------
        batch
            Dense float32 values.
        """

        def codes(*columns: Codes) -> torch.Tensor:
            made = [
                np.full(len(batch), column.constant, dtype=np.int64)
                if column.key is None
                else column.of(batch.obs[column.key])
                for column in columns
            ]
            return torch.from_numpy(np.stack(made, axis=1))

        def numbers(*keys: str) -> torch.Tensor:
            made = [batch.obs[key].astype(np.float32) for key in keys]
            return torch.from_numpy(np.stack(made, axis=1))

        # scvi-tools 1.4 knows a batch of SCANVI by its first five keys, in this order.
        tensors: Tensors = {
            "X": batch.to_torch(),
            "batch": codes(self.batch),
            "labels": codes(self.labels),
        }
        if self.categorical or self.model_name == "SCANVI":
            tensors["extra_categorical_covs"] = (
                codes(*self.categorical) if self.categorical else None
            )
        if self.continuous or self.model_name == "SCANVI":
            tensors["extra_continuous_covs"] = (
                numbers(*self.continuous) if self.continuous else None
            )
        tensors["sample"] = codes(self.sample)
        if self.size_factor is not None:
            tensors["size_factor"] = numbers(self.size_factor)
        return tensors

    def _layer(self) -> str | None:
        layer = self.cells._origin.options.layer
        return layer if isinstance(layer, str) and layer != "X" else None

    def registry(self) -> dict[str, Any]:
        """What a model is made of, as ``setup_anndata`` would have written it."""
        n_obs, n_vars = self.cells.shape
        genes = {"n_obs": n_obs, "n_vars": n_vars, "column_names": self.cells.var_names.tolist()}
        labels = _field("obs", "_scvi_labels", _names_of(self.labels), n_labels=len(self.labels))
        labels["state_registry"]["unlabeled_category"] = self.unlabeled
        sample = _field("obs", "_scvi_sample", _names_of(self.sample), n_sample=len(self.sample))
        sample["n_obs_per_sample"] = {
            "n_obs_per_sample": torch.from_numpy(self.sample.counts).float()
        }
        mapping = {codes.key: codes.names for codes in self.categorical}
        categorical = {
            "field_keys": [codes.key for codes in self.categorical],
            "mappings": mapping,  # as of setup_anndata
            "mapping": mapping,  # as of scvi-tools' own data modules
            "n_cats_per_key": [len(codes) for codes in self.categorical],
        }
        continuous = {"columns": np.array(self.continuous, dtype=object)}
        fields = {
            "X": _field("X", None, genes, n_vars=n_vars, n_cells=n_obs),
            "batch": _field("obs", "_scvi_batch", _names_of(self.batch), n_batch=len(self.batch)),
            "labels": labels,
            "sample": sample,
            "ind_x": _field("obs", "_indices", {}),
            "size_factor": _field("obs", self.size_factor, {}),
            "extra_categorical_covs": _field(
                "obsm",
                "_scvi_extra_categorical_covs",
                categorical if self.categorical else {},
                n_extra_categorical_covs=len(self.categorical),
            ),
            "extra_continuous_covs": _field(
                "obsm",
                "_scvi_extra_continuous_covs",
                continuous if self.continuous else {},
                n_extra_continuous_covs=len(self.continuous),
            ),
        }
        return {
            "scvi_version": scvi.__version__,
            "model_name": self.model_name,
            "setup_method_name": "setup_datamodule",
            "setup_args": {"layer": self._layer(), **self.keys},
            "field_registries": fields,
        }


def _names_of(codes: Codes) -> dict[str, Any]:
    return {"categorical_mapping": codes.names, "original_key": codes.key}


def _field(attribute: str, key: str | None, state: dict[str, Any], **counts: int) -> dict[str, Any]:
    """A field of the registry; without a place where it is not used."""
    is_used = bool(state) or key == "_indices" or (attribute == "obs" and key is not None)
    return {
        "data_registry": {"attr_name": attribute, "attr_key": key} if is_used else {},
        "state_registry": state,
        "summary_stats": counts,
    }
