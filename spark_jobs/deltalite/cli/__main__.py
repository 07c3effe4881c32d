"""`python -m deltalite.cli`, where the console script is not on the path."""

from deltalite.cli.main import entry

if __name__ == "__main__":
    entry()
