"""Stars replace the secrets in a text, in one pass over any text. Names of columns are not secrets."""

from __future__ import annotations

import pytest

from deltalite.redaction import redacted, secret_values, shows_secret
from tests.support.selection import sampled

REPEATED = [
    "a=", "token=", "token={", 'token="', 'token="\\"', "-Da=", "-Dtoken=", "a://:/", "oracle:a:", "oracle:a:b/",
    "-----BEGIN PRIVATE KEY-----", '"token": "', "Basic ", "a: ", "a@", '{"a":',
    "token ", "token   ", "token = ", "a.b ", "--token ", "<token>", "<name>token</name>", "IDENTIFIED BY ", "token 'x",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", sampled(REPEATED, REPEATED[::3]))
def test_a_hostile_text_of_any_length_is_searched_in_one_pass(part):
    assert len(redacted(part * (300_000 // len(part)))) <= 300_000  # a search from each position would take minutes


@pytest.mark.slow
def test_many_secrets_in_one_text_are_replaced_in_one_pass():
    text = redacted(" ".join(f"token=planted{n} x" for n in range(60_000)))
    assert "planted" not in text and text.startswith("token=*** x token=*** x")


@pytest.mark.parametrize(
    "text",
    [
        "t.account_key=s.account_key", "(t.day = s.day AND t.account_key=s.account_key)",
        "SELECT * FROM a JOIN b ON a.session_key=b.session_key",
    ],
)  # fmt: skip
def test_a_condition_on_columns_with_names_like_secrets_is_shown(text):
    assert redacted(text) == text


def test_an_assignment_of_a_column_with_a_secret_name_is_shown():
    assert list(secret_values({"set": {"token": "source.token"}})) == []
    assert shows_secret("db.password", "password"), "the word may be the value of the secret"


@pytest.mark.parametrize(
    "text",
    [
        "aws_secret_access_key = planted", "a = 1\n  password = planted words \nb = 2", "OPTIONS (password 'planted')",
        "OPTIONS ('password' = 'planted')", "connect(password => 'planted')", "CREATE USER u IDENTIFIED BY 'planted'",
        "ALTER USER u IDENTIFIED BY planted", "load --password planted --verbose", "Authorization: Token planted",
        "<password>planted</password>", "spark.hadoop.fs.s3a.secret.key planted", "fernet_key=planted",
        "<name>fs.s3a.secret.key</name>\n  <value>planted</value>",
    ],
)  # fmt: skip
def test_a_secret_is_hidden_in_each_common_notation(text):
    assert "planted" not in redacted(text)
    assert "***" in redacted(text)


@pytest.mark.parametrize(
    "text",
    ["The password is missing.", "a token 17", "t.day = s.day", "WHERE note = 'the token'", "max_tokens = '4096'"],
)
def test_a_text_that_only_mentions_a_secret_is_shown(text):
    assert redacted(text) == text


@pytest.mark.parametrize(
    "name", ["kafka.basic.auth.user.info", "schema.registry.basic.auth.user.info", "spark.redis.auth", "bearer", "pat"]
)
def test_a_credential_is_secret_under_a_name_that_connectors_use(name):
    assert "planted" in set(secret_values({name: "planted"}))


@pytest.mark.parametrize(
    "text", ["secret={a=1,password=planted}", 'token="x -Dpassword=planted y"', "url=jdbc:x://h?password=planted"]
)
def test_only_the_secret_part_of_an_assigned_value_is_hidden(text):
    assert "planted" in set(secret_values(text))


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "maxTokens", "spark.llm.max-tokens", "num_tokens", "total.tokens", "input_tokens", "token_count",
     "tokenCount", "token_counts", "token_limit", "tokens_per_second", "tokensPerMinute", "MAX_TOKENS_PER_REQUEST"],
)  # fmt: skip
def test_a_number_of_tokens_is_shown(name):
    assert list(secret_values({name: "4096 and more"})) == []
    assert redacted(f"{name}=40960") == f"{name}=40960"


@pytest.mark.parametrize(
    "name",
    ["token", "tokens", "access_token", "accessToken", "refresh.tokens", "token_value", "max_token", "admin_tokens",
     "login_tokens", "token_counter", "count_token", "tokens_max", "token_count_secret", "max_tokens_password",
     "max_tokens.token", "token.per.user", "subtotal_token", "x_token_count_y"],
)  # fmt: skip
def test_a_token_is_hidden_with_any_other_word_in_its_name(name):
    assert "planted" in set(secret_values({name: "planted"}))
