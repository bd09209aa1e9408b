"""Test processes that run at the same time never give their servers the same port."""

import subprocess
import sys

from outlast.deploy.local.ports import is_free
from tests.support.paths import ROOT
from tests.support.ports import free_port

PROGRAM = """
import sys
from tests.support.ports import free_port
print(*(free_port() for _ in range(150)), flush=True)
sys.stdin.read()
"""


def test_no_port_is_given_to_two_test_processes() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    # All of them live until the last one has its ports; no server listens on any of them.
    outputs = [process.stdout.readline() for process in processes if process.stdout]
    for process in processes:
        process.communicate()
    given = [port for line in outputs for port in line.split()]
    assert len(given) == 4 * 150
    assert len(set(given)) == len(given)


def test_a_port_is_free_and_given_once() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    assert all(is_free("127.0.0.1", port) for port in ports)
