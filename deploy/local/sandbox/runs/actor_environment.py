"""The environment of an Actor's process: the platform's variables, without any secret of the sandbox."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import orjson

from outlast.deploy.local.sandbox.actors.actor_folder import Actor
from outlast.deploy.local.sandbox.runs.run_table import Run, pricing_info
from outlast.deploy.local.sandbox.times_and_ids import iso

_INHERITED = (
    "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS", "NO_PROXY", "no_proxy", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PLAYWRIGHT_BROWSERS_PATH",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def actor_environment(actor: Actor, run: Run, *, token: str, base_url: str, home: str) -> dict[str, str]:
    """All variables of a run's process, under the names that the platform documents and the SDK reads."""
    return {
        **_inherited(),
        **actor.environment,
        "HOME": home,
        "CRAWLEE_STORAGE_DIR": f"{home}/storage",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **_platform_variables(run, token, base_url),
        **_run_variables(actor, run, base_url),
    }


def standby_environment(actor: Actor, *, user_id: str, token: str, base_url: str, port: int) -> dict[str, str]:
    """All variables of a Standby process, which has no run and therefore no storages."""
    return {
        **_inherited(),
        **actor.environment,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "APIFY_IS_AT_HOME": "1",
        "APIFY_TOKEN": token,
        "APIFY_USER_ID": user_id,
        "APIFY_API_BASE_URL": base_url,
        "APIFY_API_PUBLIC_BASE_URL": base_url,
        "APIFY_META_ORIGIN": "STANDBY",
        "ACTOR_ID": actor.id,
        "ACTOR_FULL_NAME": actor.full_name,
        "ACTOR_BUILD_ID": actor.build_id,
        "ACTOR_BUILD_NUMBER": actor.build_number,
        "ACTOR_STANDBY_PORT": str(port),
        "ACTOR_WEB_SERVER_PORT": str(port),
        "ACTOR_STANDBY_URL": f"{base_url}/standby/{actor.username}~{actor.name}",
    }


def _inherited() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # A proxy address may contain a password, which an Actor must not get.
    open_proxies = {name: os.environ[name] for name in _PROXIES if _has_no_password(os.environ.get(name, ""))}
    return kept | open_proxies


def _has_no_password(address: str) -> bool:
    return bool(address) and urlsplit(address).password is None


def _platform_variables(run: Run, token: str, base_url: str) -> dict[str, str]:
    return {
        "APIFY_IS_AT_HOME": "1",
        "APIFY_TOKEN": token,
        "APIFY_USER_ID": run.user_id,
        "APIFY_API_BASE_URL": base_url,
        "APIFY_API_PUBLIC_BASE_URL": base_url,
        "APIFY_META_ORIGIN": run.origin,
        "APIFY_HEADLESS": "1",
        "APIFY_DEDICATED_CPUS": str(max(0.125, run.memory_mbytes / 4096)),
        "APIFY_CHARGED_ACTOR_EVENT_COUNTS": orjson.dumps(run.charged).decode(),
        "APIFY_ACTOR_PRICING_INFO": orjson.dumps(pricing_info(run.prices, run.started_at) or {}).decode(),
        "CRAWLEE_PURGE_ON_START": "0",
    }


def _run_variables(actor: Actor, run: Run, base_url: str) -> dict[str, str]:
    timeout_at = iso(run.life_began_at + run.timeout_seconds) if run.timeout_seconds else ""
    return {
        "ACTOR_ID": actor.id,
        "ACTOR_FULL_NAME": actor.full_name,
        "ACTOR_RUN_ID": run.id,
        "ACTOR_TASK_ID": "",
        "ACTOR_BUILD_ID": run.build_id,
        "ACTOR_BUILD_NUMBER": run.build_number,
        "ACTOR_BUILD_TAGS": run.build_tag,
        "ACTOR_DEFAULT_DATASET_ID": run.dataset_id,
        "ACTOR_DEFAULT_KEY_VALUE_STORE_ID": run.store_id,
        "ACTOR_DEFAULT_REQUEST_QUEUE_ID": run.queue_id,
        "ACTOR_STORAGES_JSON": orjson.dumps(run.storage_ids).decode(),
        "ACTOR_INPUT_KEY": "INPUT",
        "ACTOR_EVENTS_WEBSOCKET_URL": f"{base_url.replace('http', 'ws', 1)}/events/{run.id}",
        "ACTOR_MEMORY_MBYTES": str(run.memory_mbytes),
        "ACTOR_STARTED_AT": iso(run.started_at),
        "ACTOR_TIMEOUT_AT": timeout_at,
        "ACTOR_MAX_PAID_DATASET_ITEMS": "" if run.max_items is None else str(run.max_items),
        "ACTOR_MAX_TOTAL_CHARGE_USD": "" if run.max_total_charge_usd is None else str(run.max_total_charge_usd),
    }
