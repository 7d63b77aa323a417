"""The gRPC server beside HTTP, with the same address, certificate and limits but its own port.

Each call has a thread while it lasts. The number of threads is limited, and further calls are
refused. Callers are identified before anything is waited for, and silent clients are cut off.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from seamline.errors import INTERNAL_ERROR, INVALID_CONFIG, PORT_TAKEN, SeamlineError
from seamline.gateway.access.watched import Watched
from seamline.gateway.config.model import Config, TlsConfig
from seamline.gateway.flight import messages
from seamline.gateway.flight.callers import CALLS_MAX
from seamline.gateway.flight.routes import Routes
from seamline.gateway.flight.silence import Silence
from seamline.gateway.flight.statuses import refuse

_LOG = logging.getLogger("seamline.flight")
_SERVICE = "arrow.flight.protocol.FlightService"
_STOP_S = 5.0
_HEADER_BYTES_MAX = 1 << 16
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", _HEADER_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", _HEADER_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class FlightServer:
    """Serves until it is closed.

    Attributes:
        address: The address at which it answers.

    Raises:
        SeamlineError: PORT_TAKEN, INVALID_CONFIG.
    """

    def __init__(self, config: Config, routes: Routes) -> None:
        self._silence = Silence(config.limits.result_seconds)
        self._threads = concurrent.futures.ThreadPoolExecutor(CALLS_MAX, "seamline-flight")
        message_max = config.http.request_bytes_max
        self._server = grpc.server(
            self._threads,
            handlers=[_handlers(routes, self._silence)],
            options=(*_OPTIONS, ("grpc.max_receive_message_length", message_max)),
            maximum_concurrent_rpcs=CALLS_MAX,
        )
        tls, host = config.http.tls, config.http.host
        bracketed = f"[{host}]" if ":" in host else host
        port = self._bind(f"{bracketed}:{config.ports['flight']}", tls)
        scheme = "grpc" if tls.certificate is None else "grpc+tls"
        self.address = f"{scheme}://{bracketed}:{port}"
        self._server.start()

    def close(self) -> None:
        """Accepts no further calls, and ends the current ones after a few seconds."""
        self._server.stop(_STOP_S).wait()
        self._silence.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _bind(self, address: str, tls: TlsConfig) -> int:
        try:
            if tls.certificate is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, _credentials(tls)))
        except RuntimeError as error:
            raise SeamlineError(
                PORT_TAKEN,
                f"Flight SQL cannot listen on {address}",
                hint="Stop the program that listens there, or set flight.port to another.",
            ) from error


def _credentials(tls: TlsConfig) -> Any:
    """Returns credentials that follow the certificate when it is replaced."""
    assert tls.certificate is not None
    assert tls.key is not None
    files = [pathlib.Path(tls.certificate), pathlib.Path(tls.key)]
    watched = Watched(files, lambda: _certificates(*files), "certificates of Flight SQL")
    return grpc.dynamic_ssl_server_credentials(watched.get(), watched.get)


def _certificates(certificate: pathlib.Path, key: pathlib.Path) -> Any:
    try:
        pair = (key.read_bytes(), certificate.read_bytes())
    except OSError as error:
        raise SeamlineError(
            INVALID_CONFIG, f"{error.filename} cannot be read: {error.strerror}"
        ) from error
    return grpc.ssl_server_certificate_configuration([pair])


# --- Calls ---------------------------------------------------------------------------------------


def _handlers(routes: Routes, silence: Silence) -> Any:
    """Returns the handlers of all methods.

    Even methods with a single request are registered as streams of requests, so that the caller is
    identified before anything is waited for.
    """
    methods = {
        "Handshake": _streaming(routes.handshake, "HandshakeRequest", silence),
        "GetFlightInfo": _unary(routes.flight_info, "FlightDescriptor", silence),
        "GetSchema": _unary(routes.schema, "FlightDescriptor", silence),
        "DoGet": _streaming(routes.get, "Ticket", silence),
        "DoPut": _streaming(routes.put, "FlightData", silence),
        "DoAction": _streaming(routes.action, "Action", silence),
        "ListActions": _streaming(routes.list_actions, "Empty", silence),
    }
    for name in ("ListFlights", "PollFlightInfo", "DoExchange"):
        methods[name] = _unary(functools.partial(routes.refused, name), "Empty", silence)
    return grpc.method_handlers_generic_handler(_SERVICE, methods)


def _unary(route: Callable[[Any, Any], Any], request: str, silence: Silence) -> Any:
    """Returns the handler of a method with one answer, whose failures are named errors."""

    def answer(requests: Iterator[bytes], context: Any) -> Any:
        try:
            return route(_read(silence.read(requests, context), request), context)
        except Exception as error:  # noqa: BLE001 - a call ends with a named error
            refuse(context, _named(error, context))

    return grpc.stream_unary_rpc_method_handler(answer, response_serializer=_bytes)


def _streaming(route: Callable[[Any, Any], Iterator[Any]], request: str, silence: Silence) -> Any:
    """Returns the handler of a method with a stream of answers, whose failures are named errors."""

    def answer(requests: Iterator[bytes], context: Any) -> Iterator[Any]:
        try:
            answers = route(_read(silence.read(requests, context), request), context)
            yield from silence.send(answers, context)
        except Exception as error:  # noqa: BLE001 - a call ends with a named error
            refuse(context, _named(error, context))

    return grpc.stream_stream_rpc_method_handler(answer, response_serializer=_bytes)


def _read(requests: Iterator[bytes], name: str) -> Iterator[Any]:
    return (messages.read(name, request) for request in requests)


def _bytes(message: Any) -> bytes:
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())


def _named(error: Exception, context: Any) -> SeamlineError:
    if isinstance(error, SeamlineError):
        return error
    if context.is_active():  # otherwise its client has gone
        _LOG.error("a call failed", exc_info=error)
    return SeamlineError(INTERNAL_ERROR, type(error).__name__)
