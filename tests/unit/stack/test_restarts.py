from outlast.deploy.local.processes import RestartPauses, RestartPolicy

POLICY = RestartPolicy(first_pause_seconds=1, max_pause_seconds=30, steady_seconds=60)


def test_pauses_grow_up_to_the_limit_and_never_end() -> None:
    pauses = RestartPauses(POLICY)
    assert [pauses.after_end(ready_seconds=0) for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_process_that_ends_soon_after_it_was_ready_is_started_ever_more_rarely_too() -> None:
    pauses = RestartPauses(POLICY)
    assert [pauses.after_end(ready_seconds=2) for _ in range(6)] == [0, 0, 2, 6, 14, 28]


def test_what_a_process_has_worked_is_not_waited_again() -> None:
    pauses = RestartPauses(POLICY)
    for _ in range(5):
        pauses.after_end(ready_seconds=0)
    assert pauses.after_end(ready_seconds=31) == 0


def test_the_pauses_of_a_process_that_was_ready_for_long_begin_anew() -> None:
    pauses = RestartPauses(POLICY)
    for _ in range(5):
        pauses.after_end(ready_seconds=0)
    assert [pauses.after_end(ready_seconds=seconds) for seconds in (60, 0)] == [0, 2]


def test_the_longest_pause_is_thirty_seconds_and_six_ends_in_a_row_wait_less_than_two() -> None:
    """A worker's runs have nobody that follows them while it is away: five seconds at most."""
    pauses = RestartPauses(RestartPolicy())
    waited = [pauses.after_end(ready_seconds=0) for _ in range(12)]
    assert waited[5] < 2
    assert waited[-1] == 30
