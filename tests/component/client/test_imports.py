"""What importing the client brings with it, and what it must do without."""

import subprocess
import sys

BLOCKED = (
    *("numpy", "rustworkx", "redis", "prometheus_client", "cryptography", "msgspec", "uvloop"),
    *("typer", "rich", "PIL", "tritonclient", "grpc_health", "grpc_reflection"),
)
CLIENT = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED!r}))  # whoever imports one gets an ImportError
from esg import AsyncClient, Client
with Client("127.0.0.1:1", patience_s=0) as mesh:
    pass
print(*(name for name in sys.modules if name.startswith("esg.")))
"""


def modules(program: str) -> set[str]:
    """The modules that a program has imported, as it says itself."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def test_the_client_needs_grpc_and_protobuf_only() -> None:
    imported = modules(CLIENT)
    assert "esg.client.sync" in imported


def test_the_client_does_not_import_the_settings_of_services() -> None:
    assert "esg.runtime.settings" not in modules(CLIENT)


def test_importing_esg_alone_brings_neither_grpc_nor_numpy() -> None:
    imported = modules("import sys, esg; print(*sys.modules)")
    assert "esg" in imported
    assert imported.isdisjoint({"grpc", "numpy", "esg.client"})
