"""Which genes of the axis each file has: what tells a gene that is absent from one that is zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _core


@dataclass(frozen=True)
class GeneMasks:
    """Files that have the same genes share a mask.

    Attributes
    ----------
    names
        The gene axis, (genes,).
    masks
        bool (kinds, genes): True where the files of a kind have the gene.
    kind_of_file
        int64 (files,).
    """

    names: list[str]
    masks: np.ndarray
    kind_of_file: np.ndarray

    @staticmethod
    def of(core: _core.Collection) -> GeneMasks:
        """Of every file of a collection."""
        kinds: dict[bytes, int] = {}
        masks: list[np.ndarray] = []
        kind_of_file = np.empty(core.n_stores, dtype=np.int64)
        for file in range(core.n_stores):
            joined = core.gene_map(file)
            mask = np.full(core.n_genes, joined is None)
            if joined is not None:
                mask[joined[joined >= 0]] = True
            kind = kinds.setdefault(np.packbits(mask).tobytes(), len(masks))
            if kind == len(masks):
                masks.append(mask)
            kind_of_file[file] = kind
        return GeneMasks(core.gene_names, np.array(masks), kind_of_file)

    def of_files(self, files: np.ndarray, genes: np.ndarray) -> np.ndarray:
        """The masks of some files, bool (files, genes).

        Parameters
        ----------
        files
            Numbers of files.
        genes
            Names of genes of the axis, in the order that is wanted.
        """
        masks = self.masks
        if len(genes) != len(self.names) or genes.tolist() != self.names:
            place_of = {name: place for place, name in enumerate(self.names)}
            masks = masks[:, [place_of[name] for name in genes]]
        found: np.ndarray = masks[self.kind_of_file[files]]
        return found
