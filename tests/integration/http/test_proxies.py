"""Whose word counts for where a request comes from: that of configured proxies, and of nobody else."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from outlast.api.settings import ApiSettings
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, running_lone_api, serving_api
from tests.support.stacks.service import SEAL_KEYS

KEYS = "bob:bob-0123456789abcdef"
CLAIMS = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "evil.example",
    "X-Real-IP": "203.0.113.9",
    "Forwarded": "for=203.0.113.9;proto=https;host=evil.example",
}


@asynccontextmanager
async def served(folder: Path, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    given = {"default_actors": "", "api_keys": SecretStr(KEYS), "audit_file": folder / "audit", **settings}
    client = await connect(f"127.0.0.1:{free_port()}", lazy=True)
    async with serving_api(client, ApiSettings(data_dir=folder, seal_keys=SecretStr(SEAL_KEYS), **given)) as http:
        yield http


def last_remote(audit: Path) -> str:
    return json.loads(audit.read_text().splitlines()[-1])["remote"]


async def origin_of(http: httpx.AsyncClient, audit: Path, headers: dict[str, str]) -> tuple[str, str]:
    """The address in the audit log, and the scheme that the server thinks it is reached by."""
    assert (await http.get("/v1/tasks", headers=headers)).status_code == 401
    card = (await http.get("/mcp/server-card", headers=headers)).json()
    return last_remote(audit), card["remotes"][0]["url"].partition("://")[0]


async def test_a_process_of_this_machine_cannot_say_that_it_is_somebody_else(tmp_path: Path) -> None:
    """Through a real API process, with what uvicorn by itself would believe."""
    audit = tmp_path / "audit"
    with running_lone_api(
        tmp_path,
        OUTLAST_API_KEYS=KEYS,
        OUTLAST_AUDIT_FILE=str(audit),
        OUTLAST_FAILED_CREDENTIALS_PER_MINUTE="3",
        OUTLAST_ACCEPT_APIFY_TOKENS="false",
        FORWARDED_ALLOW_IPS="*",
    ) as api:
        async with httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=180) as http:
            assert await origin_of(http, audit, CLAIMS) == ("127.0.0.1", "http")
            guesses = [
                await http.get(
                    "/v1/tasks",
                    headers={"Authorization": f"Bearer guess-{number}", "X-Forwarded-For": f"203.0.113.{number}"},
                )
                for number in range(8)
            ]
        assert "OUTLAST_TRUSTED_PROXIES" in api.log.read_text()
    assert [answer.status_code for answer in guesses] == 3 * [401] + 5 * [429]


@pytest.mark.parametrize(
    ("claimed", "remote"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("198.51.100.7, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 192.0.2.77", "203.0.113.9"),
        ("[2001:db8::9]:4711", "2001:db8::9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("'); DROP TABLE records", "unknown"),
        ("x" * 5_000, "unknown"),
    ],
)
async def test_a_configured_proxy_is_believed(tmp_path: Path, claimed: str, remote: str) -> None:
    async with served(tmp_path, trusted_proxies="127.0.0.1, 192.0.2.0/24") as http:
        said = {"X-Forwarded-For": claimed, "X-Forwarded-Proto": "https"}
        assert await origin_of(http, tmp_path / "audit", said) == (remote, "https")


async def test_another_proxy_is_not(tmp_path: Path) -> None:
    async with served(tmp_path, trusted_proxies="192.0.2.0/24, ::1") as http:
        assert await origin_of(http, tmp_path / "audit", CLAIMS) == ("127.0.0.1", "http")


async def test_behind_a_configured_proxy_each_client_has_its_own_limits(tmp_path: Path) -> None:
    async with served(tmp_path, trusted_proxies="127.0.0.1", anonymous_requests_per_second=0.01) as http:

        async def status(address: str) -> int:
            return (await http.get("/docs", headers={"X-Forwarded-For": address})).status_code

        assert [await status("203.0.113.9") for _ in range(2)] == [200, 429]
        assert [await status("203.0.113.10") for _ in range(2)] == [200, 429]
        assert [await status(f"2001:db8:0:1::{number}") for number in (1, 2)] == [200, 429]


@pytest.mark.parametrize("proxies", ["*", "proxy.example", "10.0.0.0/33", "10.0.0.1/8", "127.0.0.1,,x"])
def test_a_list_that_would_be_believed_by_mistake_is_refused(proxies: str) -> None:
    with pytest.raises(ValidationError, match="is neither an address nor a network"):
        ApiSettings(trusted_proxies=proxies)


async def test_beyond_loopback_mcp_answers_to_the_names_in_the_settings_and_probes_to_all(tmp_path: Path) -> None:
    named = {"api_host": "0.0.0.0", "allowed_hosts": "outlast.example, other.example:8443"}
    async with served(tmp_path, **named) as http:

        async def status(method: str, path: str, host: str) -> int:
            return (await http.request(method, path, headers={"Host": host})).status_code

        for host in ("outlast.example", "OUTLAST.example:8400", "other.example:8443"):
            assert await status("POST", "/mcp", host) == 401
        for host in ("evil.example", "outlast.example.evil.example", "other.example", "127.0.0.1"):
            assert await status("POST", "/mcp", host) == 400
        assert await status("GET", "/healthz", "10.0.0.7:8400") == 200
