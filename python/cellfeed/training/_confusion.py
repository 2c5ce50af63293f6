"""Confusion matrices, and what classifiers are judged by."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch


def confusion_of(labels: torch.Tensor, predicted: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Cells by true label (rows) and predicted one (columns), int64; labels below 0 do not count.

    Parameters
    ----------
    labels, predicted
        Codes from 0, (cells,).
    n_classes
        Rows and columns.
    """
    counts = labels >= 0
    pairs = labels[counts] * n_classes + predicted[counts]
    return torch.bincount(pairs, minlength=n_classes * n_classes).reshape(n_classes, n_classes)


Scores: TypeAlias = dict[str, float | np.ndarray]


def scores_of(confusion: np.ndarray) -> Scores:
    """Accuracy, and precision, recall and F1 of each class; macro F1 is over classes with cells.

    A class that is neither there nor predicted has no score (NaN); one that is there and never
    predicted rightly has 0, as sklearn's ``zero_division=0``.

    Parameters
    ----------
    confusion
        As :func:`confusion_of` gives it.
    """
    right = np.diag(confusion).astype(float)
    there, said = confusion.sum(axis=1), confusion.sum(axis=0)
    f1 = _shares(2 * right, there + said)
    has_cells = there > 0
    return {
        "n_cells": int(confusion.sum()),
        "accuracy": float(right.sum() / max(1, confusion.sum())),
        "macro_f1": float(f1[has_cells].mean()) if has_cells.any() else float("nan"),
        "precision": _shares(right, said),
        "recall": _shares(right, there),
        "f1": f1,
    }


def _shares(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    shares = np.full(len(part), np.nan)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
