"""Under what name a request's payload is stored."""


def payload_stage(content_hash: bytes) -> str:
    """Where other data of a request has its stage's name, its payload has that of its content.

    So a payload can be stored before anyone has agreed to the request: if the same id was used for
    something else, the two do not meet.

    >>> payload_stage(bytes.fromhex("c0ffee"))
    '@c0ffee'
    """
    return f"@{content_hash.hex()}"


def is_payload(stage: str) -> bool:
    return stage.startswith("@")
