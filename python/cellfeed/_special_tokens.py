"""Numbers of a vocabulary that stand for no gene."""

PAD_ID, UNK_ID, MASK_ID, CLS_ID = range(4)
SPECIAL_TOKENS = ("<pad>", "<unk>", "<mask>", "<cls>")
FIRST_GENE_ID = len(SPECIAL_TOKENS)
