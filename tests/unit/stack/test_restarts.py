from outlast.deploy.local.processes.restarts import RestartPauses, RestartPolicy

POLICY = RestartPolicy(first_pause_seconds=1, max_pause_seconds=30, steady_seconds=60)


def test_pauses_grow_up_to_the_limit_and_never_end() -> None:
    pauses = RestartPauses(POLICY)
    assert [pauses.after_end(ready_seconds=0) for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_process_that_is_ready_and_ends_at_once_waits_longer_each_time_too() -> None:
    pauses = RestartPauses(POLICY)
    assert [pauses.after_end(ready_seconds=2) for _ in range(3)] == [1, 2, 4]


def test_a_process_that_was_ready_for_a_while_is_restarted_after_the_first_pause() -> None:
    pauses = RestartPauses(POLICY)
    for _ in range(5):
        pauses.after_end(ready_seconds=0)
    assert pauses.after_end(ready_seconds=60) == 1


def test_the_longest_pause_is_thirty_seconds() -> None:
    assert RestartPolicy().max_pause_seconds == 30
