"""The file that says how to reach a Prometheus."""

import ssl
from pathlib import Path

import pytest

from rightslice.feeders.http_config import DocumentError, HttpConfig, read_http_config


def config(folder: Path, text: str) -> HttpConfig:
    file = folder / "http.yml"
    file.write_text(text, encoding="utf-8")
    return read_http_config(file)


def test_an_empty_mapping_is_a_plain_connection(tmp_path: Path) -> None:
    assert config(tmp_path, "{}") == HttpConfig()


def test_basic_auth_may_keep_its_password_in_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("secret\n", encoding="utf-8")

    read = config(tmp_path, "basic_auth: {username: reader, password_file: word}")

    assert read.basic_auth == ("reader", "secret")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("authorization: {credentials: abc}", id="authorization"),
        pytest.param("bearer_token: abc", id="bearer_token"),
        pytest.param("authorization: {type: Bearer, credentials_file: token}", id="file"),
    ],
)
def test_a_bearer_token_is_sent_as_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text("abc", encoding="utf-8")

    assert config(tmp_path, text).headers == {"Authorization": "Bearer abc"}


def test_headers_name_a_tenant(tmp_path: Path) -> None:
    read = config(tmp_path, "http_headers: {X-Scope-OrgID: {values: [team-a]}}")

    assert read.headers == {"X-Scope-OrgID": "team-a"}


def test_tls_may_be_told_not_to_verify(tmp_path: Path) -> None:
    read = config(tmp_path, "tls_config: {insecure_skip_verify: true}")

    assert isinstance(read.verify, ssl.SSLContext)
    assert read.verify.verify_mode is ssl.CERT_NONE


def test_secrets_do_not_show_in_a_traceback(tmp_path: Path) -> None:
    read = config(tmp_path, "basic_auth: {username: reader, password: secret}")

    assert "secret" not in repr(read)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            "basic_auth: {username: x}", "line 1: basic_auth.password is missing", id="no"
        ),
        pytest.param("basic_auht: {}", "basic_auht is not a known key", id="misspelt"),
        pytest.param("bearer_token_file: nowhere", "cannot be read", id="file missing"),
        pytest.param(
            "bearer_token: a\nbasic_auth: {username: x, password: y}",
            "exclude each other",
            id="both",
        ),
        pytest.param("tls_config: {ca_file: nowhere}", "cannot be used", id="no CA"),
        pytest.param("http_headers: {X: 5}", "must be a mapping", id="header"),
        pytest.param("follow_redirects: maybe", "must be true or false", id="flag"),
        pytest.param("a: [", "not YAML", id="not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_place_and_remedy(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DocumentError, match=words) as caught:
        config(tmp_path, text)

    assert "http.yml" in str(caught.value)


def test_two_readings_of_the_same_are_equal_until_a_file_that_they_name_changes(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("abc", encoding="utf-8")
    text = "{bearer_token_file: token, tls_config: {insecure_skip_verify: true}}"
    first, second = config(tmp_path, text), config(tmp_path, text)
    token.write_text("abcd", encoding="utf-8")

    assert first == second
    assert first.stamps[0].is_stale()
    assert config(tmp_path, text) != first


def test_whether_and_whom_to_believe_makes_a_difference(tmp_path: Path) -> None:
    blind = config(tmp_path, "tls_config: {insecure_skip_verify: true}")
    named = config(tmp_path, "tls_config: {server_name: exporter.test}")

    assert (blind.is_verified, named.is_verified) == (False, True)
    assert named.server_name == "exporter.test"
    assert blind != named
    assert blind != HttpConfig()
