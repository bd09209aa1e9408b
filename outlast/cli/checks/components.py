"""Checks of the parts of a running system: processes of the stack, API, Temporal, worker, platform."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import psutil
from pydantic import SecretStr, ValidationError

from outlast.activities.secrets import secret_from_file
from outlast.api.access.oauth.access_tokens import Issuer, IssuerError
from outlast.api.access.oauth.resource import WELL_KNOWN, metadata_address
from outlast.api.access.policy.policy_file import PolicyError, read_policy_text, weak_points
from outlast.api.settings import ApiSettings
from outlast.cli.checks.machine import NO_METRICS, Clock, clock_at, http_response, metrics_of_the_api
from outlast.cli.options import Options
from outlast.cli.runner import cli_error, trying_once
from outlast.client import AsyncClient, Connection, McpServer, Readiness, errors
from outlast.contracts.checks import Check, fail, ok, skip, warn
from outlast.deploy.local.config import APIFY_API_BASE_URL
from outlast.deploy.local.state import SANDBOX_TOKEN_FILE, ProcessState, StackState
from outlast.wording import counted

_POLICY = "Policy"
_SERVERS = "MCP servers in force"
_PINS = "Pins of MCP servers"
_IN_FORCE = "Policy in force"
_REFUSED = "outlast_policy_refused"
_ENDS_SOON = timedelta(days=14)


async def check_policy_in_force(options: Options) -> Check:
    """Check that the API uses the policy file as it is now."""
    metrics = await metrics_of_the_api(options)
    if isinstance(metrics, str):
        return skip(_IN_FORCE, metrics)
    if not metrics.get(_REFUSED):
        return skip(_IN_FORCE, NO_METRICS)
    if metrics[_REFUSED][0].value:
        return fail(
            _IN_FORCE,
            "the API rejected the current policy file, and uses the previous one",
            "Its log has the reason: an error, or the file lost its end, its end mark or its last key. Restore the "
            "file before you restart the API.",
        )
    return ok(_IN_FORCE, "as in the policy file, or without one as in the settings")


def check_policy(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """Check that the policy file is valid, and that none of its keys expires soon."""
    named = environment.get("OUTLAST_POLICY_FILE")
    if named is None:
        return skip(_POLICY, "no OUTLAST_POLICY_FILE")
    if not named:
        return fail(_POLICY, "OUTLAST_POLICY_FILE is set, but empty", "Name the file, or unset the variable.")
    now = now or datetime.now(UTC)
    try:
        read = read_policy_text(Path(named))
    except PolicyError as error:
        return fail(
            _POLICY, str(error), "`outlast policy check` lists all errors. The API still uses the previous policy."
        )
    policy = read.policy
    ending = [
        f"{key.id} of {key.caller} expires on {key.expires:%F}"
        for key in policy.keys
        if key.expires is not None and not key.is_expired(now) and key.expires - now < _ENDS_SOON
    ]
    if ending:
        return warn(_POLICY, "; ".join(ending), "Create a new key with `outlast keys create`, then revoke the old one.")
    weak = weak_points(read)
    if weak:
        return warn(_POLICY, f"{named}: {'; '.join(weak)}", "See docs/policy.md for both settings.")
    return ok(_POLICY, f"{named}, {counted(sum(not key.is_expired(now) for key in policy.keys), 'key')}")


_AUTHORIZATION = "Authorization"


async def check_issuer() -> Check:
    """Check that the issuer of `OUTLAST_OAUTH_ISSUER` publishes keys, and that clients find it through this server."""
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip(_AUTHORIZATION, "the settings must be valid first")
    if settings.oauth_issuer is None:
        return skip(_AUTHORIZATION, "no OUTLAST_OAUTH_ISSUER")
    try:
        keys = await Issuer(settings.oauth_issuer).keys()
    except IssuerError as error:
        advice = "Correct OUTLAST_OAUTH_ISSUER: it must equal the issuer's own name, except for a final slash."
        return fail(_AUTHORIZATION, str(error), advice)
    finding = f"{settings.oauth_issuer}, {counted(len(keys.keys), 'key')}"
    own = settings.oauth_audiences[0]
    address = metadata_address(own)
    if await _resource_at(address) != own:
        advice = f"Let the proxy forward {WELL_KNOWN} too, and start the API; or correct OUTLAST_OAUTH_AUDIENCE."
        return warn(_AUTHORIZATION, f"{finding}; but {address} does not point clients to it", advice)
    return ok(_AUTHORIZATION, f"{finding}, for {own}")


async def _resource_at(address: str) -> str | None:
    """Return the resource in the metadata at an address."""
    answer = await http_response(address)
    try:
        found: object = answer.json() if answer is not None else None
    except ValueError:
        return None
    resource = cast(Mapping[str, object], found).get("resource") if isinstance(found, dict) else None
    return resource if isinstance(resource, str) else None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The data directory, the running stack and the environment that checks use."""

    data_dir: Path
    state: StackState | None
    """Of the stack on the data directory; None if it does not run."""
    environment: Mapping[str, str]

    def log_of(self, component: str) -> str:
        """Return advice that points to the log of a part."""
        return f"Its log: {self.data_dir / 'logs' / f'{component}.log'}" if self.state else "Read its log."


def check_stack(around: Surroundings) -> Check:
    """Check that the processes of the stack are alive."""
    state = around.state
    if state is None:
        return skip("Stack", f"none runs on {around.data_dir}")
    down = {name: part for name, part in state.parts.items() if part.state is not ProcessState.READY}
    down |= {name: state.parts[name] for name, pid in state.children.items() if not _is_alive(pid)}
    if down:
        name, part = next(iter(down.items()))
        finding = ", ".join(f"{name} is {part.state}" for name, part in down.items())
        reason = f"{part.last_end}\n" if part.last_end else ""
        return fail("Stack", finding, f"{reason}It is restarted until it is ready. {around.log_of(name)}")
    restarted = {name: part.restarts for name, part in state.parts.items() if part.restarts}
    restarts = [f"{name} restarted {counted(number, 'time')}" for name, number in restarted.items()]
    return ok("Stack", "; ".join([f"process {state.pid}, with {', '.join(state.parts)}", *restarts]))


async def check_server(options: Options, around: Surroundings) -> list[Check]:
    """Check the API, and through it Temporal, the worker, the credential and the tools."""
    try:
        async with trying_once(options) as client:
            readiness = await client.readiness()
            api = ok("API", client.connection.url)
            found = [api, *_check_readiness(readiness, around), *await _check_access(client)]
            return [*found, *await _check_servers(client, around)]
    except (errors.ConnectionFailed, errors.UnexpectedAnswer) as error:
        others = ("Temporal", "Worker", "Credential", "Tools")
        skipped = [skip(name, "the API must answer first") for name in others]
        return [fail("API", error.message, error.hint or ""), *skipped]


def clocks(options: Options, around: Surroundings) -> dict[str, Clock]:
    """Return the clocks that this machine must agree with: those of the platform and the API."""
    base_url, _, _ = _platform_of(around)
    found: dict[str, Clock] = {"the API": partial(_time_of_the_api, options)}
    return {"the platform": partial(clock_at, base_url), **found} if base_url else found


async def _time_of_the_api(options: Options) -> datetime | None:
    try:
        async with trying_once(options) as client:
            return await client.server_time()
    except errors.ConnectionFailed:  # reported by `check_server`
        return None


async def check_platform(around: Surroundings) -> Check:
    """Check that the Actor platform answers and accepts the token."""
    name = "Platform"
    base_url, token, kind = _platform_of(around)
    if base_url is None:
        return skip(name, "the sandbox starts with the stack")
    if token is None:
        missing = f"{around.data_dir / SANDBOX_TOKEN_FILE} is missing; restart the stack."
        return fail(name, f"{base_url}: no token", missing)
    advice = around.log_of("sandbox") if kind == "sandbox" else "Check the network and APIFY_API_BASE_URL."
    answer = await http_response(f"{base_url.rstrip('/')}/v2/users/me", token=token)
    if answer is None:
        return fail(name, f"{base_url} does not answer", advice)
    if answer.status_code in (401, 403):
        own = "Set APIFY_TOKEN to a token of that platform, or unset it to use the sandbox; then restart."
        return fail(name, f"{base_url} does not accept APIFY_TOKEN", own)
    if not answer.is_success:
        return fail(name, f"{base_url} answers {answer.status_code}", advice)
    return ok(name, f"{kind}, {base_url}, as {_username(answer)}")


_BLOCKING = re.compile(r'^outlast_blocked_function_loops_total\{[^}]*tool="([^"]*)"', re.MULTILINE)
_MISSING_SECRETS = re.compile(r'^outlast_missing_tool_secrets\{[^}]*secret="([^"]*)"', re.MULTILINE)


async def check_metrics(around: Surroundings) -> Check:
    """Check that the metrics of the worker can be scraped."""
    url = around.state.addresses.metrics_url if around.state else None
    if url is None:
        return skip("Worker metrics", "known only for a stack on this machine")
    answer = await http_response(url)
    if answer is None or not answer.is_success or "temporal" not in answer.text:
        return fail("Worker metrics", f"{url} serves no metrics", around.log_of("worker"))
    if missing := sorted(set(_MISSING_SECRETS.findall(answer.text))):
        names = ", ".join(missing[:10])
        advice = f"Set it in the environment of the worker, and restart it. {around.log_of('worker')}"
        return warn("Worker metrics", f"the worker lacks secrets of its tools: {names}", advice)
    if tools := sorted(set(_BLOCKING.findall(answer.text))):
        advice = f"Write it as `def`, or await what blocks: the stack is in the worker's log. {around.log_of('worker')}"
        return warn("Worker metrics", f"{', '.join(tools[:10])} blocked the event loop of functions", advice)
    series = sum(1 for line in answer.text.splitlines() if line and not line.startswith("#"))
    return ok("Worker metrics", f"{url}, {series} series")


async def check_temporal_ui(around: Surroundings) -> Check:
    """Check that the Temporal UI answers."""
    url = around.state.addresses.temporal_ui_url if around.state else None
    if url is None:
        return skip("Temporal UI", "known only for a stack on this machine")
    answer = await http_response(url)
    if answer is None or answer.is_error:
        return warn("Temporal UI", f"{url} does not answer", f"Tasks continue without it. {around.log_of('temporal')}")
    return ok("Temporal UI", url)


def _check_readiness(readiness: Readiness, around: Surroundings) -> list[Check]:
    parts = readiness.checks
    found = [ok("Temporal", "reached by the API")]
    if parts.get("temporal") != "ok":
        own = f"The stack restarts it. {around.log_of('temporal')}"
        elsewhere = "Is the server at TEMPORAL_ADDRESS up, and the address right?"
        advice = elsewhere if around.environment.get("TEMPORAL_ADDRESS") else own
        found = [fail("Temporal", "the API cannot reach it", advice)]
    if parts.get("disk") == "failing":
        advice = "Free disk space where the API runs: below OUTLAST_DISK_RESERVE_MBYTES it is not ready."
        found.append(fail("API's disk", "less space than the reserve", advice))
    if parts.get("worker") == "ok":
        found.append(ok("Worker", "polls for tasks"))
    elif parts.get("temporal") == "ok":
        own = f"Tasks wait until one does. {around.log_of('worker')}"
        advice = own if around.state else "Start `python -P -m outlast.worker`."
        found.append(fail("Worker", "no worker polls for tasks", advice))
    else:
        found.append(skip("Worker", "unknown while Temporal cannot be reached"))
    return found


async def _check_access(client: AsyncClient) -> list[Check]:
    try:
        tools = await client.tools()
    except (errors.Unauthenticated, errors.PermissionDenied) as error:
        return [fail("Credential", error.message, cli_error(error).hint or ""), skip("Tools", "need a credential")]
    except errors.OutlastError as error:
        return [skip("Credential", "not tried"), fail("Tools", error.message, cli_error(error).hint or "")]
    found = [_credential(client.connection)]
    actors = [tool.name for tool in tools if tool.actor]
    if not actors and not any(tool.name == "call-actor" for tool in tools):
        return [*found, ok("Tools", f"{counted(len(tools), 'tool')}, without those of Apify")]
    if not actors:
        advice = "Check the platform and OUTLAST_DEFAULT_ACTORS; the API's log says which Actor was left out."
        return [*found, warn("Tools", f"{counted(len(tools), 'tool')}, no tools of Actors", advice)]
    return [*found, ok("Tools", f"{counted(len(tools), 'tool')}, of Actors: {', '.join(actors)}")]


async def _check_servers(client: AsyncClient, around: Surroundings) -> list[Check]:
    """Check the MCP servers whose tools are offered; nothing without any."""
    try:
        found = await client.servers()
    except errors.PermissionDenied:
        return [skip(_SERVERS, "only a key with the scope `admin` sees them")]
    except errors.OutlastError:  # an older server, or a reason that the other checks report
        return []
    problem = (
        warn(_SERVERS, found.problem, "Until it is corrected, its previous content counts.") if found.problem else None
    )
    lock = warn(_PINS, found.lock_problem, "Until then, its previous pins count.") if found.lock_problem else None
    return [*(one for one in (problem, lock) if one), *(_check_mcp_server(server, around) for server in found.servers)]


def _check_mcp_server(server: McpServer, around: Surroundings) -> Check:
    name = f"MCP server {server.name}"
    if server.state == "unknown":
        return skip(name, f"not used yet; try it with `outlast servers test {server.name}`")
    if server.state == "down":
        advice = f"Try it again with `outlast servers test {server.name}`. {around.log_of('worker')}"
        return fail(name, server.error or "it does not answer", advice)
    restarts = f", restarted {counted(server.restarts, 'time')}" if server.restarts else ""
    state = f"{server.kind}, {counted(server.tools, 'tool')}{restarts}"
    if server.quarantined:
        advice = f"`outlast servers diff {server.name}` shows why; `outlast servers approve {server.name}` accepts it."
        return warn(name, f"{state}; {server.quarantined} in quarantine", advice)
    if server.flagged and not server.pinned:
        advice = f"Read it with `outlast servers show {server.name}`; `outlast servers pin {server.name}` accepts it."
        return warn(name, f"{state}; suspicious text in {counted(server.flagged, 'place')}", advice)
    return ok(name, f"{state}{', pinned' if server.pinned else ''}")


def _credential(connection: Connection) -> Check:
    if connection.token is None:
        return ok("Credential", "none needed")
    if connection.url.startswith("http://") and not connection.is_loopback:
        return warn("Credential", "sent unencrypted over http", "Put TLS before the server and use https.")
    return ok("Credential", "accepted")


def _platform_of(around: Surroundings) -> tuple[str | None, SecretStr | None, str]:
    """Return address, token and kind of the platform that the tools use."""
    own_token = _own_token(around)
    if own_token:
        base_url = around.environment.get("APIFY_API_BASE_URL") or APIFY_API_BASE_URL
        return base_url, SecretStr(own_token), "Apify"
    sandbox = around.state.addresses.sandbox_url if around.state else None
    if sandbox is None:
        return None, None, ""
    path = around.data_dir / SANDBOX_TOKEN_FILE
    token = SecretStr(path.read_text().strip()) if os.access(path, os.R_OK) else None
    return sandbox, token, "sandbox"


def _own_token(around: Surroundings) -> str | None:
    """Return the token of the operator; None also if its file cannot be read, which `check_variables` reports."""
    try:
        return around.environment.get("APIFY_TOKEN") or secret_from_file("APIFY_TOKEN", around.environment)
    except ValueError:
        return None


def _username(answer: httpx.Response) -> str:
    try:
        body: Any = answer.json()
        return str(body["data"]["username"])
    except (ValueError, KeyError, TypeError):
        return "an unknown user"


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
