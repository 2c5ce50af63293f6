"""Other libraries' collections: samples of any kind, several indexed together, ready-made hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ._arguments import as_names, as_row_numbers, first_repeated, suggestion
from ._options import Rows
from ._samples import length_of, take
from .errors import (
    InvalidArgumentError,
    InvalidTypeError,
    NoSuchKeyError,
    OutOfRangeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import torch


class MultiIndexable:
    """Members of one length, such as expression and labels, that are subset together.

    ``m["X"]`` and ``m[0]`` are a member, by name or by place; ``m[slice]``, ``m[list]``,
    ``m[array]`` and ``m[mask]`` are the samples asked for of every member.

    Parameters
    ----------
    *indexables
        The members, or one ``dict`` of them by name.
    names
        Names of members given by place.
    unstructured
        Data about all samples, such as gene names: handed on to every subset as it is.
    **named_indexables
        The members by name.

    Raises
    ------
    InvalidArgumentError
        Members of different lengths; a name that is given twice.
    InvalidTypeError
        Members given both by place and by name, or without a length.
    """

    def __init__(
        self,
        *indexables: Any,
        names: Sequence[str] | None = None,
        unstructured: Mapping[str, object] | None = None,
        **named_indexables: Any,
    ) -> None:
        if indexables and named_indexables:
            raise InvalidTypeError("MultiIndexable takes members by place or by name, not both")
        if unstructured is not None and not isinstance(unstructured, dict):
            raise InvalidTypeError(
                f"unstructured must be a dict, not {type(unstructured).__name__}"
            )
        members = list(indexables)
        if len(members) == 1 and isinstance(members[0], dict) and names is None:
            members, named_indexables = [], dict(members[0])
        if named_indexables:
            members, names = list(named_indexables.values()), list(named_indexables)
        if not members:
            raise InvalidTypeError("MultiIndexable needs at least one member")
        if names is not None and len(names) != len(members):
            raise InvalidArgumentError(f"{len(names)} names for {len(members)} members")
        if names is not None and (twice := first_repeated(names)) is not None:
            raise InvalidArgumentError(f"names has {twice!r} twice: each member needs its own")
        self._members = members
        self._names = None if names is None else list(names)
        self._unstructured = dict(unstructured or {})
        self._is_padding: np.ndarray | None = None
        self._check_lengths()

    def _check_lengths(self) -> None:
        lengths = []
        for place, member in enumerate(self._members):
            try:
                lengths.append(length_of(member))
            except TypeError as error:
                raise InvalidTypeError(
                    f"{self._label(place)} has no length: {type(member).__name__}"
                ) from error
        for place, length in enumerate(lengths):
            if length != lengths[0]:
                raise InvalidArgumentError(
                    f"all members must have the same length: {self._label(0)} has {lengths[0]}, "
                    f"{self._label(place)} has {length}"
                )
        self._length = lengths[0]

    def _label(self, place: int) -> str:
        return f"member {place}" if self._names is None else f"member {self._names[place]!r}"

    @property
    def names(self) -> list[str] | None:
        """Names of the members, None where they have none."""
        return None if self._names is None else list(self._names)

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self._members)

    @property
    def unstructured(self) -> dict[str, Any]:
        """Data about all samples."""
        return self._unstructured

    @property
    def unstructured_keys(self) -> list[str]:
        """Keys of ``unstructured``."""
        return list(self._unstructured)

    @property
    def is_padding(self) -> np.ndarray | None:
        """True where a sample only fills up a batch; None outside of the batches of a data set."""
        return self._is_padding

    def with_padding(self, is_padding: np.ndarray) -> MultiIndexable:
        """The same members with marks of padding, one bool a sample."""
        new = self._with(self._members)
        new._is_padding = np.asarray(is_padding, dtype=bool)
        return new

    def _by_name(self) -> dict[str | int, Any]:
        return dict(zip(self._names or range(self.count), self._members, strict=True))

    def keys(self) -> list[str | int]:
        """Names of the members; their places where they have none."""
        return list(self._by_name())

    def values(self) -> list[Any]:
        """The members."""
        return list(self._members)

    def items(self) -> Iterator[tuple[str | int, Any]]:
        """Names and members."""
        return iter(self._by_name().items())

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in (self._names or ())

    def __repr__(self) -> str:
        members = ", ".join(f"{name}: {type(m).__name__}" for name, m in self.items())
        return f"MultiIndexable({len(self):,} samples; {members})"

    @overload
    def __getitem__(self, key: str | int) -> Any: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | np.ndarray) -> MultiIndexable: ...

    def __getitem__(self, key: str | Rows) -> Any:
        if isinstance(key, str):
            if key not in (self._names or ()):
                raise NoSuchKeyError(
                    f"no member {key!r} with a name{suggestion(key, self._names or [])}"
                )
            return self._by_name()[key]
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            if not -self.count <= key < self.count:
                raise OutOfRangeError(f"no member {key}: there are {self.count}")
            return self._members[key]
        rows = as_row_numbers(key, len(self))
        new = self._with([take(member, rows) for member in self._members])
        if self._is_padding is not None:
            new._is_padding = self._is_padding[rows]
        return new

    def _with(self, members: list[Any]) -> MultiIndexable:
        new = MultiIndexable(*members, names=self._names)
        new._unstructured = self._unstructured
        return new

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Members as tensors, moved as ``torch.Tensor.to`` would.

        The tensor itself where ``X`` is the only member. Members without numbers, such as
        texts, stay as they are.
        """
        from ._torch import as_tensor

        new = self._each_numeric(
            lambda member: member.to(*args, **kwargs), lambda m: as_tensor(m, *args, **kwargs)
        )
        return new._members[0] if self.names == ["X"] else new

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> Any:
        """As :meth:`to`, on a GPU: the current one by default."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self) -> MultiIndexable:
        """Members with numbers as page-locked tensors; a ``DataLoader`` with ``pin_memory`` asks.

        What is page-locked already is not copied.
        """
        from ._torch import pinned

        return self._each_numeric(lambda member: member.pin_memory(), pinned)

    def _each_numeric(
        self, of_group: Callable[[Any], Any], of_array: Callable[[Any], Any]
    ) -> MultiIndexable:
        # Batches and groups within know themselves what of them are tensors.
        members = [
            of_array(m) if _is_numeric(m) else of_group(m) if _is_group(m) else m
            for m in self._members
        ]
        new = self._with(members)
        new._is_padding = self._is_padding
        return new


def _is_group(member: object) -> bool:
    return hasattr(member, "pin_memory") and hasattr(member, "to")


def _is_numeric(member: object) -> bool:
    dtype = getattr(member, "dtype", None)
    return type(member).__module__.startswith("torch") or (
        isinstance(dtype, np.dtype) and dtype.kind in "biuf"
    )


def adata_to_mindex(batch: Any, columns: Sequence[str] | str | None = None) -> MultiIndexable:
    """Cells of AnnData or AnnCollection as dense ``X`` and obs columns that are subset together.

    Parameters
    ----------
    batch
        An AnnData, a view of a backed one, or a view of an AnnCollection, read into memory here; a
        :class:`~cellfeed.Batch` or a view ``cells[rows]``; or anything with ``X`` and
        ``obs[name].values``.
    columns
        obs columns to take along, as their pandas values (categoricals stay categorical). Of a
        batch those that it was loaded with.

    Returns
    -------
    MultiIndexable
        Members ``"X"``, cells x genes, and one a column.
    """
    names = [] if columns is None else as_names("columns", columns)
    if "X" in names:
        raise InvalidArgumentError(
            "columns names 'X', which the matrix is called here: give the obs column another name"
        )
    x, obs = _parts(batch)
    dense = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
    return MultiIndexable({"X": dense, **{name: _values(obs, name) for name in names}})


def _parts(batch: Any) -> tuple[Any, Any]:
    if hasattr(batch, "to_anndata"):  # a Batch, or a view of cells, which has X as stored
        return batch.X if hasattr(batch, "X") else batch.x, batch.obs
    adata = _in_memory(batch)
    return adata.X, adata.obs


def _values(obs: Any, name: str) -> Any:
    try:
        column = obs.column(name) if hasattr(type(obs), "column") else obs[name]
    except KeyError as error:
        known = suggestion(name, obs) if hasattr(obs, "__iter__") else ""
        raise NoSuchKeyError(f"no obs column {name!r}{known}") from error
    return getattr(column, "values", column)


def fetch_transform_adata(
    batch: Any, columns: Sequence[str] | str | None = None
) -> np.ndarray | MultiIndexable:
    """Cells of AnnData or AnnCollection as a dense array, or with obs columns.

    Parameters
    ----------
    batch
        As for :func:`adata_to_mindex`.
    columns
        obs columns to take along.

    Returns
    -------
    numpy.ndarray or MultiIndexable
        ``X``, cells x genes, where no columns are asked for; a torch ``DataLoader`` makes a tensor
        of its batches.
    """
    group = adata_to_mindex(batch, columns)
    return group["X"] if group.count == 1 else group


def _in_memory(batch: Any) -> Any:
    for method in ("to_adata", "to_memory"):
        if hasattr(batch, method):
            return getattr(batch, method)()
    if hasattr(batch, "X") and hasattr(batch, "obs"):
        return batch
    raise InvalidTypeError(f"not an AnnData or AnnCollection: {type(batch).__name__}")


def hf_tahoe_to_tensor(
    batch: dict[str, Sequence[Any]] | list[dict[str, Any]], num_genes: int = 62713
) -> torch.Tensor:
    """Cells of Tahoe-100M on Hugging Face as a dense float32 tensor, cells x genes.

    Parameters
    ----------
    batch
        A dict of ``"genes"`` and ``"expressions"``, lists with one array a cell; or a list with one
        such dict a cell.
    num_genes
        Columns of the tensor.
    """
    from ._torch import as_tensor

    if isinstance(batch, dict):
        genes, values = batch["genes"], batch["expressions"]
    elif isinstance(batch, list):
        genes, values = [cell["genes"] for cell in batch], [cell["expressions"] for cell in batch]
    else:
        raise InvalidTypeError(
            f"a batch must be a dict or a list of dicts with genes and expressions, not "
            f"{type(batch).__name__}"
        )
    dense = np.zeros((len(genes), num_genes), dtype=np.float32)
    for row, (columns, expression) in enumerate(zip(genes, values, strict=True)):
        columns = np.asarray(columns, dtype=np.int64)
        if columns.size and not (columns.min() >= 0 and columns.max() < num_genes):
            raise OutOfRangeError(f"cell {row} has genes outside of [0, {num_genes})")
        dense[row, columns] = expression
    return as_tensor(dense)


def bionemo_to_tensor(
    data_collection: Sequence[Any], idx: int | slice | Sequence[int] | np.ndarray
) -> torch.Tensor:
    """``fetch_callback`` for a SingleCellMemMapDataset of bionemo-scdl: dense rows, cells x genes.

    Parameters
    ----------
    data_collection
        The data set.
    idx
        An int, a slice, or row numbers.
    """
    try:
        from bionemo.scdl.util.torch_dataloader_utils import collate_sparse_matrix_batch
    except ImportError as error:
        raise UnsupportedError("bionemo_to_tensor needs the package bionemo-scdl") from error
    if isinstance(idx, slice):
        idx = range(*idx.indices(len(data_collection)))
    rows = [int(i) for i in np.atleast_1d(np.asarray(idx))]
    dense: torch.Tensor = collate_sparse_matrix_batch([data_collection[i] for i in rows]).to_dense()
    return dense
