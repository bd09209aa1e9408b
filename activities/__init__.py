"""Activities: all access to the outside world, and the contracts of these activities. One room per subject."""
