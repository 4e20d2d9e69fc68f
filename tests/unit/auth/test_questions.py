"""Questions that no server has asked get no answer, and answers say what the table says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nacl.signing import SigningKey

from shared.bus.auth import callout, jwt, nkeys, sealing
from shared.bus.auth.callout import Clerk, Entrant, ForgedError
from shared.bus.auth.nkeys import Kind, Pair
from shared.contract import permissions
from shared.contract.table import Role

OURS = {kind: nkeys.new(kind) for kind in (Kind.ACCOUNT, Kind.CURVE)}
SERVER, SERVER_CURVE, OTHER = nkeys.new(Kind.SERVER), nkeys.new(Kind.CURVE), nkeys.new(Kind.SERVER)
USER = nkeys.new(Kind.USER).public


def claims() -> dict[str, Any]:
    """What a server asks."""
    return {
        "aud": callout.AUDIENCE,
        "iss": SERVER.public,
        "exp": 100,
        "nats": {
            "server_id": {"id": SERVER.public, "xkey": SERVER_CURVE.public},
            "user_nkey": USER,
            "connect_opts": {"auth_token": "the token"},
            "client_info": {"host": "10.0.0.7"},
        },
    }


def signed(body: dict[str, Any], signer: Pair = SERVER, kind: Kind = Kind.SERVER) -> bytes:
    """As the server signs it."""
    head = jwt.encode(json.dumps({"typ": "JWT", "alg": jwt.ALGORITHM}).encode())
    text = head + b"." + jwt.encode(json.dumps(body).encode())
    key = SigningKey(nkeys.raw_seed(kind, signer.seed))
    return text + b"." + jwt.encode(key.sign(text).signature)


def sealed(token: bytes, sender: Pair = SERVER_CURVE) -> bytes:
    """As the server seals it."""
    return sealing.Curve(sender.seed).seal(token, OURS[Kind.CURVE].public)


def clerk() -> Clerk:
    """One with our keys."""
    return Clerk(jwt.Issuer(OURS[Kind.ACCOUNT].seed), sealing.Curve(OURS[Kind.CURVE].seed))


def test_a_server_s_question_is_read() -> None:
    """Who asks, for whom, with what."""
    question = clerk().read(sealed(signed(claims())), SERVER_CURVE.public)
    assert (question.token, question.user_key, question.host) == ("the token", USER, "10.0.0.7")
    assert question.token not in repr(question)


def _for_another_purpose(body: dict[str, Any]) -> bytes:
    return sealed(signed({**body, "aud": "something-else"}))


def _of_another_server(body: dict[str, Any]) -> bytes:
    return sealed(signed({**body, "iss": OTHER.public}, OTHER))


def _of_no_server(body: dict[str, Any]) -> bytes:
    user = nkeys.new(Kind.USER)
    return sealed(signed({**body, "iss": user.public}, user, Kind.USER))


def _with_another_seal(body: dict[str, Any]) -> bytes:
    body["nats"]["server_id"]["xkey"] = nkeys.new(Kind.CURVE).public
    return sealed(signed(body))


def _without_content(body: dict[str, Any]) -> bytes:
    return sealed(signed({**body, "nats": {}}))


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(signed, id="not sealed"),
        pytest.param(
            lambda body: sealed(signed(body), nkeys.new(Kind.CURVE)), id="sealed by another"
        ),
        pytest.param(lambda body: sealed(signed(body, OTHER)), id="signed by another"),
        pytest.param(_of_another_server, id="of another server than it names"),
        pytest.param(_of_no_server, id="signed with a user's key"),
        pytest.param(_for_another_purpose, id="for another purpose"),
        pytest.param(_with_another_seal, id="sealed with another key than it names"),
        pytest.param(_without_content, id="without content"),
        pytest.param(lambda body: b"", id="empty"),
    ],
)
def test_a_forged_question_gets_no_answer(forge) -> None:  # type: ignore[no-untyped-def]
    """Whoever reaches our subject cannot ask for somebody else."""
    with pytest.raises(ForgedError):
        clerk().read(forge(claims()), SERVER_CURVE.public)


def test_an_answer_admits_to_the_node_s_account_with_the_table_s_rights() -> None:
    """It is for this login only, and ends."""
    ours = clerk()
    question = ours.read(sealed(signed(claims())), SERVER_CURVE.public)
    entrant = Entrant(Role.ALLOCATOR, "gpu-a.example", "allocator-x")
    box = ours.admit(question, entrant, now_s=50, life_s=10)
    opened = sealing.Curve(SERVER_CURVE.seed).open(box, OURS[Kind.CURVE].public)
    answer = jwt.verify(opened, Kind.ACCOUNT)
    user = jwt.verify(answer["nats"]["jwt"].encode(), Kind.ACCOUNT)
    allowed = permissions.permissions(Role.ALLOCATOR, "gpu-a.example")
    assert (answer["sub"], answer["aud"]) == (USER, SERVER.public)
    assert (user["sub"], user["aud"], user["exp"]) == (USER, "NODE", 60)
    assert user["nats"]["pub"] == {"allow": list(allowed.publish)}
    assert user["nats"]["sub"] == {"allow": list(allowed.subscribe)}


def test_a_refusal_carries_its_reason_and_no_rights() -> None:
    """The server logs it."""
    ours = clerk()
    question = ours.read(sealed(signed(claims())), SERVER_CURVE.public)
    box = ours.refuse(question, "no role", now_s=50)
    opened = sealing.Curve(SERVER_CURVE.seed).open(box, OURS[Kind.CURVE].public)
    answer = jwt.verify(opened, Kind.ACCOUNT)
    assert answer["nats"]["error"] == "no role"
    assert "jwt" not in answer["nats"]
