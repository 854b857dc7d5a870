"""`python -m bert COMMAND`: parse, call, print; nothing here is imported by anybody else."""
