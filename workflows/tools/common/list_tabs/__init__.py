"""`list_tabs`: the tabs of the user's browser. The client collects them all; the server checks, chooses and words."""

from outlast.workflows.tools.common.list_tabs.definition import LIST_TABS

__all__ = ["LIST_TABS"]
