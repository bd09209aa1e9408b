"""The connection to Temporal with its plugin, the object store and the sealing keys, made from the settings.

The plugin of clients, workers and replayers has the data converter, the external storage of payloads and the sandbox.
"""

import asyncio
import dataclasses
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from obstore.exceptions import BaseError
from pydantic import ValidationError
from temporalio import workflow
from temporalio.api.enums.v1 import CommandType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, Plugin
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
    SerializationContext,
    StorageDriverWorkflowInfo,
    WorkflowSerializationContext,
)
from temporalio.converter import StorageDriverStoreContext as StoreContext
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.plugin import SimplePlugin
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode, TLSConfig
from temporalio.worker import ReplayerConfig, WorkerConfig, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker._command_aware_visitor import CommandInfo  # the type of a public method's parameter
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from outlast.activities.failures.exceptions import SealError, StoreUnavailable
from outlast.activities.object_store import EncryptedObjects, OutputObjects
from outlast.activities.secrets import SecretSealer, secret_from_file, store_credentials
from outlast.fingerprints import StoreOwner, fingerprints, owner_key, ring_problem
from outlast.worker.payloads import EncryptingCodec, external_storage, lean_data_converter
from outlast.worker.settings import Settings
from outlast.workflows.versioning import VersionedRunner

PASSED_THROUGH = (
    # Workflow code is deterministic by review and by replay tests, and uses contracts and activity signatures for their
    # types only; importing all of it once instead of once per workflow saves 10 ms and more of each call.
    "outlast",
    # Pulled in by the activity signatures.
    "apify_client",
    "cryptography",
    "httpx",
    "impit",
    "jmespath",
    "jsonschema_rs",
    "obstore",
    "orjson",
    "pydantic",
    "pydantic_core",
    "zstandard",
)


def _sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
    if isinstance(runner, SandboxedWorkflowRunner):
        restrictions = runner.restrictions.with_passthrough_modules(*PASSED_THROUGH)
        return AlikePayloadsRunner(dataclasses.replace(runner, restrictions=restrictions))
    return runner or AlikePayloadsRunner(
        SandboxedWorkflowRunner(SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH))
    )


def _converter(objects: OutputObjects | None, codec: PayloadCodec | None, *, read_only: bool = False) -> DataConverter:
    storage = external_storage(objects, read_only=read_only) if objects is not None else None
    converter = dataclasses.replace(lean_data_converter, external_storage=storage, payload_codec=codec)
    if codec is None:
        return converter
    # Messages and traces of failures may quote arguments.
    return dataclasses.replace(converter, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)


class OutlastPlugin(SimplePlugin):
    """The configuration that every Temporal client, worker and replayer of Outlast shares."""

    def __init__(self, objects: OutputObjects | None = None, codec: PayloadCodec | None = None) -> None:
        """Keep large payloads in `objects`. Without it Temporal rejects them, and stored ones cannot be read.

        With `codec` all payloads, and the messages of failures, pass through it.
        """
        super().__init__(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
            "outlast", data_converter=_converter(objects, codec), workflow_runner=_sandboxed
        )
        self._objects = objects
        self._codec = codec

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """A worker with a version says of each workflow whether it may move to another one."""
        configured = super().configure_worker(config)
        if "deployment_config" not in configured or "workflow_runner" not in configured:
            return configured
        deployment = configured["deployment_config"]
        if deployment is not None and deployment.use_worker_versioning:
            configured["workflow_runner"] = VersionedRunner(configured["workflow_runner"])
        return configured

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """A replay reads stored payloads and writes none."""
        configured = super().configure_replayer(config)
        configured["data_converter"] = _converter(self._objects, self._codec, read_only=True)
        return configured


_FOR_ANOTHER_WORKFLOW = frozenset(
    {
        CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
        CommandType.COMMAND_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION,
    }
)


class AlikePayloadsRunner(WorkflowRunner):
    """Runs workflows as another runner does, for converters and a codec that treat all payloads alike."""

    def __init__(self, runner: WorkflowRunner) -> None:
        """Have `runner` do the work."""
        self._runner = runner

    def prepare_workflow(self, defn: workflow._Definition) -> None:  # pyright: ignore[reportPrivateUsage]  # its type
        """See the base class."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """An instance of the other runner that need not be asked whose a payload is."""
        return _Instance(self._runner.create_instance(det), det.info)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """See the base class."""
        self._runner.set_worker_level_failure_exception_types(types)


class _Instance(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance, info: workflow.Info) -> None:
        self._instance = instance
        self._info = info
        self._context = WorkflowSerializationContext(namespace=info.namespace, workflow_id=info.workflow_id)
        self._own = StoreContext(
            target=StorageDriverWorkflowInfo(
                id=info.workflow_id, run_id=info.run_id, type=info.workflow_type, namespace=info.namespace
            )
        )

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        return self._instance.activate(act)

    def get_info(self) -> workflow.Info:
        return self._info

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()

    def get_serialization_context(self, command_info: CommandInfo | None) -> SerializationContext:  # noqa: ARG002 (the SDK's interface)
        return self._context

    def get_external_store_context(self, command_info: CommandInfo | None) -> StoreContext:
        return self._own if self._is_own(command_info) else self._instance.get_external_store_context(command_info)

    def _is_own(self, command: CommandInfo | None) -> bool:
        if command is None:
            return True
        if command.command_type == CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION:
            return self._info.parent is None  # A child's result is its parent's.
        return command.command_type not in _FOR_ANOTHER_WORKFLOW


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
    """Connection options of Temporal's tools from these variables; the API key may come from a file."""
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


def tracing_plugins(settings: Settings) -> Sequence[Plugin]:
    """The plugins for clients and workers; none while there is no collector."""
    if settings.otlp_endpoint is None:
        return ()
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin  # noqa: PLC0415  # loads OpenTelemetry's SDK

    from outlast.worker.otlp.call_spans import CallSpans  # noqa: PLC0415

    # Temporal's own spans would have the messages of exceptions in them, and three spans for each activity.
    spans: SimplePlugin = SimplePlugin("outlast-spans", interceptors=[CallSpans()])  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
    return (OpenTelemetryPlugin(add_temporal_spans=False), spans)


_STORE_SECONDS = 20
_REFUSALS = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED})

log = logging.getLogger("outlast.worker")


class NotTogether(RuntimeError):
    """The store, the database and the ring do not belong together. The message says what to do."""


class StoreOwnership:
    """Reads and writes the object of the store that names its owner."""

    def __init__(self, client: Client, objects: OutputObjects, ring: Mapping[str, bytes]) -> None:
        """`objects` must not encrypt: whoever has the wrong ring has to be able to read the object."""
        self._client = client
        self._objects = objects
        self._ring = ring

    @classmethod
    def of(cls, client: Client, settings: Settings) -> "StoreOwnership":
        """Return the owner of the store and key ring in the settings. Raises `SealError` and `ValueError`."""
        return cls(client, plain_objects(settings), sealer_from(settings).ring)

    async def claim(self) -> None:
        """Name this database and this ring as the owner, unless another one is. Raises `NotTogether`.

        A store that does not answer is left for the next sweep, which checks again before it deletes anything.
        """
        await self._within_time(self.require)

    async def check(self) -> None:
        """Raise `NotTogether` when the store was written with another ring. Nothing is written, Temporal not asked."""

        async def compare() -> None:
            owner = await self._read()
            if owner is not None:
                self._compare_ring(owner)

        await self._within_time(compare)

    async def require(self) -> None:
        """Name the owner, or raise `NotTogether` when there is another one. Raises as `OutputObjects` does."""
        namespace_id = await self._namespace_id()
        owner = await self._read()
        if owner is not None:
            if namespace_id and owner.namespace_id and owner.namespace_id != namespace_id:
                raise NotTogether(self._another_database())
            self._compare_ring(owner)
        own = StoreOwner(
            namespace_id=namespace_id or (owner.namespace_id if owner else ""), keys=fingerprints(self._ring)
        )
        # The order counts, too: the first key is the one that seals.
        if owner is None or own.model_dump_json() != owner.model_dump_json():
            await self._objects.put(self._key, own.model_dump_json().encode())

    @property
    def _key(self) -> str:
        return owner_key(self._client.namespace)

    async def _within_time(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(_STORE_SECONDS):
                await work()
        except (StoreUnavailable, OSError, TimeoutError) as error:
            log.warning("The owner of the output store is unknown: %s", error or "no answer")

    async def _read(self) -> StoreOwner | None:
        content = await self._objects.get(self._key)
        if content is None:
            return None
        try:
            return StoreOwner.model_validate_json(content)
        except ValidationError as error:
            raise NotTogether(
                f"The object {self._key} of the output store is damaged, so the owner of the store is unknown. "
                f"Restore it from a backup, or remove it if you are sure that the store belongs to this database."
            ) from error

    def _compare_ring(self, owner: StoreOwner) -> None:
        problem = ring_problem(owner.keys, self._ring)
        if problem is not None:
            raise NotTogether(
                f"The sealing keys are not those of the data in the output store: {problem}. Correct OUTLAST_SEAL_KEYS "
                "or OUTLAST_SEAL_KEYS_FILE. If the keys are permanently lost, and with them what they encrypted, "
                "remove the "
                f"object {self._key} from the store."
            )

    def _another_database(self) -> str:
        return (
            f"The output store holds outputs of another database than that of the namespace {self._client.namespace}: "
            "the sweep would delete them. Connect to that database (TEMPORAL_ADDRESS), or name another store "
            "(OUTLAST_STORE_URL). If the database is permanently lost, and its outputs may be deleted, remove the "
            "object "
            f"{self._key} from the store."
        )

    async def _namespace_id(self) -> str:
        """Temporal's id of the namespace; empty where this credential may not see it."""
        try:
            described = await self._client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=self._client.namespace)
            )
        except RPCError as error:
            if error.status in _REFUSALS:
                return ""
            raise
        return described.namespace_info.id
