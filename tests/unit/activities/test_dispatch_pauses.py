"""A share that stays full is looked at less often; one that has room again is looked at as before."""

from outlast.activities.dispatch.activities import next_pause_seconds


def test_pauses_grow_while_nothing_is_released_and_begin_again_with_the_first_task_that_is() -> None:
    pauses = [0.25]
    for _ in range(20):
        pauses.append(next_pause_seconds(pauses[-1], has_released=False))
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert next_pause_seconds(pauses[-1], has_released=True) == 0.25
