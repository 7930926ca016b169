"""The door to isl: named constructors and operations, counting, budgets, error translation."""
