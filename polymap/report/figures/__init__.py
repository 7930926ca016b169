"""Figure data, and the pictures drawn from them."""
