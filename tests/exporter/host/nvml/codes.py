"""NVML's codes of which all have one meaning, as cases of a test."""

import pynvml
import pytest

# There is no such thing: it is not asked for again.
ABSENT = [
    pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
    pytest.param(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, id="function not found"),
    pytest.param(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, id="version mismatch"),
    pytest.param(pynvml.NVML_ERROR_DEPRECATED, id="deprecated"),
]
# There is nothing to tell now.
EMPTY = [
    pytest.param(pynvml.NVML_ERROR_NOT_FOUND, id="not found"),
    pytest.param(pynvml.NVML_ERROR_NO_DATA, id="no data"),
]
