"""Owns the JVM side's partners: everything that speaks py4j, and the planner process that the jar asks."""
