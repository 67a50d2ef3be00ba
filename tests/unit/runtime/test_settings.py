from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.runtime.settings import (
    SECTIONS,
    CommonSettings,
    ControllerSettings,
    GatewaySettings,
    InvokerSettings,
)
from esg.runtime.settings_file import Settings, environment
from tests.support.paths import ROOT
from tests.support.settings_doc import document

File = Callable[[str], Path]


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(text: str) -> Path:
        path = tmp_path / "mesh.toml"
        path.write_text(text, "utf-8")
        return path

    return write


def test_settings_without_variables_have_their_defaults() -> None:
    assert Settings({}).of(GatewaySettings) == GatewaySettings()


def test_a_file_has_a_table_per_service(file: File) -> None:
    path = file("[common]\ntime_scale = 0.5\n[gateway]\nport = 7\n[invoker]\nwarm_start = true\n")
    settings = Settings({}, path)
    assert settings.of(CommonSettings).time_scale == 0.5
    assert settings.of(GatewaySettings).port == 7
    assert settings.of(InvokerSettings).warm_start
    assert settings.of(ControllerSettings) == ControllerSettings()


def test_the_environment_wins_over_the_file(file: File) -> None:
    path = file("[gateway]\nport = 7\nburst = 8\n")
    own = Settings({"ESG_GATEWAY_PORT": "9", "ESG_SETTINGS": str(path)}).of(GatewaySettings)
    assert (own.port, own.burst) == (9, 8)


def test_variables_are_read_as_the_type_of_their_setting() -> None:
    settings = Settings(
        {
            "ESG_DRAIN_S": "2.5",
            "ESG_CONTROLLER_PREWARM": "False",
            "ESG_CONTROLLER_K": "3",
            "ESG_CONTROLLER_JOURNAL": "",
        }
    )
    assert settings.of(CommonSettings).drain_s == 2.5
    own = settings.of(ControllerSettings)
    assert (own.prewarm, own.k, own.journal) == (False, 3, "")


def test_settings_ignore_other_variables() -> None:
    environ = {"PATH": "/bin", "ESG_DIR": "x", "ESG_GATEWAY": "y", "ESG_READY_FILE": "z"}
    assert Settings(environ).of(CommonSettings) == CommonSettings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ESG_GATEWAY_PROT", "1", "unknown variable 'ESG_GATEWAY_PROT'; did you mean ESG_GATEWAY_"),
        ("ESG_FOO", "1", "unknown variable 'ESG_FOO'; docs/settings.md lists them all"),
        ("ESG_PORT", "80", "unknown variable 'ESG_PORT'"),
        ("ESG_GATEWAY_PORT", "x", "ESG_GATEWAY_PORT: is 'x'; it must be a whole number"),
        ("ESG_GATEWAY_PORT", "-1", "ESG_GATEWAY_PORT: is -1; it must be at least 0"),
        ("ESG_GATEWAY_PORT", "65536", "ESG_GATEWAY_PORT: is 65536; it must be at most 65535"),
        ("ESG_TIME_SCALE", "0", "ESG_TIME_SCALE: is 0.0; it must be at least 0.0001"),
        ("ESG_TIME_SCALE", "nan", "ESG_TIME_SCALE: is nan; it must be a number"),
        ("ESG_DRAIN_S", "soon", "ESG_DRAIN_S: is 'soon'; it must be a number"),
        ("ESG_CONTROLLER_PREWARM", "yes", "is 'yes'; it must be true or false"),
    ],
)
def test_a_bad_variable_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(Rejected, match="environment: ") as refused:
        Settings({name: value})
    assert words in str(refused.value)


def test_variables_that_a_platform_has_set_are_ignored_and_named() -> None:
    links = {
        "ESG_SERVICE_HOST": "10.0.0.1",
        "ESG_SERVICE_PORT_GRPC": "50051",
        "ESG_PORT": "tcp://10.0.0.1:50051",
        "ESG_PORT_50051_TCP_ADDR": "10.0.0.1",
        "ESG_GATEWAY_SERVICE_PORT": "50051",
        "ESG_GATEWAY_PORT": "tcp://10.0.0.1:50051",
    }
    settings = Settings({**links, "ESG_GATEWAY_BURST": "9"})
    assert settings.ignored == sorted(links)
    assert settings.of(GatewaySettings) == GatewaySettings(burst=9)
    assert not settings.says("gateway", "port")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gateway]\nprot = 1", "gateway.prot: unknown key 'prot'; did you mean 'port'?"),
        ("[gatway]\nport = 1", "gatway: unknown key 'gatway'; did you mean 'gateway'?"),
        ("port = 1", "port: unknown key 'port'; known: common, gateway, controller, invoker"),
        ("gateway = 1", "gateway: must be a table; write [gateway]"),
        ("[gateway]\nport = '1'", "gateway.port: is '1'; it must be a whole number"),
        ("[gateway]\nhost = 1", "gateway.host: is 1; it must be a text"),
        ("[invoker]\nwarm_start = 1", "invoker.warm_start: is 1; it must be true or false"),
        ("[invoker]\nnoise = -0.5", "invoker.noise: is -0.5; it must be at least 0"),
        ("[gateway", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(file: File, text: str, words: str) -> None:
    path = file(text)
    with pytest.raises(Rejected) as refused:
        Settings({}, path)
    assert str(refused.value).startswith(f"{path}: ")
    assert words in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot be read: No such file"):
        Settings({"ESG_SETTINGS": str(tmp_path / "none.toml")})


def test_settings_given_to_a_child_process_arrive() -> None:
    given = {"port": 0, "host": "::1", "max_requests_per_s": 1.5}
    assert Settings(environment("gateway", given)).of(GatewaySettings) == GatewaySettings(**given)
    flag = environment("invoker", {"warm_start": True})
    assert Settings(flag).of(InvokerSettings).warm_start


def test_a_child_cannot_be_given_what_does_not_exist() -> None:
    with pytest.raises(Rejected, match="did you mean 'port'"):
        environment("gateway", {"prot": 1})
    with pytest.raises(Rejected, match="did you mean 'gateway'"):
        environment("gatway", {"port": 1})


def test_a_choice_is_known_even_if_it_is_the_default(file: File) -> None:
    settings = Settings({"ESG_GATEWAY_PORT": "50051"}, file("[invoker]\nvcpus = 0\n"))
    assert settings.says("gateway", "port")
    assert settings.says("invoker", "vcpus")
    assert not settings.says("gateway", "host")


def test_the_documentation_is_up_to_date() -> None:
    page = ROOT / "docs" / "settings.md"
    assert page.read_text("utf-8") == document(), "say: make settings"


def test_the_documentation_has_every_setting_in_one_row() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    for section, kind in SECTIONS.items():
        for known in fields(kind):
            (name,) = environment(section, {known.name: 0})
            (row,) = [row for row in rows if f"`{name}`" in row]
            assert row.startswith(f"| `{known.name}` |")
            assert row.count("|") == 6
