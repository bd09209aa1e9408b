"""DBOS: a library in the application's own process, with its state in SQLite or PostgreSQL."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

from tests.benchmarks.peers.contract import Peer, app_environment
from tests.benchmarks.peers.environments import program, python_of, version_of, version_told
from tests.benchmarks.peers.front import RunningFront
from tests.benchmarks.peers.platform import platform
from tests.benchmarks.peers.processes import APPS, started
from tests.support.ports import free_port
from tests.support.stacks.postgres import PASSWORD, USER, running_postgres
from tests.support.stacks.stack_config import clean_environment

_ENDS = {"SUCCESS": True, "ERROR": False, "CANCELLED": False, "MAX_RECOVERY_ATTEMPTS_EXCEEDED": False}
_PROMISE = "a workflow ends; an interrupted step is repeated"
_DOCUMENTED = "https://docs.dbos.dev/python/tutorials/database-connection"


@asynccontextmanager
async def _running(
    folder: Path, database: Callable[[Path], AbstractContextManager[str]]
) -> AsyncGenerator[RunningFront]:
    port = free_port()
    with platform(folder) as sandbox, database(folder) as url:
        command = (python_of("dbos"), APPS / "dbos_app.py", port, url)
        environment = app_environment(sandbox, {}, clean_environment())
        async with started(command, folder / "dbos.log", environment) as app:
            await app.await_answer(f"http://127.0.0.1:{port}/")
            yield RunningFront(sandbox, port, app, _ENDS)


def _sqlite(folder: Path) -> AbstractContextManager[str]:
    return nullcontext(f"sqlite:///{folder / 'dbos.sqlite'}")


@contextmanager
def _postgres(_: Path):
    with running_postgres() as postgres:
        yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{postgres.port}/{USER}"


def _install() -> None:
    python_of("dbos")


def _install_postgres() -> None:
    _install()
    program("dbos", "psql", "postgresql")


DBOS_SQLITE = Peer(
    name="DBOS, SQLite",
    versions=lambda: f"dbos {version_of('dbos', 'dbos')}",
    front="FastAPI, one process",
    settings="defaults, recommended for prototypes",
    recommended_by=_DOCUMENTED,
    promises=_PROMISE,
    install=_install,
    running=lambda folder: _running(folder, _sqlite),
)
DBOS_POSTGRES = Peer(
    name="DBOS, PostgreSQL",
    versions=lambda: f"dbos {version_of('dbos', 'dbos')}, PostgreSQL {version_told('psql')}",
    front="FastAPI, one process",
    settings="defaults of both, on one machine",
    recommended_by=_DOCUMENTED,
    promises=_PROMISE,
    install=_install_postgres,
    running=lambda folder: _running(folder, _postgres),
)
