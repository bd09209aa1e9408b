"""First steps of each process of Outlast: its settings are read and checked, and its log is set up."""

import logging
import os
from typing import TypeVar

from pydantic import ValidationError

from outlast.paths import keep_files_private
from outlast.worker.environment import unknown_variables
from outlast.worker.logs import configure_early_logging, configure_logging
from outlast.worker.open_files import allow_many_connections
from outlast.worker.settings import Settings, settings_errors

S = TypeVar("S", bound=Settings)


def settings_of_process(kind: type[S], log: logging.Logger) -> S | None:
    """The settings `kind` from the environment; None when they cannot be used, and `log` says what is wrong with them.

    From then on the process logs as they say, keeps its files to itself and may have many connections.
    """
    keep_files_private()
    unknown = unknown_variables(os.environ)
    if unknown:
        configure_early_logging()
        for line in unknown:
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
