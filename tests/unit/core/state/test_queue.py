"""A queue keeps the jobs of each client together, in the order of their requests."""

from esg.core.state.state import Job, Queue


def job(number: int, client: str) -> Job:
    return Job(f"r{number}", number, ready_us=0, deadline_us=0, client=client)


def queue(*jobs: tuple[int, str]) -> Queue:
    made = Queue("app/stage", "app", "stage")
    for number, client in jobs:
        made.put(job(number, client))
    return made


def told(queue: Queue) -> tuple[list[int], dict[str, int]]:
    return [job.number for job in queue.jobs], queue.lanes


THREE = ((1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "b"), (6, "a"))


def test_jobs_of_one_client_stand_in_the_order_of_their_requests() -> None:
    assert told(queue((2, ""), (5, ""), (1, ""), (4, ""))) == ([1, 2, 4, 5], {"": 4})


def test_clients_have_lanes_one_after_the_other() -> None:
    assert told(queue(*THREE)) == ([1, 3, 6, 2, 5, 4], {"a": 3, "b": 2, "c": 1})


def test_a_job_that_comes_back_takes_the_place_it_had_in_its_lane() -> None:
    made = queue(*THREE)
    made.remove("b", 2)
    assert told(made) == ([1, 3, 6, 5, 4], {"a": 3, "b": 1, "c": 1})
    made.put(job(2, "b"))
    assert told(made) == ([1, 3, 6, 2, 5, 4], {"a": 3, "b": 2, "c": 1})


def test_lanes_can_be_put_in_another_order() -> None:
    made = queue(*THREE)
    made.arrange(["c", "a", "b"])
    assert told(made) == ([4, 1, 3, 6, 2, 5], {"c": 1, "a": 3, "b": 2})
    assert list(made.lanes) == ["c", "a", "b"]


def test_a_batch_takes_the_first_lane_and_fills_up_from_the_next() -> None:
    made = queue(*THREE)
    made.arrange(["c", "b", "a"])
    assert [job.number for job in made.take(2)] == [4, 2]
    assert told(made) == ([5, 1, 3, 6], {"b": 1, "a": 3})


def test_jobs_can_be_picked_by_their_places() -> None:
    made = queue(*THREE)
    assert [job.number for job in made.take(2, (4, 0, 1))] == [5, 1]
    assert told(made) == ([3, 6, 2, 4], {"a": 2, "b": 1, "c": 1})


def test_a_lane_that_is_empty_is_no_lane() -> None:
    made = queue((1, "a"), (2, "b"))
    made.take(1)
    assert made.lanes == {"b": 1}
    made.remove("b", 2)
    assert told(made) == ([], {})
