"""Which variables with the prefix `OUTLAST_` exist, so that a misspelt one is an error instead of being ignored.

This is the one place that knows the names of all processes. Those of the worker are the fields of its settings; those
of the floors above cannot be imported here and are listed. `tests/unit/worker/test_environment.py` keeps the lists
equal to what the API, the command line and the stack read.
"""

import difflib
import re
from collections.abc import Mapping

from pydantic_settings import BaseSettings

from outlast.activities.secrets.secret_files import names_of, secret_file_variables
from outlast.worker.settings import WorkerSettings

PREFIX = "OUTLAST_"

OF_THE_API = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "ACCEPT_APIFY_TOKENS ALLOWED_HOSTS ALLOWED_ORIGINS ANONYMOUS_REQUESTS_PER_SECOND "
        "API_HOST API_KEYS API_KEYS_FILE API_PORT AUDIT_FILE AUDIT_MAX_BYTES AUDIT_STRICT COMPACTION COMPRESSION "
        "CONNECTIONS_PER_ADDRESS REQUEST_SECONDS "
        "DEFAULT_ACTORS DEFAULT_TOOLS FAILED_CREDENTIALS_PER_MINUTE FAIRNESS HSTS_SECONDS INSTANCE_ID KILL_SWITCH "
        "LIMITS MAX_BATCH_BYTES MAX_BODY_BYTES MAX_BODY_DEPTH MAX_BODY_VALUES MAX_WAIT_SECONDS "
        "MCP_SESSION_IDLE_SECONDS MODE MODEL_PROVIDERS OAUTH_AUDIENCE OAUTH_CLOCK_SKEW_SECONDS OAUTH_ISSUER "
        "OUTPUT_INLINE_LIMIT_BYTES OUTPUT_THRESHOLD_BYTES OUTPUT_TTL_SECONDS PERMISSIONS "
        "POLICY_FILE QUICK_CALLS RUN_HEARTBEAT_SECONDS SCHEMA_CHECK_SECONDS SESSION_IDLE_DAYS SPENDING TOOL_MASKING "
        "TRUSTED_PROXIES UNREAD_SECONDS"
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
"""What Kubernetes puts into every container of a namespace for a service called `outlast` or `outlast-…`."""


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
