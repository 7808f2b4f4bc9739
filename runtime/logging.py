"""Logs as JSON lines on stderr, keys as in Kubernetes controllers: ts level msg logger controller namespace name reconcileID.

Messages are constant; what varies goes into fields. Lines of libraries (standard logging) come out in the same shape.
"""

import logging
import sys
from typing import Any, Literal

import structlog
from structlog.types import Processor

_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    structlog.processors.format_exc_info,
    structlog.processors.EventRenamer("msg"),
]


def setup(level: Literal["debug", "info", "warning", "error"], format: Literal["json", "text"]) -> None:  # noqa: A002 its name in the file
    """Installs the process-wide logging; a later call replaces it."""
    handler = logging.StreamHandler(sys.stderr)
    renderer: Processor = (
        structlog.processors.JSONRenderer() if format == "json" else structlog.dev.ConsoleRenderer(event_key="msg")
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer], foreign_pre_chain=_SHARED
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # At DEBUG it prints whole response bodies, Secrets too.
    logging.getLogger("kubernetes_asyncio").setLevel(max(logging.INFO, root.level))
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(root.level),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> Any:
    """A structlog logger: `get_logger("provisioner").info("booked", booking=name, nodes=12)`."""
    return structlog.stdlib.get_logger(name)
