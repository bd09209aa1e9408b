"""The tables of the documentation name what the code has: no more, no less. Settings have a module of their own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import Counter, Gauge, Histogram
from pydantic import SecretStr
from temporalio.api.enums.v1 import IndexedValueType

from outlast.api import app as api_app
from outlast.api import metrics as api_metrics
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.cli.main import command_line
from outlast.worker.connection import connect
from outlast.workflows.contracts import queues, search_attributes
from tests.benchmarks.peers import figures, table
from tests.support import compared, option_tables
from tests.support.stacks.service import SEAL_KEYS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def rows(page: str, column: str) -> list[list[str]]:
    """The cells of all rows below headers whose first column is `column`."""
    found: list[list[str]] = []
    inside = False
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            inside = False
        elif cells[0] == column:
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            found.append(cells)
    return found


def named(cells: list[str]) -> list[str]:
    """What stands in back quotes in the first cell of a row."""
    return re.findall(r"`([^`]+)`", cells[0])


def test_the_queues() -> None:
    there = {value for name, value in vars(queues).items() if name.endswith("_TASK_QUEUE")}
    assert {name for row in rows("architecture.md", "queue") for name in named(row)} == there


def test_the_search_attributes_with_their_types() -> None:
    kinds = {
        "KeywordList": (search_attributes.KEYWORD_LISTS, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST),
        "Datetime": (search_attributes.DATETIMES, IndexedValueType.INDEXED_VALUE_TYPE_DATETIME),
    }
    there = {key.name: "Keyword" for key in search_attributes.ALL}
    for kind, (keys, value_type) in kinds.items():
        assert {int(key.indexed_value_type) for key in keys} == {int(value_type)}
        there |= {key.name: kind for key in keys}
    told = {
        named(row)[0]: next((kind for kind in kinds if row[1].startswith(kind)), "Keyword")
        for row in rows("operators.md", "search attribute")
    }
    assert told == there


PAGES_WITH_ROUTES = ("rest-api.md", "sessions.md")


async def test_the_routes(tmp_path: Path) -> None:
    """Every route is in a table of one page, except pages and assets below `/docs` and `/console`."""
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        oauth_issuer="https://login.example",
        oauth_audience="https://tools.example/mcp",
    )
    app = api_app.build_app(Services(settings, await connect(settings, lazy=True)))
    routes = [*app.routes, *(route for router in api_app._ROUTERS for route in router.routes)]
    there: set[str] = set()
    for route in routes:
        path = re.sub(r":[a-z]+}", "}", getattr(route, "path", ""))
        methods = sorted((getattr(route, "methods", None) or set()) - {"HEAD", "OPTIONS"})
        there |= {f"{method} {path}" for method in methods} or {path}
    there -= {""}  # a router among the routes
    there -= {name for name in there if name.startswith(("GET /docs/", "GET /console/", "POST /console/"))}
    told = [name for page in PAGES_WITH_ROUTES for row in rows(page, "request") for name in named(row)]
    unnamed = [re.sub(r"{\w+}", "{}", name) for name in told]
    assert sorted(unnamed) == sorted({re.sub(r"{\w+}", "{}", name) for name in there})


def series_in_code() -> Iterator[tuple[str, str]]:
    """Name and type of each series that the floors make through Temporal's meter, as Prometheus shows them."""
    for floor in ("activities", "workflows", "worker"):
        for path in (ROOT / floor).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                    kind, first = node.func.attr, node.args[0]
                    if kind.startswith("create_") and isinstance(first, ast.Constant):
                        yield _shown(str(first.value), kind)


def _shown(name: str, kind: str) -> tuple[str, str]:
    if kind == "create_counter":
        return f"{name}_total", "counter"
    if kind == "create_histogram_timedelta":
        return f"{name}_seconds", "histogram"
    return name, kind.removeprefix("create_").split("_")[0]


def series_of_the_api() -> Iterator[tuple[str, str]]:
    kinds = {Counter: "counter", Histogram: "histogram", Gauge: "gauge"}
    for metric in vars(api_metrics).values():
        if type(metric) in kinds:
            suffix = "_total" if isinstance(metric, Counter) else ""
            yield f"{metric._name}{suffix}", kinds[type(metric)]


def test_the_series_with_their_types() -> None:
    told = {(named(row)[0], row[1]) for row in rows("metrics.md", "series") if named(row)[0].startswith("outlast_")}
    assert told == {*series_in_code(), *series_of_the_api()}


def commands(group: Any, path: str = "outlast") -> Iterator[str]:
    if group.invoke_without_command:
        yield path
    for name, command in group.commands.items():
        if not command.hidden:
            yield from commands(command, f"{path} {name}") if hasattr(command, "commands") else [f"{path} {name}"]


def test_the_commands() -> None:
    told: set[str] = set()
    for row in rows("cli.md", "command"):
        subcommands = re.findall(r"`([^`]+)`", row[1])
        told |= {f"{name} {subcommand}" for name in named(row) for subcommand in subcommands} or {*named(row)}
    assert told == set(commands(typer.main.get_command(command_line())))


PROMISES = ("concepts.md", "security.md")
"""The pages with tables of promises."""


def promises(page: str = PROMISES[0]) -> list[list[str]]:
    """The tests that each promise of a page names: `module`, or `module::test`."""
    return [re.findall(r"`(tests/[^`]+)`", row[1]) for row in rows(page, "promise")]


def names_of_tests(module: Path) -> set[str]:
    """The tests of a module by name; none when there is no such module."""
    tree = ast.parse(module.read_text() if module.is_file() else "")
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("page", PROMISES)
def test_each_promise_names_tests_that_there_are(page: str) -> None:
    assert promises(page) != []
    assert [] not in promises(page)
    for named_test in (name for names in promises(page) for name in names):
        module, _, test = named_test.partition("::")
        there = names_of_tests(ROOT / module)
        assert (test in there) if test else there, named_test


@pytest.mark.parametrize("page", table.PAGES, ids=lambda page: page.name)
def test_the_figures_of_peers_are_those_that_were_measured(page: Path) -> None:
    text = page.read_text()
    assert table.rewritten(text, table.PAGES[page](figures.read())) == text, "run `make docs`"


LAYERS = ("activities", "workflows", "worker", "api", "deploy/local", "outlast/client")
"""The floors, and what has rooms besides."""


def test_the_architecture_names_every_package() -> None:
    """A newcomer finds each package of the layers in architecture.md: in a walk, or in the table; add a new one."""
    page = (DOCS / "architecture.md").read_text()
    packages = [path.parent for layer in LAYERS for path in (ROOT / layer).glob("*/__init__.py")]
    names = [f"{package.relative_to(ROOT)}/" for package in packages]
    assert len(names) > 40
    assert [name for name in names if f"`{name}" not in page and f"`{name.split('/')[-2]}/`" not in page] == []


def test_the_options_are_those_that_are_declared() -> None:
    page = option_tables.PAGE.read_text()
    assert option_tables.rewritten(page) == page, "run `make docs`"


def test_the_readme_has_the_figures_of_peers_that_were_measured() -> None:
    engine = r"^\| (FastMCP|DBOS|Outlast)\b"
    row = re.compile(rf"{engine}(?:[^|]*\|){{4}} (\d+) of 50 \| \d+ \| (\d+) \| (\d+ s) \|$", re.MULTILINE)
    measured = {name: ", ".join(values) for name, *values in row.findall((DOCS / "performance.md").read_text())}
    shown = re.findall(rf"{engine}.* \| ([^|]+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(measured) == 3
    assert dict(shown) == measured


def test_the_comparison_has_the_programs_and_their_sizes() -> None:
    page = compared.PAGE.read_text()
    assert compared.rewritten(page) == page, "run `make docs`"


@pytest.mark.parametrize("task", compared.tasks())
def test_no_other_framework_does_a_task_in_fewer_lines(task: str) -> None:
    sizes = {
        name: compared.lines_of_code(path) for name in compared.FRAMEWORKS if (path := compared.program(name, task))
    }
    assert sizes["outlast"] == min(sizes.values())


def test_each_program_of_other_frameworks_belongs_to_a_task() -> None:
    assert {path.stem for path in compared.PROGRAMS.glob("*/*.py")} == set(compared.tasks())
