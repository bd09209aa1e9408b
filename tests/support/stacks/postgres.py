"""A real PostgreSQL with data of its own, on a free port, with one user and its password."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from outlast.deploy.local.orphans import die_with_parent
from tests.support.ports import free_port

PASSWORD = "kept-in-a-file"
USER = "temporal"
_SYSTEM_USER = "postgres"
"""Whom the server runs as where tests run as root, which it refuses to be."""
_START_SECONDS = 60


@dataclass(frozen=True)
class Postgres:
    """Where it listens."""

    port: int

    def query(self, database: str, sql: str) -> str:
        """What a query of a database answers, unaligned. Raises `AssertionError` with what the server says."""
        where = ["--host=127.0.0.1", f"--port={self.port}", f"--username={USER}", f"--dbname={database}"]
        done = subprocess.run(
            ["psql", "--no-psqlrc", "--tuples-only", "--no-align", *where, "--command", sql],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Run it until the end of the block, with the database that its image makes: the one of the user's name."""
    postgres = Postgres(free_port())
    with tempfile.TemporaryDirectory(prefix="outlast-postgres-") as name:
        process = _start(Path(name), postgres.port)
        try:
            _await_answer(postgres, Path(name) / "log")
            postgres.query("postgres", f"CREATE DATABASE {USER}")
            yield postgres
        finally:
            process.kill()
            process.wait()


def _start(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    owner = _SYSTEM_USER if os.geteuid() == 0 else None
    folder.chmod(0o755)
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    data.mkdir(mode=0o700)
    if owner:
        shutil.chown(data, owner)
    made = [f"--pgdata={data}", f"--username={USER}", f"--pwfile={password}", "--no-sync", "--auth=scram-sha-256"]
    subprocess.run([programs / "initdb", *made], check=True, capture_output=True, user=owner)
    options = ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [programs / "postgres", "-D", data, "-p", str(port), *options],
            stdout=log,
            stderr=log,
            user=owner,
            preexec_fn=die_with_parent(),
        )


def _await_answer(postgres: Postgres, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with suppress(AssertionError):
            postgres.query("postgres", "SELECT 1")
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text())
