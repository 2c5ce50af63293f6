"""How cells become tokens, for ``Loader(output="tokens")``; and which of them a model predicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from . import _core
from ._arguments import as_bool, as_choice, as_float, as_int, did_you_mean, shown
from ._options import GENE_SELECTIONS, GeneSelection, Vocabulary
from .errors import InvalidArgumentError, InvalidTypeError, MissingGenesWarning, NoSuchKeyError

Pad: TypeAlias = Literal["longest", "max_length"]
Ties: TypeAlias = Literal["spread", "last"]
Truncation: TypeAlias = Literal["smallest", "random"]
Predicted: TypeAlias = Literal["genes", "values"]

_MAX_INT32 = 2**31 - 1
_N_SHOWN = 3


class Masking:
    """Hides some tokens of each cell, so that a model learns to predict them.

    Of the ``n`` genes of a cell ``max(1, round(fraction * n))`` are chosen, each set as likely as
    any other; never the class token or padding, and none in cells that only fill up a batch. What
    is drawn depends on the loader's seed, the epoch and the cell's position in the order alone.

    Parameters
    ----------
    fraction
        Share of the genes of a cell, in (0, 1].
    predict
        ``"genes"``: tokens are hidden, and ``labels`` has their numbers. ``"values"``: values are
        hidden, and ``value_labels`` has them (of bins ``labels`` too). By default genes of
        :class:`RankTokens`, and values of the others.
    mask_share, random_share
        Of the genes that are chosen and predicted: the share that becomes ``<mask>``, and the share
        that becomes any gene of the vocabulary; the rest stays (BERT, Devlin et al. 2019). Hidden
        values all become ``mask_value``.
    mask_value
        What stands for a hidden value.
    """

    def __init__(
        self,
        fraction: float = 0.15,
        predict: Predicted | None = None,
        *,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        mask_value: float = -1.0,
    ) -> None:
        self.fraction = as_float("fraction", fraction)
        self.predict = None if predict is None else as_choice(
            "predict", predict, get_args(Predicted)
        )  # fmt: skip
        self.mask_share = as_float("mask_share", mask_share, 0)
        self.random_share = as_float("random_share", random_share, 0)
        self.mask_value = as_float("mask_value", mask_value)
        if not 0 < self.fraction <= 1:
            raise InvalidArgumentError(
                f"fraction must be above 0 and at most 1, not {shown(fraction)}"
            )
        if self.mask_share + self.random_share > 1:
            raise InvalidArgumentError(
                f"mask_share {mask_share} and random_share {random_share} are more than 1 together"
            )

    def __repr__(self) -> str:
        return f"Masking({self.fraction}, predict={self.predict!r})"


class CellTokens:
    """Base of :class:`RankTokens`, :class:`BinnedTokens` and :class:`ContinuousTokens`.

    A gene of a cell is a token where its value, after the loader's transforms, is larger than 0 and
    the vocabulary has the gene; other genes of the files are left out (``loader.genes_left_out``
    names them). Values that are negative, NaN or infinite are errors. ``max_length`` counts the
    class token. A cell without any gene has the class token alone.

    ``gene_selection`` keeps ``n_genes`` of each batch's genes before that, so it depends on which
    cells a batch has: with several ranks on those of this rank. Otherwise the tokens of a cell are
    the same for any number of threads, workers and ranks, and after resuming.
    """

    _order: ClassVar[str]
    _predicts: ClassVar[Predicted] = "values"

    def __init__(
        self,
        vocab: Vocabulary,
        max_length: int,
        *,
        cls: bool,
        pad: Pad,
        gene_selection: GeneSelection,
        n_genes: int | None,
        **core: Any,
    ) -> None:
        self.vocab = vocab
        genes, ids = _genes_and_ids(vocab)
        self.cls = as_bool("cls", cls)
        self.max_length = as_int("max_length", max_length, 2 if cls else 1, _MAX_INT32)
        self.pad = as_choice("pad", pad, get_args(Pad))
        self.gene_selection = as_choice("gene_selection", gene_selection, GENE_SELECTIONS)
        self.n_genes = _as_n_genes(n_genes, gene_selection)
        self._settings: dict[str, Any] = {
            "medians": [], "n_bins": 51, "spreads_ties": True, "truncates_at_random": False,
            **core, "order": self._order, "genes": genes, "ids": ids, "has_class_token": cls,
            "max_length": self.max_length, "selection": gene_selection,
            "n_genes": self.n_genes or 0, "pads_to_max_length": pad == "max_length",
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocab!r}, max_length={self.max_length})"

    def _for_core(self, masking: Masking | None) -> _core.TokenOutput:
        output = _core.TokenOutput.make(**self._settings)
        if masking is None:
            return output
        return output.with_masking(
            fraction=masking.fraction,
            predicts_genes=(masking.predict or self._predicts) == "genes",
            mask_share=masking.mask_share,
            random_share=masking.random_share,
            mask_value=masking.mask_value,
        )

    def left_out(self, names: np.ndarray) -> np.ndarray:
        """Genes of the data that are no tokens, as the vocabulary does not have them.

        Parameters
        ----------
        names
            Genes of the data.
        """
        return names[~np.isin(names, np.array(self.vocab.genes, dtype=object))]

    def report_missing(self, names: np.ndarray, stacklevel: int) -> None:
        """Warn where the data lacks genes of the vocabulary.

        Parameters
        ----------
        names
            Genes of the data.
        stacklevel
            As for :func:`warnings.warn`.
        """
        there = set(names)
        missing = [gene for gene in self.vocab.genes if gene not in there]
        if missing:
            warnings.warn(
                f"the data lacks {len(missing):,} of {len(self.vocab.genes):,} genes of the "
                f"vocabulary, which are never tokens, such as: {', '.join(missing[:_N_SHOWN])}",
                MissingGenesWarning,
                stacklevel=stacklevel + 1,
            )


class RankTokens(CellTokens):
    """The genes of a cell by falling value, as Geneformer reads cells (Theodoris et al. 2023).

    ``values`` are what they are ordered by: the value, divided by the gene's median where medians
    are given. Of equal values the gene comes first that is first in ``loader.var_names``
    (Geneformer leaves that to ``numpy.argsort``, whose order of equal values is not defined). Of a
    cell with too many genes the ones with the largest values stay.

    Parameters
    ----------
    vocab
        Which number each gene has.
    max_length
        Tokens of a cell at most.
    medians
        Gene -> median of its non-zero values over many cells, of each gene of the vocabulary; or
        as many numbers in the order of ``vocab.genes``. Geneformer's are of cells that were
        normalised to one total, so put ``NormalizeTotal`` among the transforms; it does not change
        the order in a cell.
    cls
        Begin each cell with the class token.
    pad
        ``"longest"``: to the longest cell of the batch. ``"max_length"``: batches of one width.
    gene_selection, n_genes
        Genes that a batch keeps: ``"all"``; ``"most_expressed"``: those with the largest sums over
        its cells, after the transforms; ``"random_expressed"``: drawn among those that any of its
        cells has, by seed and epoch, and the same on all ranks where they have them.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError, NoSuchKeyError
        Where something cannot be; genes of the vocabulary without a median.
    """

    _order = "rank"
    _predicts = "genes"

    def __init__(
        self,
        vocab: Vocabulary,
        max_length: int = 2048,
        medians: Mapping[str, float] | Sequence[float] | np.ndarray | None = None,
        *,
        cls: bool = True,
        pad: Pad = "longest",
        gene_selection: GeneSelection = "all",
        n_genes: int | None = None,
    ) -> None:
        super().__init__(
            vocab, max_length, cls=cls, pad=pad, gene_selection=gene_selection, n_genes=n_genes,
            medians=_as_medians(medians, vocab),
        )  # fmt: skip


class BinnedTokens(CellTokens):
    """The genes of a cell with their values in bins, as scGPT reads cells (Cui et al. 2024).

    Tokens are in the order of ``loader.var_names``. ``values`` are whole numbers, as float32: 1 to
    ``n_bins - 1``; 0 stands for no expression, and for the class token. Edges of the bins are
    ``numpy.quantile(values, numpy.linspace(0, 1, n_bins - 1))`` of the cell's values that are
    larger than 0, and a value is in the bin that ``numpy.digitize`` gives it.

    Parameters
    ----------
    vocab, max_length, cls, pad, gene_selection, n_genes
        As of :class:`RankTokens`.
    n_bins
        Bins, 0 among them: 3 or more.
    ties
        Many values of counts are equal, and so are edges. ``"spread"``: a value that several edges
        are equal to is put into any of the bins between them, as scGPT does it, drawn by seed,
        epoch and position. ``"last"``: into the last of them, so that equal values have one bin.
    truncation
        Which genes are left out of a cell with too many: ``"smallest"``, those with the smallest
        values, of equal ones the later; or ``"random"``, as scGPT does it, drawn by seed, epoch and
        position. Bins are those of all its genes.
    """

    _order = "bins"

    def __init__(
        self,
        vocab: Vocabulary,
        n_bins: int = 51,
        max_length: int = 2048,
        *,
        ties: Ties = "spread",
        truncation: Truncation = "smallest",
        cls: bool = True,
        pad: Pad = "longest",
        gene_selection: GeneSelection = "all",
        n_genes: int | None = None,
    ) -> None:
        self.n_bins = as_int("n_bins", n_bins, 3, 2**24)
        super().__init__(
            vocab, max_length, cls=cls, pad=pad, gene_selection=gene_selection, n_genes=n_genes,
            n_bins=self.n_bins,
            spreads_ties=as_choice("ties", ties, get_args(Ties)) == "spread",
            truncates_at_random=_is_random(truncation),
        )  # fmt: skip


class ContinuousTokens(CellTokens):
    """The genes of a cell with the values that they have after the loader's transforms.

    Tokens are in the order of ``loader.var_names``; the class token has value 0.

    Parameters
    ----------
    vocab, max_length, truncation, cls, pad, gene_selection, n_genes
        As of :class:`RankTokens` and :class:`BinnedTokens`.
    """

    _order = "values"

    def __init__(
        self,
        vocab: Vocabulary,
        max_length: int = 2048,
        *,
        truncation: Truncation = "smallest",
        cls: bool = True,
        pad: Pad = "longest",
        gene_selection: GeneSelection = "all",
        n_genes: int | None = None,
    ) -> None:
        super().__init__(
            vocab, max_length, cls=cls, pad=pad, gene_selection=gene_selection, n_genes=n_genes,
            truncates_at_random=_is_random(truncation),
        )  # fmt: skip


def as_token_output(output: str, tokens: object, masking: object) -> _core.TokenOutput | None:
    """What the core makes tokens by; None of a loader of matrices.

    Parameters
    ----------
    output, tokens, masking
        Arguments of a loader.
    """
    if output != "tokens":
        for name, value in (("tokens", tokens), ("masking", masking)):
            if value is not None:
                raise InvalidArgumentError(f'{name} goes with output="tokens", not {output!r}')
        return None
    if not isinstance(tokens, CellTokens):
        what = "tokens is missing" if tokens is None else f"tokens is {shown(tokens)}"
        raise (InvalidArgumentError if tokens is None else InvalidTypeError)(
            f'output="tokens" is for cf.Loader, with tokens=cf.RankTokens(vocab), '
            f"cf.BinnedTokens(vocab) or cf.ContinuousTokens(vocab): {what}"
        )
    if masking is not None and not isinstance(masking, Masking):
        raise InvalidTypeError(f"masking must be cf.Masking(...) or None, not {shown(masking)}")
    return tokens._for_core(masking)


def _is_random(truncation: Truncation) -> bool:
    return as_choice("truncation", truncation, get_args(Truncation)) == "random"


def _as_n_genes(n_genes: object, selection: str) -> int | None:
    if selection == "all":
        if n_genes is not None:
            raise InvalidArgumentError('n_genes goes with a gene_selection other than "all"')
        return None
    if n_genes is None:
        raise InvalidArgumentError(f"gene_selection {selection!r} needs n_genes")
    return as_int("n_genes", n_genes, 1)


def _genes_and_ids(vocab: object) -> tuple[list[str], list[int]]:
    genes, ids = getattr(vocab, "genes", None), getattr(vocab, "gene_ids", None)
    if genes is None or ids is None:
        raise InvalidTypeError(
            f"vocab must be a GeneVocab, not {shown(vocab)}; make one of names with "
            "cellfeed.data.GeneVocab.from_genes"
        )
    if not genes:
        raise InvalidArgumentError("vocab has no genes")
    if ids[-1] > _MAX_INT32:
        raise InvalidArgumentError(
            f"gene {genes[-1]!r} has number {ids[-1]}; tokens are int32, at most {_MAX_INT32}"
        )
    return list(genes), ids.tolist()


def _as_medians(
    medians: Mapping[str, float] | Sequence[float] | np.ndarray | None, vocab: object
) -> list[float]:
    if medians is None:
        return []
    genes, _ = _genes_and_ids(vocab)
    if hasattr(medians, "to_dict"):  # of pandas
        medians = medians.to_dict()
    if isinstance(medians, Mapping):
        missing = [gene for gene in genes if gene not in medians]
        if missing:
            near = did_you_mean(missing[0], [str(name) for name in medians])
            raise NoSuchKeyError(
                f"medians lacks {len(missing):,} of {len(genes):,} genes of the vocabulary, such "
                f"as: {', '.join(missing[:_N_SHOWN])}{near}"
            )
        medians = [medians[gene] for gene in genes]
    if isinstance(medians, str) or not isinstance(medians, (Sequence, np.ndarray)):
        raise InvalidTypeError(f"medians must be a dict or numbers, not {shown(medians)}")
    if len(medians) != len(genes):
        raise InvalidArgumentError(
            f"medians has {len(medians):,} numbers for the {len(genes):,} genes of the vocabulary"
        )
    return [_as_median(gene, median) for gene, median in zip(genes, medians, strict=True)]


def _as_median(gene: str, median: object) -> float:
    number = as_float(f"the median of gene {gene!r}", median)
    if not number > 0:
        raise InvalidArgumentError(
            f"the median of gene {gene!r} is {number}; it must be a positive number, of the values "
            "that are not 0"
        )
    return number
