"""Example tables, the demonstration, and a reproduction of the results of the paper."""
