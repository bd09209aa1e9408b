import pytest
from dbos import DBOS, SetWorkflowID

charged = []


@DBOS.step()
def charge(card: str) -> str:
    charged.append(card)
    return "receipt-1"


@DBOS.workflow()
def order(card: str) -> str:
    return f"Ordered: {charge(card)}"


@pytest.fixture
def dbos(tmp_path):
    DBOS.destroy()
    DBOS(config={"name": "test", "system_database_url": f"sqlite:///{tmp_path}/dbos"})
    DBOS.launch()
    yield
    DBOS.destroy()


def test_a_crash_after_the_charge_does_not_charge_again(dbos) -> None:
    with SetWorkflowID("order-1"):
        order("visa")
    resumed = DBOS.fork_workflow("order-1", 2)
    assert resumed.get_result() == "Ordered: receipt-1"
    assert charged == ["visa"]
