"""The catalog of the user's session, such as a Hive metastore, as the configuration says.

Commands that find tables by their schema call it. Begin with `tables.py`.
"""
