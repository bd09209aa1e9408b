"""What surrounds a handler while it runs: context, executor, questions, masks."""
