"""Losing keys opens nothing: a policy file that is cut, emptied or removed, settings without content, and proxies."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import ALL_SCOPES, KeyEntry
from outlast.api.access.policy.policy_file import add_key
from outlast.cli.checks.components import check_policy_in_force
from outlast.cli.options import Options
from tests.support.calls.schedules import scheduled
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.mcp_wire import LEGACY, MODERN
from tests.support.ports import free_port
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import SEAL_KEYS
from tests.support.stacks.stack_config import clean_environment
from tests.support.whole_file import replace_text

pytestmark = pytest.mark.slow

RULES = """\
# who may do what
unmatched = "allow"

[defaults.spending]
per_day_usd = 20

[[rules]]
caller = "key:ann"
tool = "call-actor"
action = "deny"
"""
KEY, HASH = new_key("ann")
ANN = bearer(KEY.get_secret_value())
BY_HAND = f"""{RULES}
[[keys]]
id = "ann"
caller = "key:ann"
hash = "{HASH}"
scopes = ["read", "call"]

[[rules]]
caller = "*"
tool = "fetch-apify-docs"
action = "deny"
"""


def by_command(folder: Path) -> Path:
    path = folder / "policy.toml"
    path.write_text(RULES)
    add_key(path, KeyEntry(id="ann", caller="key:ann", hash=str(HASH), scopes=frozenset({"read", "call"})))
    return path


def by_hand(folder: Path) -> Path:
    path = folder / "policy.toml"
    path.write_text(BY_HAND)
    return path


def cuts(text: str) -> dict[str, str]:
    """The file as an editor, `cp` or a full disk may leave it: cut after each line, and within each."""
    places = [place for place, letter in enumerate(text) if letter == "\n" and place < len(text) - 1]
    whole = {f"after {place}": text[: place + 1] for place in places}
    return {**whole, **{f"within {place}": text[: place - 3] for place in places[3:]}}


def without_keys(text: str) -> str:
    """Without the table of the key, whole otherwise."""
    before, _, after = text.partition("[[keys]]\n")
    return before + after.partition("\n\n")[2]


@pytest.fixture(params=[by_command, by_hand])
def policy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    written: Callable[[Path], Path] = request.param
    return written(tmp_path)


@pytest.fixture
async def api(temporal: Client, sandbox: Sandbox, policy: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_api(temporal, api_settings(sandbox, policy_file=policy), whole=True) as api:
        yield api


def read(path: Path) -> str:
    return path.read_text()


async def sample(api: httpx.AsyncClient, series: str) -> float:
    lines = (await api.get("/metrics")).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))


async def status(api: httpx.AsyncClient, headers: dict[str, str] | None = None) -> int:
    return (await api.get("/v1/providers", headers=headers)).status_code


async def refuses(api: httpx.AsyncClient, policy: Path, text: str) -> None:
    """Have the API read another text, and see it refused."""
    errors = 'outlast_policy_loads_total{outcome="error"}'
    before = await sample(api, errors)
    replace_text(policy, text)

    async def refused() -> bool:
        return await sample(api, errors) > before

    await eventually(refused)


async def test_a_file_that_lost_something_leaves_the_policy_in_force(
    api: httpx.AsyncClient, policy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = read(policy)
    lost = {
        "empty": "",
        "blank": "\n \n",
        "comments": "# who may do what\n",
        "without its keys": without_keys(whole),
        "without its keys and its end": without_keys(whole).replace("\n[end]\n", "\n"),
        **dict(list(cuts(whole).items())[::4]),
        "no TOML": whole.replace("[[rules]]", "[[rules"),
    }
    wrong: list[str] = []
    for name, text in lost.items():
        await refuses(api, policy, text)
        if (await status(api), await status(api, ANN)) != (401, 200):
            wrong.append(name)
        denied = await api.post("/v1/tasks", json={"tool": "call-actor", "arguments": {"actor": "x/y"}}, headers=ANN)
        if denied.status_code == 201 and "permission" not in await ended(api, denied.json()["id"]):
            wrong.append(f"{name}: not denied")
    assert not wrong
    assert await sample(api, "outlast_policy_refused ") == 1
    assert "The previous policy stays in force" in caplog.text
    row = await check_policy_in_force(Options(str(api.base_url), None, policy.parent, False))
    assert (row.health, "uses the previous one" in row.finding) == ("fail", True)

    await asyncio.to_thread(policy.unlink)
    replace_text(policy, whole)

    async def restored() -> bool:
        return await sample(api, "outlast_policy_refused ") == 0

    await eventually(restored)
    assert (await status(api), await status(api, ANN)) == (401, 200)
    assert (await check_policy_in_force(Options(str(api.base_url), None, policy.parent, False))).health == "ok"


async def ended(api: httpx.AsyncClient, task_id: str) -> str:
    answer = await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60}, headers=ANN)
    return answer.text


async def test_the_last_key_goes_by_command_and_nobody_is_let_in_instead(api: httpx.AsyncClient, policy: Path) -> None:
    revoke = outlast_command("keys", "revoke", "ann", "--file", str(policy), "--url", str(api.base_url))
    asked = await ran(revoke, clean_environment())
    assert (asked.returncode, "the last valid key" in asked.stderr, "--yes" in asked.stderr) == (2, True, True), asked
    assert await status(api, ANN) == 200
    done = await ran([*revoke, "--yes"], clean_environment())
    assert done.returncode == 0, done.stderr

    async def revoked() -> bool:
        return await status(api, ANN) == 401

    await eventually(revoked)
    assert await status(api) == 401
    assert await sample(api, "outlast_policy_refused ") == 0
    text = read(policy)
    assert ('anonymous = "none"' in text, text.endswith("\n[end]\n"), 'action = "deny"' in text) == (True, True, True)


async def test_revoking_a_key_lists_what_its_caller_still_has(
    temporal: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    path, (admin, admins_hash) = by_command(tmp_path), new_key("operator")
    add_key(path, KeyEntry(id="operator", caller="key:operator", hash=str(admins_hash), scopes=ALL_SCOPES))
    settings = api_settings(sandbox, policy_file=path, store_url=str(tmp_path / "outputs"))
    async with serving_api(temporal, settings, whole=True) as api:
        call = {"tool": "fetch-apify-docs", "arguments": {"url": "https://docs.apify.com"}}
        saved = await api.put("/v1/saved-calls/nightly", json=call, headers=ANN)
        assert saved.is_success, saved.text
        await scheduled(api, "each-night", ANN, call=call)
        refused = await api.get("/v1/operations/holdings", params={"caller": "key:operator"}, headers=ANN)
        assert refused.status_code == 403
        own = (await api.get("/v1/operations/holdings", headers=ANN)).json()
        assert (own["caller"], own["saved_calls"]) == ("key:ann", ["nightly"])
        revoke = outlast_command("keys", "revoke", "ann", "--file", str(path), "--url", str(api.base_url))
        done = await ran(revoke, clean_environment(OUTLAST_TOKEN=admin.get_secret_value()))
        assert (done.returncode, "key:ann still has:" in done.stderr) == (0, True), done.stderr
        assert "saved calls: nightly" in done.stderr
        assert f"schedules: {own['schedules'][0]}" in done.stderr


async def ran(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(
        subprocess.run, command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("value", ["local", "proxied"])
async def test_only_a_line_in_the_file_lets_somebody_in_without_a_key(
    temporal: Client, sandbox: Sandbox, tmp_path: Path, value: str
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(RULES)
    async with serving_api(temporal, api_settings(sandbox, policy_file=path), whole=True) as api:
        assert await status(api) == 401
        replace_text(path, f'anonymous = "{value}"\n{RULES}')

        async def let_in() -> bool:
            return await status(api) == 200

        await eventually(let_in)
        assert await status(api, {"X-Forwarded-For": "203.0.113.7"}) == (401 if value == "local" else 200)


PROXIES = (
    {"X-Forwarded-For": "203.0.113.7"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": ""},
    {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-Host": "outlast.example"},
    {"X-Forwarded-Server": "front"},
    {"Forwarded": "for=203.0.113.7"},
    {"Via": "1.1 caddy"},
    {"X-Real-IP": "203.0.113.7"},
    {"CF-Connecting-IP": "203.0.113.7"},
    {"True-Client-IP": "203.0.113.7"},
    {"X-Client-IP": "203.0.113.7"},
    {"X-Envoy-External-Address": "203.0.113.7"},
)


async def test_whoever_comes_through_a_proxy_is_not_the_operator(temporal: Client, sandbox: Sandbox) -> None:
    async with serving_api(temporal, api_settings(sandbox), whole=True) as api:
        assert await status(api) == 200
        for headers in PROXIES:
            assert await status(api, headers) == 401, headers
            decoded = await api.post("/codec/decode", json={"payloads": []}, headers=headers)
            assert decoded.status_code == 401, headers
            for revision in (LEGACY, MODERN):
                message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                sent = {**headers, "MCP-Protocol-Version": revision, "Accept": "application/json, text/event-stream"}
                assert (await api.post("/mcp", json=message, headers=sent)).status_code == 401, headers


UNUSABLE: dict[str, tuple[Callable[[Path], str | None], str]] = {
    "missing": (lambda _: None, "cannot be read"),
    "empty": (lambda _: "", "is empty"),
    "comments only": (lambda _: "# nothing\n", "is empty"),
    "cut": (lambda folder: by_command(folder).read_text().replace("\n[end]\n", ""), "is truncated"),
    "cut before the keys": (lambda folder: by_command(folder).read_text().partition("[[keys]]")[0], "is truncated"),
    "cut within a line": (lambda folder: by_command(folder).read_text()[:-12], "policy.toml"),
    "begun late": (
        lambda _: (
            RULES.replace("unmatched", "end_mark = true\nunmatched", 1).replace(
                "# who may do what", 'anonymous = "none"'
            )
            + "[end]\n"
        ),
        "end_mark: must be the first line",
    ),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_api_does_not_start_with_a_policy_that_lost_something(tmp_path: Path, case: str) -> None:
    made, said = UNUSABLE[case]
    text = made(tmp_path)
    path = tmp_path / "policy.toml"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_text(text)
    code, log = started(tmp_path, OUTLAST_POLICY_FILE=str(path))
    assert (code, said in log, "Traceback" in log) == (1, True, False), log


@pytest.mark.parametrize(
    "variables",
    [
        {"OUTLAST_API_KEYS": ""},
        {"OUTLAST_API_KEYS": " , "},
        {"OUTLAST_API_KEYS_FILE": "{empty}"},
        {"OUTLAST_API_KEYS_FILE": ""},
        {"OUTLAST_OAUTH_ISSUER": ""},
        {"OUTLAST_POLICY_FILE": ""},
        {"OUTLAST_API_KEYS": "", "OUTLAST_OAUTH_ISSUER": ""},
    ],
)
def test_an_api_does_not_start_with_settings_that_lost_their_content(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "empty").touch()
    given = {name: value.format(empty=tmp_path / "empty") for name, value in variables.items()}
    code, log = started(tmp_path, **given)
    assert (code, "Traceback" in log) == (1, False), log
    assert all(name in log or name.removeprefix("OUTLAST_").lower() in log for name in variables), log


def started(folder: Path, **variables: str) -> tuple[int, str]:
    """How an API process ends, and its log. It would not end if it started."""
    environment = clean_environment(
        OUTLAST_SEAL_KEYS=SEAL_KEYS,
        OUTLAST_DATA_DIR=str(folder),
        OUTLAST_API_PORT=str(free_port()),
        TEMPORAL_ADDRESS=f"127.0.0.1:{free_port()}",
        **variables,
    )
    command = [sys.executable, "-P", "-m", "outlast.api"]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr
