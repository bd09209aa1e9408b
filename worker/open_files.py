"""What the operating system allows this process."""

import contextlib
import resource


def allow_many_connections() -> None:
    """Raise the soft limit of open files to the hard one: every open run and every waiting client is a connection, and
    the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse "unlimited"; then it stays as it is
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
