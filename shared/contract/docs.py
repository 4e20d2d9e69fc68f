"""The table as pages for people and programs: docs/contract/README.md and a JSON Schema a message.

`make schema` writes them, `make check` fails when they differ from what the code says.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pydantic

from shared.contract import codec, limits, messages, permissions, streams, table
from shared.contract.table import Role
from shared.sharing import entries

FOLDER = pathlib.Path("docs/contract")
NODE = "gpu-a.example"  # a name with a dot, to show how it is written in subjects


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or with `--check` say which of them differ; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m shared.contract.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="where the pages stand")
    options = parser.parse_args(argv)
    wanted = pages()
    if options.check:
        wrong = differing(options.folder, wanted)
        for name in wrong:
            sys.stderr.write(
                f"{options.folder / name} is not what the contract says: make schema\n"
            )
        return 1 if wrong else 0
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in differing(options.folder, wanted):
        if name in wanted:
            (options.folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (options.folder / name).unlink()
    return 0


def differing(folder: pathlib.Path, wanted: dict[str, str]) -> list[str]:
    """Names of pages that are missing, differ, or belong to no message any more."""
    standing = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.*")}
    names = sorted(standing.keys() | wanted.keys())
    return [name for name in names if standing.get(name) != wanted.get(name)]


def pages() -> dict[str, str]:
    """All pages by file name."""
    kinds = [each.message for each in (*table.BUCKETS, *table.LOGS)]
    return {"README.md": _readme()} | {_schema_file(kind): _schema(kind) for kind in kinds}


def _schema_file(kind: type[Any]) -> str:
    return f"{kind.__name__.lower()}.schema.json"


def _schema(kind: type[Any]) -> str:
    """The form a writer gives; readers take unknown keys besides."""
    schema = pydantic.TypeAdapter(kind).json_schema(mode="serialization")
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def _readme() -> str:
    parts = (INTRODUCTION, _buckets(), _logs(), RULES, _accounts(), _permissions())
    return "\n\n".join(part.strip() for part in parts) + "\n"


INTRODUCTION = f"""
# The contract on the bus

Written by `make schema` from `shared/contract`; edits here are lost.

State stands in buckets: JetStream streams that keep one message a key. A stored value is
republished by the server on a subject where nobody may publish. In keys and subjects a node is
written with `_` for each dot: `{NODE}` is `{table.node_token(NODE)}`. Every message is JSON,
packed by gzip from {codec.PACKED_FROM_BYTES // 1024} KiB on, and carries a stamp (schema
version {messages.SCHEMA}, node, writer, store, generation) and, as a header, `traceparent`.
Readers take unknown keys; they refuse a greater schema version, whole numbers beyond 64 bits,
more than {entries.MOST_IDS} slots of one resource, and memory slices beyond {limits.MOST_SLICES}.
"""

RULES = f"""
## Rules

- Under the key `{table.STORE_KEY}` each bucket holds its store: its creation time in ns, in
  decimal digits. A writer copies it into each value. Of two values the one of the greater store is
  the newer, then the one of the higher sequence.
- A reader subscribes to `sw.<bucket>.<node>`, then gets the key directly, and gets it again with
  each connection and on a slow timer. It takes a message only if its last `Nats-Stream` and
  `Nats-Subject` headers name the key: the storage's answers can be sent to any subject.
- An empty value is a tombstone: the cluster has not had the node for
  {table.ABSENT_S / 3600:.0f} h, and nobody hears its advertiser. Only the controller writes one,
  under any key; `{table.STORE_HEADER}` says its store, so that it is ordered like a value, and
  it goes by itself after {table.TOMBSTONE_S // 3600} h. Who reads all nodes forgets the node;
  a service of the node itself minds nothing, and its writer writes again.
- A writer writes only while connected, and again when another value stands under its key or the
  store is new. Nobody makes a consumer, and services ask each other nothing.
- Values of {", ".join(f"`{each.name}`" for each in table.BUCKETS if each.renewed)} are
  stored again as they are about each {table.RENEW_EVERY_S:.0f} s: one that is older than a few of
  these has lost its writer. Readers act on none that says nothing new.
- A payload has at most {table.MAX_PAYLOAD_BYTES} bytes with its headers. Roll-up, delete and purge
  are refused. A log entry's `Nats-Msg-Id` makes sending it twice within
  {streams.DUPLICATE_WINDOW_S} s harmless.
- What stands in a node's place of a log is about that node: readers pass over what is not.
"""


def _buckets() -> str:
    rows = (
        (
            f"`{each.name}`",
            f"`{each.key('<node>')}`",
            f"`{each.heard('<node>')}`",
            each.writer,
            ", ".join(each.readers),
            each.says,
            str(each.max_value_bytes),
            _link(each.message),
        )
        for each in table.BUCKETS
    )
    head = ("bucket", "key", "heard on", "writer", "readers", "says", "bytes at most", "message")
    return "## State\n\n" + _table(head, rows)


def _logs() -> str:
    leaves = {"facts": "<kind>", "spans": "<trace id>"}
    rows = (
        (
            f"`{each.name}`",
            f"`{each.subject('<node>', leaves[each.name])}`",
            ", ".join(each.writers),
            ", ".join(each.readers),
            each.says,
            f"{each.max_age_s // 3600} h, {each.max_bytes >> 20} MiB",
            _link(each.message),
        )
        for each in table.LOGS
    )
    head = ("log", "subject", "writers", "readers", "says", "kept", "message")
    note = f"The controller writes with `{table.CONTROLLER_PLACE}` in the node's place."
    return f"## Logs\n\n{_table(head, rows)}\n\n{note}"


def _accounts() -> str:
    rows = (
        (
            f"`{each.subject}`",
            "service" if each.service else "stream",
            ", ".join(f"`{account}`" for account in each.accounts),
        )
        for each in permissions.exports()
    )
    return (
        "## Accounts\n\n"
        "The server answers on any reply subject a client names, with its own rights. So the\n"
        "streams and the controller stand in an account of their own, and the others import from\n"
        "it only this:\n\n" + _table(("subject", "kind", "imported by"), rows)
    )


def _permissions() -> str:
    sections = ["## Permissions", f"For the node `{NODE}`. What is not listed is denied."]
    for role in Role:
        allowed = permissions.permissions(role, NODE)
        account = permissions.account(role)
        sections += [
            f"### {role}",
            f"User `{permissions.user_name(role, NODE)}` in account `{account}`.",
            "Publish:\n\n" + _list(allowed.publish),
            "Subscribe:\n\n" + _list(allowed.subscribe),
        ]
    return "\n\n".join(sections)


def _link(kind: type[Any]) -> str:
    return f"[{kind.__name__}]({_schema_file(kind)})"


def _list(subjects: Iterable[str]) -> str:
    return "\n".join(f"- `{each}`" for each in subjects)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
