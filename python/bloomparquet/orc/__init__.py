"""ORC files as bytes: their tails, indexes and Bloom filters. Nothing here knows a predicate or a plan."""
