"""A soak test: clients work on a cluster while its processes are killed and stopped. ``make soak`` runs it."""
