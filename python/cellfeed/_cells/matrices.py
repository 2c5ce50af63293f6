"""Which matrices of its files a collection reads, and what batches call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import InvalidArgumentError

# The layer of :func:`cellfeed.open`: a name, a list of which each file's first is read, or none.
Layer: TypeAlias = "str | list[str] | None"


def layer_path(name: str) -> str:
    """Where a layer lies in its file: ``"X"``, ``"raw/X"`` or ``"layers/NAME"``.

    Parameters
    ----------
    name
        One of these, or the name of a layer alone.
    """
    is_path = name in ("X", "raw/X") or name.startswith("layers/")
    return name if is_path else f"layers/{name}"


def layer_key(name: str) -> str:
    """What ``batch.layers`` calls it: ``"X"``, ``"raw/X"``, or the name of a layer alone."""
    path = layer_path(name)
    alone = path.removeprefix("layers/")
    return alone if layer_path(alone) == path else path


def core_layers(layer: Layer) -> list[str]:
    """Names in the core: ``None`` is ``"none"``, and a layer of that name ``"layers/none"``."""
    if layer is None:
        return ["none"]
    names = [layer] if isinstance(layer, str) else layer
    return ["layers/none" if name == "none" else name for name in names]


def obsm_key(name: str) -> str:
    """What ``batch.obsm`` calls it: ``"X_pca"``, also of ``"obsm/X_pca"``."""
    return name.removeprefix("obsm/")


@dataclass(frozen=True)
class Matrices:
    """Matrices of a batch beside ``x``: their keys, and their numbers among its matrices.

    Attributes
    ----------
    layers, obsm
        Key -> number.
    paths
        Of the numbers 1, 2, ...: where they lie in their files.
    """

    layers: Mapping[str, int]
    obsm: Mapping[str, int]
    paths: tuple[str, ...]

    @property
    def layer_names(self) -> dict[str, str]:
        """Key -> what an AnnData calls that layer; raw is none of its layers."""
        beside = [key for key in self.layers if key != "raw/X"]
        alone = {key: key.removeprefix("layers/") for key in beside}
        return {key: key if alone.get(name, key) != key else name for key, name in alone.items()}

    @staticmethod
    def of(layer: Layer, layers: list[str] | None, obsm: list[str] | None) -> Matrices:
        """Of arguments of :func:`cellfeed.open`."""
        if layer is None and layers:
            raise InvalidArgumentError(
                "layer=None reads obs alone, and layers= names matrices: name one of them as layer"
            )
        for name in core_layers(layer):
            if name.startswith("obsm/"):
                raise InvalidArgumentError(f"layer names {name!r}: pass obsm=[{obsm_key(name)!r}]")
        # A list of names has no single path.
        paths = [layer_path(layer) if isinstance(layer, str) else ""]
        numbers = _numbered("layers", layers, layer_path, layer_key, paths)
        of_obsm = _numbered("obsm", obsm, _obsm_path, obsm_key, paths)
        return Matrices(numbers, of_obsm, tuple(paths[1:]))


def _obsm_path(name: str) -> str:
    return f"obsm/{obsm_key(name)}"


def _numbered(
    argument: str,
    given: list[str] | None,
    path_of: Callable[[str], str],
    key_of: Callable[[str], str],
    paths: list[str],
) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name in given or []:
        if argument == "layers" and name.startswith("obsm/"):
            raise InvalidArgumentError(f"layers names {name!r}: pass obsm=[{obsm_key(name)!r}]")
        key, path = key_of(name), path_of(name)
        if key in numbers:
            raise InvalidArgumentError(f"{argument} has {key!r} twice")
        if path == paths[0]:
            raise InvalidArgumentError(
                f"layers names {name!r}, the matrix that layer= names: it is batch.x. A layer of "
                f"that name is 'layers/{name}'"
            )
        numbers[key] = len(paths)
        paths.append(path)
    return numbers
