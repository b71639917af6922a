"""The version of the package, which is the program's: CMakeLists.txt says it."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("stagecraft")
except PackageNotFoundError:  # in a source folder
    __version__ = "0"
