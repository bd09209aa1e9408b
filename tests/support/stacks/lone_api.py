"""An API process with neither a worker nor a Temporal server: for what HTTP alone decides, measured from outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.ports import free_port
from tests.support.processes.served_process import started_module
from tests.support.stacks.service import SEAL_KEYS
from tests.support.stacks.stack_config import clean_environment


@dataclass(frozen=True)
class LoneApi:
    """A running API process."""

    url: str
    pid: int
    log: Path

    def memory_mb(self) -> float:
        """Its resident memory, in MiB."""
        return psutil.Process(self.pid).memory_info().rss / 2**20

    def processor_seconds(self) -> float:
        """Processor time that it has used so far."""
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system


@contextmanager
def running_lone_api(folder: Path, *, host: str = "127.0.0.1", **settings: str) -> Iterator[LoneApi]:
    """Run one until the end of the block, with `settings` in its environment."""
    port = free_port()
    url = f"http://{host if ':' not in host else f'[{host}]'}:{port}"
    environment = clean_environment(
        TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}",
        OUTLAST_SEAL_KEYS=SEAL_KEYS,
        OUTLAST_DATA_DIR=str(folder),
        OUTLAST_API_HOST=host,
        OUTLAST_API_PORT=str(port),
        **{"OUTLAST_DEFAULT_ACTORS": "", **settings},
    )
    log = folder / "api.log"
    with started_module("outlast.api", ready_url=f"{url}/healthz", log=log, environment=environment) as served:
        served.await_answer()
        yield LoneApi(url, served.process.pid, log)
