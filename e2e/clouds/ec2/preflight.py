"""Other services that are asked before money is spent: Service Quotas, Auto Scaling, STS."""

from datetime import datetime
from typing import Any

from e2e.clouds.ec2.account import Account, Operation, Params
from e2e.clouds.ec2.errors import AwsError
from e2e.clouds.ec2.objects import AutoScalingGroup, Quota
from e2e.clouds.ec2.pages import chosen, page


def quota(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = account.quotas.get(params["QuotaCode"])
    if found is None or found.service != params["ServiceCode"]:
        raise AwsError("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    return {"Quota": _quota(account, found)}


def quotas(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    found = [each for each in account.quotas.values() if each.service == params["ServiceCode"]]
    if not found:
        raise AwsError("NoSuchResourceException", "The request failed because the specified service does not exist.")
    part, more = page(found, params, most=100, default=100)
    return {"Quotas": [_quota(account, each) for each in part], **more}


def auto_scaling_groups(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    """Unknown names are left out, as in the real one."""
    size = params.get("MaxRecords", 50)
    if not 1 <= size <= 100:
        raise AwsError("ValidationError", f"MaxRecords must be between 1 and 100, not {size}")
    names = params.get("AutoScalingGroupNames", [])
    named = [each for each in account.auto_scaling_groups.values() if not names or each.name in names]
    found = chosen(named, params, {}, lambda each: each.tags)
    part, more = page(found, {"MaxResults": size, "NextToken": params.get("NextToken", "")}, most=100)
    return {"AutoScalingGroups": [_group(account, each, now) for each in part], **more}


def caller(account: Account, params: Params, now: datetime) -> dict[str, Any]:
    number = account.settings.account
    return {"UserId": "AIDATESTUSER", "Account": number, "Arn": f"arn:aws:iam::{number}:user/test"}


def _quota(account: Account, each: Quota) -> dict[str, Any]:
    return {
        "ServiceCode": each.service,
        "QuotaCode": each.code,
        "QuotaName": each.name,
        "Value": float(each.value),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
        "QuotaArn": f"arn:aws:servicequotas:{account.settings.region}:{account.settings.account}:ec2/{each.code}",
    }


def _group(account: Account, each: AutoScalingGroup, now: datetime) -> dict[str, Any]:
    tags = [
        {"Key": key, "Value": value, "ResourceId": each.name, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": True}
        for key, value in sorted(each.tags.items())
    ]
    return {
        "AutoScalingGroupName": each.name,
        "MinSize": 0,
        "MaxSize": max(each.desired, len(each.instances)),
        "DesiredCapacity": each.desired,
        "DefaultCooldown": 300,
        "AvailabilityZones": list(each.zones),
        "VPCZoneIdentifier": ",".join(each.subnets),
        "HealthCheckType": "EC2",
        "CreatedTime": now,
        "SuspendedProcesses": [{"ProcessName": name, "SuspensionReason": "User suspended"} for name in each.suspended],
        "Instances": [_member(account, identity) for identity in each.instances],
        "Tags": tags,
    }


def _member(account: Account, identity: str) -> dict[str, Any]:
    there = account.instances.get(identity)
    return {
        "InstanceId": identity,
        "InstanceType": there.spec.type if there else "",
        "AvailabilityZone": there.spec.zone if there else "",
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": False,
    }


QUOTAS: dict[str, Operation] = {"GetServiceQuota": quota, "ListServiceQuotas": quotas}
AUTO_SCALING: dict[str, Operation] = {"DescribeAutoScalingGroups": auto_scaling_groups}
STS: dict[str, Operation] = {"GetCallerIdentity": caller}
