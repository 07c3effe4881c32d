"""The Delta protocol as values: actions, schemas, features, properties and spelling rules.

Every higher layer calls this package; it reads no storage.
Begin with `actions.py`, then `schema.py` and `features.py`.
"""
