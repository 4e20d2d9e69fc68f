"""Keys as NATS writes them, tokens that only their issuer can sign, boxes only two can open."""

from __future__ import annotations

import pytest
from nacl.signing import VerifyKey

from shared.bus.auth import installation, jwt, nkeys, sealing, signing
from shared.bus.auth.nkeys import BadKeyError, Kind, Pair
from shared.contract.keys import Key

# The pair that NATS's documentation shows.
DOCUMENTED = Pair(
    "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
    "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
)
LETTERS = {Kind.ACCOUNT: "A", Kind.SERVER: "N", Kind.USER: "U", Kind.CURVE: "X"}


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.name)
def test_a_key_says_what_it_is_for(kind: Kind) -> None:
    """By its first letter, and a seed by its second; both can be read back."""
    made = nkeys.new(kind)
    assert (made.public[0], made.seed[:2]) == (LETTERS[kind], f"S{LETTERS[kind]}")
    assert nkeys.pair(kind, made.seed) == made
    assert len(nkeys.raw_public(kind, made.public)) == 32


def test_keys_are_read_as_nats_writes_them() -> None:
    """The documentation's seed has the documentation's public key."""
    assert nkeys.pair(Kind.USER, DOCUMENTED.seed) == DOCUMENTED


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: "not base32!", id="not base32"),
        pytest.param(lambda text: text[:-4], id="cut"),
        pytest.param(
            lambda text: text[:10] + ("A" if text[10] != "A" else "B") + text[11:], id="typo"
        ),
    ],
)
def test_a_spoilt_key_is_refused(spoilt) -> None:  # type: ignore[no-untyped-def]
    """A key has a checksum."""
    made = nkeys.new(Kind.USER)
    with pytest.raises(BadKeyError):
        nkeys.raw_seed(Kind.USER, spoilt(made.seed))
    with pytest.raises(BadKeyError):
        nkeys.raw_public(Kind.USER, spoilt(made.public))


def test_a_key_for_something_else_is_refused() -> None:
    """An account's seed does not log in a user."""
    with pytest.raises(BadKeyError, match="no seed of a NATS user"):
        signing.Signer(nkeys.new(Kind.ACCOUNT).seed)


def test_seeds_do_not_show_in_logs() -> None:
    """The text of a pair holds its public key only."""
    made = nkeys.new(Kind.USER)
    assert made.seed not in repr(made)


def test_a_user_signs_what_the_server_sends() -> None:
    """The public key alone checks the signature."""
    made = nkeys.new(Kind.USER)
    signature = signing.Signer(made.seed).sign(b"nonce")
    VerifyKey(nkeys.raw_public(Kind.USER, made.public)).verify(b"nonce", signature)


def test_a_token_is_its_issuer_s_or_nothing() -> None:
    """One changed byte, another issuer, another kind of key: refused."""
    issuer = jwt.Issuer(nkeys.new(Kind.ACCOUNT).seed)
    token = issuer.sign({"sub": "x"}, 1).encode()
    assert jwt.verify(token, Kind.ACCOUNT)["sub"] == "x"
    head, _body, signature = token.split(b".")
    other = jwt.Issuer(nkeys.new(Kind.ACCOUNT).seed).sign({"sub": "y"}, 1).encode().split(b".")[1]
    for forged in (b".".join((head, other, signature)), b"a.b.c", b"", b"..", token + b"A"):
        with pytest.raises(jwt.BadTokenError):
            jwt.verify(forged, Kind.ACCOUNT)
    with pytest.raises(jwt.BadTokenError):
        jwt.verify(token, Kind.SERVER)


def test_a_box_is_between_two() -> None:
    """Neither a third can open it nor somebody else can have closed it."""
    ours, theirs, thirds = (nkeys.new(Kind.CURVE) for _ in range(3))
    box = sealing.Curve(ours.seed).seal(b"secret", theirs.public)
    assert sealing.Curve(theirs.seed).open(box, ours.public) == b"secret"
    for curve, sender in ((thirds, ours.public), (theirs, thirds.public), (theirs, "nonsense")):
        with pytest.raises(sealing.UnsealedError):
            sealing.Curve(curve.seed).open(box, sender)
    with pytest.raises(sealing.UnsealedError):
        sealing.Curve(theirs.seed).open(b"secret", ours.public)


def test_an_installation_has_each_key_once() -> None:
    """The Secret's files are seeds and their public keys, new each time."""
    files = installation.make()
    assert set(files) == {name for key in Key for name in (key.seed_file, key.public_file)}
    assert len(set(files.values())) == len(files)
    issuer = nkeys.pair(Kind.ACCOUNT, files[Key.ISSUER.seed_file])
    assert issuer.public == files[Key.ISSUER.public_file]
    assert not set(files.values()) & set(installation.make().values())
