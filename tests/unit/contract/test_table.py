"""What the table says, as streams, permissions, server configuration and pages."""

from __future__ import annotations

import json
import pathlib

import pytest

from shared.contract import docs, permissions, server_conf, streams, table
from shared.contract.permissions import Account
from shared.contract.server_conf import User
from shared.contract.table import Bucket, Role

BUCKETS = [pytest.param(each, id=each.name) for each in table.BUCKETS]
NODES = [
    "gpu-a",
    "gpu-a.example",
    "ip-10-0-0-1.eu-west-1.compute.internal",
]


@pytest.mark.parametrize("node", NODES)
def test_a_nodes_name_and_its_token_are_one_to_one(node: str) -> None:
    """A token is one part of a subject, and the name can be read from it."""
    token = table.node_token(node)
    assert "." not in token
    assert table.node_of_token(token) == node
    assert token not in (table.STORE_KEY, table.CONTROLLER_PLACE)


def test_the_controllers_place_is_no_nodes_name() -> None:
    """Written about, as where its value of all waiting pods is refused, it stays what it is."""
    assert table.node_of_token(table.node_token(table.CONTROLLER_PLACE)) == table.CONTROLLER_PLACE


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_bucket_keeps_one_value_a_key_and_cannot_be_emptied(bucket: Bucket) -> None:
    """And republishes what it has stored, from all keys to all subjects that are listened to."""
    config = streams.bucket_config(bucket)
    assert config["max_msgs_per_subject"] == 1
    assert config["allow_direct"] is True
    assert config["allow_rollup_hdrs"] is False
    assert config["deny_delete"] is config["deny_purge"] is True
    assert config["republish"] == {"src": f"$KV.{bucket.name}.>", "dest": f"sw.{bucket.name}.>"}


@pytest.mark.parametrize("bucket", BUCKETS)
def test_a_value_and_its_headers_fit_into_what_the_server_takes(bucket: Bucket) -> None:
    """The server would close the connection of whoever sends more."""
    assert bucket.max_value_bytes + table.HEADER_ROOM_BYTES <= table.MAX_PAYLOAD_BYTES
    assert json.loads(configuration())["max_payload"] == table.MAX_PAYLOAD_BYTES


def test_logs_are_bounded_by_age_and_size() -> None:
    """An hour and 64 MiB of spans, as `slicewire trace` says."""
    spans = streams.log_config(table.log("spans"))
    assert spans["max_age"] == 3600 * 10**9
    assert spans["max_bytes"] == 64 << 20
    assert spans["duplicate_window"] == 120 * 10**9


@pytest.mark.parametrize("role", Role)
def test_nobody_may_publish_what_the_streams_republish(role: Role) -> None:
    """What is heard on `sw.` has been stored."""
    allowed = permissions.permissions(role, "gpu-a").publish
    assert not [subject for subject in allowed if subject.startswith(("sw.", ">", "*"))]


@pytest.mark.parametrize("role", table.NODE_ROLES)
def test_a_node_service_names_its_node_in_all_it_may_do(role: Role) -> None:
    """But for the stores, which tell a writer that its bucket is new."""
    allowed = permissions.permissions(role, "gpu-a.example")
    for subject in (*allowed.publish, *allowed.subscribe):
        assert "gpu-a_example" in subject or subject.endswith(table.STORE_KEY)


def test_no_two_users_share_a_name_or_an_inbox() -> None:
    """Else one could hear another's answers."""
    users = [(role, node) for role in table.NODE_ROLES for node in NODES]
    users += [(Role.CONTROLLER, ""), (Role.COMMAND, "")]
    assert len({permissions.user_name(*user) for user in users}) == len(users)
    assert len({permissions.inbox_prefix(*user) for user in users}) == len(users)


def test_only_the_controller_stands_with_the_streams() -> None:
    """Whoever else did could have the server's answers stored."""
    streams_users = [role for role in Role if permissions.account(role) is Account.STREAMS]
    assert streams_users == [Role.CONTROLLER]


def test_viewers_import_nothing_that_writes() -> None:
    """Only what is heard, and direct gets."""
    imported = [each.subject for each in permissions.exports() if Account.VIEWERS in each.accounts]
    assert imported == ["sw.>", "$JS.API.DIRECT.GET.>"]


def test_nobody_imports_the_intents_keys() -> None:
    """So that a wrong permission alone does not let a node write what it should do."""
    subjects = [each.subject for each in permissions.exports()]
    assert not [subject for subject in subjects if subject.startswith(("$KV.intent", "$KV.>"))]


def configuration() -> str:
    """A server's configuration with one user of each kind."""
    users = [
        User(role=Role.CONTROLLER, password="c"),
        User(role=Role.COMMAND, password="v"),
        User(role=Role.AGENT, node="gpu-a.example", password="a"),
    ]
    return server_conf.configuration(users, host="127.0.0.1", port=4222, store_dir="/store")


def test_users_stand_in_their_accounts() -> None:
    """With JetStream in the account of the streams only."""
    accounts = json.loads(configuration())["accounts"]
    names = {name: [user["user"] for user in body["users"]] for name, body in accounts.items()}
    assert names == {"SW": ["controller"], "NODE": ["agent_gpu-a_example"], "VIEW": ["command"]}
    assert [name for name, body in accounts.items() if "jetstream" in body] == ["SW"]


def test_a_password_is_not_shown() -> None:
    """Neither in logs nor in tracebacks."""
    assert "secret" not in repr(User(role=Role.COMMAND, password="secret"))


def test_the_pages_are_what_the_contract_says() -> None:
    """`make schema` leaves no difference."""
    folder = pathlib.Path(__file__).parents[3] / docs.FOLDER
    assert docs.differing(folder, docs.pages()) == []


def test_a_difference_in_the_pages_is_found_and_mended(tmp_path: pathlib.Path) -> None:
    """A missing page, a changed one and one too many."""
    arguments = ["--folder", str(tmp_path)]
    assert docs.main([*arguments, "--check"]) == 1
    assert docs.main(arguments) == 0
    assert docs.main([*arguments, "--check"]) == 0
    (tmp_path / "README.md").write_text("edited")
    (tmp_path / "old.schema.json").write_text("{}")
    assert docs.differing(tmp_path, docs.pages()) == ["README.md", "old.schema.json"]
    assert docs.main(arguments) == 0
    assert docs.main([*arguments, "--check"]) == 0
