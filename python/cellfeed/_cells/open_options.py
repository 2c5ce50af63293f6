"""How cells are opened: the arguments of ``cellfeed.open``, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._arguments import as_bool, as_choice, as_names, as_text, settle
from .._lazy import cached_property
from .._options import (
    ACCESS,
    CACHES,
    JOINS,
    MISSING_GENES,
    MIXED_PROCESSING,
    VERIFY,
    Access,
    Cache,
    Categories,
    Join,
    MissingGenes,
    MixedProcessing,
    UnknownLabel,
    Verify,
)
from ..errors import InvalidArgumentError
from .matrices import Layer, Matrices


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """How cells are opened, checked when this is made.

    Attributes
    ----------
    genes, layers, obsm
        Names, or None where none were chosen.
    var_keys
        Columns of var that name the genes, the first that a file has.
    cache_bytes
        Bytes that the cache of inflated chunks may take.
    cache_dir
        The folder of the cache; "" for that of the environment, None for no cache.
    var
        Of Parquet tables, the table of genes; "" for none.
    obs_columns
        Of Parquet tables, numeric columns that are obs: those of ``obs``.
    is_to_write
        All cells are read once, in order: rows of matrices that are not stored by rows (CSC) are
        made for that, and nothing of them stays.

    All others are as of :func:`cellfeed.open`.
    """

    join: Join | None = None
    genes: list[str] | None = None
    missing_genes: MissingGenes = "warn"
    var_keys: list[str] = field(default_factory=list)
    categories: Categories | None = None
    unknown_label: UnknownLabel = None
    layer: Layer = "X"
    layers: list[str] | None = None
    obsm: list[str] | None = None
    make_unique: bool = False
    cache_bytes: int = 0
    access: Access = "auto"
    verify: Verify = "always"
    cache_dir: str | None = ""
    cache: Cache | None = None
    offline: bool | None = None
    genome: str | None = None
    feature_type: str | None = None
    modality: str | None = None
    transpose: bool | None = None
    genes_column: str | None = None
    values_column: str | None = None
    var: str = ""
    obs_columns: list[str] = field(default_factory=list)
    mixed_processing: MixedProcessing = "error"
    is_to_write: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.layer, (list, tuple)):
            settle(self, layer=as_names("layer", self.layer))
            if not self.layer:
                raise InvalidArgumentError("layer is an empty list: name a matrix, such as 'X'")
        elif self.layer is not None:
            as_text("layer", self.layer)
        self.matrices  # noqa: B018  # says what is wrong with the names
        for option, is_given in {"genes": self.genes is not None, "var_key": self.var_keys}.items():
            if self.layer is None and is_given:
                raise InvalidArgumentError(
                    f"layer=None reads obs alone, without genes: leave {option} out"
                )
        settle(self, make_unique=as_bool("make_unique", self.make_unique))
        as_choice("access", self.access, ACCESS)
        as_choice("verify", self.verify, VERIFY)
        as_choice("missing_genes", self.missing_genes, MISSING_GENES)
        as_choice("mixed_processing", self.mixed_processing, MIXED_PROCESSING)
        if self.join is not None:
            as_choice("join", self.join, JOINS)
            if self.genes is not None:
                raise InvalidArgumentError(
                    f"genes fixes the gene axis, and join={self.join!r} makes one of the files' "
                    "genes: give one"
                )
        if self.offline is not None:
            as_bool("offline", self.offline)
        if self.cache is not None:
            as_choice("cache", self.cache, CACHES)
            if self.cache_dir is None:
                raise InvalidArgumentError("cache needs a folder, and cache_dir is None")
        for name in ("genome", "feature_type", "modality", "genes_column", "values_column"):
            text = getattr(self, name)
            if text is not None:
                as_text(name, text)
        if self.transpose is not None:
            as_bool("transpose", self.transpose)

    @property
    def of_objects(self) -> dict[str, str]:
        """What storage options say of the cache of objects; none where nothing is asked for.

        A folder that is named caches whole files, unless something else is asked for.
        """
        options = {} if self.offline is None else {"offline": str(self.offline).lower()}
        if self.cache_dir:
            options["cache_dir"] = self.cache_dir
        if self.cache in ("files", "blocks"):
            options["cache"] = self.cache
        elif self.cache is None and self.cache_dir:
            options["cache"] = "files"
        elif self.cache == "rows" and not self.offline:
            options.pop("cache_dir", None)
        return options

    @cached_property
    def matrices(self) -> Matrices:
        """Those that come with every batch beside ``x``."""
        return Matrices.of(self.layer, self.layers, self.obsm)
