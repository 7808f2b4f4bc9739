"""Launch templates: made, told, and merged into a launch."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.errors import AwsError, conflict, invalid, missing
from e2e.clouds.ec2.objects import LaunchTemplate
from e2e.clouds.ec2.pages import chosen, named, page, tag_list
from e2e.clouds.ec2.tags import by_resource

NOT_FOUND = "InvalidLaunchTemplateId.NotFound"
TAGS = "TagSpecifications"


def merged(account: Account, params: Params) -> dict[str, Any]:
    """The launch that a call means: what it says itself wins over its template, lists as a whole, tags key by key."""
    reference = params.get("LaunchTemplate")
    if reference is None:
        return dict(params)
    template = of(account, reference)
    _, data = version(template, reference.get("Version", "$Default"))
    return overlay(data, {key: value for key, value in params.items() if key != "LaunchTemplate"})


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, `above` winning."""
    result = dict(below)
    for key, value in above.items():
        if key == TAGS:
            result[key] = [*below.get(TAGS, ()), *value]
        elif isinstance(value, dict) and isinstance(below.get(key), dict):
            result[key] = overlay(below[key], value)
        else:
            result[key] = value
    return result


def of(account: Account, reference: Mapping[str, Any]) -> LaunchTemplate:
    """The template that an id or a name means, one of them. Raises AwsError."""
    identity, name = reference.get("LaunchTemplateId"), reference.get("LaunchTemplateName")
    if (identity is None) == (name is None):
        raise conflict("Exactly one of LaunchTemplateId and LaunchTemplateName must be given")
    for template in account.launch_templates.values():
        if identity == template.id or name == template.name:
            return template
    if identity is not None:
        raise AwsError(NOT_FOUND, f"The specified launch template, with template ID {identity}, does not exist.")
    raise AwsError("InvalidLaunchTemplateName.NotFoundException", f"The launch template named {name} does not exist.")


def version(template: LaunchTemplate, wanted: str) -> tuple[int, dict[str, Any]]:
    """Number and data of a version: a number, $Latest or $Default. Raises AwsError."""
    symbols = {"$Latest": len(template.versions), "$Default": template.default}
    if wanted not in symbols and not wanted.isdigit():
        raise AwsError("InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {wanted}")
    number = symbols.get(wanted) or int(wanted)
    if not 1 <= number <= len(template.versions):
        raise AwsError("InvalidLaunchTemplateId.VersionNotFound", f"Could not find launch template version {wanted}")
    return number, template.versions[number - 1]


def create(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    name = params["LaunchTemplateName"]
    if len(name) < 3:
        raise invalid(f"Launch template names must have 3 characters at least: {name}")  # cloud.md 1.5
    if any(each.name == name for each in account.launch_templates.values()):
        raise AwsError("InvalidLaunchTemplateName.AlreadyExistsException", f"Launch template name already in use: {name}")
    tags = by_resource(params.get(TAGS, ()), ("launch-template",)).get("launch-template", {})
    template = LaunchTemplate(id=account.new_id("lt"), name=name, versions=(params["LaunchTemplateData"],), tags=tags)
    account.launch_templates[template.id] = template
    return {"LaunchTemplate": _template(template)}


def create_version(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    template = of(account, params)
    data = params["LaunchTemplateData"]
    if "SourceVersion" in params:
        data = overlay(version(template, params["SourceVersion"])[1], data)
    template = msgspec.structs.replace(template, versions=(*template.versions, data))
    account.launch_templates[template.id] = template
    return {"LaunchTemplateVersion": _version(template, len(template.versions))}


def describe(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    names = params.get("LaunchTemplateNames", [])
    found = named(account.launch_templates, params, "LaunchTemplateIds", NOT_FOUND, "launch template")
    if names:
        found = [of(account, {"LaunchTemplateName": each}) for each in names]
    fields = {"launch-template-name": lambda each: each.name}
    part, more = page(
        chosen(found, params, fields, lambda each: each.tags), params, ids="LaunchTemplateIds", most=200, default=200
    )
    return {"LaunchTemplates": [_template(each) for each in part], **more}


def describe_versions(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    if "LaunchTemplateId" not in params and "LaunchTemplateName" not in params:
        if not params.get("Versions"):
            raise missing("LaunchTemplateId")
        told = [(each, version(each, wanted)[0]) for each in account.launch_templates.values() for wanted in params["Versions"]]
    else:
        template = of(account, params)
        wanted = params.get("Versions") or [str(number + 1) for number in range(len(template.versions))]
        told = [(template, version(template, each)[0]) for each in wanted]
    part, more = page(told, params, ids="Versions", most=200, default=200)
    return {"LaunchTemplateVersions": [_version(*each) for each in part], **more}


def _template(template: LaunchTemplate) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "DefaultVersionNumber": template.default,
        "LatestVersionNumber": len(template.versions),
        "Tags": tag_list(template.tags),
    }


def _version(template: LaunchTemplate, number: int) -> dict[str, Any]:
    return {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": number,
        "DefaultVersion": number == template.default,
        "LaunchTemplateData": template.versions[number - 1],
    }


OPERATIONS: dict[str, Operation] = {
    "CreateLaunchTemplate": create,
    "CreateLaunchTemplateVersion": create_version,
    "DescribeLaunchTemplates": describe,
    "DescribeLaunchTemplateVersions": describe_versions,
}
