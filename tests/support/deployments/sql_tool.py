"""A stand-in for Temporal's `temporal-sql-tool`, which only container images hold: options, SQL and exit codes.

Written after the tool's source (`tools/sql` and `tools/common/schema` of temporalio/temporal). It works on a real
PostgreSQL through `psql`, so that what the server says is what the server says.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS schema_version (db_name VARCHAR(255) PRIMARY KEY, curr_version VARCHAR(64));
"""


class Tool:
    """One call of it."""

    def __init__(self, options: argparse.Namespace) -> None:
        """`options` are those before and after the name of the command."""
        self._options = options

    def create_database(self) -> None:
        """A database that exists is left alone, as `duplicate_database` is no error to the tool."""
        database = self._options.db
        if self._sql(f"SELECT 1 FROM pg_database WHERE datname = '{database}'", "postgres") != "1":
            self._sql(f"CREATE DATABASE {database}", "postgres")

    def setup_schema(self) -> None:
        """The table of versions. A greater version than the given one stays."""
        self._sql(_TABLES)
        if not self._sql("SELECT curr_version FROM schema_version"):
            self._sql(f"INSERT INTO schema_version VALUES ('{self._options.db}', '{self._options.version}')")

    def update_schema(self) -> None:
        """Every version that is newer, one after another; each counts when all of it is done."""
        current = _ordered(self._sql("SELECT curr_version FROM schema_version"))
        folder = Path(self._options.schema_dir)
        for version in sorted((path.name.removeprefix("v") for path in folder.glob("v*")), key=_ordered):
            if _ordered(version) > current:
                for file in sorted((folder / f"v{version}").glob("*.sql")):
                    self._sql(file.read_text())
                self._sql(f"UPDATE schema_version SET curr_version = '{version}'")

    def _sql(self, text: str, database: str | None = None) -> str:
        given = self._options
        where = ["-h", given.ep, "-p", given.port, "-U", given.user, "-d", database or given.db]
        done = subprocess.run(
            ["psql", "-XqtA", "-v", "ON_ERROR_STOP=1", *where, "-c", text],
            env={**os.environ, "PGPASSWORD": os.environ["SQL_PASSWORD"]},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"Unable to do it: {done.stderr}")
        return done.stdout.strip()


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Options before the command are those of a connection; what it does not know ends it with 2."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--plugin", "--pl", choices=["postgres12"], required=True)
    parser.add_argument("--ep", "--endpoint", required=True)
    parser.add_argument("-p", "--port", required=True)
    parser.add_argument("-u", "--user", required=True)
    parser.add_argument("--db", "--database", required=True)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("create-database", aliases=["create"]).set_defaults(run=Tool.create_database)
    setup = commands.add_parser("setup-schema", aliases=["setup"])
    setup.add_argument("-v", "--version", required=True)
    setup.set_defaults(run=Tool.setup_schema)
    update = commands.add_parser("update-schema", aliases=["update"])
    update.add_argument("-d", "--schema-dir", required=True)
    update.set_defaults(run=Tool.update_schema)
    options = parser.parse_args()
    options.run(Tool(options))


if __name__ == "__main__":
    main()
