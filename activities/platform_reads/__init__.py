"""Reading what the platform's API says of something, as it says it."""
