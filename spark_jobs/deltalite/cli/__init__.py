"""The command line `deltalite`: it shows what the library computes, and uses neither Spark nor `commands`.

Only the console script calls it; it is the only package that draws on a terminal.
Begin with `main.py` (the list of commands), then `command.py` (what a command is).
"""
