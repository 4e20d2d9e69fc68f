"""What the server refuses, as one exception that knows its Status body.

Every module raises `Refused` through the functions below; `http` writes the body out.
Codes, reasons and causes are those of the real server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.simulation.kube.apiserver import encoding
from shared.simulation.kube.apiserver.encoding import Json
from shared.simulation.kube.apiserver.kinds import Kind

REASONS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True)
class Cause:
    """One reason of a refusal: what kind of fault, where in the object, in words."""

    reason: str
    message: str
    field: str = ""

    def body(self) -> Json:
        """Return the cause as the API spells it."""
        named = {"field": self.field} if self.field else {}
        return {"reason": self.reason, "message": self.message, **named}


def wrong_value(field: str, value: object, why: str) -> Cause:
    """A value that does not fit, quoted as JSON."""
    quoted = encoding.encode(value).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {quoted}: {why}", field)


def missing_value(field: str, why: str = "") -> Cause:
    """A field that is left out."""
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


@dataclass
class Refused(Exception):  # noqa: N818 - a refusal is an answer, not a fault of this program
    """A request is refused with this code; `body` is the Status that the client gets."""

    code: int
    message: str
    reason: str = ""
    details: Json = field(default_factory=dict)
    retry_after: int | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def body(self) -> Json:
        """Return the Status object of the refusal."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason or REASONS.get(self.code, "Unknown"),
            "details": self.details,
            "code": self.code,
        }


def bad_request(message: str) -> Refused:
    """Refuse what cannot be understood."""
    return Refused(400, message)


def no_such_resource() -> Refused:
    """Refuse a path that leads to no kind or subresource."""
    return Refused(404, "the server could not find the requested resource")


def method_not_allowed() -> Refused:
    """Refuse a method that does not go with its path."""
    return Refused(405, "the server does not allow this method on the requested resource")


def not_found(kind: Kind, name: str) -> Refused:
    """Refuse because the object does not exist."""
    return Refused(404, f'{kind.qualified} "{name}" not found', details=_about(kind, name))


def already_exists(kind: Kind, name: str) -> Refused:
    """Refuse to create an object whose name is taken."""
    message = f'{kind.qualified} "{name}" already exists'
    return Refused(409, message, reason="AlreadyExists", details=_about(kind, name))


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> Refused:
    """Refuse because a precondition of the writer no longer holds."""
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return Refused(409, message, details=_about(kind, name))


def wrong_uid(kind: Kind, name: str, wanted: object, found: object) -> Refused:
    """Refuse because the name now belongs to another object."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, causes: list[Cause]) -> Refused:
    """Refuse an object that is well formed and breaks rules of its kind."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details: Json = {"name": name, "kind": kind.name}
    if kind.group:
        details["group"] = kind.group
    details["causes"] = [cause.body() for cause in causes]
    return Refused(422, f'{kind.name} "{name}" is invalid: {listed}', details=details)


def unfit_patch(message: str) -> Refused:
    """Refuse a patch whose result is not an object of the kind."""
    cause = Cause("FieldValueInvalid", message, "patch")
    details = {"causes": [cause.body()]}
    return Refused(422, f' "" is invalid: patch: {message}', details=details)


def failed_json_patch() -> Refused:
    """Refuse a JSON patch whose test failed or whose path leads nowhere; it has no details."""
    return Refused(422, "the server rejected our request due to an error in our request")


def expired(asked: int, oldest: int) -> Refused:
    """Refuse to resume a watch from before the oldest change that is still known."""
    return Refused(410, f"too old resource version: {asked} ({oldest})")


def from_the_future(asked: int, current: int) -> Refused:
    """Refuse a list of a state that has not come yet."""
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    details: Json = {"causes": [cause.body()], "retryAfterSeconds": 1}
    return Refused(504, message, details=details, retry_after=1)


def over_budget(message: str, retry_after: int | None = None) -> Refused:
    """Refuse an eviction that a PodDisruptionBudget does not allow, or not yet."""
    cause = Cause("DisruptionBudget", message)
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refused(429, text, details={"causes": [cause.body()]}, retry_after=retry_after)


def unsupported_media(accepted: tuple[str, ...]) -> Refused:
    """Refuse a body in a format that is not read here."""
    listed = ", ".join(filter(None, accepted))
    what = "the body of the request was in an unknown format"
    return Refused(415, f"{what} - accepted media types include: {listed}")


def _about(kind: Kind, name: str) -> Json:
    group = {"group": kind.group} if kind.group else {}
    return {"name": name, **group, "kind": kind.plural}
