"""Attributes of other libraries' collections that cells do not have, and what is there instead."""

from __future__ import annotations

from .._arguments import suggestion
from ..errors import NoSuchAttributeError

_OBSM = "those of some cells are cells[rows].{name}, with cellfeed.open(..., {name}=[...])"
_ANNOTATION = "it is not of cells: of a file, anndata.read_h5ad(path, backed='r').{name}"
_PLACES = "cells.locate(rows) has the file of each cell and its row in it"
_WHOLE = "cells[:].to_anndata() has all, to_anndata(ignore_X=True) what is known without counts"

# Of AnnCollection, its views, and AnnData.
_INSTEAD = {
    "convert": "nothing is converted on the way: X by transforms= of cellfeed.Loader and read, "
    "obs where a column is taken, as in cells.obs['donor'].astype(str)",
    "adatas": "cells.files lists the files",
    "limits": "cells.files has n_cells of each file",
    "adatas_oidx": _PLACES,
    "adatas_vidx": "cells.gene_mask says which genes each file has",
    "oidx": "view.index has the row numbers of a view",
    "vidx": "view.var_names has the genes of a view",
    "reference": "view.index counts in the collection that the view was made of",
    "reverse": "cells come in the order asked for",
    "indices_strict": "cells come in the order asked for, always",
    "lazy_attr": "cells.obs['donor'] is a column, and cells[rows].obsm['X_pca'] an array",
    "X": "cells[rows].X has the counts of some cells, cells[:].X of all",
    "raw": "cellfeed.open(..., layer='raw/X') or layers=['raw/X'] reads it",
    "layers": _OBSM,
    "obsm": _OBSM,
    "uns": _ANNOTATION,
    "varm": _ANNOTATION,
    "obsp": _ANNOTATION,
    "varp": _ANNOTATION,
    "to_adata": _WHOLE,
    "to_anndata": _WHOLE,
    "to_memory": _WHOLE,
    "to_df": "cells[:].to_anndata().to_df() has the counts, cells.obs.df the columns of obs",
    "isbacked": "cells.has_backed",
    "obs_vector": "cells.obs['donor'] is a column",
    "var_keys": "list(cells.var)",
    "obsm_keys": "cells.attrs_keys['obsm']",
    "copy": "cells are read only, so that none is needed; cells[:].to_anndata() is one in memory",
    "concatenate": "cellfeed.open([one, other], join='outer') takes several files and AnnData",
    "write": "cellfeed.export_h5ad(cells, path)",
    "write_h5ad": "cellfeed.export_h5ad(cells, path)",
    "write_zarr": "cellfeed.export_h5ad(cells, path)",
}


def no_such_attribute(cells: object, name: str) -> NoSuchAttributeError:
    """What to raise where a program asks for an attribute that is not there.

    Parameters
    ----------
    cells
        What was asked.
    name
        The attribute.
    """
    of = type(cells).__name__
    if name in _INSTEAD:
        return NoSuchAttributeError(f"{of} has no {name}: {_INSTEAD[name].format(name=name)}")
    known = ["default_obs", *(known for known in dir(type(cells)) if not known.startswith("_"))]
    return NoSuchAttributeError(f"{of} has no {name}{suggestion(name, known)}")


def not_settable(cells: object, name: str) -> NoSuchAttributeError:
    """What to raise where a program sets an attribute that does nothing, or may not change."""
    if not hasattr(type(cells), name):
        return no_such_attribute(cells, name)
    return NoSuchAttributeError(
        f"{name} of {type(cells).__name__} is read only: only default_obs can be set"
    )
