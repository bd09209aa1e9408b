"""Clients of the model providers, with the official libraries."""

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import SecretStr

from outlast.activities.llm.providers.answers import Provider
from outlast.activities.llm.providers.anthropic_messages import AnthropicMessagesProvider
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.llm.providers.openai_chat import OpenAIChatProvider
from outlast.activities.llm.providers.openai_responses import OpenAIResponsesProvider
from outlast.activities.web.network import outbound_client
from outlast.worker.settings import WorkerSettings

_CONNECT_SECONDS = 10
_MAX_CONNECTIONS = 1_000


def providers_of(settings: WorkerSettings) -> dict[str, Provider]:
    """The providers that have a key, by their ids; `generic` needs only an address."""
    timeout = httpx2.Timeout(settings.model_silence_seconds, connect=_CONNECT_SECONDS)
    providers: dict[str, Provider] = {}
    if key := _text(settings.openai_api_key):
        base_url = settings.openai_base_url or MATRIX["openai"].base_url
        client = AsyncOpenAI(api_key=key, base_url=base_url, http_client=_http(timeout), max_retries=0)
        providers["openai"] = OpenAIResponsesProvider(client)
    if key := _text(settings.anthropic_api_key):
        base_url = settings.anthropic_base_url or MATRIX["anthropic"].base_url
        providers["anthropic"] = AnthropicMessagesProvider(
            AsyncAnthropic(
                api_key=key,
                base_url=base_url,
                http_client=_http(timeout),
                max_retries=0,
                # Every provider has the same span, `activities/spans.py`; this one would count the tokens twice.
                open_telemetry={"traces": False, "propagation": False},
            )
        )
    if key := _text(settings.zai_api_key):
        base_url = settings.zai_base_url or MATRIX["zai"].base_url
        providers["zai"] = _chat("zai", key, base_url, timeout)
    if settings.generic_base_url:
        # Servers of one's own often want no key; the library does.
        key = _text(settings.generic_api_key) or "none"
        providers["generic"] = _chat("generic", key, settings.generic_base_url, timeout)
    return providers


def _chat(provider_id: str, key: str, base_url: str | None, timeout: httpx2.Timeout) -> Provider:
    client = AsyncOpenAI(api_key=key, base_url=base_url, http_client=_http(timeout), max_retries=0)
    return OpenAIChatProvider(provider_id, client)


def _http(timeout: httpx2.Timeout) -> httpx2.AsyncClient:
    return outbound_client(max_connections=_MAX_CONNECTIONS, timeout=timeout, follow_redirects=True)


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""
