import gc
from threading import Thread

from outlast.loading import loading


def test_one_thread_at_a_time_loads_modules() -> None:
    """apify-client is half loaded for the second of two threads: its modules import each other."""
    inside: list[str] = []

    def load() -> None:
        with loading():
            inside.append("second")

    second = Thread(target=load)
    with loading():
        second.start()
        second.join(0.05)
        assert (inside, gc.isenabled()) == ([], False)
    second.join()
    assert (inside, gc.isenabled()) == (["second"], True)
