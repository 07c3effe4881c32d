"""The command line `deltalite`, which uses neither Spark nor `commands`.

Only the console script calls it, and no other package writes to a terminal.
Begin with `main.py` (the list of commands), then `command.py` (the description of a command).
"""
