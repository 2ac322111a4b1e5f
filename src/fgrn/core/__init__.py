"""What every folder may use: errors, arrays, names of states, checks of settings, printing, whole files."""
