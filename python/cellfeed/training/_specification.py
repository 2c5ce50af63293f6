"""What a trained model is made of, as a checkpoint keeps it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import CorruptDataError
from ..transforms import Log1p, NormalizeTotal, Transform

# Of what is kept in a checkpoint under KEY.
VERSION = 1
KEY = "cellfeed"


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
        ``"counts"`` or ``"fractions"``: what the files held, as a look at some of them said.
    normalize_to, log_transform
        What is done to these: ``None`` and ``False`` for nothing.
    """

    architecture: str
    d_model: int
    n_layers: int
    n_heads: int
    dropout: float
    genes: list[str]
    gene_ids: list[int]
    values: str
    label_key: str | None = None
    classes: list[Any] = field(default_factory=list)
    normalize_to: float | None = None
    log_transform: bool = False

    @property
    def is_classifier(self) -> bool:
        """Whether labels are predicted."""
        return self.label_key is not None

    def transforms(self) -> list[Transform]:
        """Of a loader that feeds the model."""
        normalize = [] if self.normalize_to is None else [NormalizeTotal(self.normalize_to)]
        return [*normalize, *([Log1p()] if self.log_transform else [])]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, texts and lists."""
        return asdict(self)

    @classmethod
    def from_dict(cls, kept: Any, path: str) -> Specification:
        """What :meth:`to_dict` gave.

        Parameters
        ----------
        kept
            From a checkpoint.
        path
            The checkpoint, for messages.
        """
        try:
            return cls(**kept)
        except TypeError as error:
            raise CorruptDataError(f"{path}: not a description of a model: {error}") from error
