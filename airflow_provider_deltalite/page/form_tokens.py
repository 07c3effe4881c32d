"""Tokens in forms that change something, against forms on other sites.

A browser may send Airflow's cookie with a form of another site, but such a site cannot read a token. A token names the
user, the action and a time, and is signed with Airflow's `[api] secret_key`, which all API servers share.
"""

from __future__ import annotations

import secrets

from itsdangerous import BadSignature, URLSafeTimedSerializer

_SALT = "airflow_provider_deltalite.page"
_MAX_AGE_SECONDS = 12 * 3600


class FormTokens:
    """Makes tokens and checks them. Without a secret, this process makes one, and accepts only tokens that it made."""

    def __init__(self, secret: str) -> None:
        self._serializer = URLSafeTimedSerializer(secret or secrets.token_hex(), salt=_SALT)

    def token(self, user_id: str, action: str) -> str:
        """Return a token with which the user can do the action for twelve hours."""
        return str(self._serializer.dumps([user_id, action]))

    def is_valid(self, token: str, user_id: str, action: str) -> bool:
        """Whether the token was made for this user and this action, and is not too old."""
        try:
            return bool(self._serializer.loads(token, max_age=_MAX_AGE_SECONDS) == [user_id, action])
        except BadSignature:
            return False
