"""Logs: one line per happening, as JSON for machines or as text for people.

Names of what happened are constant, details are fields: `log.info("refused", extra=about(
request=...))`. So that a request can be followed through all services, its id is always `request`.
"""

import json
import logging
import os
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from typing import Any

from esg.errors import Rejected
from esg.suggest import did_you_mean

NODE: ContextVar[str] = ContextVar("NODE", default="")
"""The node that something happens to, in a process that has several; then every line names it."""

LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}


def about(**fields: Any) -> dict[str, Any]:
    """The details of a happening, for `extra=`."""
    return {"about": fields}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    node = NODE.get()
    return {**({"node": node} if node else {}), **getattr(record, "about", {})}


class JsonLines(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self._service,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{k}={_plain(v)}" for k, v in _fields(record).items())
        line = f"{at} {record.levelname.lower():7} {self._service}: {record.getMessage()} {fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line.rstrip()


STYLES = {"json": JsonLines, "text": TextLines}


def _plain(value: Any) -> str:
    """Quoted if it could be taken for something else, or for the next line."""
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)


def check_logging(level: str, style: str) -> None:
    """Refuse what `start_logging` does not know."""
    if level not in LEVELS:
        raise Rejected(f"log_level: {did_you_mean('level', level, LEVELS)}")
    if style not in STYLES:
        raise Rejected(f"log_format: {did_you_mean('format', style, STYLES)}")


def start_logging(service: str, level: str, style: str) -> None:
    """Have this process log to its standard error."""
    check_logging(level, style)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(STYLES[style](service))
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)


def audit_logger(service: str, file: str) -> logging.Logger:
    """A logger of its own, for what must be written down whatever the level and the format of the
    service's log: to this file, for its owner alone, or without one to standard error."""
    handler: logging.Handler
    if file:
        try:
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600))
            handler = WatchedFileHandler(file, encoding="utf-8")  # which may be rotated
        except OSError as error:
            raise Rejected(
                f"audit_log: {file} cannot be written: {error.strerror}; name another file"
            ) from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(service))
    logger = logging.Logger("esg.audit", logging.INFO)
    logger.addHandler(handler)
    return logger
