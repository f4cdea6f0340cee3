"""Many runs of one problem."""
