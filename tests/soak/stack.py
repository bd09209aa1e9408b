"""The stack of a soak: every process of it may be killed, the sandbox platform too, and Prometheus watches."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from outlast.deploy.local.processes import answers_http
from tests.support.ports import free_port
from tests.support.processes.module_process import ModuleProcess
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import running_provider
from tests.support.stacks.chaos_stack import ChaosStack, Part
from tests.support.stacks.prometheus import Prometheus, Targets, running_prometheus
from tests.support.stacks.sandbox import MODULE, TOKEN, Sandbox, sandbox_arguments
from tests.support.stacks.stack_config import clean_environment

_MODEL = by_position(says(Call("fetch-actor-details", {"actor": "outlast/sleeper"})), says("The sleeper."))
SETTINGS = {
    "OUTLAST_SPENDING": '{"per_day_usd": 100000}',
    "OUTLAST_RESERVATION_CHECK_SECONDS": "10",
    "OUTLAST_TOOLS_FROM": "tests.support.tools.protocol_tools",
}


@dataclass(frozen=True)
class SoakStack:
    """The processes, and what is seen of them."""

    stack: ChaosStack
    sandbox: Part
    prometheus: Prometheus | None
    """None where Prometheus is not installed."""
    folder: Path

    @property
    def parts(self) -> Mapping[str, Part]:
        """All processes, by name."""
        return {part.name: part for part in (self.stack.worker, self.stack.api, self.stack.temporal, self.sandbox)}

    def memory_mbytes(self) -> dict[str, float]:
        """Resident memory of each process that is alive now."""
        found: dict[str, float] = {}
        for name, part in self.parts.items():
            if part.is_alive:
                found[name] = psutil.Process(part.pid).memory_info().rss / 2**20
        return found

    def disk_bytes(self) -> int:
        """Bytes of the database, the stored outputs and the logs; not of the sandbox, which stands for the platform."""
        files = (path for path in self.folder.rglob("*") if "sandbox" not in path.parts and path.is_file())
        return sum(path.stat().st_size for path in files)


@contextmanager
def running_soak_stack(folder: Path, watching: Path, *, watched: bool, **settings: str) -> Iterator[SoakStack]:
    """Everything but the processes of Outlast, which `ChaosStack.bring_up` starts; `settings` are further ones."""
    with ExitStack() as closing:
        provider = closing.enter_context(running_provider(_MODEL))
        part, sandbox = _sandbox(folder)
        closing.callback(sandbox.close)
        closing.callback(part.kill)
        stack = closing.enter_context(ChaosStack(folder, sandbox, **provider.environment, **SETTINGS, **settings))
        targets = Targets(stack.api_url, stack.worker_url, stack.temporal_server.metrics_url)
        prometheus = closing.enter_context(running_prometheus(watching, targets, every="5s")) if watched else None
        yield SoakStack(stack, part, prometheus, folder)


def _sandbox(folder: Path) -> tuple[Part, Sandbox]:
    port = free_port()
    url, arguments = f"http://127.0.0.1:{port}", sandbox_arguments(folder, port)

    def start(log: Path) -> ModuleProcess:
        return ModuleProcess(MODULE, arguments, log=log, environment=clean_environment())

    part = Part("sandbox", start, answers_http(f"{url}/sandbox/healthz"), folder)
    return part, Sandbox(url, TOKEN, part.log)
