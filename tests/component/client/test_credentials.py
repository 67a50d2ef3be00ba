"""What a client shows, and what it does not."""

import pytest

from esg.client import AsyncClient, Client, ClientError, Credentials, Misconfigured
from esg.errors import Rejected


def test_the_environment_says_what_a_program_does_not() -> None:
    found = Credentials.from_environment(
        {
            "ESG_TOKEN": "esg_secret",
            "ESG_CLIENT_CA": "/ca.pem",
            "ESG_CLIENT_CERTIFICATE": "/c.pem",
            "ESG_CLIENT_KEY": "/c.key",
            "ESG_CLIENT_SERVER_NAME": "gateway.esg",
            "ESG_INSECURE": "true",
        }
    )
    assert found == Credentials(
        token="esg_secret",
        ca="/ca.pem",
        certificate="/c.pem",
        key="/c.key",
        server_name="gateway.esg",
        insecure=True,
    )
    assert Credentials.from_environment({}) == Credentials()


def test_a_token_is_not_shown_to_people() -> None:
    shown = Credentials(token="esg_secret", ca="/ca.pem")
    assert "secret" not in f"{shown} {shown!r}"
    assert shown.metadata() == (("authorization", "Bearer esg_secret"),)
    assert Credentials().metadata() == ()


@pytest.mark.parametrize("token", ["a b", "a\nb", "tökén", "a\0"])
def test_token_that_cannot_be_sent_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(Rejected, match="strange characters; correct ESG_TOKEN") as refused:
        Credentials(token=token).metadata()
    assert token not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"certificate": "c.pem"}, "a certificate needs its key"),
        ({"certificate": "c.pem", "key": "c.key"}, "say whom to trust"),
        ({"ca": "/nowhere/ca.pem"}, "cannot be read"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Credentials(**given).security()


async def test_another_machine_is_not_called_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ESG_CLIENT_CA", "ESG_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Misconfigured, match="without TLS; say whom to trust"):
        AsyncClient("mesh.example.com:50051")
    await AsyncClient("mesh.example.com:50051", credentials=Credentials(insecure=True)).close()


NO_ADDRESSES = (
    "",
    "localhost",
    "127.0.0.1",
    ":50051",
    "::1",
    "http://127.0.0.1:50051",
    "a host:1",
    "host:port",
    "host:0",
    "host:65536",
    "x" * 1000,
)


@pytest.mark.parametrize("address", NO_ADDRESSES)
@pytest.mark.parametrize("insecure", [False, True])
async def test_an_address_is_a_host_and_a_port(address: str, insecure: bool) -> None:
    """Before it is asked whether plain text may go there: there is no such place."""
    with pytest.raises(
        Misconfigured, match=r"must be host:port, as in 127\.0\.0\.1:50051"
    ) as refused:
        AsyncClient(address, credentials=Credentials(insecure=insecure))
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("address", "credentials"),
    [
        ("http://127.0.0.1:50051", Credentials()),
        ("127.0.0.1", Credentials()),
        ("mesh.example.com:50051", Credentials()),
        ("127.0.0.1:50051", Credentials(token="a b")),
        ("127.0.0.1:50051", Credentials(certificate="c.pem")),
        ("127.0.0.1:50051", Credentials(ca="/nowhere/ca.pem")),
        ("127.0.0.1:50051", Credentials(ca=__file__)),
    ],
)
def test_client_that_cannot_be_made_raises_an_error_of_the_client(
    address: str, credentials: Credentials
) -> None:
    with pytest.raises(ClientError) as raised:
        Client(address, credentials=credentials)
    assert isinstance(raised.value, Misconfigured)


def test_the_environment_says_which_gateway_if_a_program_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ESG_GATEWAY", "127.0.0.1:7")
    with Client() as mesh, Client("127.0.0.1:8") as other:
        assert (mesh.address, other.address) == ("127.0.0.1:7", "127.0.0.1:8")
    monkeypatch.setenv("ESG_GATEWAY", "")
    with Client() as mesh:
        assert mesh.address == "127.0.0.1:50051"
