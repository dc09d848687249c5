"""How to reach a server: the parts of Prometheus' own `http_config` that a client needs."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.catalogue.located_yaml import DocumentError, Section, read_document


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Headers, credentials and TLS of every request. Secrets are kept out of `repr`."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    verify: ssl.SSLContext | bool = True
    proxy_url: str | None = None
    follow_redirects: bool = True


def read_http_config(file: Path) -> HttpConfig:
    """Read a file in the form of Prometheus' `http_config`. Raises DocumentError."""
    top = read_document(file)
    headers = _headers(top, file)
    basic = top.section("basic_auth")
    basic_auth = None
    if basic is not None:
        basic_auth = (basic.text("username"), _secret(basic, "password", file))
        basic.finish()
    authorization = top.section("authorization")
    bearer = _optional_secret(top, "bearer_token", file)
    if authorization is not None:
        scheme = authorization.text("type", "Bearer")
        headers["Authorization"] = f"{scheme} {_secret(authorization, 'credentials', file)}"
        authorization.finish()
    elif bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    if "Authorization" in headers and basic_auth is not None:
        raise top.error("basic_auth", "and a bearer token exclude each other; keep one")
    config = HttpConfig(
        headers=headers,
        basic_auth=basic_auth,
        verify=_tls(top, file),
        proxy_url=top.text("proxy_url", "") or None,
        follow_redirects=top.flag("follow_redirects", default=True),
    )
    top.finish()
    return config


def _headers(top: Section, file: Path) -> dict[str, str]:
    headers = {}
    section = top.section("http_headers")
    for name in section.keys() if section else ():
        entry = section.section(name) if section else None
        if entry is None:
            raise top.error("http_headers", f"{name} must be a mapping with values")
        told: list[str] = []
        for key in ("values", "secrets"):
            told += entry.texts(key) if entry.has(key) else ()
        for secret_file in entry.texts("files") if entry.has("files") else ():
            told.append(_read_secret(entry, "files", file.parent / secret_file))
        entry.finish()
        if not told:
            raise top.error("http_headers", f"{name} must have values, secrets or files")
        headers[name] = ", ".join(told)
    return headers


def _optional_secret(section: Section, key: str, file: Path) -> str | None:
    if section.has(key) or section.has(f"{key}_file"):
        return _secret(section, key, file)
    return None


def _secret(section: Section, key: str, file: Path) -> str:
    """Read a secret from its key, or from the file that `key`_file names."""
    if section.has(key):
        return section.text(key)
    if not section.has(f"{key}_file"):
        raise section.error(key, f"is missing; give {key} or {key}_file")
    return _read_secret(section, f"{key}_file", file.parent / section.text(f"{key}_file"))


def _read_secret(section: Section, key: str, secret_file: Path) -> str:
    try:
        return secret_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise section.error(key, f"cannot be read: {error}") from error


def _tls(top: Section, file: Path) -> ssl.SSLContext | bool:
    section = top.section("tls_config")
    if section is None:
        return True
    try:
        ca_file = section.text("ca_file", "")
        context = ssl.create_default_context(cafile=str(file.parent / ca_file) if ca_file else None)
        if section.flag("insecure_skip_verify", default=False):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if section.has("cert_file"):
            key_file = section.text("key_file")
            context.load_cert_chain(
                str(file.parent / section.text("cert_file")), str(file.parent / key_file)
            )
    except OSError as error:  # ssl.SSLError is one
        raise section.error("", f"cannot be used: {error}") from error
    section.finish()
    return context


__all__ = ["DocumentError", "HttpConfig", "read_http_config"]
