"""How a step is computed: micro-batches, GradCache, workers, several processes."""
