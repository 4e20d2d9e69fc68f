"""A flat pydantic model → flags and environment variables → a checked settings object.

Each service's `__main__` calls `load`; a field `node_name` is the flag `--node-name` and the
variable `SLICEWIRE_NODE_NAME`. The flag wins over the variable, the variable over the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

import pydantic

PREFIX = "SLICEWIRE_"
S = TypeVar("S", bound="Settings")


class Settings(pydantic.BaseModel):
    """Base of every service's settings: frozen, and no key that nobody reads."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ProcessSettings(Settings):
    """What every service takes."""

    health_port: int = pydantic.Field(
        default=0, ge=0, le=65535, description="port that answers while the service lives; 0: none"
    )
    log_level: Literal["debug", "info", "warning", "error"] = pydantic.Field(
        default="info", description="from which level on lines are logged: debug, info, warning"
    )


class ServiceSettings(ProcessSettings):
    """What a service takes that shows metrics."""

    metrics: bool = pydantic.Field(
        default=True, description="whether that port serves /metrics as well; it takes 5 MB"
    )

    @property
    def exposed(self) -> bool:
        """Whether metrics are to be read from this process."""
        return self.metrics and self.health_port > 0


def load(model: type[S], argv: Sequence[str], environ: Mapping[str, str], prog: str) -> S:
    """Read settings; a wrong value ends the program with status 2 and a sentence.

    Variables that start with the prefix and belong to no field are ignored: one environment may
    serve several services.
    """
    parser = _parser(model, prog)
    flags = {name: text for name, text in vars(parser.parse_args(argv)).items() if text is not None}
    variables = {
        name: environ[variable_of(name)]
        for name in model.model_fields
        if variable_of(name) in environ
    }
    try:
        return model.model_validate(variables | flags)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        given = f", not {first['input']!r}" if name in variables | flags else ""
        parser.error(f"{flag_of(name)} (or {variable_of(name)}): {words_of(first['msg'])}{given}")


def words_of(message: str) -> str:
    """What is wrong with a value, without the word that pydantic puts before our sentences."""
    return message.removeprefix("Value error, ")


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return PREFIX + name.upper()


def _parser(model: type[Settings], prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=(model.__doc__ or "").split("\n")[0])
    for name, field in model.model_fields.items():
        default = "" if field.is_required() else f" [{field.default}]"
        parser.add_argument(
            flag_of(name),
            metavar="VALUE",
            help=f"{field.description or ''}{default}".replace("%", "%%"),
        )
    return parser
