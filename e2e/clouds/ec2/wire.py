"""Requests and answers in the services' own protocols, by botocore's models; moto's protocol layer is the codec alone."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from botocore.validate import ParamValidator
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS, RequestDict, RequestParserError
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.datastructures import Headers, MultiDict

from e2e.clouds.ec2.errors import AwsError, invalid

SERVICES = {"ec2": "ec2", "autoscaling": "autoscaling", "sts": "sts", "servicequotas": "service-quotas"}
"""Names in botocore's models by the names that requests are signed with."""
_SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, decoded."""

    service: str
    operation: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str


def service_of(headers: Mapping[str, str]) -> str:
    """The service that a request is signed for. Raises AwsError."""
    scope = _SCOPE.search(headers.get("Authorization", ""))
    service = SERVICES.get(scope[1]) if scope else None
    if service is None:
        raise AwsError("AuthFailure", f"The request must be signed for one of {', '.join(sorted(SERVICES))}", 401)
    return service


def decode(service: str, headers: Mapping[str, str], body: bytes) -> Call:
    """Raises AwsError for an operation or parameters that the model doesn't have."""
    text = body.decode(errors="replace")
    values = {} if service == "service-quotas" else dict(parse_qsl(text, keep_blank_values=True))
    name = values.get("Action") or headers.get("X-Amz-Target", "").rpartition(".")[2]
    model = _operation(service, name)
    parser = PROTOCOL_PARSERS[_model(service).protocol](model)
    request: RequestDict = {
        "body": text,
        "headers": Headers(list(headers.items())),
        "method": "POST",
        "url_params": {},
        "url_path": "/",
        "values": MultiDict(values),
    }
    try:
        params = parser.parse(request)
    except (RequestParserError, ValueError) as error:
        raise invalid(str(error)) from error
    _validate(model, params)
    return Call(service, name, params)


def encode(call: Call, answer: Mapping[str, Any]) -> Answer:
    model = _operation(call.service, call.operation)
    serializer = get_serializer_class(call.service, model.service_model.protocol)(operation_model=model)
    made = serializer.serialize(dict(answer))
    body = made["body"]
    raw = body.encode() if isinstance(body, str) else bytes(body)
    return Answer(made["status_code"], raw, made["headers"]["Content-Type"].partition(";")[0])


def encode_error(service: str, error: AwsError, request_id: str) -> Answer:
    """In the shape of the service's protocol; EC2's differs from the other query services'."""
    if service == "service-quotas":
        body = json.dumps({"__type": error.code, "Message": error.message}).encode()
        return Answer(error.status, body, "application/x-amz-json-1.1")
    inner = f"<Error><Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message></Error>"
    if service == "ec2":
        text = f"<Response><Errors>{inner}</Errors><RequestID>{request_id}</RequestID></Response>"
    else:
        text = f"<ErrorResponse>{inner}<RequestId>{request_id}</RequestId></ErrorResponse>"
    return Answer(error.status, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode(), "text/xml")


@cache
def _model(service: str) -> ServiceModel:
    return get_service_model(service)


def _operation(service: str, name: str) -> OperationModel:
    model = _model(service)
    if name not in model.operation_names:
        raise AwsError("InvalidAction", f"The action {name} is not valid for this web service.")
    operation: OperationModel = model.operation_model(name)
    return operation


def _validate(model: OperationModel, params: dict[str, Any]) -> None:
    """What the model itself demands: required fields, types, smallest values."""
    if model.input_shape is None:
        return
    report = ParamValidator().validate(params, model.input_shape)
    if report.has_errors():
        words = report.generate_report()
        code = "MissingParameter" if "Missing required" in words else "InvalidParameterValue"
        raise AwsError(code, words)
