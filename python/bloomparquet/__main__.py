"""``python -m bloomparquet``: the command line."""

from bloomparquet.cli.main import main

if __name__ == "__main__":
    main()
