"""The rows of a task, while its runs produce them."""
