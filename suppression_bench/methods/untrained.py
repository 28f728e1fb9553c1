"""No training: the floor that every method has to clear."""

from suppression_bench.method import Batch, Method, Output


class Untrained(Method):
    """The encoder as it was initialised."""

    trains = False
    views = 0

    def loss(self, batch: Batch) -> Output:
        raise NotImplementedError("the method untrained is never trained")
