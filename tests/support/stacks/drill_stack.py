"""A stack to break, watched by a Prometheus and an Alertmanager, and mended with the commands of the runbooks.

The rules are those that ship: their expressions, labels and texts. Only durations differ (`sooner`): a minute passes in
a second, and none takes longer than twenty, so that an alert of hours fires and resolves within a minute.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.console_examples import page_of_reason
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.prometheus import (
    SHIPPED,
    Alertmanager,
    Prometheus,
    Targets,
    running_alertmanager,
    running_prometheus,
)
from tests.support.stacks.sandbox import running_sandbox
from tests.support.whole_file import replace_text

LONGEST_SECONDS = 20
_PATIENCE_SECONDS = 200
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(?<=\[)\d+[smhd](?=\])|(?<=offset )\d+[smhd]|(?<=for: )\d+[smhd]")
_SYSTEMCTL = """#!/bin/sh
# In place of systemd, which tests have none of: the test restarts what is named here.
touch "$DRILL_ORDERS/${2#outlast-}"
"""


def shipped_alerts() -> dict[str, dict[str, str]]:
    """The annotations of each alert that ships, by its name."""
    groups = yaml.safe_load((SHIPPED / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule}


def sooner(rules: str) -> str:
    """The rules with shorter durations, and nothing else changed."""
    return _DURATION.sub(lambda found: f"{_shorter_seconds(found[0])}s", rules)


def _shorter_seconds(duration: str) -> int:
    seconds = int(duration[:-1]) * _UNITS[duration[-1]]
    return max(1, min(LONGEST_SECONDS, seconds // 60))


@dataclass
class DrillStack:
    """What a drill breaks, watches and mends."""

    stack: ChaosStack
    prometheus: Prometheus
    alertmanager: Alertmanager
    folder: Path
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    """Further addresses of pages, and what they are here."""
    chaos: Chaos = field(init=False)

    async def open(self) -> None:
        """Have everything alive."""
        await self.stack.bring_up()
        self.chaos = Chaos(self.stack)

    async def close(self) -> None:
        """Leave nothing behind for the next drill."""
        await self.write_policy(POLICY)
        self.write_servers()
        if self.settings.exists():
            self.settings.unlink()
            for unit in ("worker", "api"):
                await self.restart(unit)
        await self.chaos.clean_up()

    async def write_policy(self, text: str) -> None:
        """Change the policy file; return when the API has read it."""
        whole = _whole(text)
        if whole == self.policy.read_text():
            return
        before = await self._policy_loads()
        replace_text(self.policy, whole)

        async def read() -> bool:
            return await self._policy_loads() > before

        await eventually(read)

    async def _policy_loads(self) -> float:
        metrics = (await self.chaos.http.get("/metrics")).text
        return sum(
            float(number) for number in re.findall(r"^outlast_policy_loads_total.* (\S+)$", metrics, re.MULTILINE)
        )

    def write_servers(self, **servers: Mapping[str, Any]) -> None:
        """Change the file of MCP servers, which worker and API read again."""
        replace_text(self.servers, json.dumps({"mcpServers": servers}))

    @property
    def servers(self) -> Path:
        """The file of MCP servers."""
        return self.folder / "mcp-servers.json"

    @property
    def settings(self) -> Path:
        """Settings that worker and API read when they are started again, as systemd would hand them over."""
        return self.folder / "outlast.env"

    @property
    def unmounted(self) -> Path:
        """Where the output store is while a file stands in its place."""
        return self.folder / "outputs.away"

    @property
    def outputs(self) -> Path:
        """The output store."""
        return self.folder / "outputs"

    @property
    def policy(self) -> Path:
        """The policy file of the API."""
        return self.folder / "policy.toml"

    @property
    def audit(self) -> Path:
        """The audit log."""
        return self.folder / "audit.jsonl"

    async def fires(self, *alerts: str) -> None:
        """Return when each of them has fired, and Alertmanager has had it."""
        fired, received = set[str](), set[str]()

        def all_did() -> bool:
            fired.update(self.firing())
            received.update(self.alertmanager.active())
            assert set(alerts) <= fired & received, f"fired: {fired}, in Alertmanager: {received}"
            return True

        await eventually(all_did, _PATIENCE_SECONDS, 0.2)

    async def resolves(self, *alerts: str) -> None:
        """Return when none of them fires any more, and Alertmanager has heard of it."""

        def none_does() -> bool:
            left = set(alerts) & (self.firing() | self.alertmanager.active())
            assert not left, f"still: {left}"
            return True

        await eventually(none_does, _PATIENCE_SECONDS, 0.2)

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self.prometheus.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    async def follow(self, alert: str) -> None:
        """Type the commands that the alert's page has for it, see them print what the page says, do what they order."""
        path = ROOT / shipped_alerts()[alert]["runbook"]
        page = page_of_reason(path, f"the drill of {alert} does")
        assert page.examples, f"{path} has no commands for {alert}"
        for example in page.examples:
            ended = await asyncio.to_thread(self.type, page.command(example))
            wrong = page.difference(example, ended.stdout, ended.returncode)
            assert wrong is None, f"$ {example.command}\n{wrong}"
            for order in self._orders().iterdir():
                order.unlink()
                await self.restart(order.name)

    def type(self, command: str) -> "subprocess.CompletedProcess[str]":
        """What a command prints, as one who works on this machine types it."""
        for shown, actual in self._places.items():
            command = command.replace(shown, actual)
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        for shown, actual in self._places.items():
            ended.stdout = ended.stdout.replace(actual, shown)
        return ended

    @property
    def _places(self) -> Mapping[str, str]:
        """Where things are on the pages, and here."""
        return {
            **self.addresses,
            "http://127.0.0.1:8400": self.stack.api_url,
            "http://127.0.0.1:8402/metrics": self.stack.worker_url,
            "/etc/outlast/policy.toml": str(self.policy),
            "/etc/outlast/mcp-servers.json": str(self.servers),
            "/etc/outlast/outlast.env": str(self.settings),
            "/var/lib/outlast/outputs": str(self.outputs),
            "/var/log/outlast": str(self.folder),
        }

    def _environment(self) -> Mapping[str, str]:
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        systemctl = programs / "systemctl"
        systemctl.write_text(_SYSTEMCTL)
        systemctl.chmod(0o755)
        return {
            **self.stack.environment(),
            "COLUMNS": "160",
            "DRILL_ORDERS": str(self._orders()),
            "OUTLAST_AUDIT_FILE": str(self.audit),
            "OUTLAST_POLICY_FILE": str(self.policy),
            "OUTLAST_URL": self.stack.api_url,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def _orders(self) -> Path:
        folder = self.folder / "orders"
        folder.mkdir(exist_ok=True)
        return folder

    async def restart(self, unit: str) -> None:
        """What systemd does for `systemctl restart outlast-UNIT`, settings read again."""
        if unit.endswith(".mount"):
            self.outputs.unlink()
            self.unmounted.rename(self.outputs)
            return
        lines = self.settings.read_text().splitlines() if self.settings.exists() else []
        settings = dict(line.split("=", 1) for line in lines)
        if unit == "worker":
            self.stack.worker.kill()
            self.stack.renew_worker(**settings)
        elif unit == "api":
            self.stack.api.kill()
            self.stack.renew_api(**settings)
        else:
            await self.stack.temporal.restart()
        await self.stack.bring_up()


@contextmanager
def running_drill_stack(folder: Path, **settings: str) -> Iterator[DrillStack]:
    """A stack, not brought up yet, with those who watch it; `settings` are further ones of worker and API."""
    settings = {
        "OUTLAST_POLICY_FILE": str(folder / "policy.toml"),
        "OUTLAST_AUDIT_FILE": str(folder / "audit.jsonl"),
        "OUTLAST_MCP_SERVERS_FILE": str(folder / "mcp-servers.json"),
        "OUTLAST_STORE_URL": str(folder / "outputs"),
        **settings,
    }
    (folder / "policy.toml").write_text(_whole(POLICY))
    (folder / "mcp-servers.json").write_text('{"mcpServers": {}}')
    watching = folder / "watching"
    watching.mkdir()
    with (
        running_sandbox(folder) as sandbox,
        ChaosStack(folder, sandbox, **settings) as stack,
        running_alertmanager(watching) as alertmanager,
    ):
        targets = Targets(stack.api_url, stack.worker_url, stack.temporal_server.metrics_url, alertmanager.url)
        rules = sooner((SHIPPED / "alerts.yml").read_text())
        with running_prometheus(watching, targets, rules) as prometheus:
            yield DrillStack(stack, prometheus, alertmanager, folder)


def _whole(text: str) -> str:
    """A policy file that lets its users in without a key, and has an end mark: a drill may take away what it added."""
    return f'end_mark = true\nanonymous = "local"\n\n{text}\n[end]\n'


POLICY = """\
[defaults.limits]
open_streams = 10
"""
