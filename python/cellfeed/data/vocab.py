"""Gene vocabularies: :class:`GeneVocab`."""

from __future__ import annotations

from ..vocab import CLS_ID, FIRST_GENE_ID, MASK_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID, GeneVocab

__all__ = ["CLS_ID", "FIRST_GENE_ID", "MASK_ID", "PAD_ID", "SPECIAL_TOKENS", "UNK_ID", "GeneVocab"]
