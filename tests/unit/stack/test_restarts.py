from outlast.deploy.local.processes.restarts import RestartBudget, RestartPolicy

POLICY = RestartPolicy(
    first_delay_seconds=1, max_delay_seconds=5, max_failed_starts=4, max_restarts=6, window_seconds=60
)


def test_a_process_that_was_ready_is_restarted_after_the_first_delay() -> None:
    assert RestartBudget(POLICY).after_end(0, was_ready=True) == 1


def test_failed_starts_wait_longer_each_time_up_to_a_limit_and_are_then_given_up() -> None:
    budget = RestartBudget(POLICY)
    assert [budget.after_end(second, was_ready=False) for second in range(4)] == [2, 4, 5, None]


def test_becoming_ready_forgives_failed_starts() -> None:
    budget = RestartBudget(POLICY)
    budget.after_end(0, was_ready=False)
    budget.after_end(1, was_ready=False)
    assert budget.after_end(2, was_ready=True) == 1
    assert budget.after_end(3, was_ready=False) == 2


def test_a_process_that_keeps_ending_is_given_up_even_if_it_was_ready_each_time() -> None:
    budget = RestartBudget(POLICY)
    assert [budget.after_end(second, was_ready=True) for second in range(7)] == [1, 1, 1, 1, 1, 1, None]


def test_ends_long_ago_do_not_count() -> None:
    budget = RestartBudget(POLICY)
    assert all(budget.after_end(minute * 61, was_ready=True) == 1 for minute in range(20))
