"""The end of the certificate with which a process shows Temporal who it is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from outlast.worker.connection import temporal_certificate_end

END = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)


def test_the_end_of_the_certificate_that_the_environment_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert temporal_certificate_end() is None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, END - timedelta(days=1), END)
    (tmp_path / "cert").write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    (tmp_path / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    monkeypatch.setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", str(tmp_path / "cert"))
    monkeypatch.setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", str(tmp_path / "key"))
    assert temporal_certificate_end() == END
    (tmp_path / "cert").write_text("no certificate")
    with pytest.raises(ValueError, match="TEMPORAL_TLS_CLIENT_CERT_PATH"):
        temporal_certificate_end()
