"""IDs of a session's workflows are unique per caller, whatever the names of callers and sessions."""

from hypothesis import example, given
from hypothesis import strategies as st

from outlast.activities.conversations.contracts import ConversationOwner
from outlast.workflows.contracts.sessions import turn_workflow_id

NAMES = st.text("ab:%3A", min_size=1, max_size=6)
OWNERS = st.builds(
    ConversationOwner, caller_id=st.builds("{}:{}".format, st.sampled_from(["jwt", "key"]), NAMES), session_id=NAMES
)


@given(OWNERS, OWNERS)
@example(ConversationOwner(caller_id="jwt:a:b", session_id="c"), ConversationOwner(caller_id="jwt:a", session_id="b:c"))
@example(
    ConversationOwner(caller_id="jwt:a%3Ab", session_id="c"), ConversationOwner(caller_id="jwt:a:b", session_id="c")
)
def test_two_owners_never_share_a_workflow(one: ConversationOwner, other: ConversationOwner) -> None:
    same = one == other
    assert (one.workflow_id == other.workflow_id) is same
    turns = [turn_workflow_id(owner.caller_id, owner.session_id, "1") for owner in (one, other)]
    assert (turns[0] == turns[1]) is same
