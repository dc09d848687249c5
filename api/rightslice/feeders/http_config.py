"""How to reach a server: the parts of Prometheus' own `http_config` that a client needs."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rightslice.catalogue.located_yaml import DocumentError, Section, read_document
from rightslice.feeders.targets.file_stamp import Stamp, stamp


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Headers, credentials and TLS of every request. Secrets are kept out of `repr`.

    Two are equal when they say the same and their files are the same. `server_name` is the name
    that the server's certificate must bear where it is not the URL's.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    basic_auth: tuple[str, str] | None = field(default=None, repr=False)
    # Contexts cannot be compared; `stamps`, `is_verified` and `server_name` say what one is.
    verify: ssl.SSLContext | bool = field(default=True, compare=False)
    is_verified: bool = True
    server_name: str = ""
    proxy_url: str | None = None
    follow_redirects: bool = True
    stamps: tuple[Stamp, ...] = ()


def read_http_config(file: Path) -> HttpConfig:
    """Read a file in the form of Prometheus' `http_config`. Raises DocumentError."""
    top = read_document(file)
    config = take_http_config(top, file.parent)
    top.finish()
    return config


def take_http_config(section: Section, folder: Path) -> HttpConfig:
    """Read the keys of an `http_config` that stand among others; files are named from `folder`.

    Raises DocumentError.
    """
    return _Reader(section, folder).read()


class _Reader:
    """Reads one section, and notes the files that it names."""

    def __init__(self, section: Section, folder: Path) -> None:
        self._top = section
        self._folder = folder
        self._stamps: list[Stamp] = []

    def read(self) -> HttpConfig:
        headers = self._headers()
        basic_auth = self._basic_auth()
        token = self._authorization()
        if token is not None:
            headers["Authorization"] = token
        if "Authorization" in headers and basic_auth is not None:
            raise self._top.error("basic_auth", "and a bearer token exclude each other; keep one")
        verify, is_verified, server_name = self._tls()
        return HttpConfig(
            headers=headers,
            basic_auth=basic_auth,
            verify=verify,
            is_verified=is_verified,
            server_name=server_name,
            proxy_url=self._top.text("proxy_url", "") or None,
            follow_redirects=self._top.flag("follow_redirects", default=True),
            stamps=tuple(self._stamps),
        )

    def _basic_auth(self) -> tuple[str, str] | None:
        section = self._top.section("basic_auth")
        if section is None:
            return None
        basic_auth = (section.text("username"), self._secret(section, "password"))
        section.finish()
        return basic_auth

    def _authorization(self) -> str | None:
        """Give the header's value; None where nothing is told."""
        section = self._top.section("authorization")
        bearer = None
        if self._top.has("bearer_token") or self._top.has("bearer_token_file"):
            bearer = self._secret(self._top, "bearer_token")
        if section is None:
            return None if bearer is None else f"Bearer {bearer}"
        scheme = section.text("type", "Bearer")
        credentials = self._secret(section, "credentials")
        section.finish()
        return f"{scheme} {credentials}"

    def _headers(self) -> dict[str, str]:
        headers = {}
        section = self._top.section("http_headers")
        for name in section.keys() if section else ():
            entry = section.section(name) if section else None
            if entry is None:
                raise self._top.error("http_headers", f"{name} must be a mapping with values")
            told: list[str] = []
            for key in ("values", "secrets"):
                told += entry.texts(key) if entry.has(key) else ()
            for secret_file in entry.texts("files") if entry.has("files") else ():
                told.append(self._read_secret(entry, "files", secret_file))
            entry.finish()
            if not told:
                raise self._top.error("http_headers", f"{name} must have values, secrets or files")
            headers[name] = ", ".join(told)
        return headers

    def _secret(self, section: Section, key: str) -> str:
        """Read a secret from its key, or from the file that `key`_file names."""
        if section.has(key):
            return section.text(key)
        if not section.has(f"{key}_file"):
            raise section.error(key, f"is missing; give {key} or {key}_file")
        return self._read_secret(section, f"{key}_file", section.text(f"{key}_file"))

    def _read_secret(self, section: Section, key: str, name: str) -> str:
        try:
            return self._noted(name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise section.error(key, f"cannot be read: {error}") from error

    def _noted(self, name: str) -> Path:
        """Give the path of a named file, which is watched from here on."""
        file = self._folder / name
        self._stamps.append(stamp(file))
        return file

    def _tls(self) -> tuple[ssl.SSLContext | bool, bool, str]:
        """Give the context, whether it verifies, and the name that it asks for."""
        section = self._top.section("tls_config")
        if section is None:
            return True, True, ""
        is_verified = not section.flag("insecure_skip_verify", default=False)
        server_name = section.text("server_name", "")
        try:
            ca_file = section.text("ca_file", "")
            context = ssl.create_default_context(
                cafile=str(self._noted(ca_file)) if ca_file else None
            )
            if not is_verified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if section.has("cert_file"):
                cert_file = self._noted(section.text("cert_file"))
                context.load_cert_chain(cert_file, self._noted(section.text("key_file")))
        except OSError as error:  # ssl.SSLError is one
            raise section.error("", f"cannot be used: {error}") from error
        section.finish()
        return context, is_verified, server_name


__all__ = ["DocumentError", "HttpConfig", "read_http_config", "take_http_config"]
