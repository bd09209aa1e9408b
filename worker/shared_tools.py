"""What the worker needs for skills, for workspaces and for what tools say to users, from its settings."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from activities.responder import ResponderActivities
from activities.skill_folder import SkillFolder
from activities.skills import SkillActivities
from activities.workspace import Commands, WorkspaceActivities
from activities.workspace_files import WorkspaceFiles, Workspaces
from activities.workspace_sandbox import Sandbox, SandboxLimits, SandboxUnavailable, refused, sandbox_uid
from worker.settings import WorkerSettings

log = logging.getLogger("outlast.worker")


def shared_tool_activities(settings: WorkerSettings) -> Sequence[Callable[..., Any]]:
    """The activities. Raises `ValueError` for a webhook that is no web address; its text does not say which."""
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
    """The sandbox, tried once; where it does not work, what refuses every command and says why."""
    limits = SandboxLimits(
        memory_bytes=settings.bash_memory_mbytes * 1024 * 1024,
        processes=settings.bash_processes,
        commands=settings.bash_slots,
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
