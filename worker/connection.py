"""Connecting to Temporal: the same code reaches the embedded server, a cluster and the cloud."""

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime

from worker.outputs import output_objects
from worker.plugin import OutlastPlugin
from worker.settings import Settings


async def connect(settings: Settings, runtime: Runtime | None = None, *, lazy: bool = False) -> Client:
    """A client configured by the environment (`temporalio.envconfig`: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS, ...).

    Its large payloads are in the store that `settings` name. With `lazy`, connects at the first call. Raises
    `RuntimeError` when the server cannot be reached.
    """
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "127.0.0.1:7233")
    return await Client.connect(**config, plugins=[OutlastPlugin(output_objects(settings))], runtime=runtime, lazy=lazy)
