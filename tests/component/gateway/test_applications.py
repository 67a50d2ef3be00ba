"""Applications and the mesh: asked at the door, answered by the controller."""

import grpc
import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from tests.support.scripted_controller import KNOWN

NEW = public.RegisterApplicationRequest(
    name="new", stages=[model.Stage(function="deblur")], slo_us=500_000
)


async def test_an_application_is_registered_updated_and_deleted(
    stub: public_grpc.PipelinesStub,
) -> None:
    registered = await stub.RegisterApplication(NEW)
    assert (registered.name, registered.version, registered.slo_us) == ("new", 1, 500_000)
    changed = public.RegisterApplicationRequest(name="new", stages=NEW.stages, slo_scale=1.5)
    updated = await stub.UpdateApplication(public.UpdateApplicationRequest(application=changed))
    assert (updated.version, updated.slo_us) == (2, 1_500_000)
    described = await stub.DescribeApplication(public.DescribeApplicationRequest(name="new"))
    assert described == updated
    listed = await stub.ListApplications(public.ListApplicationsRequest())
    assert [application.name for application in listed.applications] == [KNOWN, "new"]
    await stub.DeleteApplication(public.DeleteApplicationRequest(name="new"))
    listed = await stub.ListApplications(public.ListApplicationsRequest())
    assert [application.name for application in listed.applications] == [KNOWN]


async def test_refusals_are_passed_on(stub: public_grpc.PipelinesStub) -> None:
    known = public.RegisterApplicationRequest(name=KNOWN, stages=NEW.stages)
    empty = public.RegisterApplicationRequest(name="empty")
    for call, code, words in (
        (stub.RegisterApplication(known), grpc.StatusCode.ALREADY_EXISTS, "update it instead"),
        (stub.RegisterApplication(empty), grpc.StatusCode.INVALID_ARGUMENT, "stages:"),
        (
            stub.DescribeApplication(public.DescribeApplicationRequest(name="reversl")),
            grpc.StatusCode.NOT_FOUND,
            "did you mean 'reversal'?",
        ),
        (
            stub.DeleteApplication(public.DeleteApplicationRequest(name="x")),
            grpc.StatusCode.NOT_FOUND,
            "unknown application 'x'",
        ),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is code
        assert words in (caught.value.details() or "")


async def test_the_mesh_is_watched(stub: public_grpc.PipelinesStub) -> None:
    once = [s async for s in stub.WatchMesh(public.WatchMeshRequest())]
    assert [status.nodes[0].node for status in once] == ["i0"]
    often = stub.WatchMesh(public.WatchMeshRequest(interval_ms=1))
    assert [(await often.read()).under_way for _ in range(3)] == [1, 2, 3]
    often.cancel()
