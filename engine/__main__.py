"""`python -m engine` is the `engine` command."""

from engine.cli import main

if __name__ == "__main__":
    main()
