"""Mutual TLS in front of a port, as hosted Temporal has it: who shows no certificate of our authority gets nowhere."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class TlsFront:
    """Where it listens, and the files that a client needs."""

    address: str
    authority: Path
    certificate: Path
    key: Path

    @property
    def environment(self) -> dict[str, str]:
        """What Temporal's tools and ours read."""
        return {
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(self.authority),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(self.certificate),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(self.key),
        }


@contextmanager
def tls_front(target: str, folder: Path) -> Iterator[TlsFront]:
    """Pass connections on to `target` (`host:port`) until the end of the block, in a thread of its own."""
    authority, certificate, key = write_certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = target.rpartition(":")
    listening, loop = threading.Event(), asyncio.new_event_loop()
    ports: list[int] = []

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))

    async def serve() -> None:
        server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        listening.set()
        with suppress(asyncio.CancelledError):
            await server.serve_forever()

    def run() -> None:
        with suppress(RuntimeError, asyncio.CancelledError):
            loop.run_until_complete(serve())

    thread = threading.Thread(target=run)
    thread.start()
    listening.wait(30)
    try:
        yield TlsFront(f"127.0.0.1:{ports[0]}", authority, certificate, key)
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        thread.join()
        loop.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def write_certificates(folder: Path, *names: str) -> tuple[Path, Path, Path]:
    """An authority, and one certificate that serves for both ends: for 127.0.0.1, and for `names`."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    root = _builder(root_name, root_name, root_key).add_extension(x509.BasicConstraints(True, None), critical=True)
    leaf = _builder(name, root_name, key).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1")), *map(x509.DNSName, names)]),
        critical=False,
    )
    pem = serialization.Encoding.PEM
    files = folder / "ca.pem", folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(root.sign(root_key, hashes.SHA256()).public_bytes(pem))
    files[1].write_bytes(leaf.sign(root_key, hashes.SHA256()).public_bytes(pem))
    files[2].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return files


def _builder(name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=30))
