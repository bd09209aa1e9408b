"""API keys of the policy file: made, listed and revoked by the command, verified without a stall."""

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.api.access.api_keys import KeyHash, new_key
from outlast.api.access.callers import CallerResolver
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key, read_policy, remove_key
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import ApifyTokenMissing, KeyChecksBusy, Unauthenticated
from outlast.api.settings import ApiSettings
from outlast.cli.main import command_line

POLICY = """# who calls
unmatched = "allow"  # for now

[callers."key:ann"]
apify_token_env = "ANNS_APIFY_TOKEN"
"""


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    return path


def cli(path: Path, *arguments: str, code: int = 0) -> dict[str, object]:
    done = CliRunner().invoke(command_line(), ["keys", *arguments, "--file", str(path), "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def created(path: Path, caller: str, *options: str) -> SecretStr:
    return SecretStr(str(cli(path, "create", "--caller", caller, *options)["key"]))


def added(path: Path, name: str, *scopes: Scope) -> SecretStr:
    key, hashed = new_key(name)
    add_key(path, KeyEntry(id=name, caller=f"key:{name}", hash=str(hashed), scopes=frozenset(scopes)))
    return key


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def resolver(path: Path) -> tuple[CallerResolver, PolicySource]:
    settings = ApiSettings(policy_file=path)
    policy, sealer = PolicySource(path, base=settings.policy), SecretSealer.ephemeral()
    platform = ApifyPlatform(api_base_url="http://127.0.0.1:9", operator_token=None, sealer=sealer)
    return CallerResolver(settings, policy, platform, sealer), policy


def test_the_file_keeps_its_comments_and_no_secret_and_is_its_owners_only(policy_file: Path) -> None:
    policy_file.chmod(0o644)
    key = created(policy_file, "bob", "--scopes", "read", "--expires", "90d", "--id", "bob_1").get_secret_value()
    text = policy_file.read_text()
    assert POLICY in text
    assert key.startswith("ol_bob_1_")
    assert key.removeprefix("ol_bob_1_") not in text
    assert stat.S_IMODE(policy_file.stat().st_mode) == 0o600
    (listed,) = cli(policy_file, "list")["keys"]  # pyright: ignore[reportGeneralTypeIssues]
    assert (listed["caller"], listed["scopes"], listed["expired"]) == ("key:bob", ["read"], False)
    assert "hash" not in listed
    assert "--yes" in str(cli(policy_file, "revoke", "bob_1", code=2))
    assert cli(policy_file, "revoke", "bob_1", "--yes") == {"revoked": "bob_1"}
    assert POLICY in policy_file.read_text()
    assert read_policy(policy_file).anonymous == "none"
    assert "no key" in str(cli(policy_file, "revoke", "bob_1", code=2))
    before = policy_file.read_text()
    for wrong in (["--scopes", "everything"], ["--expires", "soon"], ["--id", "a b"]):
        cli(policy_file, "create", "--caller", "bob", *wrong, code=2)
    policy_file.write_text("keys = 3")
    assert "keys" in str(cli(policy_file, "create", "--caller", "bob", code=1))
    assert (policy_file.read_text(), before.count("[[keys]]")) == ("keys = 3", 0)


async def test_a_key_is_its_callers_with_its_scopes_until_it_expires_or_is_revoked(
    policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = added(policy_file, "ann", "read", "admin"), added(policy_file, "bob", "call", "read", "cancel")
    known, policy = resolver(policy_file)
    found = await known.resolve(bob)
    assert (found.caller.id, found.caller.apify_token, found.scopes) == ("key:bob", None, {"call", "read", "cancel"})
    with pytest.raises(ApifyTokenMissing, match="ANNS_APIFY_TOKEN"):
        await known.resolve(ann)
    monkeypatch.setenv("ANNS_APIFY_TOKEN", "apify_api_of_ann")
    found = await known.resolve(ann)
    assert found.scopes == {"read", "admin"}
    assert found.caller.apify_token is not None
    assert "apify_api_of_ann" not in repr(found)

    forged = ("ol_bob_", "ol_bob", "ol__x", "ol_nobody_" + "0" * 48, bob.get_secret_value()[:-1], "ol_bob_é")
    for wrong in (*forged, bob.get_secret_value().replace("ol_bob", "ol_ann"), bob.get_secret_value() + "0"):
        with pytest.raises(Unauthenticated):
            await known.resolve(SecretStr(wrong))
    with pytest.raises(Unauthenticated):
        await known.resolve(None)  # with keys, nobody is `local`

    over = datetime.now(UTC) - timedelta(seconds=1)
    edit(policy_file, 'id = "bob"', f'id = "bob"\nexpires = {over.isoformat()}')
    assert policy.reload()
    with pytest.raises(Unauthenticated, match="expired"):
        await known.resolve(bob)
    assert remove_key(policy_file, "bob")
    assert policy.reload()
    with pytest.raises(Unauthenticated, match="revoked"):
        await known.resolve(bob)


async def test_a_flood_of_wrong_secrets_is_one_hash_at_a_time_and_stops_nobody_else(
    policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob, carl = added(policy_file, "bob", "read"), added(policy_file, "carl", "read")
    known, _ = resolver(policy_file)
    assert (await known.resolve(bob)).caller.id == "key:bob"
    running, most, hashes = 0, 0, 0
    plain = KeyHash.fits

    def counted(self: KeyHash, secret: str) -> bool:
        nonlocal running, most, hashes
        running, hashes = running + 1, hashes + 1
        most = max(most, running)
        try:
            return plain(self, secret)
        finally:
            running -= 1

    monkeypatch.setattr(KeyHash, "fits", counted)
    flood = [asyncio.create_task(known.resolve(SecretStr(f"ol_bob_{number:048x}"))) for number in range(200)]
    await asyncio.sleep(0)
    assert (await known.resolve(bob)).caller.id == "key:bob"  # verified before: no hash, no queue
    assert hashes <= 1
    assert (await known.resolve(carl)).caller.id == "key:carl"  # a queue of its own
    outcomes = [type(outcome) for outcome in await asyncio.gather(*flood, return_exceptions=True)]
    assert set(outcomes) == {Unauthenticated, KeyChecksBusy}
    assert outcomes.count(Unauthenticated) == 20
    assert most <= 2
    done = hashes
    with pytest.raises(Unauthenticated):
        await known.resolve(SecretStr(f"ol_bob_{0:048x}"))  # a client with an old key costs one hash
    assert hashes == done


async def test_a_burst_of_requests_with_a_new_key_is_one_hash(
    policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 21st was refused, as after each change of the policy."""
    bob = added(policy_file, "bob", "read")
    known, _ = resolver(policy_file)
    hashes = 0
    plain = KeyHash.fits

    def counted(self: KeyHash, secret: str) -> bool:
        nonlocal hashes
        hashes += 1
        return plain(self, secret)

    monkeypatch.setattr(KeyHash, "fits", counted)
    principals = await asyncio.gather(*(known.resolve(bob) for _ in range(200)))
    assert {principal.caller.id for principal in principals} == {"key:bob"}
    assert hashes == 1


@pytest.mark.parametrize(
    "wrong",
    ["x", "scrypt$16384$8$1$AAAA$AAAA", "scrypt$1073741824$8$1$c2FsdHNhbHQ=$" + "A" * 44, "md5$2$8$1$c2Fs$c2Fs"],
)
def test_a_hash_that_is_none_or_would_stall_the_server_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="scrypt"):
        KeyHash.parse(wrong)
