"""Everything that is run to see that Outlast keeps its promises."""
