"""Task groups: several operators as one unit, such as the maintenance of a table.

Users' DAGs import `delta.py`.
Begin with `delta.py`.
"""
