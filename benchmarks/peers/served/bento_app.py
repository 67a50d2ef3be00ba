"""BentoML: three services, and a fourth that depends on them and calls one after the other."""
# mypy: ignore-errors

import bentoml


@bentoml.service
class First:
    @bentoml.api
    async def run(self, text: str) -> str:
        return text


@bentoml.service
class Second:
    @bentoml.api
    async def run(self, text: str) -> str:
        return text


@bentoml.service
class Third:
    @bentoml.api
    async def run(self, text: str) -> str:
        return text


@bentoml.service
class Pipeline:
    first = bentoml.depends(First)
    second = bentoml.depends(Second)
    third = bentoml.depends(Third)

    @bentoml.api
    async def run(self, text: str) -> str:
        one = await self.first.run(text)
        two = await self.second.run(one)
        return await self.third.run(two)
