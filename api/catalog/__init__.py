"""The catalog: tools that a caller is offered, under names and schemas that models accept."""
