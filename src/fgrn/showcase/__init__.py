"""Tables to try things on, the demonstration, and the results of the paper computed again."""
