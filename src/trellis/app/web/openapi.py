"""The documentation of the JSON interface: ``/openapi.json``, and the same as a page, ``/docs``."""

import json
from collections.abc import Callable
from functools import partial
from html import escape
from typing import Any

import trellis
from trellis.app.web.http.application import STREAM, Endpoint
from trellis.app.web.http.messages import Reply, as_json

__all__ = ["build_documents"]

_INTRODUCTION = (
    "Label sequences with the models of this server. Each request has the header "
    "Authorization: Bearer <token>. A body is JSON; or a stream of such bodies, one per line, with "
    "the content type application/x-ndjson, which is answered by one line for each line."
)
_STATUS = {
    "400": "The body is not JSON, or not as declared.",
    "401": "The token is missing or wrong.",
    "403": "The Host or the Origin is not allowed.",
    "408": "The body did not arrive in time.",
    "413": "The body, the number of tokens or the work is too large.",
    "415": "The Content-Type is wrong.",
    "422": "The model cannot label the sequences.",
    "503": "There was no answer in time, or too many connections.",
}


def build_documents(posts: dict[str, Endpoint]) -> dict[str, Callable[[], Reply]]:
    """Return the replies to the paths of the documentation."""
    document = make_document(posts)
    page = make_page(document).encode()
    return {
        "/openapi.json": partial(Reply, as_json(document)),
        "/docs": partial(Reply, page, b"text/html; charset=utf-8"),
        "/docs.css": partial(Reply, _STYLE.encode(), b"text/css; charset=utf-8"),
    }


def make_document(posts: dict[str, Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of these endpoints."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    paths: dict[str, Any] = {path: {"post": _describe(posts[path])} for path in posts}
    answer = {"description": "The server runs.", "content": _as_content({"type": "object"})}
    paths["/health"] = {
        "get": {"summary": "Whether the server runs.", "security": [], "responses": {"200": answer}}
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "trellis serve",
            "version": trellis.__version__,
            "description": _INTRODUCTION,
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": error},
        },
        "security": [{"token": []}],
    }


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    """Return the operation object of an endpoint."""
    content = _as_content(endpoint.body.document())
    assert endpoint.answer is not None
    answer = _as_content(endpoint.answer.document())
    if endpoint.streams:
        for part in (content, answer):
            part[STREAM.decode()] = {"schema": {"type": "string", "description": "Lines of JSON."}}
    error = _as_content({"$ref": "#/components/schemas/Error"})
    errors = {code: {"description": text, "content": error} for code, text in _STATUS.items()}
    return {
        "summary": endpoint.summary,
        "requestBody": {"required": True, "content": content},
        "responses": {"200": {"description": endpoint.summary, "content": answer}, **errors},
    }


def _as_content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def make_page(document: dict[str, Any]) -> str:
    """Return an OpenAPI document as a page without scripts."""
    parts = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_render_operation(path, method, operation))
    rows = "".join(
        f"<tr><td>{code}</td><td>{escape(text)}</td></tr>" for code, text in _STATUS.items()
    )
    info = document["info"]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{info["title"]}</title><link rel="stylesheet" href="/docs.css"></head><body><main>'
        f"<h1>{info['title']} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>"
        '<p>As a document for programs: <a href="/openapi.json">openapi.json</a>.</p>'
        f"{''.join(parts)}<section><h2>Errors</h2><p>An error has the body "
        f'<code>{{"error": "…"}}</code>.</p><table>{rows}</table></section></main></body></html>\n'
    )


def _render_operation(path: str, method: str, operation: dict[str, Any]) -> str:
    summary = escape(operation["summary"])
    html = f"<section><h2><code>{method.upper()} {path}</code></h2><p>{summary}</p>"
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        html += _render_schema("Request", content["application/json"]["schema"])
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        html += _render_schema("Answer", answer)
    return html + "</section>"


def _render_schema(title: str, schema: dict[str, Any]) -> str:
    """Return a table of the members of an object, and its schema for readers who want it all."""
    rows = []
    for name, member in schema["properties"].items():
        need = (
            "required"
            if name in schema["required"]
            else f"default {json.dumps(member.get('default'))}"
        )
        kind = member.get("type") or " or ".join(_name_kind(one) for one in member["oneOf"])
        text = escape(member.get("description", ""))
        cells = f"<td><code>{escape(name)}</code></td><td>{kind}</td>"
        rows.append(f"<tr>{cells}<td>{need if title == 'Request' else ''}</td><td>{text}</td></tr>")
    full = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return (
        f"<h3>{title}</h3><table>{''.join(rows)}</table>"
        f"<details><summary>schema</summary><pre>{full}</pre></details>"
    )


def _name_kind(schema: dict[str, Any]) -> str:
    return str(schema.get("type", "value"))


_STYLE = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
section { margin-top: 2.5rem; border-top: 1px solid gray; }
table { border-collapse: collapse; }
td { padding: 0.2rem 1rem 0.2rem 0; vertical-align: top; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; }
"""
