"""Networks: blocks and their connections, the Supervisor that compiles plans, and ready-made structures."""
