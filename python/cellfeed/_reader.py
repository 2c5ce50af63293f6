"""Rows read and decoded as batches: what loaders, ``cells.read`` and single cells share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._arguments import as_bool, as_choice, as_row_numbers, parse_memory_budget, settle
from ._batch_source import BatchSource
from ._cache_warnings import publish_blocks, report_blocks
from ._cells.closed import Closed
from ._iteration.worker import this_worker
from ._options import CASTINGS, LOADER_OUTPUTS, Casting, DTypeName, LoaderOutput
from .batch import Batch
from .errors import CacheWarning, InvalidArgumentError
from .token_batch import TokenBatch
from .tokens import CellTokens, Masking, as_token_output
from .transforms import Transform, core_transforms

if TYPE_CHECKING:
    from ._cells.protocols import Cells

# Values that are looked at before the first batch, where a dtype may not hold them.
_ROWS_TO_CHECK = 16


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """How rows become batches, checked when this is made.

    Attributes
    ----------
    output, casting, transforms, pin_memory, tokens, masking
        As of :class:`~cellfeed.Loader`.
    dtype
        Its name.
    obs
        Those of the collection where it is None.
    memory_budget
        Bytes of read-ahead, caches and finished batches together.
    threads
        One a processor where it is 0; more of them take more memory.
    matrix_dtypes
        Of each further matrix of the collection. Where it is None: that of x, and floats of obsm.
    """

    output: LoaderOutput = "csr"
    dtype: DTypeName = "float32"
    casting: Casting = "round"
    obs: Sequence[str] | None = None
    transforms: Sequence[Transform] = ()
    memory_budget: int = parse_memory_budget("2GB")
    threads: int = 0
    pin_memory: bool = False
    matrix_dtypes: Sequence[DTypeName] | None = None
    tokens: CellTokens | None = None
    masking: Masking | None = None

    def __post_init__(self) -> None:
        as_choice("output", self.output, LOADER_OUTPUTS)
        self.token_output()
        as_choice("casting", self.casting, CASTINGS)
        core_transforms(self.transforms)
        settle(
            self,
            transforms=tuple(self.transforms),
            pin_memory=as_bool("pin_memory", self.pin_memory),
        )

    def token_output(self) -> _core.TokenOutput | None:
        """What the core makes tokens by."""
        return as_token_output(self.output, self.tokens, self.masking)

    def kinds_of(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """Output and dtype of each further matrix, of which ``paths`` say where it lies."""
        # Arrays of obsm are no counts: dense, and floats.
        of_obsm = ("dense", self.dtype if self.dtype.startswith("float") else "float32")
        of_layers = ("csr" if self.output == "tokens" else self.output, self.dtype)
        kinds: list[tuple[str, str]] = [
            of_obsm if path.startswith("obsm/") else of_layers for path in paths
        ]
        if self.matrix_dtypes is None:
            return kinds
        return [(own, kind) for (own, _), kind in zip(kinds, self.matrix_dtypes, strict=True)]


class Reader:
    """Reads rows of a collection. Picklable: a copy opens the files again.

    Thread-safe: yes.
    """

    def __init__(self, cells: Cells, options: ReaderOptions) -> None:
        self.n_cells = len(cells)
        if self.n_cells == 0:
            raise InvalidArgumentError("the collection has no cells to load")
        self.cells = cells
        self.options = options
        self.obs = list(cells.default_obs if options.obs is None else options.obs)
        self._torch_library = _find_torch_library() if options.pin_memory else None
        self._open(None)

    def _open(self, key: str | None) -> None:
        # Outlives the collection, as the loader does that was made from it.
        self.files: _core.Collection = self.cells._core
        options, further = self.options, self.cells._matrices
        self.core: _core.LoaderCore = _core.LoaderCore.make(
            self.files, options.output, options.dtype, options.casting, self.obs,
            core_transforms(options.transforms), options.memory_budget, options.threads, 0,
            self._torch_library, options.kinds_of(further.paths), options.token_output(),
        )  # fmt: skip
        columns = {name: self.cells.obs_column(name) for name in self.obs}
        self.source = BatchSource(
            columns, self.core, key, self.cells._names, matrices=further, files=self.files
        )

    def __getstate__(self) -> dict[str, object]:
        state = {**self.__dict__, "key": self.source.key}
        del state["core"], state["source"], state["files"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        key = state.pop("key")
        self.__dict__.update(state)
        self._open(str(key))

    def check_values(self, some_rows: Callable[[int], np.ndarray]) -> None:
        """Refuse values that the dtype cannot hold, where rows spread over the files have them.

        Parameters
        ----------
        some_rows
            ``f(n)`` is about n row numbers.
        """
        if self.core.values_are_in_question:
            self.core.check_values(some_rows(_ROWS_TO_CHECK))

    def make_batch(self, core: _core.Batch) -> Batch[Any] | TokenBatch:
        """What users get of a batch of the core."""
        if self.options.output == "tokens":
            return TokenBatch(core, self.source)
        return Batch(core, self.source)

    def read(self, rows: object) -> Batch[Any]:
        """One batch of the rows asked for, in that order."""
        self.require_no_worker_pins()
        core = self.core.read_rows(as_row_numbers(rows, self.n_cells))
        report_blocks()
        return Batch(core, self.source)

    def iterate(self, plan: _core.Plan, first: int, step: int) -> _core.BatchIterator:
        """Batches ``first``, ``first + step``, ... of a plan, read ahead."""
        self.require_no_worker_pins()
        return self.core.iterate(plan, first, step)

    def require_no_worker_pins(self) -> None:
        """Refuse to page-lock memory in a worker process."""
        if self._torch_library is not None and this_worker().is_process:
            raise InvalidArgumentError(
                "pin_memory=True is of no use in a worker process of a DataLoader, whose batches "
                "are copied on their way: iterate over the Loader itself (it reads and decodes on "
                "threads of its own), or leave pin_memory out"
            )

    def close(self) -> None:
        """Let go of memory and files; using this afterwards is an error."""
        closed: Any = Closed("this loader is closed: make another one")
        self.core = self.source = self.files = closed


def report_kept(files: _core.Collection) -> None:
    """Have rows that are kept packed written, and blocks, and warn where they cannot be.

    A worker process may end before their writer gets to them.

    Parameters
    ----------
    files
        Any collection of the core.
    """
    files.flush_packed()
    if publish_blocks is None:  # at the end of the program
        return
    for text in files.take_packed_warnings():
        warnings.warn(text, CacheWarning, stacklevel=3)
    publish_blocks()


def _find_torch_library() -> str:
    from ._torch import find_torch_library

    return find_torch_library()
