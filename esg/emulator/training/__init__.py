"""Training before deployment, for policies that look configs up (Aquatope)."""
