"""A server's address over TLS, with a certificate that nobody signed but itself."""

import contextlib
import datetime
import hashlib
import ipaddress
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_certificate(path: pathlib.Path, *hosts: str) -> None:
    """A key and its certificate for 127.0.0.1 and these hosts, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, hosts)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))


def subject_hash(path: pathlib.Path) -> str:
    """The name that OpenSSL looks for in a folder of certificates (X509_NAME_hash)."""
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    # Of the canonical form: sets without the outer sequence, values UTF-8 in lower case.
    parts = b""
    for attribute in certificate.subject:
        name = attribute.value.lower().encode()
        value = bytes([0x0C, len(name)]) + name
        oid = b"\x06\x03\x55\x04\x03"  # the common name
        pair = bytes([0x30, len(oid) + len(value)]) + oid + value
        parts += bytes([0x31, len(pair)]) + pair
    return f"{int.from_bytes(hashlib.sha1(parts).digest()[:4], 'little'):08x}"


def copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def serve(
    client: socket.socket, context: ssl.SSLContext, address: tuple[str, int], is_forward: bool
) -> None:
    if is_forward:
        while not client.recv(1 << 12).endswith(b"\r\n\r\n"):
            pass
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    # A client that does not trust the certificate ends the handshake.
    with (
        contextlib.suppress(OSError),
        context.wrap_socket(client, server_side=True) as plain,
        socket.create_connection(address) as server,
    ):
        thread = threading.Thread(target=copy, args=(server, plain), daemon=True)
        thread.start()
        copy(plain, server)
        thread.join()


@contextlib.contextmanager
def tls_proxy(address: str, certificate: pathlib.Path, is_forward: bool = False) -> Iterator[str]:
    """The host:port before the server at host:port. is_forward: of a proxy for any host."""
    host, port = address.split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    client, _ = listener.accept()
                    threading.Thread(
                        target=serve,
                        args=(client, context, (host, int(port)), is_forward),
                        daemon=True,
                    ).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
