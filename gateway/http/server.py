"""Serving over gunicorn: one worker of many threads, its clients made after the fork."""

from __future__ import annotations

import socket
from typing import Any

import flask
from gunicorn.app.base import BaseApplication

from seamline.gateway import access
from seamline.gateway.config import Config
from seamline.gateway.http.app import create_app
from seamline.gateway.service import Service
from seamline.sql.errors import PORT_TAKEN, SeamlineError

_GRACE_S = 20


class GatewayServer(BaseApplication):  # type: ignore[misc]
    """Runs until a signal ends it.

    Args:
        config: The configuration.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._service: Service | None = None
        super().__init__()

    def load_config(self) -> None:
        """Gunicorn's settings."""
        http = self._config.http
        settings: dict[str, Any] = {
            "bind": f"{http.host}:{http.port}",
            "workers": 1,
            "worker_class": "gthread",
            "threads": http.threads,
            "keepalive": 75,
            "timeout": 0,
            "graceful_timeout": _GRACE_S,
            "worker_exit": self._close,
            "proc_name": "seamline",
            "loglevel": "warning",
            "preload_app": False,
            "control_socket_disable": True,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> flask.Flask:
        """The application, made in the worker."""
        self._service = Service(self._config)
        return create_app(self._service)

    def _close(self, _: Any, __: Any) -> None:
        if self._service is not None:
            self._service.close()


def serve(config: Config) -> None:
    """Serves until a signal ends it.

    Raises:
        SeamlineError: INVALID_CONFIG, PORT_TAKEN.
    """
    access.check_listening(config)
    _check_port(config.http.host, config.http.port)
    GatewayServer(config).run()


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SeamlineError(
                PORT_TAKEN,
                f"port {port} of {host} cannot be used: {error.strerror}",
                hint="Stop the program that listens there, or pass --port.",
            ) from error
