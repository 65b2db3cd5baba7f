"""Cross-validation as a differentiable function."""
