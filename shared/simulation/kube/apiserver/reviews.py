"""Questions that are posted and answered at once: whose token is this, may they do that.

Tokens come from outside as a dict, which may change while the server runs; everybody may do
everything (rules of access are tested on a real API server only).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.simulation.kube.apiserver.encoding import Json

Tokens = Mapping[str, Json]


@dataclass(frozen=True)
class Review:
    """One kind of question."""

    group_version: str
    plural: str
    kind: str


TOKEN = Review("authentication.k8s.io/v1", "tokenreviews", "TokenReview")
ACCESS = Review("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview")
OWN_ACCESS = Review(
    "authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
API_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
REVIEWS = (TOKEN, ACCESS, OWN_ACCESS)


def find(group_version: str, plural: str) -> Review | None:
    """Return the question asked at a path, or None where the path is another resource's."""
    asked = (group_version, plural)
    return next((each for each in REVIEWS if (each.group_version, each.plural) == asked), None)


def answer(review: Review, body: Json, tokens: Tokens) -> Json:
    """Return the question with its status.

    Args:
        review: which question it is.
        body: the question as it was posted.
        tokens: `user` and `audiences` of each token that is good.
    """
    head = {"kind": review.kind, "apiVersion": review.group_version, "metadata": {}}
    if review is not TOKEN:
        return {**head, **body, "status": {"allowed": True}}
    return {**head, **body, "status": _known(body.get("spec") or {}, tokens)}


def _known(spec: Json, tokens: Tokens) -> Json:
    """Whose token it is; one that is good for other audiences only is nobody's."""
    known = tokens.get(spec.get("token", ""))
    if known is None:
        return {"user": {}, "error": "[invalid bearer token]"}
    wanted = spec.get("audiences") or [API_AUDIENCE]
    audiences = [each for each in known["audiences"] if each in wanted]
    if not audiences:
        error = (
            f"[invalid bearer token, token audiences {known['audiences']} is invalid for the"
            f" target audiences {wanted}]"
        )
        return {"user": {}, "error": error}
    return {"authenticated": True, "user": known["user"], "audiences": audiences}
