"""On-demand prices by instance type, for pools that declare none. Pure."""

from collections.abc import Mapping

from capacity.quantity import money

AS_OF = "2026-07-20"
"""The day of the list: Linux, shared tenancy, us-east-1, from AWS's public price list. Other regions cost up to half more."""

_DOLLARS: Mapping[str, str] = {
    "p3.2xlarge": "3.06",
    "p3.8xlarge": "12.24",
    "p3.16xlarge": "24.48",
    "p3dn.24xlarge": "31.212",
    "p4d.24xlarge": "21.957642",
    "p4de.24xlarge": "27.44705",
    "p5.4xlarge": "6.88",
    "p5.48xlarge": "55.04",
    "p5en.48xlarge": "63.296",
    "p6-b200.48xlarge": "113.9328",
    "p6-b300.48xlarge": "142.416",
    "g5.xlarge": "1.006",
    "g5.12xlarge": "5.672",
    "g5.48xlarge": "16.288",
    "g6.xlarge": "0.8048",
    "g6.12xlarge": "4.6016",
    "g6.48xlarge": "13.3504",
    "g6e.xlarge": "1.861",
    "g6e.12xlarge": "10.49264",
    "g6e.48xlarge": "30.13118",
    "g7.48xlarge": "28.51328",
    "g7e.48xlarge": "33.14432",
    "trn1.32xlarge": "21.50",
    "trn1n.32xlarge": "24.78",
}


def hourly(instance_type: str, declared: Mapping[str, str]) -> int | None:
    """Micro-dollars an hour, None when nobody has said. Raises ValueError for a declared price that is no amount of dollars."""
    text = declared.get(instance_type, _DOLLARS.get(instance_type))
    return None if text is None else money(text)
