"""Stacks for tests: on free ports, on a directory of their own, with stand-ins for what is not under test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.state import StackEvent, StackState
from tests.support.paths import ROOT
from tests.support.ports import free_port

_STAND_IN = ROOT / "tests" / "support" / "processes" / "stand_in.py"


def clean_environment(**extra: str) -> dict[str, str]:
    """This process's environment without settings of Outlast, Temporal, Apify and OpenTelemetry, and with `extra`."""
    prefixes = ("OUTLAST_", "TEMPORAL_", "APIFY_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)} | extra


def stand_in(port: str, *options: str) -> tuple[str, ...]:
    """Return a command that answers HTTP on a port, given as a number or as the name of an environment variable."""
    return (sys.executable, str(_STAND_IN), port, *options)


def free_ports_config(data_dir: Path, *components: Component, **settings: object) -> StackConfig:
    """Return a configuration in which every port is free, and given to no other test."""
    ports = {name: free_port() for name in StackConfig.model_fields if name.endswith("_port")}
    defaults = {"data_dir": data_dir, "environment": clean_environment(), "components": frozenset(components)}
    return StackConfig.model_validate({**ports, **defaults, **settings})


class Events(list[StackEvent]):
    """Everything that a stack said; pass it as `on_event=events.append`."""

    def kinds_of(self, component: str) -> list[str]:
        return [event.kind.value for event in self if event.component == component]


_STACK_PROGRAM = """
import asyncio, sys
from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.errors import StackError
from outlast.deploy.local.stack import Stack

async def main():
    async with Stack(StackConfig.model_validate_json(sys.argv[1]), on_event=print) as stack:
        print("waiting" if "--busy" not in sys.argv else "busy")
        if "--busy" in sys.argv:
            await asyncio.Event().wait()
        await stack.wait()

try:
    asyncio.run(main())
except StackError as error:
    sys.exit(str(error))
"""


def start_stack_process(config: StackConfig, *options: str) -> "subprocess.Popen[str]":
    """Start a stack in a process of its own, to be killed. It writes `stack.json` as any stack does.

    It prints "waiting" when it is ready and waits; with `--busy`, "busy" and does something else.
    """
    command = [sys.executable, "-u", "-c", _STACK_PROGRAM, json.dumps(config.model_dump(mode="json")), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def running_children(state: StackState | None) -> list[int]:
    """Return the process ids of a stack's children that are running."""
    return [pid for pid in (state.children.values() if state else []) if is_running(pid)]
