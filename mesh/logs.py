"""Logs: one line per happening, as JSON for machines or as text for people.

Names of what happened are constant, details are fields: `log.info("refused", extra=about(
request=...))`. So that a request can be followed through all services, its id is always `request`.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from esg.errors import Rejected
from esg.spelling import one_of

LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}


def about(**fields: Any) -> dict[str, Any]:
    """The details of a happening, for `extra=`."""
    return {"about": fields}


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
            **getattr(record, "about", {}),
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
        fields = " ".join(f"{k}={v}" for k, v in getattr(record, "about", {}).items())
        line = f"{at} {record.levelname.lower():7} {self._service}: {record.getMessage()} {fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line.rstrip()


def start_logging(service: str, level: str, style: str) -> None:
    """Have this process log to its standard error."""
    if level not in LEVELS:
        raise Rejected(f"log_level: {one_of('level', level, LEVELS)}")
    styles = {"json": JsonLines, "text": TextLines}
    if style not in styles:
        raise Rejected(f"log_format: {one_of('format', style, styles)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(styles[style](service))
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
