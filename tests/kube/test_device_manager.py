"""The real kubelet does with plugins what the fake one is held to."""

from __future__ import annotations

from tests.suites.device_manager import DeviceManagerSuite


class TestRealKubelet(DeviceManagerSuite):
    """Every measured behaviour, on the real kubelet."""
