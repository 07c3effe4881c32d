"""Transactions: the proposed commit, the conflict rules, the commit loop, and the search for a run's commit.

`commands` and `spark` call this package. `inspection`, `cli` and `deltalite.table` read runs, flows and audits from
commits with it. The provider looks up runs through `deltalite.watch`.
Begin with `proposal.py`, then `commit.py` and `find_run.py`.
"""
