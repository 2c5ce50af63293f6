"""Who requests to Google and to Azure are made for: keys, logins, machines, and what fails."""

import base64
import json
import time

import pytest
from account_server import AccountServer
from azure_server import ACCOUNT, KEY
from fault_rules import Fault
from store_clients import loopback_store
from test_cloud import assert_cells, write_cells

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, UnsupportedError

GOOGLE = (
    "STORAGE_EMULATOR_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUD_STORAGE_EMULATOR_ENDPOINT",
)
AZURE = (
    "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY",
)  # fmt: skip


@pytest.fixture
def accounts():
    with AccountServer() as server:
        yield server


def stored(scheme, server, monkeypatch, tmp_path, absent):
    """A store with one file, none of whose addresses or accounts the environment has."""
    adata = write_cells(tmp_path / "a.h5ad")
    with loopback_store(scheme, server, monkeypatch) as store:
        store.put("a.h5ad", tmp_path / "a.h5ad")
        for name in absent:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        store.adata = adata
        store.path = store.url("a.h5ad")
        store.reach = {"endpoint_url": store.proxy.url}
        if scheme == "az":
            store.reach = {"endpoint_url": f"{store.proxy.url}/{ACCOUNT}", "account_name": ACCOUNT}
        yield store
        cf.set_storage_options(store.path, {})


@pytest.fixture
def google(gcs, monkeypatch, tmp_path):
    yield from stored("gs", gcs, monkeypatch, tmp_path, GOOGLE)


@pytest.fixture
def blobs(azure, monkeypatch, tmp_path):
    yield from stored("az", azure, monkeypatch, tmp_path, AZURE)


def bearers(store):
    said = [dict(each.headers) for each in store.proxy.seen]
    return {headers.get("Authorization") for headers in said}


@pytest.fixture(scope="module")
def rsa_key():
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def key_file(path, accounts, rsa_key, **changes):
    from cryptography.hazmat.primitives import serialization

    pem = rsa_key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    content = {
        "type": "service_account", "private_key": pem, "private_key_id": "key-7",
        "client_email": "reader@atlas.example", "token_uri": f"{accounts.url}/token",
    } | changes  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def unpadded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def check_claim(assertion, accounts, rsa_key):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    head, claim, signature = assertion.split(".")
    rsa_key.public_key().verify(
        unpadded(signature), f"{head}.{claim}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    assert json.loads(unpadded(head)) == {"alg": "RS256", "typ": "JWT", "kid": "key-7"}
    said = json.loads(unpadded(claim))
    assert (said["iss"], said["aud"]) == ("reader@atlas.example", f"{accounts.url}/token")
    assert said["scope"] == "https://www.googleapis.com/auth/devstorage.read_write"
    assert abs(said["iat"] - time.time()) < 60 and said["exp"] - said["iat"] == 3600


@pytest.mark.parametrize("how", ["environment", "option"])
def test_the_key_of_a_service_account(google, accounts, rsa_key, tmp_path, monkeypatch, how):
    file = key_file(tmp_path / "key.json", accounts, rsa_key)
    if how == "environment":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    options = google.reach | ({"token": str(file)} if how == "option" else {})
    cells = cf.open(google.path, storage_options=options)
    assert_cells(cells, google.adata)
    [(method, path, _, form)] = accounts.asked  # kept for as long as it is good
    assert (method, path) == ("POST", "/token")
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    check_claim(form["assertion"], accounts, rsa_key)
    assert bearers(google) == {"Bearer token-1"}


def test_a_token_that_is_refused_is_asked_for_anew(google, accounts, rsa_key, tmp_path):
    file = key_file(tmp_path / "key.json", accounts, rsa_key)
    cells = cf.open(google.path, storage_options=google.reach | {"token": str(file)})
    time.sleep(1.1)
    google.proxy.set_faults(Fault(kind="status", status=401, method="GET", nth=(1,)))
    assert (google.adata.X[[3, 400]] != cells[[3, 400]].X).nnz == 0
    assert len(accounts.asked) == 2
    assert "Bearer token-2" in bearers(google)
    google.proxy.set_faults(Fault(kind="status", status=401, method="GET"))
    with pytest.raises(OSError, match="HTTP 401"):
        cf.open(google.path)


def test_a_token_that_ends_soon_is_asked_for_anew(google, accounts, rsa_key, tmp_path):
    accounts.expires_in = 200
    file = key_file(tmp_path / "key.json", accounts, rsa_key)
    assert_cells(
        cf.open(google.path, storage_options=google.reach | {"token": str(file)}), google.adata
    )
    assert len(accounts.asked) > 2


def test_the_login_of_a_person(google, accounts, tmp_path, monkeypatch):
    folder = tmp_path / ".config/gcloud"
    folder.mkdir(parents=True)
    login = {
        "type": "authorized_user", "client_id": "c", "client_secret": "s&=+", "refresh_token": "r",
        "token_uri": f"{accounts.url}/login",
    }  # fmt: skip
    (folder / "application_default_credentials.json").write_text(json.dumps(login))
    assert_cells(cf.open(google.path, storage_options=google.reach), google.adata)
    [(_, path, _, form)] = accounts.asked
    assert path == "/login"
    assert form == {
        "grant_type": "refresh_token", "client_id": "c", "client_secret": "s&=+",
        "refresh_token": "r",
    }  # fmt: skip
    assert bearers(google) == {"Bearer token-1"}


def test_the_account_of_a_machine_of_google(google, accounts, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", accounts.address)
    assert_cells(cf.open(google.path, storage_options=google.reach), google.adata)
    path, headers = accounts.asked[-1][1:3]
    assert path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert headers["Metadata-Flavor"] == "Google"
    assert len(bearers(google)) == 1


def test_who_has_no_account_of_google_is_told_how_to_give_one(google, monkeypatch):
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    with pytest.raises(OSError, match="no credentials were found: set GOOGLE_APPLICATION_CREDENT"):
        cf.open(google.path, storage_options=google.reach)
    public = google.reach | {"anon": True}
    assert_cells(cf.open(google.path, storage_options=public), google.adata)
    assert bearers(google) == {None}


def test_credentials_of_google_that_are_none_are_named(google, accounts, rsa_key, tmp_path):
    file = tmp_path / "key.json"
    for content, error, message in (
        ("not json", InvalidArgumentError, "is no file of credentials"),
        ('{"type": "service_account"}', InvalidArgumentError, "lack 'client_email'"),
        ('{"type": "external_account"}', UnsupportedError, "of the kind 'external_account'"),
        ("{}", InvalidArgumentError, "lack 'type'"),
    ):
        file.write_text(content)
        with pytest.raises(error, match=message) as refused:
            cf.open(google.path, storage_options=google.reach | {"token": str(file)})
        assert "key.json" in str(refused.value)
    key_file(file, accounts, rsa_key, private_key="-----BEGIN hush-----")
    with pytest.raises(InvalidArgumentError, match="no RSA key") as refused:
        cf.open(google.path, storage_options=google.reach | {"token": str(file)})
    assert "hush" not in str(refused.value)
    key_file(file, accounts, rsa_key)
    accounts.answer = (400, {"error": "invalid_grant", "error_description": "no such account"})
    with pytest.raises(OSError, match=r"no access token .*HTTP 400 \(invalid_grant: no such"):
        cf.open(google.path, storage_options=google.reach | {"token": str(file)})
    with pytest.raises(cf.errors.NotFoundError, match=r"gone\.json"):
        cf.open(google.path, storage_options=google.reach | {"token": str(tmp_path / "gone.json")})
    with pytest.raises(InvalidArgumentError, match="one of the storage options anon and token"):
        cf.open(google.path, storage_options={"anon": True, "token": str(file)})


def test_the_key_of_a_storage_account(blobs, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    reach = {"endpoint_url": blobs.reach["endpoint_url"]}
    assert_cells(cf.open(blobs.path, storage_options=reach), blobs.adata)
    assert all(said.startswith(f"SharedKey {ACCOUNT}:") for said in bearers(blobs))
    wrong = base64.b64encode(b"another").decode()
    with pytest.raises(OSError, match="AuthenticationFailed"):
        cf.open(blobs.path, storage_options=blobs.reach | {"account_key": wrong})
    with pytest.raises(InvalidArgumentError, match="is not base64") as refused:
        cf.open(blobs.path, storage_options=blobs.reach | {"account_key": "hush!"})
    assert "hush" not in str(refused.value)


def test_a_connection_string(blobs):
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint={blobs.proxy.url}/{ACCOUNT};"
    )
    cells = cf.open(blobs.path, storage_options={"connection_string": text})
    assert_cells(cells, blobs.adata)
    for wrong, message in (
        ("hush", "not of the form Name=value"),
        ("UseDevelopmentStorage=true", "names no account"),
        ("AccountKey=hush=", "no storage account is named"),
    ):
        with pytest.raises(cf.errors.CellfeedError, match=message) as refused:
            cf.open(blobs.path, storage_options={"connection_string": wrong})
        assert "hush" not in str(refused.value)


def test_a_shared_access_signature_is_sent_and_never_shown(blobs):
    signed = blobs.reach | {"sas_token": "?sv=2022&sig=hu%2Fsh"}
    assert_cells(cf.open(blobs.path, storage_options=signed), blobs.adata)
    cells = cf.open(blobs.path)
    assert all("sv=2022&sig=hu%2Fsh" in each.path for each in blobs.proxy.seen)
    assert bearers(blobs) == {None}
    blobs.proxy.set_faults(Fault(kind="status", status=403))
    with pytest.raises(OSError, match="HTTP 403") as refused:
        cells[[3]].X  # noqa: B018
    assert "hu%2Fsh" not in str(refused.value)


def test_an_application_with_a_secret(blobs, accounts, monkeypatch):
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", accounts.url)
    application = {"tenant_id": "t", "client_id": "c", "client_secret": "s"}
    cells = cf.open(blobs.path, storage_options=blobs.reach | application)
    assert_cells(cells, blobs.adata)
    [(_, path, _, form)] = accounts.asked
    assert path == "/t/oauth2/v2.0/token"
    assert form == {
        "grant_type": "client_credentials", "client_id": "c", "client_secret": "s",
        "scope": "https://storage.azure.com/.default",
    }  # fmt: skip
    assert bearers(blobs) == {"Bearer token-1"}
    assert "x-ms-version" in dict(blobs.proxy.seen[0].headers)
    with pytest.raises(InvalidArgumentError, match="needs its tenant and its client"):
        cf.open(
            blobs.path,
            storage_options=blobs.reach | {"client_id": "c", "client_secret": "s"},
        )


def test_a_pod_with_a_file_of_a_token(blobs, accounts, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("signed-by-the-cluster")
    for name, value in (
        ("AZURE_AUTHORITY_HOST", accounts.url), ("AZURE_TENANT_ID", "t2"),
        ("AZURE_CLIENT_ID", "c2"), ("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token")),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    assert_cells(cf.open(blobs.path, storage_options=blobs.reach), blobs.adata)
    form = accounts.asked[-1][3]
    assert form["client_assertion"] == "signed-by-the-cluster"
    assert form["client_assertion_type"].endswith("jwt-bearer")


def test_the_identity_of_a_machine_of_azure(blobs, accounts, monkeypatch):
    accounts.expires_in = "3600"
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", accounts.url)
    assert_cells(cf.open(blobs.path, storage_options=blobs.reach), blobs.adata)
    _, path, headers, query = accounts.asked[-1]
    assert path == "/metadata/identity/oauth2/token"
    assert headers["Metadata"] == "true"
    assert query == {"api-version": "2018-02-01", "resource": "https://storage.azure.com/"}
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{accounts.url}/msi")
    monkeypatch.setenv("IDENTITY_HEADER", "beside")
    monkeypatch.setenv("AZURE_CLIENT_ID", "c3")
    assert_cells(cf.open(blobs.path), blobs.adata)
    _, path, headers, query = accounts.asked[-1]
    assert (path, headers["X-IDENTITY-HEADER"], query["client_id"]) == ("/msi", "beside", "c3")


def test_who_has_no_account_of_azure_is_told_how_to_give_one(blobs, monkeypatch):
    with pytest.raises(InvalidArgumentError, match="no storage account is named: set AZURE_STOR"):
        cf.open(blobs.path)
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="no credentials were found: set AZURE_STORAGE_ACCOUNT_KEY"):
        cf.open(blobs.path, storage_options=blobs.reach)
    public = blobs.reach | {"anon": True}
    assert_cells(cf.open(blobs.path, storage_options=public), blobs.adata)
    assert bearers(blobs) == {None}


def test_paths_of_azure_that_name_their_account(blobs, monkeypatch):
    """As Hadoop and Spark write them: the account decides, whatever the environment says."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    path = f"abfss://{blobs.bucket}@{ACCOUNT}.dfs.core.windows.net/a.h5ad"
    options = {"endpoint_url": blobs.reach["endpoint_url"], "account_key": KEY}
    try:
        assert_cells(cf.open(path, storage_options=options), blobs.adata)
        with pytest.raises(cf.errors.NotFoundError) as absent:
            cf.open(path.replace("a.h5ad", "b.h5ad"))
        assert path.replace("a.h5ad", "b.h5ad") in str(absent.value)
    finally:
        cf.set_storage_options(path, {})


def test_what_opens_an_account_goes_to_no_other_host(blobs, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=hush")
    for host in (blobs.proxy.address, "evil.example", f"{ACCOUNT}.blob.core.windows.net.evil.com"):
        with pytest.raises(
            InvalidArgumentError, match=r"no container of an account|no user and no"
        ):
            cf.open(f"az://{blobs.bucket}@{host}/a.h5ad")
    assert "hush" not in blobs.proxy.said()


def test_options_that_contradict_each_other_are_refused(blobs):
    for more, message in (
        ({"anon": True, "account_key": KEY}, "give one of the storage options account_key"),
        ({"sas_token": "sig=x", "account_key": KEY}, "give one of the storage options account_key"),
        ({"sas_token": "sig=x", "client_id": "c"}, "give one of the storage options account_key"),
        ({"client_secret": "s"}, "one is given without the other"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            cf.open(blobs.path, storage_options=blobs.reach | more)
    named = f"az://{blobs.bucket}@{ACCOUNT}.blob.core.windows.net/a.h5ad"
    with pytest.raises(InvalidArgumentError, match="the path names its account"):
        cf.open(named, storage_options={"account_name": "other"})
    cf.set_storage_options(named, {})


def test_a_flag_that_is_off_leaves_the_environment_as_it_is(blobs, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert_cells(cf.open(blobs.path, storage_options=blobs.reach | {"anon": False}), blobs.adata)
    assert all(said.startswith("SharedKey") for said in bearers(blobs))


def test_schemes_that_mean_the_same_are_one(google, blobs):
    for store, other in ((google, "gcs"), (blobs, "abfs")):
        options = store.reach | {"anon": True}
        second = other + store.path[2:]
        assert_cells(cf.open(second, storage_options=options), store.adata)
        with pytest.raises(InvalidArgumentError, match="given twice"):
            cf.open([store.path, second])
