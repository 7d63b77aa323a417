"""Turns what other people's libraries say about a failure into a sentence for people.

Messages of Java arrive through py4j with their classes and frames, those of urllib3 as the inside
of its objects, those of Kafka's client, gRPC, SQLAlchemy and Pydantic with what only their authors
need. `sentence` keeps the last cause that says something. `SeamlineError` applies it to every
message, so that none of this reaches a person, whichever module named the failure. A text that is
none of these stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_FOREIGN = re.compile(
    r"calling (?:o\d+|z:)|\b(?:[a-z_]\w*\.){2,}[A-Z]\w*(?:Exception|Error)\b|object at 0x|"
    r"ConnectionPool\(|KafkaError\{|StatusCode\.|\[SQL: |\[Errno |\[errno |errors\.pydantic\.dev|"
    r"Stack Trace:|Traceback \(most recent|\(after \d+ms in state|stacktrace:|_ssl\.c:\d|"
    r"\sat (?:[\w$]+\.)+[\w$<>]+\([\w$]+\.(?:java|scala):\d+\)|"
    r"^\('Connection|\w(?:Error|Disconnected)\((?:\d+, )?[\"']|\nLINE \d+:|SQLSTATE: "
)


def sentence(text: str) -> str:
    """Returns what a message says, without what only the authors of a library can use."""
    if _FOREIGN.search(text) is None:
        return text
    shortened = text
    for step in _STEPS:
        shortened = step(shortened).strip() or shortened
    shortened = re.sub(r"\s*\n\s*", "; ", shortened).strip()
    return shortened or text


# --- Java, through py4j and Spark ----------------------------------------------------------------

_JAVA_CLASS = r"(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error|Failure|Throwable)"
_ABORTED = "Job aborted: "
_CALLING = re.compile(
    r"An error occurred while calling (?:o\d+|z:[\w.$]+|None)\.[\w.$]+?(?:\.? Trace:|\.)?"
    r"\s*(?::\s*|(?=\n))"
)
_LOST_TASK = re.compile(
    r"Job aborted due to stage failure: (?:(?!Job aborted).)*?most recent failure: Lost task "
    r"[^()]*\(TID \d+\) \([^)]*\): ",
    re.DOTALL,
)
_FRAME = re.compile(
    r"\s+at (?:[\w.-]+//?)?(?:[\w.-]+(?:@[\w.-]+)?/)?[\w$.<>]+\((?:[\w$-]+\.\w+:\d+|[\w ]+)\)"
    r"(?: ~?\[[^\]]*\])?|\s+\.\.\. \d+ (?:more|common frames omitted)|"
    r"\s+Suppressed: [\w.]+\$OriginalTryStackTraceException: [^\n]*"  # Spark's, of one error twice
)
_CUTS = re.compile(
    r"\s*(?:JVM stacktrace:|Driver stacktrace:|Stack Trace:|\n+LINE \d+:| ?SQLSTATE: \w+|"
    r"This stopped SparkContext was created at:|Please see the stack trace below).*",
    re.DOTALL,
)
_CAUSED = re.compile(r"\s*(?:Caused by|Suppressed): ")
_RAISED = re.compile(rf"\(?{_JAVA_CLASS}(?:\)|:|\s|$)|Py4JJavaError: |Caused by: ")
_CLASSES = re.compile(rf"\({_JAVA_CLASS}\) |{_JAVA_CLASS}(?:: |$)|Py4JJavaError: ")


def _java(text: str) -> str:
    """Returns the last cause that says something, after what we ourselves said before it."""
    start = min(
        (m.start() for m in (_CALLING.search(text), _RAISED.search(text)) if m is not None),
        default=None,
    )
    if start is None and "Traceback (most" not in text:
        return _CUTS.sub("", _FRAME.sub("", text))
    context = text[:start] if start is not None and text[:start].endswith(": ") else ""
    context = context.removesuffix(_ABORTED)
    causes = _python_of_worker(text[len(context) :])
    causes = _CUTS.sub("", _FRAME.sub("", causes))
    causes = _LOST_TASK.sub("", _CALLING.sub("", causes))
    messages = [line for cause in _CAUSED.split(causes) if (line := _without_classes(cause))]
    if messages:
        return context + messages[-1]
    classes = re.findall(_JAVA_CLASS, text)
    return context + _as_words(classes[-1]) if classes else text


def _without_classes(text: str) -> str:
    """Returns the message of a Java exception; empty if it is only its class."""
    text = re.sub(r"\s+", " ", text).strip()
    return _CLASSES.sub("", text).strip(" :").removeprefix(_ABORTED)


def _as_words(class_name: str) -> str:
    """Returns the name of a class as words: `java.lang.NullPointerException` is a null pointer."""
    name = re.split(r"[.$]", class_name)[-1]
    short = re.sub(r"(?:Exception|Error)$", "", name) or name
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", short).lower()


def _python_of_worker(text: str) -> str:
    """Returns what Python raised, of a trace that a worker of Spark has sent."""
    before, trace, after = text.rpartition("Traceback (most recent call last):")
    if not trace:
        return text
    raised = (line for line in after.splitlines() if line.strip() and not line[0].isspace())
    line = next(raised, None)
    return before if line is None else re.sub(r"^(?:\w+\.)+(?=\w+(?:Error|Exception): )", "", line)


# --- HTTP ----------------------------------------------------------------------------------------

_POOL = re.compile(
    r"HTTPS?ConnectionPool\(host='([^']*)', port=(\w+)\): "
    r"(?:Max retries exceeded with url: (\S+) )?"
)
_OBJECT = re.compile(
    r"<[\w.]+(?: object)? at 0x[0-9a-f]+>(?:: )?|"
    r"HTTPS?Connection\(host='[^']*', port=\w+\)(?:: )?"
)
_REPR = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Disconnected)\(((?:[^()]|\([^()]*\))*)\)")
_RULES: tuple[tuple[str, str], ...] = (
    (r"Failed to resolve '?([^'\s]+)'? \([^)]*\)", r"the name \1 cannot be resolved"),
    (r"Failed to establish a new connection: ", ""),
    (r"Connection to \S+ timed out\. \(connect timeout=([\d.]+)\)", r"no connection within \1 s"),
    (r"Read timed out\. \(read timeout=([\d.]+)\)", r"no answer within \1 s"),
    (r"\[SSL(?:: \w+)?\] ", ""),
    (r" \(_ssl\.c:\d+\)", ""),
    (r"\[[Ee]rrno -?\d+\] ", ""),
)


def _http(text: str) -> str:
    text = _POOL.sub(lambda m: f"{m[1]}:{m[2]}{m[3] or ''}: ", text)
    text = re.sub(r"\(Caused by (.*)\)", r"\1", text, flags=re.DOTALL)
    text = _OBJECT.sub("", text)
    while (inner := _REPR.sub(_arguments, text)) != text:
        text = inner
    text = re.sub(r"^\((['\"])(.*?)\.?\1, (.*)\)$", r"\2: \3", text)
    for pattern, by in _RULES:
        text = re.sub(pattern, by, text)
    return text


def _arguments(call: re.Match[str]) -> str:
    """Returns the text among the arguments of an exception's repr."""
    texts = re.findall(r"(?<![\w])(['\"])(.*?)(?<!\\)\1(?=[,)\s]|$)", call[1])
    return ": ".join(text.rstrip(".") for _, text in texts) or call[1].strip("'\", ")


# --- Others --------------------------------------------------------------------------------------


def _kafka(text: str) -> str:
    text = re.sub(r'KafkaError\{code=\w+,\s*val=-?\d+,\s*str="(.*?)"\}', r"\1", text)
    return re.sub(
        r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)", "", text
    )


def _grpc(text: str) -> str:
    details = re.search(r'details = "(.*?)"\s*(?:debug_error_string|>|$)', text, re.DOTALL)
    return details[1] if details and "StatusCode." in text else text


def _sqlalchemy(text: str) -> str:
    if "[SQL: " not in text:
        return text
    text = re.split(r"\s*\[SQL: ", text, maxsplit=1)[0]
    return re.sub(r"^\((?:\w+\.)+\w+\) ", "", text)


def _pydantic(text: str) -> str:
    if "errors.pydantic.dev" not in text:
        return text
    text = re.sub(r"\s*For further information visit \S+", "", text)
    text = re.sub(r" \[type=[^\n]*\]", "", text)
    text = re.sub(r"^\d+ validation errors? for [^\n]*\n", "", text)
    return re.sub(r"\n\s+", ": ", text)


def _detail(text: str) -> str:
    """Shortens Arrow's messages, which end in a detail that repeats the error's number."""
    return re.sub(r"\.? Detail: \[errno \d+\] ", ": ", text)


_STEPS: tuple[Callable[[str], str], ...] = (
    _grpc, _sqlalchemy, _pydantic, _java, _detail, _kafka, _http,
)  # fmt: skip
