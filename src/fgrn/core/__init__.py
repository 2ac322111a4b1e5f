"""What every other folder may use: errors, arrays, labels of states, checks of settings, printing, writing files."""
