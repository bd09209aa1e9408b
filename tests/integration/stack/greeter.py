"""A workflow that waits to be told to finish."""

from temporalio import workflow


@workflow.defn
class Greeter:
    def __init__(self) -> None:
        self._finished = False

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self._finished)
        return "hello"

    @workflow.signal
    def finish(self) -> None:
        self._finished = True

    @workflow.update
    async def greet(self, name: str) -> str:
        return f"hello {name}"
