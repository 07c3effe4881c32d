"""This library and delta-spark perform the same random statements on two copies of a random table.

After each statement both engines read both copies. The seed determines the table and its statements: run
`DELTALITE_FUZZ=50 pytest --campaign -k "seed-17"` to repeat seed 17 of the campaign. An error shows the
statements so far.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.support.differential.copies import Copies, Engines
from tests.support.differential.random_tables import random_table
from tests.support.fuzzing import scaled
from tests.support.selection import sampled

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

STATEMENTS = {False: 3, True: 25}
"""The number of statements for a table: in `make test` (False) and in the campaign (True)."""


@pytest.mark.parametrize("seed", sampled(range(scaled(2)), {0}), ids=lambda seed: f"seed-{seed}")
def test_both_engines_make_the_same_table(spark, delta_spark, tmp_path, pytestconfig, seed):
    copies = Copies(Engines(spark=spark, delta_spark=delta_spark), tmp_path, seed)
    with copies.journal_in_errors():
        copies.create(random_table(Random(seed)))
        for _ in range(STATEMENTS[pytestconfig.getoption("--campaign")]):
            copies.step()
