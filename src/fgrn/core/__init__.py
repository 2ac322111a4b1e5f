"""Modules that every other folder may import: errors, arrays, labels of states, checks of settings, printing, files."""
