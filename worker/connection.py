"""The connection to Temporal, the output store and the sealing keys, from the settings."""

import os
import socket
from collections.abc import Mapping
from datetime import datetime

from obstore.exceptions import BaseError
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.runtime import Runtime
from temporalio.service import TLSConfig

from outlast.activities.failures.exceptions import SealError
from outlast.activities.object_store.encrypted_objects import EncryptedObjects
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.secrets.encryption import SecretSealer
from outlast.activities.secrets.secret_files import secret_from_file, store_credentials
from outlast.worker.otlp.plugins import tracing_plugins
from outlast.worker.payloads.codec import EncryptingCodec
from outlast.worker.plugin import OutlastPlugin
from outlast.worker.settings import Settings

_API_KEY = "TEMPORAL_API_KEY"


async def connect(
    settings: Settings, runtime: Runtime | None = None, *, lazy: bool = False, identity: str | None = None
) -> Client:
    """A client configured by the environment (`temporalio.envconfig`: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, ...).

    Large payloads are kept in the output store of `settings`. With `lazy` it connects at the first call. Temporal knows
    it as `identity`: by default `PID@HOST`. Raises `RuntimeError` when the server cannot be reached, `ValueError` when
    TEMPORAL_API_KEY_FILE cannot be read.
    """
    config = _connect_config(os.environ)
    plugin = OutlastPlugin(output_objects(settings), payload_codec(settings))
    plugins = [plugin, *tracing_plugins(settings)]
    return await Client.connect(**config, plugins=plugins, runtime=runtime, lazy=lazy, identity=identity)


def worker_identity() -> str:
    """`PID@HOST/XXXX` of this process. In a container the next process has the same id, so the last part is random."""
    return f"{os.getpid()}@{socket.gethostname()}/{os.urandom(2).hex()}"


async def connect_plainly(environment: Mapping[str, str] = os.environ, *, lazy: bool = False) -> Client:
    """A client for what needs no payload: namespaces, queues, search attributes. Raises as `connect` does."""
    return await Client.connect(**_connect_config(environment), lazy=lazy)


def _connect_config(environment: Mapping[str, str]) -> ClientConnectConfig:
    """How Temporal's tools connect by these variables, with an API key that may be read from a file."""
    api_key = None if environment.get(_API_KEY) else secret_from_file(_API_KEY, environment)
    variables = {**environment, **({_API_KEY: api_key} if api_key else {})}
    config = ClientConfig.load_client_connect_config(override_env_vars=variables)
    config.setdefault("target_host", "127.0.0.1:7233")
    return config


def temporal_certificate_end() -> datetime | None:
    """When the client certificate of `connect` ends; None without one. Raises `ValueError` when it cannot be read."""
    tls = _connect_config(os.environ).get("tls")
    if not isinstance(tls, TLSConfig) or tls.client_cert is None:
        return None
    try:
        from cryptography import x509  # noqa: PLC0415 (15 ms of every start; few have client certificates)

        certificates = x509.load_pem_x509_certificates(tls.client_cert)
    except ValueError as error:
        raise ValueError(f"TEMPORAL_TLS_CLIENT_CERT_PATH or _DATA is no PEM certificate: {error}") from error
    return min(certificate.not_valid_after_utc for certificate in certificates)


def payload_codec(settings: Settings) -> EncryptingCodec | None:
    """The cipher of payloads; None while encryption is off. Raises `SealError` as `sealer_from` does."""
    if settings.encryption == "off":
        return None
    return EncryptingCodec(sealer_from(settings).content_cipher(), encrypts=settings.encryption == "on")


def output_objects(settings: Settings) -> OutputObjects:
    """Open the store. Raises `ValueError`, with what to do, when its address cannot be one."""
    plain = plain_objects(settings)
    if settings.encryption == "off":
        return plain
    return EncryptedObjects(plain, sealer_from(settings).content_cipher(), encrypts=settings.encryption == "on")


def plain_objects(settings: Settings) -> OutputObjects:
    """Open the store without encryption. Raises as `output_objects` does."""
    url = settings.store_url or str(settings.data_dir / "outputs")
    try:
        return OutputObjects.open(url, **(store_credentials() if url.startswith("s3://") else {}))
    except (BaseError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"OUTLAST_STORE_URL cannot be used ({reason}). It reads s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
            "az://CONTAINER/PREFIX, or the path of a folder."
        ) from error


def sealer_from(settings: Settings) -> SecretSealer:
    """Read the key ring. Raises `SealError` when none is configured: API and worker must share one."""
    if settings.seal_keys is not None:
        return SecretSealer.from_text(settings.seal_keys.get_secret_value())
    path = settings.seal_keys_file or settings.data_dir / "seal.keys"
    if not path.exists():
        raise SealError(
            f"There is no sealing key in {path}. Set OUTLAST_SEAL_KEYS or OUTLAST_SEAL_KEYS_FILE "
            "(one line `KEYID:base64 of 32 random bytes`), the same for API and worker."
        )
    return SecretSealer.from_file(path)
