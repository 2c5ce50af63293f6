"""Paths that hold what opens a door are refused, and no message repeats it."""

import traceback

import pytest

import cellfeed as cf
from cellfeed.errors import (
    CellfeedError,
    InvalidArgumentError,
    InvalidTypeError,
    UnsupportedError,
)
from cellfeed.vocab import GeneVocab

SECRET = "sEcr3t"
CALLS = {
    "open": cf.open,
    "packed": lambda path: cf.open(path, cache="rows", cache_dir="cache"),
    "convert": lambda path: cf.convert_to_shards(path, "out"),
    "vocabulary": GeneVocab.from_adata,
    "verify": cf.data.validate_shard_dir,
    "options": lambda path: cf.set_storage_options(path, {"nonsense": SECRET}),
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key", "CELLFEED_CLOUD_DEADLINE": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)


def assert_refused_in_silence(call, path, error):
    with pytest.raises(CellfeedError) as caught:
        call(path)
    assert isinstance(caught.value, error), caught.value
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value)
    assert SECRET not in shown + str(caught.value.path)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "path",
    [
        f"http://user:{SECRET}@127.0.0.1:9/a.h5ad",
        f"http://{SECRET}@127.0.0.1:9/a.h5ad",
        f"s3://AKIA:{SECRET}@bucket/a.h5ad",
        f"s3://AKIA:{SECRET}/more@bucket/a.h5ad",
        f"gs://AKIA:{SECRET}/more@bucket/a.h5ad",
    ],
)
def test_users_and_passwords(call, path):
    assert_refused_in_silence(call, path, InvalidArgumentError)


@pytest.mark.parametrize("call", [CALLS["open"], CALLS["packed"], CALLS["convert"]])
@pytest.mark.parametrize(
    "query",
    [
        "?X-Amz-Signature=", "?sv=1&SIG=", "?Token=", "?access_token=", "?API_KEY=", "?apikey=",
        "?password=", "?auth=", "?a=1;secret=", "#sig=", "?X-Amz-Security-Token=",
    ],
)  # fmt: skip
def test_queries(call, query):
    path = f"http://127.0.0.1:9/a.h5ad{query}{SECRET}"
    assert_refused_in_silence(call, path, UnsupportedError)


def test_the_options_of_a_path_show_no_query():
    path = f"http://127.0.0.1:9/a.h5ad?access_token={SECRET}"
    assert_refused_in_silence(CALLS["options"], path, InvalidArgumentError)


def test_a_query_that_is_none_of_these_is_sent():
    with pytest.raises(OSError, match=r"a\.h5ad\?design=1&author=x: .*onnect"):
        cf.open("http://127.0.0.1:9/a.h5ad?design=1&author=x")


@pytest.mark.parametrize(
    ("path", "options", "error", "says"),
    [
        ("gs://b/a.h5ad", {"token": SECRET}, InvalidArgumentError, "token must be the path of"),
        ("gs://b/a.h5ad", {"token": f'{{"private_key": "{SECRET}{"x" * 9000}"}}'},
         InvalidArgumentError, "token must be the path of"),
        ("gs://b/a.h5ad", {"token": {"private_key": SECRET}}, InvalidTypeError, "token must be a"),
        ("s3://b/a.h5ad", {"key": "a", "secret": f"{SECRET}\n"}, InvalidArgumentError,
         "the storage option secret holds a line end"),
        ("http://localhost:1/a.h5ad", {"headers": SECRET}, InvalidTypeError, "a mapping of names"),
        ("http://localhost:1/a.h5ad", {"headers": {"Authorization": None}}, InvalidTypeError,
         "must be texts"),
        ("http://localhost:1/a.h5ad", {"headers": {"Authorization": [SECRET]}}, InvalidTypeError,
         "must be texts"),
        ("http://localhost:1/a.h5ad", {"headers": {"A": f"{SECRET}\r\nX-Evil: 1"}},
         InvalidArgumentError, "headers: A holds a line end"),
        ("http://localhost:1/a.h5ad", {"headers": {f"X {SECRET}": "1"}}, InvalidArgumentError,
         "a name is of letters"),
        ("http://localhost:1/a.h5ad", {"headers": {"": SECRET}}, InvalidArgumentError,
         "a name is of letters"),
        ("http://localhost:1/a.h5ad", {"headers": {"Range": SECRET}}, InvalidArgumentError,
         "headers: Range is what each request says for itself"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_without_what_they_hold(path, options, error, says):
    with pytest.raises(error, match=says) as caught:
        cf.open(path, storage_options=options)
    cf.set_storage_options(path, {})
    assert SECRET not in str(caught.value) + repr(vars(caught.value))


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_keys_with_a_line_end_are_named(name, monkeypatch):
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, SECRET + ("\n" if variable == name else ""))
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    with pytest.raises(InvalidArgumentError, match=f"{name}.* holds a space, a line end") as caught:
        cf.open("s3://of-keys/a.h5ad")
    assert SECRET not in str(caught.value)
