"""The surroundings of a handler while it runs: context, executor, questions, masks."""
