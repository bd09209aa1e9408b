"""`python -m api.cli`: the same as `outlast`."""

from api.cli.main import main

if __name__ == "__main__":
    main()
