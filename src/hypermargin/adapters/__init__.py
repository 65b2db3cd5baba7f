"""What the parameters of an estimator mean to a problem."""
