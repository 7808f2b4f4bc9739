"""Built-in shapes: sizes of the instance types of the same name, prices of AWS's public on-demand list (us-east-1, July 2026).

Allocatable is what a node of about that size leaves to pods after the system's share; devices come on top, from the
device plugin.
"""

from typing import Any


def _shape(cpu: int, memory: str, price: str, gpu: str = "", gpus: int = 0) -> dict[str, Any]:
    devices = {"nvidia.com/gpu": gpus} if gpus else {}
    labels = {"nvidia.com/gpu.product": gpu, "nvidia.com/gpu.present": "true"} if gpus else {}
    allocatable = {"cpu": str(cpu), "memory": memory, "ephemeral-storage": "400Gi", "pods": "110"}
    return {"allocatable": allocatable, "devices": devices, "labels": labels, "pricePerHour": price}


SHAPES: dict[str, dict[str, Any]] = {
    "p5.48xlarge": _shape(190, "1950Gi", "55.04", "NVIDIA-H100-80GB-HBM3", 8),
    "p5.4xlarge": _shape(15, "240Gi", "6.88", "NVIDIA-H100-80GB-HBM3", 1),
    "p5en.48xlarge": _shape(190, "1950Gi", "63.296", "NVIDIA-H200", 8),
    "p6-b200.48xlarge": _shape(190, "1950Gi", "113.9328", "NVIDIA-B200", 8),
    "p4d.24xlarge": _shape(94, "1090Gi", "21.957642", "NVIDIA-A100-SXM4-40GB", 8),
    "g6.12xlarge": _shape(47, "180Gi", "4.6016", "NVIDIA-L4", 4),
    "m7i.4xlarge": _shape(15, "58Gi", "0.8064"),
    "m7i.48xlarge": _shape(190, "730Gi", "9.6768"),
}
