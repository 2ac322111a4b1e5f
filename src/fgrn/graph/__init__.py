"""Networks: blocks and how they are joined, the Supervisor that plans them, ready-made structures."""
