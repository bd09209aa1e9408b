from pathlib import Path

import pytest
from pydantic import ValidationError

from outlast.deploy.local.config import Component, Outside, StackConfig, look_outside
from outlast.deploy.local.plan import Planner, StackPlan, components_to_run, pick_ports
from outlast.deploy.local.processes import ChildSpec
from tests.support.stacks.stack_config import clean_environment, free_ports_config


def plan(config: StackConfig) -> StackPlan:
    outside = look_outside(config.environment)
    picked = pick_ports(config, components_to_run(config, outside), {}, lambda wish, port: None)
    return Planner(config, outside, picked).plan()


def child(config: StackConfig, component: Component) -> ChildSpec:
    return next(spec for wave in plan(config).waves for spec in wave if spec.name == component)


def full_config(tmp_path: Path, **environment: str) -> StackConfig:
    return free_ports_config(tmp_path, *Component, environment=clean_environment(**environment))


def test_the_api_carries_quick_calls_out_unless_the_user_says_how_many(tmp_path: Path) -> None:
    assert child(full_config(tmp_path), Component.API).environment["OUTLAST_QUICK_CALLS"] == "20"
    own = full_config(tmp_path, OUTLAST_QUICK_CALLS="0")
    assert child(own, Component.API).environment["OUTLAST_QUICK_CALLS"] == "0"


def test_without_any_setting_everything_is_brought(tmp_path: Path) -> None:
    config = full_config(tmp_path)
    assert components_to_run(config, look_outside(config.environment)) == frozenset(Component)


def test_with_an_apify_token_no_sandbox_is_started(tmp_path: Path) -> None:
    config = full_config(tmp_path, APIFY_TOKEN="t0ken")
    made = plan(config)
    assert [[spec.name for spec in wave] for wave in made.waves] == [["temporal"], ["worker", "api"]]
    assert made.addresses.apify_api_base_url == "https://api.apify.com"
    assert made.addresses.sandbox_url is None
    worker = child(config, Component.WORKER).environment
    assert worker["APIFY_TOKEN"] == "t0ken"
    assert "OUTLAST_DEFAULT_ACTORS" not in worker


def test_the_only_worker_has_no_version_that_would_wait_for_its_promotion(tmp_path: Path) -> None:
    assert "OUTLAST_BUILD_ID" not in child(full_config(tmp_path, OUTLAST_BUILD_ID="1.0"), Component.WORKER).environment


def test_the_sandboxs_token_is_on_no_command_line(tmp_path: Path) -> None:
    sandbox = child(full_config(tmp_path), Component.SANDBOX)
    token = (tmp_path / "sandbox-token").read_text().strip()
    assert sandbox.environment["OUTLAST_SANDBOX_TOKEN"] == token
    assert not any(token in word for word in sandbox.command)


def test_the_token_goes_to_the_platform_that_the_user_names(tmp_path: Path) -> None:
    config = full_config(tmp_path, APIFY_TOKEN="t0ken", APIFY_API_BASE_URL="http://127.0.0.1:1")
    assert child(config, Component.API).environment["APIFY_API_BASE_URL"] == "http://127.0.0.1:1"


def test_with_a_temporal_address_no_server_is_started(tmp_path: Path) -> None:
    config = full_config(
        tmp_path, TEMPORAL_ADDRESS="cluster:7233", TEMPORAL_NAMESPACE="prod", TEMPORAL_API_KEY="secret"
    )
    made = plan(config)
    assert [[spec.name for spec in wave] for wave in made.waves] == [["sandbox"], ["worker", "api"]]
    assert made.addresses.temporal_address == "cluster:7233"
    worker = child(config, Component.WORKER).environment
    assert worker["TEMPORAL_NAMESPACE"] == "prod"
    assert worker["TEMPORAL_API_KEY"] == "secret"


def test_a_temporal_profile_counts_as_an_address(tmp_path: Path) -> None:
    profile = tmp_path / "temporal.toml"
    profile.write_text('[profile.work]\naddress = "cluster:7233"\nnamespace = "team"\n')
    environment = clean_environment(TEMPORAL_CONFIG_FILE=str(profile), TEMPORAL_PROFILE="work")
    assert look_outside(environment) == Outside("cluster:7233", "team", None)


def test_credentials_for_another_cluster_do_not_reach_the_embedded_one(tmp_path: Path) -> None:
    config = full_config(tmp_path, TEMPORAL_API_KEY="secret", TEMPORAL_TLS="true")
    environment = child(config, Component.WORKER).environment
    assert "TEMPORAL_API_KEY" not in environment
    assert "TEMPORAL_TLS" not in environment


def test_the_contract_with_worker_and_api(tmp_path: Path) -> None:
    config = full_config(tmp_path)
    made = plan(config)
    worker, api = made.waves[1]
    for environment in (worker.environment, api.environment):
        assert environment["TEMPORAL_ADDRESS"] == made.addresses.temporal_address
        assert environment["TEMPORAL_NAMESPACE"] == "default"
        assert environment["APIFY_API_BASE_URL"] == made.addresses.sandbox_url
        assert environment["OUTLAST_DOCS_SITE_URL"] == f"{made.addresses.sandbox_url}/site/"
        assert environment["OUTLAST_DEFAULT_ACTORS"] == "outlast/site-crawler"
        assert environment["OUTLAST_DATA_DIR"] == str(tmp_path)
        assert environment["OUTLAST_LOG_FORMAT"] == "text"
        assert environment["OUTLAST_TEMPORAL_UI_URL"] == made.addresses.temporal_ui_url
        assert environment["OUTLAST_INSTANCE_ID"] == config.instance_id
        assert environment["OUTLAST_API_PORT"] == str(made.ports["api"])
        assert environment["OUTLAST_WORKER_METRICS_PORT"] == str(made.ports["worker_metrics"])
        assert Path(environment["OUTLAST_SEAL_KEYS_FILE"]).is_file()


def test_seal_keys_of_the_users_own_are_used(tmp_path: Path) -> None:
    config = full_config(tmp_path, OUTLAST_SEAL_KEYS="k1:key")
    assert "OUTLAST_SEAL_KEYS_FILE" not in child(config, Component.WORKER).environment
    assert not (tmp_path / "seal.keys").exists()


def test_the_log_format_reaches_every_process(tmp_path: Path) -> None:
    config = full_config(tmp_path).model_copy(update={"log_format": "json"})
    for component in (Component.TEMPORAL, Component.SANDBOX):
        command = child(config, component).command
        assert command[command.index("--log-format") + 1] == "json"
    for component in (Component.WORKER, Component.API):
        assert child(config, component).environment["OUTLAST_LOG_FORMAT"] == "json"


def test_worker_and_api_have_a_ready_file_of_their_own(tmp_path: Path) -> None:
    config = full_config(tmp_path)
    for component in (Component.WORKER, Component.API):
        spec = child(config, component)
        assert spec.ready_file == tmp_path / "ready" / f"{component}.json"
        assert spec.environment["OUTLAST_READY_FILE"] == str(spec.ready_file)


def test_the_server_gets_no_credentials(tmp_path: Path) -> None:
    config = full_config(tmp_path, APIFY_TOKEN="t0ken", OUTLAST_API_KEYS="secret")
    assert "t0ken" not in child(config, Component.TEMPORAL).environment.values()
    assert "secret" not in child(config, Component.TEMPORAL).environment.values()


def test_folders_of_actors_reach_the_sandbox(tmp_path: Path) -> None:
    config = free_ports_config(tmp_path, Component.SANDBOX, actors=(tmp_path / "a", tmp_path / "b"))
    command = child(config, Component.SANDBOX).command
    assert [command[i + 1] for i, word in enumerate(command) if word == "--actors"] == [
        str(tmp_path / "a"),
        str(tmp_path / "b"),
    ]


def test_settings_come_from_the_environment_and_flags_win() -> None:
    environment = {"OUTLAST_API_PORT": "9000", "OUTLAST_DATA_DIR": "/data", "OUTLAST_LOG_FORMAT": "json"}
    config = StackConfig.from_environment(environment, api_port=9001, temporal_port=None)
    assert (config.api_port, config.data_dir, config.log_format) == (9001, Path("/data"), "json")
    assert config.temporal_port is None


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="api_port"):
        StackConfig.from_environment({"OUTLAST_API_PORT": "http"})


def test_a_configuration_never_shows_its_environment() -> None:
    assert "t0ken" not in repr(StackConfig(environment={"APIFY_TOKEN": "t0ken"}))


def test_tools_of_others_are_loaded_by_worker_and_api_alike(tmp_path: Path) -> None:
    config = full_config(tmp_path).model_copy(update={"tools_from": "my_package.tools,another"})
    for component in (Component.WORKER, Component.API):
        assert child(config, component).environment["OUTLAST_TOOLS_FROM"] == "my_package.tools,another"


def test_worker_and_api_get_the_whole_path_of_the_file_of_mcp_servers(tmp_path: Path) -> None:
    config = full_config(tmp_path).model_copy(update={"mcp_servers": Path("mcp.json")})
    named = full_config(tmp_path, OUTLAST_MCP_SERVERS_FILE="mcp.json")
    for component in (Component.WORKER, Component.API):
        for each in (config, named):
            assert child(each, component).environment["OUTLAST_MCP_SERVERS_FILE"] == str(Path("mcp.json").absolute())
        assert "OUTLAST_MCP_SERVERS_FILE" not in child(full_config(tmp_path), component).environment


def test_the_ui_has_payloads_decrypted_by_the_api_when_they_are_encrypted(tmp_path: Path) -> None:
    config = full_config(tmp_path, OUTLAST_ENCRYPTION="on")
    command = child(config, Component.TEMPORAL).command
    assert command[command.index("--ui-codec-endpoint") + 1].endswith("/codec")
    assert "--ui-codec-endpoint" not in child(full_config(tmp_path), Component.TEMPORAL).command
