"""Ids of starts: the mark on the platform by which a run is found again."""

import hashlib


def operation_id(*, namespace: str, workflow_id: str, first_run_id: str, number: int) -> str:
    """Of the start with this number, counted from 1, of a task: equal in every replay and every process.

    `first_run_id` is the workflow's first execution, which a reset keeps.
    """
    return hashlib.sha256(f"{namespace}/{workflow_id}/{first_run_id}/{number}".encode()).hexdigest()[:32]
