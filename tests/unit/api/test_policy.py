"""The policy file: what it may say, what is refused, and how it comes into force while the API runs."""

from pathlib import Path

import pytest
from watchfiles import awatch

from outlast.api.access.policy.contracts import CallerEntry, Caps, Limits, PermissionEntry, Policy
from outlast.api.access.policy.policy_file import PolicyError, read_policy, read_policy_text, shrinkage
from outlast.api.access.policy.source import PolicySource
from outlast.api.metrics import POLICY_LOADS
from outlast.api.settings import ApiSettings
from tests.support.eventually import eventually

WHOLE = """
unmatched = "deny"

[defaults.limits]
request_burst = 7
open_streams = 3

[defaults.spending]
per_day_usd = 20

[callers."key:nightly"]
models = ["openai/*"]
limits = { request_burst = 70 }
spending = { per_task_usd = 5 }

[[rules]]
caller = "key:ci"
tool = "call-actor"
action = "ask"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text)
    return path


def test_a_callers_own_entry_goes_before_the_defaults(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, WHOLE))
    nightly, other = policy.of("key:nightly"), policy.of("key:other")
    assert (nightly.limits.request_burst, nightly.limits.open_streams) == (70, 3)
    assert (nightly.spending.per_task_usd, nightly.spending.per_day_usd) == (5, 20)
    assert (other.limits.request_burst, other.spending.per_task_usd) == (7, None)
    assert nightly.models == ("openai/*",)
    assert other.models == ("*",)


def test_the_variables_hold_where_the_file_is_silent(tmp_path: Path) -> None:
    settings = ApiSettings(permissions="*:*=deny", limits=Limits(open_streams=9, waiting_requests=11), policy_file=None)
    policy = PolicySource(write(tmp_path, WHOLE), base=settings.policy).current
    assert [rule.action for rule in policy.rules] == ["ask", "deny"]
    assert (policy.defaults.limits.open_streams, policy.defaults.limits.waiting_requests) == (3, 11)
    assert policy.unmatched == "deny"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[defaults.spending]\nper_mouth_usd = 1",
            "spending.per_mouth_usd: there is no such setting; did you mean 'per_mo",
        ),
        ("[defaults.limts]\nopen_streams = 1", "defaults.limts: there is no such setting; did you mean 'limits'?"),
        (
            '[callers."key:a".limits]\nopen_streams = 0',
            'callers."key:a".limits.open_streams: Input should be',
        ),
        *(
            (f"[defaults.spending]\nper_task_usd = {amount}", "per_task_usd: Input should be")
            for amount in ("1e30", "1e400", "1e-3000", "nan", "inf", "-0.0", "0", "-1", "1e-13", "true", "'1e900000'")
        ),
        ("[defaults.limits]\nrequests_per_second = inf", "requests_per_second: Input should be"),
        (f"[defaults.limits]\nstored_bytes = 1{'0' * 30}", "stored_bytes: Input should be"),
        (f"[defaults.limits]\nstored_bytes = 1{'0' * 5_000}", "is not TOML"),
        ("[[rules]]\ncaller = 'a'\ntool = 'b'\naction = 'maybe'", "rules.0.action: Input should be 'allow', 'ask' or"),
        ("rules = [", "is not TOML"),
        ("[defaults]\napify_token_env = 'A'\napify_token_file = 'b'", "defaults: name either apify_token_env or"),
        (
            "[[keys]]\nid='a'\ncaller='key:a'\nhash='x'\n[[keys]]\nid='a'\ncaller='key:b'\nhash='y'",
            "two keys have the id",
        ),
        ("[[keys]]\nid='a'\ncaller='key:a'\nhash='x'\nexpires=2030-01-01T00:00:00", "keys.0.expires"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_policy(write(tmp_path, text))
    assert said in str(refused.value)


NUMBERS = [f"defaults.limits.{name}" for name in Limits.model_fields] + [
    f"defaults.spending.{name}" for name in Caps.model_fields if name.endswith("_usd")
]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_policy_has_bounds(tmp_path: Path, name: str) -> None:
    for value in ("1e400", "nan", "inf", "-inf", "-1", "1" + "0" * 30, "'1e900000'", "'nan'"):
        with pytest.raises(PolicyError) as refused:
            read_policy(write(tmp_path, f"{name} = {value}"))
        assert f"{name}: Input should be" in str(refused.value), value


@pytest.mark.parametrize("age", ["9" * 400 + "d", "1e30s", "1e400d", "nan", "NaNs", "-0s", "-1d", 10**30, float("inf")])
def test_an_age_of_a_policy_has_bounds(tmp_path: Path, age: str | float) -> None:
    written = f"'{age}'" if isinstance(age, str) else str(age)
    with pytest.raises(PolicyError, match=r"reuse\.0\.max_age"):
        read_policy(write(tmp_path, f"[[reuse]]\ntool = '*'\nmax_age = {written}"))


async def test_a_changed_file_comes_into_force_and_a_broken_one_does_not(tmp_path: Path) -> None:
    path = write(tmp_path, "unmatched = 'ask'")
    source = PolicySource(path)
    seen: list[Policy] = []
    source.on_change(seen.append)
    async with source.watched():
        # As editors and Kubernetes do: a new file takes the place of the old one. Written until the watch has begun.
        def changed() -> bool:
            (tmp_path / "new").write_text("unmatched = 'deny'")
            (tmp_path / "new").replace(path)
            return source.current.unmatched == "deny"

        await eventually(changed)
        assert source.reload()
        loads = POLICY_LOADS.labels("ok")._value.get()
        # What else lies in the folder is no news of the policy.
        watching = awatch(tmp_path, recursive=False, yield_on_timeout=True, rust_timeout=100)
        written = 0
        async for changes in watching:
            written += bool(changes)
            if written == 3:
                break
            (tmp_path / "audit.jsonl").write_text(f"{written}")
        path.write_text("unmatched = 'perhaps'")
        errors = POLICY_LOADS.labels("error")._value
        before = errors.get()
        await eventually(lambda: errors.get() > before)
        assert POLICY_LOADS.labels("ok")._value.get() == loads
    assert [policy.unmatched for policy in seen] == ["deny"]
    path.write_text("unmatched = 'perhaps'")
    assert not source.reload()
    assert source.current.unmatched == "deny"


def test_without_a_file_the_variables_are_the_policy() -> None:
    source = PolicySource(None, base=ApiSettings(permissions="key:a:x=deny").policy)
    assert source.reload()
    assert source.current == Policy(
        defaults=CallerEntry(limits=Limits(), spending=source.current.defaults.spending),
        rules=(PermissionEntry(caller="key:a", tool="x", action="deny"),),
    )


KEY = '[[keys]]\nid = "a"\ncaller = "key:a"\nhash = "scrypt$16384$8$1$c2FsdHNhbHRzYWx0c2FsdA==$' + "A" * 43 + '="\n'
DENY = "[[rules]]\ncaller = '*'\ntool = 'b'\naction = 'deny'\n"
MARKED = "end_mark = true\n{0}\n[end]\n"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (KEY + DENY, KEY, "looks truncated"),
        (DENY + KEY, DENY, "looks truncated"),
        (KEY + DENY, DENY, "lost its last key"),
        (KEY + DENY, "anonymous = 'none'\n" + DENY, "lost its last key"),
        (KEY + DENY, "anonymous = 'local'\n" + DENY, "lost its last key"),
        (MARKED.format(KEY), MARKED.format(DENY), "lost its last key"),
        (MARKED.format(KEY + DENY), KEY + DENY, "lost its end mark"),
        (KEY + "[end]\n", KEY, "lost its end mark"),
        (MARKED.format(KEY) + DENY, MARKED.format(KEY), "looks truncated"),
        # Edits that are meant:
        (MARKED.format(KEY), MARKED.format(KEY) + DENY, None),
        (MARKED.format(KEY) + DENY, MARKED.format(KEY + DENY), None),
        (KEY + DENY, MARKED.format(KEY), None),
        (KEY + DENY, DENY + KEY, None),
        (KEY, KEY + DENY, None),
        (KEY + DENY, KEY + DENY + "# a note\n", None),
        (KEY + DENY + "# a note\n", KEY + DENY, None),
        (MARKED.format(KEY + DENY), MARKED.format(KEY), None),
        (MARKED.format(KEY), MARKED.format("anonymous = 'none'"), None),
        (MARKED.format(KEY), MARKED.format("anonymous = 'local'"), None),
        (KEY + DENY, "anonymous = 'none'\n" + DENY + "[end] # that is all\n", None),
        (DENY, "unmatched = 'ask'\n", None),
    ],
)
def test_what_a_changed_file_lost_by_accident(tmp_path: Path, before: str, after: str, said: str | None) -> None:
    in_force = read_policy_text(write(tmp_path, before))
    found = shrinkage(in_force, read_policy_text(write(tmp_path, after)))
    assert (found == []) if said is None else (said in found[0]), found


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", " \t\n#\n"])
def test_an_empty_file_says_nothing_and_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyError, match="is empty"):
        read_policy(write(tmp_path, text))


def test_each_part_of_a_marked_file_is_known_for_a_part(tmp_path: Path) -> None:
    whole = MARKED.format(KEY + DENY)
    taken: list[str] = []
    for length in range(len(whole.rstrip())):
        try:
            read_policy(write(tmp_path, whole[:length]))
        except PolicyError:
            continue
        taken.append(whole[:length])
    assert taken == []
    assert read_policy_text(write(tmp_path, whole.rstrip())).is_whole
