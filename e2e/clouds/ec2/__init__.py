"""A stand-in for EC2 that can be trusted: stateful, strict, and speaking by botocore's own model over HTTP.

`python -m e2e.clouds.ec2 --port N [--state file.yaml]`, or in a test `with Ec2() as ec2: ec2.endpoint`. What it does like the
real one, and where that is written, stands beside each rule; the sections named are those of cloud.md.
"""

from e2e.clouds.ec2.harness import Ec2

__all__ = ["Ec2"]
