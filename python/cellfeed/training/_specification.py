"""What a trained model is made of, as a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from .._options import Label
from ..errors import CorruptDataError
from ..tokens import BinnedTokens, CellTokens, ContinuousTokens, Predicted, RankTokens
from ..vocab import GeneVocab
from ._processing import Processing

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Of what is kept in a checkpoint under KEY.
VERSION = 3
KEY = "cellfeed"
# As scGPT has it.
N_BINS = 51
_TOKENS = {"rank_value": RankTokens, "binned": BinnedTokens, "continuous": ContinuousTokens}


@dataclass(frozen=True)
class Specification:
    """Everything but the weights: enough to make the network again and to feed it.

    Attributes
    ----------
    architecture
        ``"mlp"`` or ``"transformer_encoder"``.
    genes, gene_ids
        The gene axis, and the vocabulary's numbers of these genes.
    label_key, classes
        What is predicted: an obs column and its labels in the order of their codes; ``None`` and
        none where nothing is.
    values
        ``"counts"`` or ``"fractions"``: what files hold that the steps below were not done to, as a
        look at some cells said; None where none such were seen.
    recorded
        What files record of values that are taken as they are: nothing is done to them.
    tokens, max_length
        Of a transformer: ``tokenizer.strategy`` and how many a cell has at most.
    gene_selection, n_selected
        Genes that a batch keeps, and how many; see :class:`cellfeed.RankTokens`.
    kept_genes
        Of ``"most_expressed"``: the ``n_selected`` genes with the largest sums over some thousand
        cells of training, which cells have that are judged or predicted.
    predicts
        ``"genes"`` or ``"values"`` of hidden tokens; ``None`` where none are hidden.
    normalize_to, log_transform
        What is done to these, but for files that record it as done: ``None`` and ``False`` for
        nothing.
    """

    architecture: str
    d_model: int
    n_layers: int
    n_heads: int
    dropout: float
    genes: list[str]
    gene_ids: list[int]
    values: str | None
    recorded: dict[str, Any] = field(default_factory=dict)
    label_key: str | None = None
    classes: list[Label] = field(default_factory=list)
    tokens: str | None = None
    max_length: int = 0
    gene_selection: str = "all"
    n_selected: int | None = None
    kept_genes: list[str] = field(default_factory=list)
    predicts: Predicted | None = None
    normalize_to: float | None = None
    log_transform: bool = False

    @property
    def is_classifier(self) -> bool:
        """Whether labels are predicted."""
        return self.label_key is not None

    @property
    def n_token_ids(self) -> int:
        """Rows of a table with one for each number of the vocabulary, special ones among them."""
        return max(self.gene_ids) + 1

    @property
    def value_scale(self) -> float:
        """What brings values of tokens to some ones."""
        if self.tokens == "binned":
            return 1 / N_BINS
        # Logarithms of counts per ten thousand are below 10.
        return 0.1 if self.log_transform else 1.0

    def token_output(self) -> CellTokens | None:
        """How a loader makes tokens of cells to train on; None of an MLP."""
        return self._tokens_of(self.genes, self.gene_selection, self.n_selected)

    def token_output_of_cells(self) -> CellTokens | None:
        """The same of cells to judge or predict: tokens that do not depend on the batch.

        Of ``"most_expressed"`` the genes are ``kept_genes``, what a batch's come to as it grows; of
        ``"random_expressed"`` all of them, as with dropout.
        """
        is_chosen = self.gene_selection == "most_expressed"
        return self._tokens_of(self.kept_genes if is_chosen else self.genes, "all", None)

    def _tokens_of(
        self, genes: list[str], selection: str, n_selected: int | None
    ) -> CellTokens | None:
        if self.tokens is None:
            return None
        id_of = dict(zip(self.genes, self.gene_ids, strict=True))
        kind: Callable[..., CellTokens] = _TOKENS[self.tokens]
        return kind(
            GeneVocab({gene: id_of[gene] for gene in genes}), max_length=self.max_length,
            gene_selection=selection, n_genes=n_selected,
            **({"n_bins": N_BINS} if self.tokens == "binned" else {}),
        )  # fmt: skip

    def processing(self) -> Processing:
        """What is done to values before the model sees them."""
        return Processing.of_model(self.normalize_to, self.log_transform)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: object, path: str) -> Specification:
        """What :meth:`to_dict` gave.

        Parameters
        ----------
        kept
            From a checkpoint.
        path
            The checkpoint, for messages.
        """
        return whole(cls, kept, path, "a description of a model")


Kept = TypeVar("Kept", bound="DataclassInstance")


def whole(kind: type[Kept], kept: object, path: str, what: str) -> Kept:
    """What a checkpoint keeps as a dict of all fields.

    Parameters
    ----------
    kind, kept
        The dataclass, and the dict.
    path, what
        For messages.

    Raises
    ------
    CorruptDataError
        It has not just these fields.
    """
    names = {each.name for each in fields(kind)}
    if not isinstance(kept, dict) or kept.keys() != names:
        raise CorruptDataError(f"{path}: is damaged: it does not hold {what}")
    return kind(**kept)
