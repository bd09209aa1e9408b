"""Images, Compose file and chart are right for the programs that read them, as far as their formats say."""

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deployments import checks, custom_objects, helm
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(
    not checks.CHECKS.is_installed, reason="needs check programs: python -m tests.support.needs --programs fetches them"
)


def check(program: str, *arguments: str) -> None:
    found = checks.find(program)
    assert found is not None
    done = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_is_clean() -> None:
    check("hadolint", "deploy/images/Dockerfile")


def test_the_shell_scripts_are_clean() -> None:
    check("shellcheck", "deploy/compose/up", "deploy/compose/temporal/schema.sh", ".ci/run")


def test_the_compose_file_follows_its_specification() -> None:
    check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose/compose.yaml")


def made(values: Path, *, custom: bool) -> list[dict[str, Any]]:
    """What the chart makes: objects that Kubernetes knows of itself, or those of KEDA and the Prometheus operator."""
    program = helm.find()
    if program is None:
        pytest.skip("needs helm: python -m tests.support.needs --programs fetches it with npm")
    contents = [dict(manifest.content) for manifest in helm.rendered(program, "--values", str(values))]
    return [one for one in contents if (one["apiVersion"].partition("/")[0] in custom_objects.GROUPS) == custom]


VALUES = sorted((helm.CHART / "ci").glob("*-values.yaml"))


def test_kubernetes_takes_what_the_chart_makes(tmp_path: Path) -> None:
    for values in VALUES:
        own = made(values, custom=False)
        assert len(own) >= 8
        file = tmp_path / values.name
        file.write_text(yaml.safe_dump_all(own))
        check("kubernetes-validate", "--strict", str(file))


@pytest.mark.slow
def test_keda_and_the_prometheus_operator_take_what_the_chart_makes() -> None:
    if not custom_objects.is_fetched():
        pytest.skip("needs types of custom objects: python -m tests.support.needs --programs fetches them with npm")
    good = [one for values in VALUES for one in made(values, custom=True)]
    assert {one["kind"] for one in good} == {"ScaledObject", "ServiceMonitor"}
    assert custom_objects.complaints(good) == []

    scaler, monitor = (next(one for one in good if one["kind"] == kind) for kind in ("ScaledObject", "ServiceMonitor"))
    wrong = [copy.deepcopy(one) for one in (scaler, scaler, scaler, monitor, monitor)]
    wrong[0]["spec"]["maxReplicas"] = 3
    wrong[1]["spec"]["triggers"][0]["metadata"]["targetQueueSize"] = 5
    del wrong[2]["spec"]["scaleTargetRef"]
    wrong[3]["spec"]["endpoints"][0]["paths"] = "/metrics"
    wrong[4]["spec"]["endpoints"][0]["interval"] = "30 s"
    for number, one in enumerate(wrong):
        one["metadata"]["name"] = f"wrong-{number}"
    complaints = custom_objects.complaints(wrong)
    told = ["maxReplicas", "'number' is not assignable", "scaleTargetRef", "paths", "interval must match pattern"]
    for number, said in enumerate(told):
        assert any(f"wrong-{number}: " in line and said in line for line in complaints), (said, complaints)
