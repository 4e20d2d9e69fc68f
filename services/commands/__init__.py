"""What people type: one module a sub-command, each with `main(argv) -> exit status`.

Exit status everywhere: 0 yes, 1 no (refused, not found, not as expected), 2 the call is wrong.
"""
