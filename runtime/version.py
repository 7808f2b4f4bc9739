"""The version of this installation, as it is told to servers and in metrics."""

from importlib import metadata

try:
    VERSION = metadata.version("corral")
except metadata.PackageNotFoundError:  # run from a checkout that isn't installed
    VERSION = "0.0.0"
