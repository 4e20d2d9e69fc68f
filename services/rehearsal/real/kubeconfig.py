"""A kubeconfig file → where its API server is, and what proves to it who we are.

Only what stands in the file is read: certificates, a token, and the authority of the server.
"""

from __future__ import annotations

import base64
import binascii
import pathlib
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

HELPERS = ("exec", "auth-provider", "username")


class KubeconfigError(Exception):
    """The file cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Access:
    """The way to one API server."""

    server: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a token


def read(path: pathlib.Path) -> Access:
    """Read the current context of the file.

    Raises:
        KubeconfigError: it has none, or names what is not there.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _access(config, path.parent)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ssl.SSLError) as error:
        raise KubeconfigError(f"{path} cannot be read: {error}") from error
    except KubeconfigError as error:
        raise KubeconfigError(f"{path}: {error}") from error


def _access(config: Any, folder: pathlib.Path) -> Access:
    if not isinstance(config, Mapping):
        raise KubeconfigError("this is no kubeconfig")
    name = config.get("current-context") or ""
    context = _named(config.get("contexts"), name, "context")
    cluster = _named(config.get("clusters"), context.get("cluster", ""), "cluster")
    user = _named(config.get("users"), context.get("user", ""), "user")
    server = str(cluster.get("server", ""))
    if not server:
        raise KubeconfigError(f"the cluster {context['cluster']} has no server")
    tls = _tls(cluster, user, folder) if server.startswith("https:") else None
    return Access(server, tls, _headers(user, folder))


def _named(entries: Sequence[Mapping[str, Any]] | None, name: str, kind: str) -> Mapping[str, Any]:
    for entry in entries or ():
        if entry.get("name") == name:
            found: Mapping[str, Any] = entry.get(kind) or {}
            return found
    hint = "set one with `kubectl config use-context`" if kind == "context" else "add it"
    raise KubeconfigError(f"there is no {kind} {name!r}: {hint}")


def _tls(
    cluster: Mapping[str, Any], user: Mapping[str, Any], folder: pathlib.Path
) -> ssl.SSLContext:
    authority = _bytes(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = (_bytes(user, each, folder) for each in ("client-certificate", "client-key"))
    if certificate and key:
        with tempfile.TemporaryDirectory() as kept:  # the library reads them from files only
            both = pathlib.Path(kept) / "client.pem"
            both.touch(mode=0o600)
            both.write_bytes(certificate + b"\n" + key)
            context.load_cert_chain(both)
    return context


def _headers(user: Mapping[str, Any], folder: pathlib.Path) -> dict[str, str]:
    token = str(user.get("token") or "")
    if not token and user.get("tokenFile"):
        token = (folder / user["tokenFile"]).read_text(encoding="ascii").strip()
    helper = next((each for each in HELPERS if each in user), None)
    if helper and not token and "client-certificate-data" not in user:
        raise KubeconfigError(
            f"its user is found by {helper!r}, which is not read here: make a file with a token"
            " (`kubectl create token`) or with a client certificate"
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


def _bytes(entry: Mapping[str, Any], name: str, folder: pathlib.Path) -> bytes:
    """What an entry holds under `name-data`, or in the file that `name` names."""
    if data := entry.get(f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{name}-data is not base64") from error
    return (folder / entry[name]).read_bytes() if entry.get(name) else b""
