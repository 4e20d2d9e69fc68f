"""The one place the version is written; the build, the messages and the command read it."""

__version__ = "0.1.0"
