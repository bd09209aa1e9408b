import gc
import subprocess
import sys
from threading import Thread

import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize("server", ["api", "worker"])
def test_a_server_starts_without_what_it_never_uses(server: str) -> None:
    code = f"import outlast.{server}.__main__, sys; print({{'rich', 'email_validator'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


def test_what_is_left_out_can_be_imported_afterwards() -> None:
    code = (
        "from outlast.loading import loading\n"
        "with loading(without=['email_validator']):\n"
        "    try:\n"
        "        import email_validator\n"
        "    except ImportError:\n"
        "        print('missing')\n"
        "import email_validator\n"
        "print('there')"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["missing", "there"]
