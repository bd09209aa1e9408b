"""The sleeper, as a process."""

import pytest


def test_sleeps_tells_its_progress_and_pushes_its_rows(run_actor):
    run = run_actor("sleeper", {"seconds": 0.4, "steps": 4, "message": "warming up", "rows": 6, "rowBytes": 50})

    assert run.exit_code == 0
    assert run.status_messages == [f"Slept {done} of 0.4 s: warming up" for done in ("0", "0.1", "0.2", "0.3", "0.4")]
    assert [row["index"] for row in run.rows] == list(range(6))
    assert all(row["message"] == "warming up" and len(row["payload"]) == 50 for row in run.rows)
    assert run.output == {
        "sleptSeconds": 0.4,
        "requestedSeconds": 0.4,
        "rows": 6,
        "message": "warming up",
        "aborted": False,
    }


def test_fails_as_it_is_told_and_keeps_its_rows(run_actor):
    run = run_actor("sleeper", {"seconds": 0, "rows": 2, "failWith": {"exitCode": 7, "message": "Out of luck"}})

    assert run.exit_code == 7
    assert run.status_messages[-1] == "Out of luck"
    assert len(run.rows) == 2


def test_ends_at_once_when_terminated_and_says_how_far_it_came(launch):
    actor = launch("sleeper", {"seconds": 3600, "steps": 2, "rows": 10})
    actor.read_until("Slept 0 of 3600 s")
    actor.terminate()
    run = actor.wait()

    assert run.exit_code == 143
    assert run.status_messages[-1].startswith("Stopped after ")
    assert run.output["aborted"] is True
    assert run.rows == []


@pytest.mark.parametrize(
    ("run_input", "message"),
    [
        ({"seconds": -1}, "seconds must be between 0 and 86400, not -1"),
        ({"steps": 1.5}, "steps must be a whole number, not 1.5"),
        ({"message": 3}, "message must be a string, not int"),
        ({"failWith": "now"}, "failWith must be an object, not str"),
        ({"rows": True}, "rows must be a number, not bool"),
        ([], "the input must be an object, not list"),
    ],
)
def test_refuses_a_wrong_input_with_a_reason(settings_of, run_input, message):
    settings = settings_of("sleeper")
    with pytest.raises(settings.InputError, match=message):
        settings.Settings.parse(run_input)


def test_a_wrong_input_fails_the_run(run_actor):
    run = run_actor("sleeper", {"seconds": 1e9})

    assert run.exit_code == 1
    assert run.status_messages == ["Invalid input: seconds must be between 0 and 86400, not 1e+09"]
