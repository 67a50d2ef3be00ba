"""Tokens at the door: who gets in, and what they see of each other."""

import asyncio
from pathlib import Path

import grpc
import pytest

from esg.client.credentials import Credentials
from esg.gateway.access.identity import Caller, Identities
from esg.local.health import is_serving
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import Unauthenticated
from esg.runtime.security.tokens import Validity, digest_of
from esg.runtime.settings import GatewaySettings
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import ENDLESS, KNOWN, ScriptedController
from tests.support.token_clients import Clients, OpenStream, Stub, refusal, submission

NEW = public.RegisterApplicationRequest(
    name="photo", stages=[model.Stage(function="deblur")], slo_us=500_000
)


async def test_call_without_a_known_token_is_refused(
    clients: Clients, controller: ScriptedController
) -> None:
    for token, words in (
        ("", "a token is needed here: set ESG_TOKEN"),
        ("mallory", "this token is not known here"),
        ("alic", "this token is not known here"),
    ):
        stub = await clients.stub(token)
        code, said = await refusal(stub.Submit(submission()))
        assert (code, words in said) == (grpc.StatusCode.UNAUTHENTICATED, True)
        stream = stub.SubmitMany(iter([public.SubmitGroup(requests=[submission("r1")])]))
        code, _ = await refusal(stream.read())
        assert code is grpc.StatusCode.UNAUTHENTICATED
    assert not controller.said


async def test_another_scheme_is_no_token(clients: Clients) -> None:
    async with channel(clients.address) as link:
        call = public_grpc.PipelinesStub(link).ListApplications(
            public.ListApplicationsRequest(), metadata=(("authorization", "Basic YWxpY2U6"),)
        )
        assert await refusal(call) == (
            grpc.StatusCode.UNAUTHENTICATED,
            "authorization: is no bearer token; write Bearer and the token",
        )


async def test_a_stranger_is_turned_away_before_the_payload_is_read(
    clients: Clients, gateways: Gateways
) -> None:
    """A message that is too large is noticed when it is read: of a stranger, it never is."""
    clients.address = await gateways.start(tokens=str(clients.file), max_payload_bytes=1)
    large = public.SubmitRequest(application=KNOWN, payload=bytes(40 * 2**20))
    for token, expected in (
        ("alice", grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("mallory", grpc.StatusCode.UNAUTHENTICATED),
    ):
        code, _ = await refusal((await clients.stub(token)).Submit(large, timeout=60))
        assert code is expected


async def test_health_is_for_everyone(clients: Clients) -> None:
    assert await is_serving(clients.address)


async def test_a_request_goes_through_under_its_clients_name(
    clients: Clients, controller: ScriptedController
) -> None:
    stub = await clients.stub("alice")
    answer = asyncio.ensure_future(stub.Submit(submission("r1")))
    told = await controller.hears("submission")
    assert (told.request_id, told.owner, told.application) == ("alice~r1", "alice", KNOWN)
    controller.accept("alice~r1")
    await controller.finish("alice~r1", last=b"done")
    reply = await answer
    assert reply.result.request_id == "r1"
    assert reply.outputs[0].content == b"done"


async def test_a_request_is_nobody_elses(clients: Clients, controller: ScriptedController) -> None:
    """Another client's id is another request: it is not there, and can be used."""
    controller.playing = True
    alice, bob = await clients.stub("alice"), await clients.stub("bob")
    assert (await alice.SubmitAsync(submission("r1", ENDLESS))).request_id == "r1"
    for call in (
        bob.Get(public.GetRequest(request_id="r1")),
        bob.Cancel(public.CancelRequest(request_id="r1")),
        bob.Watch(public.WatchRequest(request_id="r1")).read(),
        bob.Fetch(public.FetchRequest(request_id="r1")).read(),
        bob.Get(public.GetRequest(request_id="r2")),
    ):
        code, said = await refusal(call)
        assert code is grpc.StatusCode.NOT_FOUND
        assert "alice" not in said
        assert "bob~" not in said
    code, _ = await refusal(bob.Cancel(public.CancelRequest(request_id="alice~r1")))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert (await bob.Submit(submission("r1"))).result.request_id == "r1"
    state = await alice.Get(public.GetRequest(request_id="r1"))
    assert (state.request_id, state.HasField("result")) == ("r1", False)
    assert (await alice.Cancel(public.CancelRequest(request_id="r1"))).cancelled


async def test_an_application_is_nobody_elses(clients: Clients) -> None:
    alice, bob = await clients.stub("alice"), await clients.stub("bob")
    assert (await alice.RegisterApplication(NEW)).name == "photo"
    assert await names(alice) == [KNOWN, ENDLESS, "photo"]
    assert await names(bob) == [KNOWN, ENDLESS]
    update = public.UpdateApplicationRequest(application=NEW)
    for call in (
        bob.DescribeApplication(public.DescribeApplicationRequest(name="photo")),
        bob.UpdateApplication(update),
        bob.DeleteApplication(public.DeleteApplicationRequest(name="photo")),
    ):
        code, said = await refusal(call)
        assert code is grpc.StatusCode.NOT_FOUND
        assert "alice" not in said
    assert (await bob.RegisterApplication(NEW)).version == 1  # his own, of the same name
    assert (await alice.UpdateApplication(update)).version == 2
    await bob.DeleteApplication(public.DeleteApplicationRequest(name="photo"))
    assert await names(alice) == [KNOWN, ENDLESS, "photo"]


async def test_the_catalog_is_everybodys_and_only_an_operator_changes_it(clients: Clients) -> None:
    alice, root = await clients.stub("alice"), await clients.stub("root")
    same = public.RegisterApplicationRequest(name=KNOWN, stages=NEW.stages, slo_us=500_000)
    code, said = await refusal(alice.RegisterApplication(same))
    assert (code, "choose another name" in said) == (grpc.StatusCode.ALREADY_EXISTS, True)
    for call in (
        alice.UpdateApplication(public.UpdateApplicationRequest(application=same)),
        alice.DeleteApplication(public.DeleteApplicationRequest(name=KNOWN)),
    ):
        code, said = await refusal(call)
        assert (code, "is everybody's" in said) == (grpc.StatusCode.PERMISSION_DENIED, True)
    await alice.RegisterApplication(NEW)
    assert await names(root) == [KNOWN, ENDLESS, "alice~photo"]
    await root.DeleteApplication(public.DeleteApplicationRequest(name="alice~photo"))
    await root.DeleteApplication(public.DeleteApplicationRequest(name=KNOWN))
    assert await names(alice) == [ENDLESS]


async def test_only_an_operator_reloads_a_function(clients: Clients) -> None:
    root, alice = await clients.stub("root"), await clients.stub("alice")
    asked = public.ReloadFunctionRequest(function="second")
    code, said = await refusal(alice.ReloadFunction(asked))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "reloading a function is for operators" in said
    reply = await root.ReloadFunction(asked)
    assert {node.node: node.failure for node in reply.nodes} == {
        "i0": "",
        "i1": "no module named x",
    }


async def test_no_client_can_pretend_to_be_another_by_a_name(clients: Clients) -> None:
    bob = await clients.stub("bob")
    forged = public.RegisterApplicationRequest(name="alice~x", stages=NEW.stages)
    for call in (bob.RegisterApplication(forged), bob.Submit(submission("r1", "alice~photo"))):
        code, said = await refusal(call)
        assert (code, "without ~" in said) == (grpc.StatusCode.INVALID_ARGUMENT, True)


async def test_the_state_of_the_mesh_shows_a_client_no_others(clients: Clients) -> None:
    alice = await clients.stub("alice")
    await alice.RegisterApplication(NEW)

    async def shown(name: str) -> list[str]:
        stub = await clients.stub(name)
        async for status in stub.WatchMesh(public.WatchMeshRequest()):
            rows = [*status.applications, *status.queues]
            return sorted({row.application for row in rows})
        raise AssertionError

    assert await shown("alice") == [ENDLESS, "photo", KNOWN]
    assert await shown("bob") == [ENDLESS, KNOWN]
    assert await shown("root") == ["alice~photo", ENDLESS, KNOWN]


async def test_a_token_that_is_removed_is_good_for_nothing_more(
    clients: Clients, controller: ScriptedController
) -> None:
    """On a stream that is open, too."""
    controller.playing = True
    stub = await clients.stub("bob")
    stream = OpenStream(stub)
    assert (await stream.submit("r1")).HasField("done")
    clients.remove("bob")
    refused = (await stream.submit("r2")).refusal
    assert refused.code == grpc.StatusCode.UNAUTHENTICATED.value[0]
    assert "the token of bob was removed" in refused.message
    stream.end()
    code, _ = await refusal(stub.ListApplications(public.ListApplicationsRequest()))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    clients.allow("bob")
    await stub.ListApplications(public.ListApplicationsRequest())


async def test_a_token_that_is_replaced_is_good_for_nothing_more(
    clients: Clients, controller: ScriptedController
) -> None:
    """Whoever found the old one may have a stream open with it."""
    controller.playing = True
    stub = await clients.stub("bob")
    stream, watching = OpenStream(stub), stub.WatchMesh(public.WatchMeshRequest(interval_ms=50))
    assert (await stream.submit("r1")).HasField("done")
    await watching.read()
    clients.allow("bob", token="another")
    refused = (await stream.submit("r2")).refusal
    assert refused.code == grpc.StatusCode.UNAUTHENTICATED.value[0]
    assert "the token of bob was replaced" in refused.message
    stream.end()

    async def to_the_end() -> None:
        while await watching.read() is not grpc.aio.EOF:
            pass

    code, said = await refusal(to_the_end())
    assert (code, "was replaced" in said) == (grpc.StatusCode.UNAUTHENTICATED, True)
    assert (await OpenStream(await clients.stub("another")).submit("r3")).HasField("done")


async def test_a_file_of_tokens_that_is_no_good_does_not_open_the_door(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    clients.file.write_text("[alice]\nsha256 = 7\n", "utf-8")
    alice, mallory = await clients.stub("alice"), await clients.stub("mallory")
    await alice.ListApplications(public.ListApplicationsRequest())
    code, _ = await refusal(mallory.ListApplications(public.ListApplicationsRequest()))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "not read again" in caplog.text


async def test_metadata_has_a_limit(clients: Clients) -> None:
    stub = await clients.stub("x" * 100_000)
    code, _ = await refusal(stub.ListApplications(public.ListApplicationsRequest()))
    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAUTHENTICATED)


async def names(stub: Stub) -> list[str]:
    listed = await stub.ListApplications(public.ListApplicationsRequest())
    return [application.name for application in listed.applications]


async def test_a_token_that_has_expired_is_refused_in_words(
    clients: Clients, controller: ScriptedController
) -> None:
    # attack: G4
    clients.allow("alice", expires_s=1)
    code, said = await refusal((await clients.stub("alice")).Submit(submission()))
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert said.startswith("this token of alice expired at 1970-01-01T00:00:01+00:00; ask for")
    assert not controller.said


def test_two_tokens_are_good_until_the_former_one_expires_without_a_restart(tmp_path: Path) -> None:
    # attack: G4
    made = Clients(tmp_path / "tokens.toml")
    made.allow("alice", token="new", expires_s=200, former=Validity(digest_of("old"), 100))
    now_s = 99.0
    identities = Identities(GatewaySettings(tokens=str(made.file)), lambda: now_s)

    def shows(token: str) -> Caller:
        identities.authenticate(Credentials(token=token).metadata())
        return identities.caller("ipv4:127.0.0.1:1")

    old, new = shows("old"), shows("new")
    assert old.name == new.name == "alice"
    assert [identities.still(caller) for caller in (old, new)] == [old, new]
    now_s = 100.0
    assert identities.still(new) == shows("new") == new
    for refused in (lambda: identities.still(old), lambda: shows("old")):
        with pytest.raises(Unauthenticated, match="this token of alice expired at 1970"):
            refused()
    now_s = 200.0
    with pytest.raises(Unauthenticated, match="expired"):
        identities.still(new)
    made.allow("alice", token="newest")
    with pytest.raises(Unauthenticated, match="was replaced"):
        identities.still(new)
    assert shows("newest").name == "alice"
    made.remove("alice")
    with pytest.raises(Unauthenticated, match="not known here"):
        shows("newest")


async def test_a_call_that_was_not_authenticated_is_nobodys_where_tokens_are_needed(
    tmp_path: Path,
) -> None:
    made = Clients(tmp_path / "tokens.toml")
    made.allow("alice")
    identities = Identities(GatewaySettings(tokens=str(made.file)))

    async def called(metadata: list[tuple[str, str | bytes]]) -> str:
        identities.authenticate(metadata)
        return identities.caller("ipv4:127.0.0.1:1").name

    token = Credentials(token="alice").metadata()
    assert await asyncio.create_task(called([*token])) == "alice"
    with pytest.raises(Unauthenticated, match="not authenticated"):
        identities.caller("ipv4:127.0.0.1:1")  # what one call showed is not another one's
