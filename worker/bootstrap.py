"""First steps of each process of Outlast: check the environment, read the settings, set up the log.

A misspelt variable with the prefix `OUTLAST_` is an error instead of being ignored. This is the one place that knows
the names of all processes: those of the worker are the fields of its settings; those of the layers above cannot be
imported here and are listed. `tests/unit/worker/test_environment.py` keeps the lists equal to what these layers read.
"""

import contextlib
import difflib
import logging
import os
import re
import resource
from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from outlast.activities.secrets import names_of, secret_file_variables
from outlast.paths import keep_files_private
from outlast.proxies import exempt_loopback, network_problems
from outlast.worker.logs import configure_early_logging, configure_logging
from outlast.worker.settings import Settings, WorkerSettings, settings_errors

PREFIX = "OUTLAST_"

OF_THE_API = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "ACCEPT_APIFY_TOKENS ALLOWED_HOSTS ALLOWED_ORIGINS ANONYMOUS_REQUESTS_PER_SECOND "
        "API_HOST API_KEYS API_KEYS_FILE API_PORT AUDIT_FILE AUDIT_MAX_BYTES AUDIT_STRICT BUILTIN_TOOLS COMPACTION "
        "COMPRESSION CONNECTIONS_PER_ADDRESS REQUEST_SECONDS SANDBOX "
        "DEFAULT_ACTORS DEFAULT_TOOLS FAILED_CREDENTIALS_PER_MINUTE FAIRNESS GRAFANA_URL HSTS_SECONDS INSTANCE_ID "
        "KILL_SWITCH LIMITS MAX_BATCH_BYTES MAX_BODY_BYTES MAX_BODY_DEPTH MAX_BODY_VALUES MAX_LISTED_TOOLS "
        "MAX_WAIT_SECONDS MCP_SESSION_IDLE_SECONDS MODE MODEL_PROVIDERS OAUTH_AUDIENCE OAUTH_CLOCK_SKEW_SECONDS "
        "OAUTH_ISSUER OUTPUT_INLINE_LIMIT_BYTES OUTPUT_THRESHOLD_BYTES OUTPUT_TTL_SECONDS PERMISSIONS "
        "POLICY_FILE QUICK_CALLS RUN_HEARTBEAT_SECONDS SCHEMA_CHECK_SECONDS SESSION_IDLE_DAYS SPENDING TOOL_MASKING "
        "TRUSTED_PROXIES UNREAD_SECONDS WEB_CONSOLE"
    ).split()
)
OF_THE_COMMAND_LINE = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "ACTORS BROWSER_URL READY_TIMEOUT RETENTION_DAYS SANDBOX_PORT SANDBOX_TOKEN SITE_DIR TEMPORAL_HTTP_PORT "
        "TEMPORAL_METRICS_PORT TEMPORAL_PORT TEMPORAL_UI_PORT TOKEN URL"
    ).split()
)
_SERVICE_LINK = re.compile(r"OUTLAST_(\w+_)?(SERVICE_(HOST|PORT)|PORT)(_\w+)?")
"""Variables that Kubernetes sets in each container of a namespace for a service `outlast` or `outlast-…`."""


def variables_of(settings: type[BaseSettings]) -> frozenset[str]:
    """The variables with our prefix that a class of settings reads, those that name the file of a secret included."""
    names = {choice for name, field in settings.model_fields.items() for choice in names_of(name, field, PREFIX)}
    return frozenset(name for name in names | secret_file_variables(settings) if name.startswith(PREFIX))


def known_variables() -> frozenset[str]:
    """Every variable with our prefix that some process of Outlast reads."""
    return variables_of(WorkerSettings) | OF_THE_API | OF_THE_COMMAND_LINE


def unknown_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each variable with our prefix that does not exist, with the name that may have been meant."""
    known = known_variables()
    names = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    return tuple(_describe(name, known) for name in names if not _SERVICE_LINK.fullmatch(name))


def _describe(name: str, known: frozenset[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"{name} is not a setting of Outlast. " + (f"Did you mean {close[0]}?" if close else "Unset it.")


S = TypeVar("S", bound=Settings)


def settings_of_process(kind: type[S], log: logging.Logger) -> S | None:
    """The settings `kind` from the environment; None when they cannot be used, and `log` says what is wrong with them.

    From then on the process logs as they say, keeps its files to itself and may have many connections.
    """
    keep_files_private()
    exempt_loopback(os.environ)
    problems = unknown_variables(os.environ) + network_problems(os.environ)
    if problems:
        configure_early_logging()
        for line in problems:
            log.error("Bad settings: %s", line)
        return None
    try:
        settings = kind()
    except ValidationError as error:
        configure_early_logging()
        log.error("Bad settings: %s", settings_errors(error))  # noqa: TRY400  # operators need the message, not a traceback
        return None
    configure_logging(settings.log_format, settings.log_level, settings.task_lines)
    allow_many_connections()
    return settings


def allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard limit: each run and each waiting client needs a connection, and
    the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse "unlimited"; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
