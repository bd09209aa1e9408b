"""How answers are worded and cut, for every tool."""
