"""The OpenAPI document of the service, generated from its routes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import simhbase
from simhbase.model import wire
from simhbase.online import answers
from simhbase.online.endpoints import JSON, JSON_LINES, Endpoint

_TEXT = "The council has decided to build a new bridge across the river."
_NEAR = "The council has decided to build a new bridge across the river!"
_FINGERPRINT = "0123456789abcdef"
_DOCUMENT = {"id": "news/1", "text": _TEXT, "tags": {"tenant": "a"}}

# By operation: example bodies, answered with 200.
_EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "find": [{"text": _NEAR, "tags": {"tenant": "a"}}, {"texts": [_TEXT, _NEAR], "k": 2}],
    "claim": [_DOCUMENT, {"documents": [_DOCUMENT], "timeout": 5}, {**_DOCUMENT, "mode": "annotate"}],
    "add": [_DOCUMENT, {"documents": [{"id": "news/1", "text": _TEXT}, {"id": "news/2", "text": _NEAR}]}],
    "compare": [{"left": _TEXT, "right": _NEAR}],
    "explain": [{"text": _NEAR, "id": "news/1"}],
    "features": [{"text": _TEXT}],
    "mute": [
        {"ids": ["news/1"], "until": "2099-01-31T18:00:00Z", "note": "asked for by the editors"},
        {"fingerprints": [_FINGERPRINT]},
    ],
}
_LINES = '{"id": "news/1", "text": "One text."}\n{"id": "news/2", "text": "Another one."}\n'
# By operation: combinations of fields that types do not express.
_EITHER: Mapping[str, Sequence[Sequence[str]]] = {
    "find": [["text"], ["texts"]],
    "claim": [["id", "text"], ["documents"]],
    "add": [["id", "text"], ["documents"]],
}
_FAILURES = {
    400: "The request is malformed.",
    401: "The token is missing or unknown.",
    403: "The token, or this service, does not allow it.",
    408: "The request was sent too slowly.",
    413: "The body, or the batch, is too large.",
    415: "The content type is not supported.",
    421: "The host name is unknown.",
    422: "The request does not match its schema.",
    503: "Overloaded, or the store is unavailable: try again after Retry-After seconds.",
}
_UNKNOWN = {404: "No document is stored under this id."}
_PROFILE = {
    "type": "object",
    "required": ["profile"],
    "properties": {
        "profile": {
            "type": "string",
            "description": "Digest of the store's profile.",
        }
    },
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    kinds = [kind for each in endpoints for kind in (each.asked, each.answer) if kind not in (None, bytes)]
    found, components = wire.schemas([*kinds, answers.Failed])
    schemas = dict(zip([*kinds, answers.Failed], found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "simhbase",
            "version": simhbase.__version__,
            "summary": "Have we already seen this text, or one almost like it?",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from the service's token file.",
                }
            },
        },
    }


def _operation(
    endpoint: Endpoint, schemas: Mapping[Any, dict[str, Any]], components: Mapping[str, Any]
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": inspect.getdoc(endpoint.call),
        "responses": _responses(endpoint, schemas),
    }
    if endpoint.role is not None:
        operation["security"] = [{"token": []}]
    if endpoint.asked is None:
        return operation
    if endpoint.has_body:
        operation["requestBody"] = {"required": True, "content": _content(endpoint, schemas[endpoint.asked])}
    else:
        operation["parameters"] = _parameters(endpoint, components[endpoint.asked.__name__])
    return operation


def _content(endpoint: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    either = [{"required": names} for names in _EITHER.get(endpoint.name, ())]
    several = {str(number): {"value": value} for number, value in enumerate(_EXAMPLES[endpoint.name], 1)}
    content: dict[str, Any] = {
        JSON: {"schema": {"allOf": [schema], "oneOf": either} if either else schema, "examples": several}
    }
    if endpoint.in_lines:
        content[JSON_LINES] = {"schema": {"type": "string"}, "examples": {"lines": {"value": _LINES}}}
    return content


def _parameters(endpoint: Endpoint, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parameters of an address, from the schema of its type."""
    assert endpoint.asked is not None
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in endpoint.path else "query",
            "required": f"{{{name}}}" in endpoint.path,
            "schema": _given(each),
        }
        for name, each in schema["properties"].items()
    ]


def _given(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of a parameter; null means that it is left out."""
    there = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return {**there[0]} if there else {name: value for name, value in schema.items() if name != "default"}


def _responses(endpoint: Endpoint, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    failures = _FAILURES | (_UNKNOWN if "{id}" in endpoint.path else {})
    failed = {JSON: {"schema": schemas[answers.Failed]}}
    return {"200": _answer(endpoint, schemas)} | {
        str(status): {"description": text, "content": failed} for status, text in sorted(failures.items())
    }


def _answer(endpoint: Endpoint, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    if endpoint.answer is bytes:
        return {"description": "Prometheus text format.", "content": {"text/plain": {}}}
    schema = schemas[endpoint.answer]
    if endpoint.names_profile:
        schema = {"allOf": [_PROFILE, schema]}
    answer: dict[str, Any] = {"description": "The answer.", "content": {JSON: {"schema": schema}}}
    if endpoint.name == "add":
        names = ("get", "neighbours", "delete")
        answer["links"] = {
            name: {"operationId": name, "parameters": {"id": "$request.body#/id"}} for name in names
        }
    return answer
