"""Small pieces of an account for tests."""

import base64
from typing import Any

NODE_CONFIG = base64.b64encode(
    b"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: train, cidr: 10.100.0.0/16}}\n"
).decode()
TEMPLATE: dict[str, Any] = {
    "ImageId": "ami-0a",
    "UserData": NODE_CONFIG,
    "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-0efa"]}],
}
