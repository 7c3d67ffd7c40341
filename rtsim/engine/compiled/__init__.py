"""The compiled engine, which runs many tags in one call of compiled code."""
