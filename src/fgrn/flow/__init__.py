"""One file per arrow: evidence -> messages -> marginals -> counts -> parameters, and the one learning loop."""
