"""How buckets and servers are reached, where the environment does not say it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from . import _core
from ._arguments import as_folder, as_path, is_url
from ._options import Path
from .errors import InvalidArgumentError, InvalidTypeError

# What may be written into a pickle: the others open doors.
_PUBLIC = (
    "account_name", "anon", "cache", "cache_bytes", "cache_dir", "endpoint_url", "offline",
    "profile", "region", "role_arn",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = (
    "accept-encoding", "connection", "content-length", "if-match", "range", "transfer-encoding",
)  # fmt: skip
_shown: dict[str, dict[str, str]] = {}  # of each bucket, those of its options that are public


def _bucket_of(path: str) -> str:
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def set_storage_options(path: Path, options: Mapping[str, object]) -> None:
    """Say how a bucket is reached, for all paths in it and until other options are set.

    They count in this process and those it forks; with none, ``{}``, the environment counts again.
    Credentials among them are never shown, written or pickled, so processes that are not forked
    have to find theirs in the environment.

    Parameters
    ----------
    path
        A path of the bucket, such as ``"s3://bucket"``, or of the server, ``"https://host"``.
    options
        Names as fsspec has them. Of ``s3``: ``key``, ``secret``, ``token``, ``anon``, ``region``,
        ``endpoint_url``, ``profile``, ``role_arn``. Of ``gs``: ``token`` (a file of credentials,
        ``"anon"`` or ``"cloud"``), ``anon``, ``endpoint_url``. Of ``az``: ``account_name``,
        ``account_key``, ``sas_token``, ``connection_string``, ``tenant_id``, ``client_id``,
        ``client_secret``, ``anon``, ``endpoint_url``. Of ``http`` and ``https``: ``headers``, a
        mapping. Of all: ``cache``, ``cache_dir`` and ``offline`` as for :func:`cellfeed.open`, and
        ``cache_bytes``, what all copies and blocks in that folder may hold, an int or a text such
        as ``"200GB"``: those used longest ago are removed first.

    Raises
    ------
    InvalidArgumentError
        An option is not known, or contradicts another; the path is a local one.
    """
    name = as_path("path", path)
    _require_mapping(options)
    if not is_url(name):
        raise InvalidArgumentError(
            "storage_options are for paths of buckets and of servers, such as s3://bucket/a.h5ad; "
            f"this is a local one: {name}"
        )
    texts: dict[str, str] = {}
    for option, value in options.items():
        if not isinstance(option, str):
            raise InvalidTypeError("the names of storage_options must be texts")
        if option == "headers":
            value = _header_lines(value)
        if option == "cache_dir":
            value = as_folder(option, value)
        if option == "cache_bytes" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str | bool):
            raise InvalidTypeError(f"the storage option {option} must be a text or a bool")
        if option != "headers" and _CONTROL.search(str(value)):
            raise InvalidArgumentError(
                f"the storage option {option} holds a line end or another control character"
            )
        texts[option] = str(value)
    _core.set_storage_options(name, texts)
    _shown[_bucket_of(name)] = {option: texts[option] for option in _PUBLIC if option in texts}


def _header_lines(headers: object) -> str:
    """One line a header. Messages name headers and never show what they hold."""
    if not isinstance(headers, Mapping):
        raise InvalidTypeError("the storage option headers must be a mapping of names to texts")
    for name, text in headers.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidTypeError("names and values of the storage option headers must be texts")
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidArgumentError(
                "the storage option headers: a name is of letters, digits and hyphens"
            )
        if name.lower() in _OWN_HEADERS:
            raise InvalidArgumentError(
                f"the storage option headers: {name} is what each request says for itself"
            )
        if _CONTROL.search(text):
            raise InvalidArgumentError(
                f"the storage option headers: {name} holds a line end or another control character"
            )
    return "\n".join(f"{name}: {text}" for name, text in headers.items())


def _require_mapping(options: object) -> None:
    if not isinstance(options, Mapping):
        raise InvalidTypeError(f"storage_options must be a mapping, not {type(options).__name__}")


def set_for_paths(
    paths: Iterable[str], options: Mapping[str, object], more: Mapping[str, str]
) -> None:
    """The same, and more, for each of the paths that is no local one; there must be one."""
    _require_mapping(options)
    given = list(paths)
    for path in [path for path in given if is_url(path)] or given[:1]:
        set_storage_options(path, {**options, **more})


@contextmanager
def taken_back_on_failure(paths: Iterable[str]) -> Iterator[None]:
    """What is set meanwhile for the buckets of these paths does not outlive an exception."""
    of_buckets = {_bucket_of(path): path for path in paths if is_url(path)}
    saved, shown = _core.SavedStorageOptions(list(of_buckets.values())), dict(_shown)
    try:
        yield
    except BaseException:
        saved.restore()
        for bucket in of_buckets:
            _shown.pop(bucket, None)
            if bucket in shown:
                _shown[bucket] = shown[bucket]
        raise


def keep_copies(
    paths: Iterable[str], folder: Path, cache_bytes: str | None = None, cache: str = "files"
) -> None:
    """Have files of those paths that are no local ones, or blocks of them, kept in a folder."""
    options = {"cache_dir": as_folder("cache_dir", folder), "cache": cache}
    add_options(paths, options | {"cache_bytes": cache_bytes or ""})


def add_options(paths: Iterable[str], options: Mapping[str, str]) -> None:
    """More of the options of those paths that are no local ones; an empty text takes one away."""
    for path in paths:
        if is_url(path):
            for option, value in options.items():
                _core.add_storage_option(path, option, value)
            shown = {**_shown.get(_bucket_of(path), {}), **options}
            _shown[_bucket_of(path)] = {name: value for name, value in shown.items() if value}


def public_options(paths: Iterable[str]) -> dict[str, dict[str, str]]:
    """What another process is told of the buckets of these paths."""
    buckets = {_bucket_of(path) for path in paths if is_url(path)}
    return {bucket: _shown[bucket] for bucket in sorted(buckets) if bucket in _shown}


def take_public_options(of_buckets: Mapping[str, Mapping[str, str]]) -> None:
    """In the other process; what is set there already stays."""
    for bucket, options in of_buckets.items():
        if bucket not in _shown:
            set_storage_options(bucket, options)
