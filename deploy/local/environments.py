"""Which variables of the user's environment each part of a stack gets: no part gets the secrets of another.

A process's environment can be read by every other process of the same user, and ends up in its core dumps. So the API
gets no key of a model, the worker no key of a caller, and the servers that are not ours only what programs need to run.
"""

from collections.abc import Mapping

from outlast.deploy.local.config import Component

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
