"""Keys of Amazon's accounts are found where botocore finds them, and first where it looks first."""

import datetime
import hashlib
import itertools
import json
import os
import pathlib
import urllib.parse

import pytest
from loopback_server import LoopbackServer, QuietHandler
from tiers import fast
from tls_proxy import tls_proxy, write_certificate

import cellfeed as cf
from cellfeed.errors import InvalidArgumentError, NotFoundError, UnsupportedError

botocore = pytest.importorskip("botocore")
for part in ("auth", "awsrequest", "credentials", "session", "tokens"):
    pytest.importorskip(f"botocore.{part}")

LATER = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
LATER = LATER[:19] + "Z"
STS = "https://sts.amazonaws.com/doc/2011-06-15/"


def keys_of(name: str) -> dict[str, str]:
    return {"AccessKeyId": f"KEY{name}", "SecretAccessKey": f"secret{name}", "Token": f"tok{name}"}


class _Handler(QuietHandler):
    """The servers of roles, logins, containers and machines, and a bucket where nothing is."""

    def answer(self):
        owner = self.server.owner
        url = urllib.parse.urlsplit(self.path)
        body = self.read_body().decode()
        form = dict(urllib.parse.parse_qsl(body or url.query))
        said = self.headers.get("Authorization", "")
        owner.asked.append((self.command, url.path, dict(self.headers.items()), form))
        status, text = 404, ""
        if self.command == "HEAD" and self.headers["Host"] == "atlas.s3.amazonaws.com":
            status = 301
        elif url.path == "/latest/api/token" and self.command == "PUT":
            status, text = (200, "session") if owner.machine_version == 2 else (404, "")
        elif "list-type" in url.query:
            listing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
            status, text = 200, listing
        elif url.path.startswith("/latest/meta-data/iam/security-credentials/"):
            is_known = self.headers.get("X-aws-ec2-metadata-token") == "session"
            if owner.machine_version == 1 or is_known:
                role = {"Code": "Success", "Expiration": LATER} | keys_of("machine")
                status, text = 200, json.dumps(role) if url.path.endswith("a-role") else "a-role"
        elif url.path == "/container" and said == "Bearer of-the-pod":
            status, text = 200, json.dumps({"Expiration": LATER} | keys_of("container"))
        elif url.path == "/federation/credentials":
            status, text = 401, "{}"
            if self.headers["x-amz-sso_bearer_token"] == "of-the-login":
                end = int(datetime.datetime.fromisoformat(LATER).timestamp() * 1000)
                keys = {
                    "accessKeyId": "KEYlogin", "secretAccessKey": "secretlogin",
                    "sessionToken": "toklogin", "expiration": end,
                }  # fmt: skip
                status, text = 200, json.dumps({"roleCredentials": keys})
        elif form.get("Action") in ("AssumeRole", "AssumeRoleWithWebIdentity"):
            action = form["Action"]
            name = form["RoleArn"].rpartition("/")[2]
            if action == "AssumeRole":
                owner.signed.append(self.is_signed(body))
            keys = "".join(
                f"<{key}>{value}</{key}>"
                for key, value in {
                    "AccessKeyId": f"KEY{name}", "SecretAccessKey": f"secret{name}",
                    "SessionToken": f"tok{name}", "Expiration": LATER,
                }.items()
            )  # fmt: skip
            text = (
                f'<{action}Response xmlns="{STS}"><{action}Result><Credentials>{keys}'
                f"</Credentials></{action}Result></{action}Response>"
            )
            status = 200
            if name == "refused":
                status = 403
                text = f'<ErrorResponse xmlns="{STS}"><Error><Code>AccessDenied</Code></Error>'
                text += "</ErrorResponse>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if status == 301:
            self.send_header("x-amz-bucket-region", "eu-west-1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text.encode())

    def is_signed(self, body: str) -> bool:
        """By the keys of the profile "plain", for STS."""
        said = self.headers["Authorization"].split(" ", 1)[1]
        parts = dict(part.strip().split("=", 1) for part in said.split(","))
        request = botocore.awsrequest.AWSRequest(
            self.command,
            f"http://{self.headers['Host']}{self.path}",
            data=body.encode(),
            headers={name: self.headers[name] for name in parts["SignedHeaders"].split(";")},
        )
        request.context["timestamp"] = self.headers["x-amz-date"]
        by = botocore.credentials.Credentials("KEYplain", "secretplain")
        signer = botocore.auth.SigV4Auth(by, "sts", "eu-west-1")
        text = signer.string_to_sign(request, signer.canonical_request(request))
        return signer.signature(text, request) == parts["Signature"]

    do_GET = do_PUT = do_HEAD = do_POST = answer


class Servers(LoopbackServer):
    handler = _Handler

    def __init__(self):
        self.asked = []
        self.signed = []
        self.machine_version = None
        super().__init__()


@pytest.fixture
def servers(monkeypatch, tmp_path):
    """An account that has nothing but servers of its own, and a region."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws/sso/cache").mkdir(parents=True)
    with Servers() as server:
        for name in ("", "_STS", "_SSO"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL{name}", server.url)
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):  # that of botocore is the second
            monkeypatch.setenv(name, "eu-west-1")
        for each in (botocore.credentials.SSOProvider, botocore.tokens.SSOTokenProvider):
            monkeypatch.setattr(each, "_SSO_TOKEN_CACHE_DIR", str(tmp_path / ".aws/sso/cache"))
        server.home = tmp_path
        server.set = monkeypatch.setenv
        yield server


def add(file: pathlib.Path, section: str, **settings: str) -> None:
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    with file.open("a") as out:
        out.write(f"# of {section}\n[{section}]\ns3 =\n  max_concurrent_requests = 9\n{lines}\n")


def static(name: str) -> dict[str, str]:
    return {"aws_access_key_id": f"KEY{name}", "aws_secret_access_key": f"secret{name}"}


# How an account gets keys, each under its own name.


def by_environment(servers):
    servers.set("AWS_ACCESS_KEY_ID", "KEYenvironment")
    servers.set("AWS_SECRET_ACCESS_KEY", "secretenvironment")


def by_role(servers):
    add(servers.home / ".aws/credentials", "plain", **static("plain"))
    add(
        servers.home / ".aws/config", "default", source_profile="plain",
        role_arn="arn:aws:iam::1:role/role", external_id="an id", role_session_name="lab",
    )  # fmt: skip


def by_web(servers):
    (servers.home / "web").write_text("a.b.c")
    servers.set("AWS_WEB_IDENTITY_TOKEN_FILE", str(servers.home / "web"))
    servers.set("AWS_ROLE_ARN", "arn:aws:iam::1:role/web")


def login(servers, name: str, **changes: str) -> None:
    token = {"accessToken": "of-the-login", "expiresAt": LATER} | changes
    file = f".aws/sso/cache/{hashlib.sha1(name.encode()).hexdigest()}.json"
    (servers.home / file).write_text(json.dumps(token))


def by_login(servers):
    add(
        servers.home / ".aws/config", "sso-session lab",
        sso_start_url="https://lab.awsapps.example/start", sso_region="eu-west-1",
    )  # fmt: skip
    add(
        servers.home / ".aws/config", "default",
        sso_session="lab", sso_account_id="1", sso_role_name="reader",
    )  # fmt: skip
    login(servers, "lab")


def by_keys(servers):
    add(servers.home / ".aws/credentials", "default", **static("keys"))


def by_container(servers):
    (servers.home / "pod").write_text("Bearer of-the-pod")
    servers.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{servers.url}/container")
    servers.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(servers.home / "pod"))


def by_machine(servers):
    servers.machine_version = 2


WAYS = [by_environment, by_role, by_web, by_login, by_keys, by_container, by_machine]
# A profile has a role or a login.
PAIRS = [pair for pair in itertools.combinations(WAYS, 2) if pair != (by_role, by_login)]


def key_of_request(servers, **options) -> tuple[str, str | None]:
    """The access key and the session token by which cellfeed asks for an object."""
    del servers.asked[:]
    with pytest.raises(NotFoundError):
        cf.open("s3://atlas/a.h5ad", storage_options=options)
    for _, path, headers, _ in servers.asked:
        if path.startswith("/atlas"):
            said = headers["Authorization"]
            assert "/eu-west-1/s3/aws4_request" in said
            key = said.partition("Credential=")[2].partition("/")[0]
            return key, {name.lower(): text for name, text in headers.items()}.get(
                "x-amz-security-token"
            )
    raise AssertionError(f"no request for the object: {servers.asked}")


def key_of_botocore(profile: str | None = None) -> tuple[str, str | None]:
    found = botocore.session.Session(profile=profile).get_credentials().get_frozen_credentials()
    return found.access_key, found.token


@pytest.mark.parametrize("way", WAYS)
def test_each_way(servers, way):
    way(servers)
    name = way.__name__.removeprefix("by_")
    key, token = key_of_request(servers)
    assert key == f"KEY{name}" and token == (
        None if name in ("environment", "keys") else f"tok{name}"
    )
    assert (key, token) == key_of_botocore()
    assert all(servers.signed)


@pytest.mark.parametrize("first, second", fast(PAIRS[::3], PAIRS))
def test_of_two_ways_that_of_botocore_counts(servers, first, second):
    first(servers)
    second(servers)
    assert key_of_request(servers) == key_of_botocore()


def test_what_a_role_is_asked_with(servers):
    by_role(servers)
    key_of_request(servers)
    (asked,) = [form for _, path, _, form in servers.asked if form.get("Action")]
    assert asked == {
        "Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::1:role/role",
        "RoleSessionName": "lab", "ExternalId": "an id",
    }  # fmt: skip
    assert servers.signed == [True]
    key_of_request(servers)  # kept for as long as it is good
    assert servers.signed == [True]


def test_a_web_identity_is_sent(servers):
    by_web(servers)
    key_of_request(servers)
    (asked,) = [form for _, path, _, form in servers.asked if form.get("Action")]
    assert asked["WebIdentityToken"] == "a.b.c" and asked["RoleSessionName"] == "cellfeed"


@pytest.mark.parametrize("named_by", ["option", "environment"])
def test_a_profile_that_is_named(servers, named_by):
    add(servers.home / ".aws/config", 'profile "my lab"', **static("mylab"))
    add(servers.home / ".aws/credentials", "default", **static("default"))
    assert key_of_request(servers)[0] == "KEYdefault"
    if named_by == "environment":
        servers.set("AWS_PROFILE", "my lab")
        assert key_of_request(servers) == key_of_botocore() == ("KEYmylab", None)
        return
    by_environment(servers)
    found = key_of_request(servers, profile="my lab")  # before those of the environment
    assert found == key_of_botocore("my lab") == ("KEYmylab", None)


def test_the_region_of_a_profile_is_used(servers, monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    add(servers.home / ".aws/config", "default", region="eu-west-1", **static("keys"))
    assert key_of_request(servers)[0] == "KEYkeys"


def test_amazon_is_asked_for_the_region(servers, monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    by_environment(servers)
    file = tmp_path / "certificate.pem"
    write_certificate(file, "atlas.s3.amazonaws.com", "atlas.s3.eu-west-1.amazonaws.com")
    servers.set("AWS_CA_BUNDLE", str(file))
    with tls_proxy(servers.address, file, is_forward=True) as proxy:
        servers.set("https_proxy", f"http://{proxy}")
        with pytest.raises(NotFoundError):
            cf.open("s3://atlas/a.h5ad")
    first, *others = [(path, headers["Host"]) for _, path, headers, _ in servers.asked]
    assert first == ("/", "atlas.s3.amazonaws.com") and others
    assert {host for _, host in others} == {"atlas.s3.eu-west-1.amazonaws.com"}


def test_a_region_that_nobody_tells_is_asked_for(servers, monkeypatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    by_environment(servers)
    servers.set("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(OSError, match=r"s3://atlas: its region .*AWS_REGION name it"):
        cf.open("s3://atlas/a.h5ad")


def test_the_first_version_of_a_machines_server(servers):
    servers.machine_version = 1
    assert key_of_request(servers) == key_of_botocore() == ("KEYmachine", "tokmachine")


def test_a_role_by_the_keys_of_a_machine(servers):
    by_machine(servers)
    add(
        servers.home / ".aws/config", "default",
        role_arn="arn:aws:iam::1:role/chained", credential_source="Ec2InstanceMetadata",
    )  # fmt: skip
    assert key_of_request(servers) == key_of_botocore() == ("KEYchained", "tokchained")


def test_a_role_that_the_call_names(servers):
    by_keys(servers)
    found = key_of_request(servers, role_arn="arn:aws:iam::1:role/asked")
    assert found == ("KEYasked", "tokasked")


def test_a_login_of_before_sessions(servers):
    start = "https://lab.awsapps.example/start"
    add(
        servers.home / ".aws/config", "default", sso_start_url=start, sso_region="eu-west-1",
        sso_account_id="1", sso_role_name="reader",
    )  # fmt: skip
    login(servers, start)
    assert key_of_request(servers) == key_of_botocore() == ("KEYlogin", "toklogin")


def test_keys_of_a_source_count_before_its_role(servers):
    config = servers.home / ".aws/config"
    add(config, "default", role_arn="arn:aws:iam::1:role/first", source_profile="second")
    add(
        config,
        "profile second",
        role_arn="arn:aws:iam::1:role/other",
        source_profile="third",
        **static("plain"),
    )
    assert key_of_request(servers) == key_of_botocore() == ("KEYfirst", "tokfirst")
    assert servers.signed[0]  # by the keys of the second


def test_the_session_of_a_web_identity_is_named_by_its_profile(servers):
    (servers.home / "web").write_text("a.b.c")
    add(
        servers.home / ".aws/config", "default", role_arn="r/web", role_session_name="mine",
        web_identity_token_file=str(servers.home / "web"),
    )  # fmt: skip
    assert key_of_request(servers)[0] == "KEYweb"
    (asked,) = [form for _, path, _, form in servers.asked if form.get("Action")]
    assert asked["RoleSessionName"] == "mine"


def test_a_machine_without_a_role_is_asked_once(servers):
    for _ in range(3):
        with pytest.raises(OSError, match="no credentials were found"):
            cf.open("s3://atlas/a.h5ad")
    assert len([path for _, path, _, _ in servers.asked if path == "/latest/api/token"]) == 1


def test_servers_beside_a_machine_are_asked_past_proxies(servers):
    by_container(servers)
    servers.set("http_proxy", "http://127.0.0.1:9")
    servers.set("no_proxy", "")
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):  # the bucket is asked through it
        cf.open("s3://atlas/a.h5ad")
    assert [path for _, path, _, _ in servers.asked] == ["/container"]


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"role_arn": "r/x"}, InvalidArgumentError, "needs one of source_profile and credential_"),
        ({"aws_access_key_id": "half"}, InvalidArgumentError, "'default' has an access key with"),
        ({"role_arn": "r/x", "source_profile": "gone"}, InvalidArgumentError,
         "no profile 'gone' in"),
        ({"role_arn": "r/x", "source_profile": "bare"}, InvalidArgumentError,
         "keys of its source_profile or credential_source, and none are there"),
        ({"role_arn": "r/x", "source_profile": "bare", "mfa_serial": "m"}, UnsupportedError,
         "wants a code of a person"),
        ({"role_arn": "r/refused", "source_profile": "plain"}, OSError,
         "the role 'r/refused' was not given: HTTP 403 .*AccessDenied"),
        ({"credential_process": "keys"}, UnsupportedError,
         "credential_process.*which is not run.*export-credentials --profile default"),
        ({"sso_account_id": "1", "sso_start_url": "u", "sso_region": "r"}, InvalidArgumentError,
         "lacks sso_role_name"),
        ({"sso_account_id": "1", "sso_start_url": "u", "sso_region": "r", "sso_role_name": "n"},
         OSError, "the login of profile 'default' is not there: run `aws sso login"),
    ],
)  # fmt: skip
def test_profiles_that_give_none_are_named(servers, settings, error, message):
    add(servers.home / ".aws/config", "default", **settings)
    add(servers.home / ".aws/config", "profile bare", region="x")
    add(servers.home / ".aws/credentials", "plain", **static("plain"))
    with pytest.raises(error, match=f"s3://atlas.*{message}"):
        cf.open("s3://atlas/a.h5ad")


def test_roles_in_a_circle(servers):
    for name, other in (("default", "profile two"), ("profile two", "default")):
        source = other.removeprefix("profile ")
        add(servers.home / ".aws/config", name, role_arn="r/x", source_profile=source)
    with pytest.raises(InvalidArgumentError, match="none are there"):
        cf.open("s3://atlas/a.h5ad")


@pytest.mark.parametrize("end", ["2020-01-01T00:00:00Z", None])
def test_a_login_that_has_ended(servers, end):
    by_login(servers)
    login(servers, "lab", **({"expiresAt": end} if end else {"accessToken": "revoked"}))
    with pytest.raises(OSError, match="login of profile 'default' has ended: run `aws sso login"):
        cf.open("s3://atlas/a.h5ad")


def test_a_profile_that_is_not_there(servers):
    servers.set("AWS_PROFILE", "gone")
    with pytest.raises(InvalidArgumentError, match=r"no profile 'gone' in '.*config' and '.*cred"):
        cf.open("s3://atlas/a.h5ad")


def test_secrets_are_not_sent_in_the_clear(servers):
    servers.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret")
    for url in ("http://elsewhere.example/x", "http://localhost:x@elsewhere.example/x"):
        servers.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
        with pytest.raises(InvalidArgumentError, match="FULL_URI must begin with https://"):
            cf.open("s3://atlas/a.h5ad")
    servers.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{servers.url}/container")
    servers.set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret\r\nX-Other: 1")
    with pytest.raises(InvalidArgumentError, match="holds a line end or another control"):
        cf.open("s3://atlas/a.h5ad")
    servers.set("AWS_ACCESS_KEY_ID", "half")
    with pytest.raises(InvalidArgumentError, match=r"the environment .* has an access key without"):
        cf.open("s3://atlas/a.h5ad")
