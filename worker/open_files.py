"""The limit of open files of this process."""

import contextlib
import resource


def allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard limit: each run and each waiting client needs a connection, and
    the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse "unlimited"; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
