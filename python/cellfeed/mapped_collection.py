"""Files of cells as a map-style data set of torch, one dict a cell: :class:`MappedCollection`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from ._arguments import (
    as_bool,
    as_choice,
    as_dtype,
    as_int,
    as_row_numbers,
    parse_threads,
    without_dimensions,
)
from ._lazy import cached_property
from ._mapped.arguments import (
    FILE_NAME,
    MappedOptions,
    as_join,
    as_layers_keys,
    as_obsm_keys,
    as_path_list,
    as_weighing,
    check_row_names,
    each_once,
    encoded_columns,
    filtered_rows,
    unknown_labels,
)
from ._mapped.genes import FileGenes
from ._mapped.labels import LabelCounts, make_column, merged_categories
from ._mapped.matrices import open_matrices, open_table
from ._mapped.rows import Column, RowBatch, Rows
from ._options import CASTINGS, MIXED_PROCESSING, OUTPUTS
from .errors import OutOfRangeError

if TYPE_CHECKING:
    import pandas as pd
    from torch.utils.data import Dataset

    from ._options import Casting, Data, DType, Join, Label, MixedProcessing, Output, UnknownLabel
    from ._table import StoredFile

    MapStyle = Dataset[dict[str, Any]]
else:
    MapStyle = object  # a map-style data set is what has a length and items


class MappedCollection(MapStyle):
    """Cells of many files, each a dict of numpy arrays: lamindb's class, on our reader.

    ``len(ds)``, ``ds[i]``, and whole batches at once for torch's ``DataLoader``: it takes any
    sampler, shuffles truly at random, and its default collation copies no row. ``ds[i]`` has a row
    under each of ``layers_keys``, one under ``"obsm_KEY"`` for each of ``obsm_keys``, an entry
    under each of ``obs_keys``, and the number of the file under ``"_store_idx"``.

    Picklable: a copy, as in each worker, opens the files again. Thread-safe: yes.

    Parameters
    ----------
    path_list
        What :func:`cellfeed.open` takes: files, shard directories, globs, AnnData, or a list of
        these.
    layers_keys
        ``"X"``, ``"raw.X"`` (of ``adata.raw``) and names of layers. All files must have them.
    obs_keys
        obs columns. Cells of a file that lacks one have a missing value.
    obsm_keys
        Arrays of ``obsm``. All files must have them, of one width.
    obs_filter
        Column -> a value or a list of values: only the cells that have one of them in each column.
        NaN stands for missing values.
    join
        How files with different genes become one table: ``"inner"`` keeps the genes of every file
        in the first one's order, ``"outer"`` the sorted union, where absent genes are 0; None
        leaves each file its own genes, so that rows may have different lengths. ``"auto"`` is
        ``"inner"``, and ``"raw.X"`` is never joined.
    encode_labels
        Whether columns come as codes: of all ``obs_keys``, or a list of some. The sorted union of a
        column's values has the codes 0, 1, ...; missing is -1. Without, rows give labels (NaN =
        missing) and numbers.
    unknown_label
        The label that has code -1, of all columns or column -> label.
    cache_categories, parallel
        As lamindb has them. Categories are always kept, and every process may read: neither
        changes anything.
    dtype
        Of the rows: float32, float64, int32 or int64. As stored by default, where narrower ones
        become the next of these. Integers are exact or an error, but with ``casting="same_kind"``.
    output
        ``"dense"``: rows are arrays of one value a gene. ``"csr"``: rows of ``layers_keys`` are
        ``scipy.sparse.csr_matrix`` of one row, and torch's default collation makes a
        ``torch.sparse_csr`` tensor of a batch of them: as much memory as there are non-zeros.
    casting
        As of :class:`~cellfeed.Loader`: ``"same_kind"`` rounds as lamindb does.
    make_unique
        Number repeated gene names as anndata does, instead of refusing them.
    mixed_processing
        As for :func:`cellfeed.open`.
    threads
        That read a batch; one a processor by default.

    Attributes
    ----------
    encoders
        Column -> label -> code.
    n_obs, n_vars, closed
        Cells and genes; ``n_vars`` is None where files keep their own genes. Whether it is closed.
    n_obs_list, n_vars_list
        Of each file, after ``obs_filter``.

    Raises
    ------
    InvalidArgumentError, NotFoundError, NoSuchKeyError, CorruptDataError, UnsupportedError
        Before anything is read; they name the file or the key.
    """

    def __init__(
        self,
        path_list: Data,
        layers_keys: str | Sequence[str] | None = None,
        obs_keys: str | Sequence[str] | None = None,
        obsm_keys: str | Sequence[str] | None = None,
        obs_filter: Mapping[str, Sequence[Label | None] | Label | None] | None = None,
        join: Join | Literal["auto"] | None = "inner",
        encode_labels: bool | Sequence[str] = True,
        unknown_label: UnknownLabel = None,
        cache_categories: bool = True,
        parallel: bool = False,
        dtype: DType | None = None,
        *,
        output: Output = "dense",
        casting: Casting = "round",
        make_unique: bool = False,
        mixed_processing: MixedProcessing = "error",
        threads: int | None = None,
    ) -> None:
        as_bool("cache_categories", cache_categories)
        columns = [] if obs_keys is None else each_once("obs_keys", obs_keys)
        encoded = encoded_columns(encode_labels, columns)
        options = MappedOptions(
            paths=as_path_list(path_list), layers_keys=as_layers_keys(layers_keys),
            obs_keys=columns,
            obsm_keys=as_obsm_keys(obsm_keys),
            join=as_join(join), encoded=encoded, unknown=unknown_labels(unknown_label, encoded),
            dtype=None if dtype is None else as_dtype("dtype", dtype),
            output=as_choice("output", output, OUTPUTS),
            casting=as_choice("casting", casting, CASTINGS),
            make_unique=as_bool("make_unique", make_unique), threads=parse_threads(threads),
            mixed_processing=as_choice("mixed_processing", mixed_processing, MIXED_PROCESSING),
        )  # fmt: skip
        check_row_names(options)
        self.parallel = as_bool("parallel", parallel)
        self.path_list, self.layers_keys = options.paths, options.layers_keys
        self.obs_keys = None if obs_keys is None else options.obs_keys
        self.obsm_keys = None if obsm_keys is None else options.obsm_keys
        self.encode_labels, self.unknown_label = encoded or False, unknown_label
        self.output = options.output
        self._matrices = open_matrices(options)
        self._cells = open_table(options, self._matrices[0].parts)
        self._genes = FileGenes(self._cells, options.join)
        self.join_vars = self._genes.join
        self._columns = {
            name: make_column(
                self._cells,
                name,
                is_encoded=name in encoded,
                unknown_label=options.unknown.get(name),
            )
            for name in options.obs_keys
        }
        self.encoders = {
            name: column.encoder
            for name, column in self._columns.items()
            if column.encoder is not None
        }
        self.filtered = obs_filter is not None
        self._rows = None if obs_filter is None else filtered_rows(self._cells, obs_filter)
        ends = np.cumsum([file["n_cells"] for file in self._cells.files])
        self._file_begins = np.concatenate([[0], ends]).astype(np.int64)
        self.closed = False
        for matrices in self._matrices:
            matrices.check_values(self._all_rows())

    # ---- rows

    def __len__(self) -> int:
        return len(self._cells) if self._rows is None else len(self._rows)

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """One cell as a dict; negative numbers count from the end."""
        n = len(self)
        number = as_int("idx", without_dimensions(idx), -(2**63))
        if not -n <= number < n:
            raise OutOfRangeError(f"cell {number} is outside the collection of {n} cells")
        row = np.array([number + n if number < 0 else number], dtype=np.int64)
        return dict(self._read(row).rows(0, 1)[0])

    def __getitems__(self, indices: Sequence[int]) -> Sequence[dict[str, Any]]:
        """Some cells, read together: what torch's ``DataLoader`` asks for.

        Each is a dict of its own, made when it is asked for. Rows are views of one array.
        """
        rows = as_row_numbers(indices, len(self))
        return Rows(self._read(rows)) if rows.size else []

    def _read(self, places: np.ndarray) -> RowBatch:
        rows = places if self._rows is None else np.asarray(self._rows[places])
        columns: dict[str, Column] = {FILE_NAME: self._file_of(rows)}
        read: dict[str, Column] = {}
        for matrices in self._matrices:
            read.update(matrices.read(rows))
        obsm = [f"obsm_{key}" for key in self.obsm_keys or []]
        columns.update({name: read[name] for name in [*self.layers_keys, *obsm]})
        for name, column in self._columns.items():
            values = self._cells._core.gather_obs(self._cells.obs_column(name), rows)
            columns[name] = column.of_rows(values)
        return RowBatch(len(rows), columns)

    def _all_rows(self) -> np.ndarray:
        return np.arange(len(self._cells)) if self._rows is None else self._rows

    def _file_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(self._file_begins, rows, side="right") - 1

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """Each cell's row in its file, (cells,) int64."""
        rows = self._all_rows()
        return np.asarray(rows - self._file_begins[self._file_of(rows)])

    @property
    def storage_idx(self) -> npt.NDArray[np.int64]:
        """Number of the file of each cell, (cells,) int64."""
        return self._file_of(self._all_rows())

    @property
    def indices_list(self) -> list[np.ndarray]:
        """Rows of each file that are in the collection."""
        return np.split(self.indices, np.cumsum(self.n_obs_list)[:-1])

    # ---- shapes and genes

    @property
    def n_obs(self) -> int:
        """Number of cells."""
        return len(self)

    @property
    def n_vars(self) -> int | None:
        """Number of genes of the joined table; None where files keep their own."""
        return None if self.var_joint is None else self._cells.n_vars

    @property
    def shape(self) -> tuple[int, int | None]:
        """Cells and genes."""
        return self.n_obs, self.n_vars

    @property
    def storages(self) -> list[StoredFile]:
        """Path, format, layer, cells, genes, non-zeros, dtype and compression of each file."""
        return self._cells.files

    @cached_property
    def n_obs_list(self) -> list[int]:
        """Cells of each file, after ``obs_filter``."""
        counts = np.histogram(self._all_rows(), self._file_begins)[0]
        # The last bin of a histogram is closed, and no row lies at its end.
        return [int(n) for n in counts]

    @property
    def var_list(self) -> list[pd.Index]:
        """Genes of each file."""
        return self._genes.of_files

    @property
    def n_vars_list(self) -> list[int]:
        """Number of genes of each file."""
        return [int(file["n_genes"]) for file in self._cells.files]

    @property
    def original_shapes(self) -> list[tuple[int, int]]:
        """Cells (after ``obs_filter``) and genes of each file."""
        return list(zip(self.n_obs_list, self.n_vars_list, strict=True))

    @property
    def var_joint(self) -> pd.Index | None:
        """The genes of rows; None where files keep their own."""
        return self._genes.joint

    @property
    def var_indices(self) -> list[np.ndarray] | None:
        """How genes were joined; None where they were not, as all files have the same.

        Inner: for each joint gene its place in the file. Outer: for each gene of the file its
        place among the joint ones.
        """
        return self._genes.places

    def check_vars_sorted(self, ascending: bool = True) -> bool:
        """True if the genes of every file are sorted."""
        return self._genes.are_sorted(ascending)

    def check_vars_non_aligned(self, vars: Iterable[str]) -> list[int]:
        """Numbers of the files whose genes are not exactly these, in this order."""
        return self._genes.files_without_axis(vars)

    # ---- labels

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Of each of ``obs_keys`` what ``get_merged_labels`` gives."""
        return {key: self.get_merged_labels(key) for key in self.obs_keys or []}

    @property
    def categories(self) -> dict[str, list[Label]]:
        """Of each of ``obs_keys`` what ``get_merged_categories`` gives."""
        return {key: self.get_merged_categories(key) for key in self.obs_keys or []}

    def get_merged_labels(self, label_key: str) -> np.ndarray:
        """Labels (NaN = missing) or numbers of one obs column, one a cell."""
        column = self._columns.get(label_key) or make_column(
            self._cells, label_key, is_encoded=False, unknown_label=None
        )
        return column.merged(self._cells.obs_values(label_key, self._all_rows()))

    def get_merged_categories(self, label_key: str) -> list[Label]:
        """Every label or number of one obs column in any file, sorted; also unused ones."""
        return merged_categories(self._cells, label_key)

    @overload
    def get_label_weights(
        self,
        obs_keys: str | Sequence[str],
        scaler: float | None = None,
        return_categories: Literal[False] = False,
    ) -> np.ndarray: ...

    @overload
    def get_label_weights(
        self,
        obs_keys: str | Sequence[str],
        scaler: float | None = None,
        *,
        return_categories: Literal[True],
    ) -> dict[str, float]: ...

    def get_label_weights(
        self,
        obs_keys: str | Sequence[str],
        scaler: float | None = None,
        return_categories: bool = False,
    ) -> np.ndarray | dict[str, float]:
        """Weights that make labels equally frequent, as for ``WeightedRandomSampler``.

        Parameters
        ----------
        obs_keys
            An obs column, or several: then each combination of labels counts.
        scaler
            Weights are ``scaler / (scaler + count)`` instead of ``1 / count``.
        return_categories
            The weight of each label, as a dict; labels of several columns joined by ``"__"``.

        Returns
        -------
        numpy.ndarray or dict
            One weight a cell, float64 (missing is a label of its own).
        """
        names, scaler = as_weighing(obs_keys, scaler)
        counts = LabelCounts.of([self.get_merged_labels(name) for name in names])
        weights = counts.weights(scaler)
        if return_categories:
            return dict(zip(counts.names, weights.tolist(), strict=True))
        of_row: np.ndarray = weights[counts.of_row]
        return of_row

    # ---- life

    def close(self) -> None:
        """Let go of the files; using the collection afterwards is an error."""
        for matrices in self._matrices:
            matrices.close()
        self._cells.close()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @classmethod
    def torch_worker_init_fn(cls, worker_id: int) -> None:
        """For ``DataLoader(worker_init_fn=)``, as lamindb has it: nothing is left to be done."""
