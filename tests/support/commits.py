"""The actions of a commit file as values."""

from __future__ import annotations

from deltalite.protocol.actions import Action, iter_raw_actions, parse_action


def parse_commit(data: bytes, source: str) -> list[Action]:
    """All actions of known kinds in a commit file, in order. `source` names the file in errors."""
    actions = (parse_action(kind, body, source) for kind, body in iter_raw_actions(data, source))
    return [action for action in actions if action is not None]
