"""What gateways ask a controller for: who asked, what they may, what became of it."""
