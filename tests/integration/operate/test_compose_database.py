"""deploy/compose/temporal/schema.sh on a real PostgreSQL: first and further starts, a newer version, one that fails.

Temporal's tool is in container images only. `tests.support.deployments.sql_tool` stands in for it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deployments import sql_tool
from tests.support.paths import ROOT
from tests.support.stacks.postgres import PASSWORD, USER, Postgres, running_postgres

pytestmark = [pytest.mark.thorough, pytest.mark.needs("postgresql")]

DATABASES = {"temporal": "temporal", "temporal_visibility": "visibility"}
SCRIPT = ROOT / "deploy" / "compose" / "temporal" / "schema.sh"


class Container:
    """The script with the places of its container, and the tool in its path."""

    def __init__(self, folder: Path, port: int) -> None:
        self.schema = folder / "schema"
        self._script = folder / "schema.sh"
        (folder / "password").write_text(f"{PASSWORD}\n")
        text = SCRIPT.read_text()
        here = {
            "/run/secrets/postgres_password": str(folder / "password"),
            "/etc/temporal/schema/postgresql/v12": str(self.schema),
            "-p 5432": f"-p {port}",
        }
        for place, actual in here.items():
            assert place in text
            text = text.replace(place, actual)
        self._script.write_text(text)
        tool = folder / "bin" / "temporal-sql-tool"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -P {sql_tool.__file__} "$@"\n')
        tool.chmod(0o755)
        path = f"{tool.parent}{os.pathsep}{os.defpath}"
        self._environment = {"PATH": path, "POSTGRES_HOST": "127.0.0.1", "POSTGRES_USER": USER}

    def ships(self, version: str, sql: str) -> None:
        """The next image has this version of both schemas."""
        for kind in DATABASES.values():
            place = self.schema / kind / "versioned" / f"v{version}"
            place.mkdir(parents=True)
            (place / "schema.sql").write_text(sql.format(kind=kind))

    def starts(self) -> tuple[int, str]:
        """Its exit code, and what it printed."""
        ended = subprocess.run(["sh", self._script], env=self._environment, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout + ended.stderr


def versions(postgres: Postgres) -> list[str]:
    return [postgres.query(database, "SELECT curr_version FROM schema_version") for database in DATABASES]


def test_the_database_is_made_kept_and_brought_up_to_date(tmp_path: Path) -> None:
    with running_postgres() as postgres:
        container = Container(tmp_path, postgres.port)
        container.ships("1.0", "CREATE TABLE {kind}_executions (id INT)")
        code, told = container.starts()
        assert code == 0, told
        assert versions(postgres) == ["1.0", "1.0"]
        for database, kind in DATABASES.items():
            postgres.query(database, f"INSERT INTO {kind}_executions VALUES (7)")

        container.ships("1.10", "ALTER TABLE {kind}_executions ADD COLUMN name TEXT")
        for _ in range(2):
            assert container.starts()[0] == 0
            assert versions(postgres) == ["1.10", "1.10"]
        assert postgres.query("temporal_visibility", "SELECT id, name FROM visibility_executions") == "7|"

        container.ships("1.11", "ALTER TABLE {kind}_executions DROP COLUMN nothing")
        code, told = container.starts()
        assert code != 0
        assert 'column "nothing"' in told
        assert versions(postgres) == ["1.10", "1.10"]
        assert postgres.query("temporal", "SELECT id FROM temporal_executions") == "7"
