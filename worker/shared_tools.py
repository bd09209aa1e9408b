"""Activities that depend on settings: skills, workspaces, user messages, models and web pages."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.llm.activities import CHAT_PARAMS_HOOKS, ModelActivities
from outlast.activities.llm.providers.answers import Provider
from outlast.activities.llm.streaming import WorkflowDeltas
from outlast.activities.skills import SkillActivities, SkillFolder
from outlast.activities.spending.ledger import Ledgers
from outlast.activities.user_messages import ResponderActivities
from outlast.activities.web.activities import WebActivities
from outlast.activities.web.address_rules import AddressRules, WebAddress
from outlast.activities.web.docs import DocsLibrary, DocsSite, DocsTiming
from outlast.activities.web.fetcher import WebFetcher
from outlast.activities.web.pages import HtmlSkeletons
from outlast.activities.workspaces.activities import Commands, WorkspaceActivities, WorkspaceFiles, Workspaces
from outlast.activities.workspaces.bubblewrap import Sandbox, SandboxLimits, SandboxUnavailable, refused, sandbox_uid
from outlast.extras import require
from outlast.worker.settings import WorkerSettings
from outlast.workflows.tools.extensions import extension_entries

log = logging.getLogger("outlast.worker")


def shared_tool_activities(settings: WorkerSettings) -> Sequence[Callable[..., Any]]:
    """Activities for skills, workspaces and user messages. Raises `ValueError` for a webhook that is no web address."""
    responder = ResponderActivities(settings.responder_webhook_url)
    skills = SkillActivities(SkillFolder(settings.skills_dir) if settings.skills_dir is not None else None)
    workspace = _workspace(settings)
    return (
        responder.deliver_to_webhook,
        skills.load_skill,
        skills.load_skill_file,
        workspace.read_workspace_file,
        workspace.run_workspace_command,
    )


def _workspace(settings: WorkerSettings) -> WorkspaceActivities:
    if settings.workspace_dir is None:
        return WorkspaceActivities(None, None)
    workspaces = Workspaces(settings.workspace_dir, uid=sandbox_uid())
    files = WorkspaceFiles(workspaces) if settings.enable_read else None
    return WorkspaceActivities(files, _commands(settings, workspaces) if settings.enable_bash else None)


def _commands(settings: WorkerSettings, workspaces: Workspaces) -> Callable[[], Commands]:
    """The sandbox, after a trial. Where it does not work, a function that rejects every command with the reason."""
    limits = SandboxLimits(
        memory_bytes=settings.bash_memory_mbytes * 1024 * 1024,
        processes=settings.bash_processes,
        commands=settings.bash_slots,
        commands_per_caller=settings.bash_slots_per_caller or -(-settings.bash_slots // 2),
    )
    sandbox = Sandbox(workspaces, limits)
    try:
        sandbox.probe()
    except SandboxUnavailable as error:
        log.warning("Bash is turned on, but commands are refused: %s", error)
        failure = refused(error)

        def refuse() -> Commands:
            raise failure

        return refuse
    return lambda: sandbox


def model_activities(
    settings: WorkerSettings, conversations: ConversationBlocks | None = None, ledgers: Ledgers | None = None
) -> ModelActivities:
    """The activity that calls models, with the configured providers and the conversations of sessions."""
    return ModelActivities(
        configured_providers(settings),
        conversations=conversations,
        prices=settings.model_prices,
        open_sink=partial(WorkflowDeltas, steady=timedelta(seconds=settings.delta_seconds)),
        hooks=extension_entries(CHAT_PARAMS_HOOKS),
        limits=settings.model_limits,
        ledgers=ledgers,
    )


def configured_providers(settings: WorkerSettings) -> dict[str, Provider]:
    """The providers that have a key, by their ids; `generic` needs only an address."""
    keys = (settings.openai_api_key, settings.anthropic_api_key, settings.zai_api_key)
    if not any(key and key.get_secret_value() for key in keys) and not settings.generic_base_url:
        return {}
    require("models")
    # Importing their libraries takes 1.5 seconds: only for workers that call models.
    from outlast.worker.providers import providers_of  # noqa: PLC0415

    return providers_of(settings)


def web_activities(settings: WorkerSettings) -> WebActivities:
    """The activities with their rules. Raises `AddressNotAllowed` for a setting that is no web address."""
    sites = docs_sites(settings)
    rules = AddressRules(
        sites=tuple(site.root for site in sites),
        # A site that the operator names may be on a private address; the default sites may not.
        trusts_sites="docs_site_url" in settings.model_fields_set,
    )
    timing = DocsTiming(index_seconds=settings.docs_index_seconds, max_pages=settings.docs_index_pages)
    of_users = AddressRules(allow_private=settings.allow_private_addresses)
    return WebActivities(
        DocsLibrary(sites, WebFetcher(rules, proxy_resolves=settings.proxy_resolves), timing),
        HtmlSkeletons(WebFetcher(of_users, proxy_resolves=settings.proxy_resolves)),
    )


def docs_sites(settings: WorkerSettings) -> tuple[DocsSite, ...]:
    """The sites that the settings name, each with its index when one is named in the same place."""
    roots = _addresses(settings.docs_site_url)
    indexes = _addresses(settings.docs_index_url or "")
    return tuple(DocsSite(root, next((index for index in indexes if index.is_below(root)), None)) for root in roots)


def _addresses(text: str) -> list[WebAddress]:
    return [WebAddress.parse(part.strip()) for part in text.split(",") if part.strip()]
