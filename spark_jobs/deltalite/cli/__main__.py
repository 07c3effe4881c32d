"""The command line as `python -m deltalite.cli`, if the console script is not on the PATH."""

from deltalite.cli.main import entry

if __name__ == "__main__":
    entry()
