"""The restore operation: returns a table to the state of an older version, in one new version.

`jobs` calls `restore`. Begin with `command.py`.
"""

from deltalite.commands.restore.command import restore

__all__ = ["restore"]
