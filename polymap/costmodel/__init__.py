"""Loop tree to cost: exact integers until the last step."""
