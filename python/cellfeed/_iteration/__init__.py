"""Which batches this process yields: ranks, workers, epochs, seeds and states."""
