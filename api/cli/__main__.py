"""`python -m outlast.api.cli`: the same as `outlast`."""

from outlast.api.cli.main import main

if __name__ == "__main__":
    main()
