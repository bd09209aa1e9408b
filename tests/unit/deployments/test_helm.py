"""The chart of deploy/helm: what it makes for several sets of values, and what it refuses."""

import functools
from pathlib import Path

import pytest

from tests.support.deployments.helm import CHART, Manifest, find, rendered, run
from tests.support.deployments.settings import problems
from tests.support.paths import ROOT

VALUES = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
HELM = find() or ""

pytestmark = pytest.mark.skipif(
    not HELM, reason="needs helm: python -m tests.support.needs --programs fetches it with npm"
)


@functools.cache
def objects(values: str) -> tuple[Manifest, ...]:
    """What the chart makes with one of its sets of values."""
    return tuple(rendered(HELM, "--values", str(VALUES[values])))


def deployments(values: str) -> list[Manifest]:
    return [manifest for manifest in objects(values) if manifest.kind == "Deployment"]


def test_the_chart_is_in_order_with_each_set_of_values() -> None:
    assert len(VALUES) == 3
    for values in VALUES.values():
        linted = run(HELM, "lint", "--strict", str(CHART), "--values", str(values))
        assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("values", VALUES)
def test_the_settings_of_every_pod_are_settings(values: str, tmp_path: Path) -> None:
    found = deployments(values)
    assert len(found) >= 2
    for manifest in found:
        process = "api" if manifest.name.endswith("-api") else "worker"
        assert manifest.container["args"] == [f"outlast.{process}"]
        assert problems(process, manifest.environment, tmp_path) == [], manifest.name


@pytest.mark.parametrize("values", VALUES)
def test_every_file_that_a_setting_names_is_mounted(values: str) -> None:
    for manifest in deployments(values):
        mounts = {mount["mountPath"] for mount in manifest.container["volumeMounts"]}
        named = {str(Path(value).parent) for value in manifest.environment.values() if value.startswith("/etc/")}
        assert named <= mounts
        (secret,) = (volume["secret"] for volume in manifest.pod["volumes"] if volume["name"] == "secrets")
        given = {Path(value).name for value in manifest.environment.values() if "/secrets/" in value}
        assert given == {item["path"] for item in secret["items"]}


def test_a_secret_is_given_to_nobody_who_does_not_need_it() -> None:
    holders: dict[str, set[str]] = {}
    for manifest in deployments("cloud"):
        for variable in manifest.environment:
            holders.setdefault(variable, set()).add(manifest.name)
    (holder,) = holders["OUTLAST_OPENAI_API_KEY_FILE"]
    assert holder.startswith("outlast-worker-models-0-1-0-")
    assert holders["OUTLAST_POLICY_FILE"] == {"outlast-api"}
    assert "outlast-api" not in holders["OUTLAST_RESPONDER_WEBHOOK_URL_FILE"]


@pytest.mark.parametrize("values", VALUES)
def test_pods_have_no_rights_and_live_longer_than_their_shutdown(values: str) -> None:
    for manifest in deployments(values):
        pod, container = manifest.pod, manifest.container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert (container["readOnlyRootFilesystem"], container["allowPrivilegeEscalation"]) == (True, False)
        assert container["capabilities"] == {"drop": ["ALL"]}
        shutdown = float(manifest.environment.get("OUTLAST_SHUTDOWN_SECONDS", "5"))
        assert pod["terminationGracePeriodSeconds"] > shutdown


@pytest.mark.parametrize("values", VALUES)
def test_the_workers_together_serve_every_queue(values: str) -> None:
    served = [manifest.environment.get("OUTLAST_QUEUES", "").split(",") for manifest in deployments(values)]
    assert {name for names in served for name in names} >= {"tools", "runs", "outputs", "functions", "models"}


def test_workers_scale_by_the_backlog_of_their_version_and_by_slots_in_use() -> None:
    scalers = {
        manifest.name: manifest.content["spec"] for manifest in objects("cloud") if manifest.kind == "ScaledObject"
    }
    assert len(scalers) == 5
    backlog, slots = next(spec for name, spec in scalers.items() if "worker-tools-" in name)["triggers"]
    assert backlog["metadata"]["taskQueue"] == "outlast-tools"
    assert backlog["metadata"]["workerDeploymentBuildId"] == "0.1.0"
    assert float(slots["metadata"]["threshold"]) == 140
    targets = {spec["scaleTargetRef"]["name"] for spec in scalers.values()}
    assert targets <= {manifest.name for manifest in deployments("cloud") if "replicas" not in manifest.content["spec"]}


def test_the_workers_of_a_version_are_their_own_and_stay_when_the_next_one_comes() -> None:
    names: set[str] = set()
    for build_id in ("1.0", "1-0"):
        made = rendered(HELM, "--values", str(VALUES["cloud"]), "--set-string", f"versioning.buildId={build_id}")
        workers = [one for one in made if one.kind == "Deployment" and "-worker-" in one.name]
        assert len(workers) == 5
        for worker in workers:
            assert worker.environment["OUTLAST_BUILD_ID"] == build_id
            assert worker.content["metadata"]["labels"]["outlast.dev/build-id"] == build_id
            assert worker.content["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
            assert worker.content["spec"]["selector"]["matchLabels"]["outlast.dev/build-id"] == build_id
            assert worker.content["spec"]["template"]["metadata"]["labels"]["outlast.dev/build-id"] == build_id
            assert len(worker.name) <= 63
        names |= {worker.name for worker in workers}
    assert len(names) == 10
    for worker in deployments("least"):
        assert "OUTLAST_BUILD_ID" not in worker.environment
        assert "annotations" not in worker.content["metadata"]


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("temporal.address=", "temporal.address is host:port"),
        ("temporal.address=http://temporal:7233", "/temporal/address"),
        ("secrets.existingSecret=", "secrets.existingSecret names the secret"),
        ("secrets.keys.apiKeys=", "the API needs to know its callers"),
        ("workers.models=null", 'no worker serves the queue "models"'),
        ("workers.tools.queues={tool}", "/workers/tools/queues"),
        ("versioning.buildId=a/b", "/versioning/buildId"),
        ("api.replica=3", "replica"),
        ("settings.outlast_mode=openai", "outlast_mode"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_reason(option: str, told: str) -> None:
    refused = run(HELM, "template", "outlast", str(CHART), "--values", str(VALUES["least"]), "--set", option)
    assert refused.returncode != 0
    assert told in refused.stderr


@pytest.mark.parametrize("place", ["settings", "api.settings"])
def test_what_the_api_carries_out_itself_has_no_version(place: str) -> None:
    quick = f"{place}.OUTLAST_QUICK_CALLS=20"
    made = rendered(HELM, "--values", str(VALUES["least"]), "--set-string", quick)
    (api,) = (one for one in made if one.kind == "Deployment" and one.name.endswith("-api"))
    assert api.environment["OUTLAST_QUICK_CALLS"] == "20"
    versioned = ("--set-string", f"{quick},versioning.buildId=v1")
    refused = run(HELM, "template", "outlast", str(CHART), "--values", str(VALUES["least"]), *versioned)
    assert refused.returncode != 0
    assert "OUTLAST_QUICK_CALLS has to be 0" in refused.stderr


def test_the_example_of_the_page_is_enough(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploy-helm.md").read_text()
    example = tmp_path / "values.yaml"
    example.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert {manifest.kind for manifest in rendered(HELM, "--values", str(example))} >= {"Deployment", "NetworkPolicy"}
