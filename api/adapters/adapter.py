"""`Adapter`: tools for a model of any provider, in three lines of an agent's loop, with or without the REST server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Unpack

from outlast.activities.contracts import JsonObject
from outlast.api.access.principal import LOCAL, Principal
from outlast.api.adapters.message_formats import AnthropicMessages, McpMessages, OpenAIChat, OpenAIResponses
from outlast.api.adapters.model_calls import BackEnd, CallReport
from outlast.api.adapters.runner import CallRunner, CallScope, load_callable, load_offered
from outlast.api.catalog.catalog import log_listing
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.api.tasks.arguments import DEFAULT_WAIT_SECONDS
from outlast.contracts.options import StartOptions, to_wire
from outlast.worker.connection import connect
from outlast.workflows.contracts.tool_calls import CallOptions
from outlast.workflows.contracts.tool_masks import normalised
from outlast.workflows.tools.extensions import load_extensions

BACK_ENDS: Mapping[str, BackEnd] = MappingProxyType(
    {back_end.name: back_end for back_end in (AnthropicMessages(), OpenAIResponses(), OpenAIChat(), McpMessages())}
)
"""The back ends by name. A new back end is a translating module and an entry here."""


@dataclass(frozen=True)
class Answered:
    """The outcome of a message's calls. `append` is empty if the model called no tool."""

    append: list[JsonObject]
    """To be appended to the conversation unchanged."""
    calls: tuple[CallReport, ...]


class Adapter:
    """One provider's view of the tools, for one caller."""

    def __init__(
        self,
        services: Services,
        back_end: BackEnd,
        *,
        principal: Principal = LOCAL,
        mode: str | None = None,
        tools: Sequence[str] | None = None,
    ) -> None:
        """Select `tools` by category, name or Actor; no other tool can be called then.

        Without `tools`, the server's default tools are listed, and every tool can be called.
        """
        self._services = services
        self._back_end = back_end
        self._principal = principal
        self._mode = mode or services.settings.mode
        self._selectors = None if tools is None else tuple(tools)
        self._runner = CallRunner(services)

    async def tools(self) -> list[JsonObject]:
        """Return the list of tools to send with every request. Raises `UnknownToolCalled` for an unknown mode."""
        offered = await load_offered(
            self._services.catalogue, self._principal.caller, mode=self._mode, selectors=self._selectors
        )
        log_listing(offered.tools, self._selectors, caller=self._principal.caller.id)
        return offered.listed(self._back_end)

    async def answer(
        self,
        message: object,
        *,
        session_id: str | None = None,
        message_id: str | None = None,
        options: CallOptions | None = None,
        wait_seconds: float = DEFAULT_WAIT_SECONDS,
        **call_options: Unpack[StartOptions],
    ) -> Answered:
        """Run the tool calls in `message`, a model's message as the provider returned it, concurrently.

        Each call has the `call_options`, by name, or `options` in the form of the REST API. `tool_mask` limits the
        tools that can be called; the list of tools stays. A call that is still running after `wait_seconds` is answered
        with its task's id. A repeated call (same id, session and message) is the same task. Raises `TypeError` for an
        unknown option, for `options` beside options by name, and for `mode` and `idempotency_key`; and the `ApiError`s
        of `CallRunner`.
        """
        chosen = chosen_options(options, call_options)
        calls = self._back_end.calls(message)
        catalogue = self._services.catalogue
        if self._selectors is None:
            offered = await load_callable(catalogue, self._principal.caller, mode=self._mode)
        else:
            offered = await load_offered(catalogue, self._principal.caller, mode=self._mode, selectors=self._selectors)
        scope = CallScope(session_id, message_id, chosen, normalised(call_options.get("tool_mask")))
        outcomes = await self._runner.run(self._principal, offered, calls, scope, wait_seconds)
        return Answered(self._back_end.append(outcomes), tuple(CallReport.of(outcome) for outcome in outcomes))


def chosen_options(options: CallOptions | None, by_name: StartOptions) -> CallOptions:
    """Return the options of each call, in the form of the REST API. Raises `TypeError`, see `Adapter.answer`."""
    for name in ("mode", "idempotency_key"):
        if by_name.get(name) is not None:
            raise TypeError(f"`answer` takes no {name!r}: an adapter has its mode, and each call its key.")
    body = to_wire(StartOptions, by_name, known=("session_id", "message_id", "options", "wait_seconds")).get("options")
    if options is not None and body:
        raise TypeError("Give options by name, or `options`.")
    return options or CallOptions.model_validate(body or {})


async def connected_services(settings: ApiSettings | None = None) -> Services:
    """Connect the services for an `Adapter` outside the server process, with the settings of the environment.

    Raises `RuntimeError` when Temporal cannot be reached, `SealError` without the key ring of the workers.
    """
    own = settings or ApiSettings()
    load_extensions(own.tool_modules)
    return Services(own, await connect(own))
