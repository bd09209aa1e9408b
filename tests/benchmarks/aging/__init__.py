"""What a stack is like when its Temporal server keeps 100,000 finished tasks."""
