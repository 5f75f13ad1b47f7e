"""MLServer: a runtime with a route of its own for raw bodies, and the adaptive batches of its `predict`.

Such a route exists in the server's process alone, so the model is there too (`parallel_workers` 0).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import orjson
import uvloop
from fastapi import Request, Response
from mlserver import MLModel, MLServer
from mlserver.context import model_context
from mlserver.handlers.custom import custom_handler
from mlserver.settings import ModelParameters, ModelSettings, Settings
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput
from shared import Model, parameters

given = parameters()


class Classifier(MLModel):
    async def load(self):
        self.model = Model(given.model, given.threads)
        self.pool = ThreadPoolExecutor(given.pool)
        self.device = ThreadPoolExecutor(1)
        return True

    @custom_handler(rest_path="/classify")
    async def classify(self, request: Request) -> Response:
        data = await request.body()
        image = RequestInput(name="image", shape=[1], datatype="BYTES", data=[data])
        with model_context(self.settings):  # its metrics ask whose they are
            found = await self.predict(InferenceRequest(inputs=[image]))
        return Response(found.outputs[0].data[0], media_type="application/json")

    async def predict(self, payload):
        found = await asyncio.get_running_loop().run_in_executor(self.device, self.run, list(payload.inputs[0].data))
        output = ResponseOutput(name="labels", shape=[len(found)], datatype="BYTES", data=found)
        return InferenceResponse(model_name=self.name, outputs=[output])

    def run(self, images):
        return [orjson.dumps(one) for one in self.model.classify(list(self.pool.map(self.model.decode, images)))]


async def main():
    settings = Settings(
        debug=False,
        parallel_workers=0,
        host="127.0.0.1",
        http_port=given.port,
        grpc_port=given.port + 1,
        metrics_endpoint=None,
        use_structured_logging=False,
        gzip_enabled=False,
    )
    model = ModelSettings(
        name="peer",
        implementation=Classifier,
        max_batch_size=given.batch,
        max_batch_time=given.timeout / 1000,
        parameters=ModelParameters(),
    )
    await MLServer(settings).start([model])


if __name__ == "__main__":
    uvloop.run(main())
