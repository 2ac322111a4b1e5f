"""The flow of data, one file per step: evidence -> messages -> marginals -> counts -> parameters; and the EM loop."""
