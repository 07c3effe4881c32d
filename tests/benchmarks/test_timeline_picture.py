"""The picture of the steps of a small append."""

from __future__ import annotations

import json

from benchmarks.timeline_picture import PICTURE, RESULTS, STEPS, draw


def test_the_picture_in_the_documentation_shows_the_results(tmp_path):
    draw(tmp_path / "task.svg")
    assert (tmp_path / "task.svg").read_text() == PICTURE.read_text()


def test_each_step_of_the_results_has_a_label():
    seconds = json.loads(RESULTS.read_text())["seconds"]
    assert {step for steps in seconds.values() for step in steps} == set(STEPS)
