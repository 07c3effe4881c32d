"""The catalog of the user's Spark session, such as a Hive metastore. The configuration of the session selects it.

Commands that find tables by their schema call this package. Begin with `tables.py`.
"""
