"""The cache folder of the user that the tests have, one for each of their processes."""

import atexit
import os
import pathlib
import shutil
import tempfile

import xxhash


def use_own_folder() -> None:
    folder = tempfile.mkdtemp(prefix="cellfeed-tests-cache-")
    os.environ["XDG_CACHE_HOME"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def rows_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Where rows of a local file are kept by default."""
    whole = os.path.realpath(path)
    name = f"{os.path.basename(whole)}-{xxhash.xxh3_64_hexdigest(whole.encode())}.cellfeed"
    return pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "cellfeed" / name
