"""ORC's stripes and the row groups within them, as the evidence that plans ask for."""
