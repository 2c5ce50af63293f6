"""Object stores on loopback for tests and benchmarks, and how a client finds them.

    with s3_server() as server:
        os.environ.update(server.environment)      # the client needs nothing else
        pyarrow.fs.FileSystem.from_uri("s3://bucket/key")

Each server is a process of its own that ends with its `with`, or with this process.
"""

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Iterator

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
